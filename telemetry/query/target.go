package query

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/store"
)

// Target is the error that all fragments of a sketch best aim at.
type Target struct {
	Basis
	Sketch uint16 `json:"sketch"`
	Unit   string `json:"unit" column:"unit"` // of errors, per subepoch
	// Rho is the target, in the unit per subepoch: DiSketch's rho_target. It is the mean of what
	// suits each of Epochs.
	Rho    float64 `json:"rho"`
	Epochs int     `json:"epochs"`
	Paths  int     `json:"paths"` // that were tried
	// Fragments are what the switches do now.
	Fragments []FragmentError `json:"fragments" rows:""`
}

// FragmentError is how a fragment fares in the last of its epochs.
type FragmentError struct {
	Switch    string  `json:"switch"`
	Subepochs int     `json:"subepochs" unit:"subepochs of an epoch"`
	Error     float64 `json:"error"` // Equation 5
}

const (
	targetEpochs = 8
	targetPaths  = 500
)

// Target finds one target for all switches, from the records of the last epochs and
// the paths of the flows that records name: of the sketch with the number.
func (e *Engine) Target(sketch uint16) (*Target, error) {
	s, err := e.sketch(func(f *store.Fragment) bool { return f.ID.Sketch == sketch })
	if err != nil {
		return nil, err
	}
	l, err := e.candidates(s)
	if err != nil {
		return nil, err
	}
	if len(l.flows) == 0 {
		return nil, fmt.Errorf("no flow with a known path is named by the records: a target is tried on the ways that flows take")
	}
	a := &Target{Basis: s.Basis, Sketch: sketch, Unit: unitName(s.unit)}
	var paths [][]uint64
	for i := 0; i < len(l.flows); i += 1 + len(l.flows)/targetPaths {
		if w := l.paths[l.flows[i]].ways; len(w[len(w)-1]) > 0 {
			paths = append(paths, w[len(w)-1])
		}
	}
	a.Paths = len(paths)
	var found disketch.Target
	epochs := slices.DeleteFunc(e.Store.Sketches.Epochs(), func(epoch uint64) bool { return epoch < s.query.From || epoch >= s.query.To })
	slices.Reverse(epochs) // the latest first
	for _, epoch := range epochs {
		if err := e.stopped(); err != nil {
			return nil, err
		}
		if a.Epochs == targetEpochs {
			break
		}
		rho, err := e.Store.Sketches.FindTarget(disketch.TargetSearch{Query: s.query, Epoch: epoch, Paths: paths, Seed: e.FlowSeed})
		if errors.Is(err, disketch.ErrNoRecords) {
			continue
		}
		if err != nil {
			return nil, err
		}
		a.Rho = found.Found(rho)
		a.Epochs++
	}
	if a.Epochs == 0 {
		return nil, fmt.Errorf("%w of whole epochs in the window", ErrNoRecords)
	}
	for _, id := range e.Store.Sketches.Fragments(sketch) {
		for _, epoch := range epochs {
			if rho, ok := e.Store.Sketches.Error(id, epoch); ok {
				a.Fragments = append(a.Fragments, FragmentError{e.Store.Name(uint32(id.Switch)), e.Store.Sketches.N(id, epoch), rho})
				break
			}
		}
	}
	return a, nil
}
