package tables

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Program is what has to be known of a compiled program, of BMv2's JSON, before its first packet.
type Program struct {
	// CRC32C are the names of its calculations whose parameters are the control plane's to set: in our programs all are
	// CRC-32C, and with xxhash there are none.
	CRC32C []string

	parseParameter string
}

// ReadProgram reads BMv2's JSON.
func ReadProgram(compiled []byte) (*Program, error) {
	var f struct {
		Calculations []struct {
			Name string `json:"name"`
			Algo string `json:"algo"`
		} `json:"calculations"`
		Actions []struct {
			Name    string `json:"name"`
			Runtime []struct {
				Name string `json:"name"`
			} `json:"runtime_data"`
		} `json:"actions"`
		Pipelines []json.RawMessage `json:"pipelines"`
	}
	if err := json.Unmarshal(compiled, &f); err != nil {
		return nil, fmt.Errorf("it is no compiled program for BMv2: %w", err)
	}
	if len(f.Pipelines) == 0 {
		return nil, errors.New("it is no compiled program for BMv2: it has no pipelines")
	}
	p := new(Program)
	for _, c := range f.Calculations {
		if c.Algo == "crc32_custom" {
			p.CRC32C = append(p.CRC32C, c.Name)
		}
	}
	for _, a := range f.Actions {
		if a.Name == parseAction && len(a.Runtime) > 0 {
			p.parseParameter = a.Runtime[0].Name
		}
	}
	return p, nil
}

// CheckFamily says whether the program hashes as a switch does.
func (p *Program) CheckFamily(f hash.Family) error { return checkFamily(p.parseParameter, f) }
