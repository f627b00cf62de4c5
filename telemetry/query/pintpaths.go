package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/weirswitch/weir/internal/safefile"
	"github.com/weirswitch/weir/telemetry/pint"
)

// PintPaths are the paths that sinks decoded from PINT's digests and reported. The paths of digests that a store
// holds need none: the engine decodes these.
type PintPaths map[pint.FlowKey][]uint32

// Path implements Paths. A plan may define flows by fewer fields than the 5-tuple.
func (p PintPaths) Path(flow Key) []Passage {
	for _, d := range []pint.FlowDefinition{{}, {Key: "src-dst"}, {Key: "src"}, {Key: "dst"}} {
		if path := p[d.Of(pint.FlowKey(flow))]; path != nil {
			return always(path)
		}
	}
	return nil
}

// ReadPintPaths reads what sinks report of paths: files of `weir ctl show paths --json`. A path that is not certain, or of
// ports instead of switches, is left out; so is one that changed, since the answers of several sinks are not of one time.
func ReadPintPaths(files ...string) (PintPaths, error) {
	p := PintPaths{}
	var faults []error
	for _, file := range files {
		text, err := safefile.ReadTrusted(file, maxPaths)
		if err == nil {
			err = p.parse(text)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("read PINT's paths of %s: %w", file, err))
		}
	}
	return p, errors.Join(faults...)
}

func (p PintPaths) parse(text []byte) error {
	var report struct{ Paths *PathAnswer }
	if err := json.Unmarshal(text, &report); err != nil {
		return err
	}
	if report.Paths == nil {
		return errors.New("no \"paths\" are in it: write it by weir ctl show paths --json")
	}
	if report.Paths.Value != pint.SwitchID.String() {
		return nil
	}
flows:
	for i := range report.Paths.Flows {
		f := &report.Paths.Flows[i]
		if !f.Certain || f.Changes != 0 || strings.Contains(f.Flow, " type 0x") { // not IP
			continue
		}
		k, err := ParseKey(f.Flow)
		if err != nil {
			return fmt.Errorf("paths[%d]: %w", i, err)
		}
		path := make([]uint32, len(f.Hops))
		for i, h := range f.Hops {
			if h.Number > math.MaxUint32 {
				continue flows
			}
			path[i] = uint32(h.Number)
		}
		p[pint.FlowKey(k)] = path
	}
	return nil
}
