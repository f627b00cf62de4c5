package tables

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// weirCalculations are the names that the compiler gave to the CRC-32Cs of
// p4/v1model/weir.p4, one a line.
//
//go:embed weir.calculations
var weirCalculations string

// WeirCalculations are the CRC-32Cs of p4/v1model/weir.p4.
func WeirCalculations() []string { return strings.Fields(weirCalculations) }

// Calculations are the names of a compiled program's CRCs whose parameters are
// the control plane's to set, of BMv2's JSON: in our programs all are CRC-32C.
func Calculations(program []byte) (names []string, err error) {
	var p struct {
		Calculations []struct {
			Name string `json:"name"`
			Algo string `json:"algo"`
		} `json:"calculations"`
		Pipelines []json.RawMessage `json:"pipelines"`
	}
	if err := json.Unmarshal(program, &p); err != nil {
		return nil, fmt.Errorf("it is no compiled program for BMv2: %w", err)
	}
	if len(p.Pipelines) == 0 {
		return nil, errors.New("it is no compiled program for BMv2: it has no pipelines")
	}
	for _, c := range p.Calculations {
		if c.Algo == "crc32_custom" {
			names = append(names, c.Name)
		}
	}
	return names, nil
}
