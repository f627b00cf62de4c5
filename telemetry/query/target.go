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
	More      int             `json:"more,omitempty"` // fragments that the question's limit left out
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

// tried are the paths of flows that records name, on which targets and numbers of subepochs of a sketch are tried.
func (e *Engine) tried(s *sketch) ([][]uint64, error) {
	l, err := e.candidates(s)
	if err != nil {
		return nil, err
	}
	if len(l.flows) == 0 {
		return nil, fmt.Errorf("no flow with a known path is named by the records: a target is tried on the ways that flows take")
	}
	var paths [][]uint64
	for i := 0; i < len(l.flows); i += 1 + len(l.flows)/targetPaths {
		if w := l.paths[l.flows[i]].ways; len(w[len(w)-1]) > 0 {
			paths = append(paths, w[len(w)-1])
		}
	}
	return paths, nil
}

// Subepochs are the numbers of subepochs that suit a network's fragments of a sketch.
type Subepochs struct {
	Sketch uint16
	Epochs disketch.Epochs
	// Looked is the epoch that was looked at in slices, Last the last one of which there are records.
	Looked, Last uint64
	// Logs are those of n, by switch; Ratio the squared error with them over that of n = 1 everywhere.
	Logs  map[uint64]uint8
	Ratio float64
}

// Subepochs finds them, from the last epoch before the very last ones that was looked at in slices; nil if
// those of this epoch are not needed.
func (e *Engine) Subepochs(number uint16, needed func(epochs disketch.Epochs, looked uint64) bool) (*Subepochs, error) {
	s, err := e.sketch(func(f *store.Fragment) bool { return f.ID.Sketch == number })
	if err != nil {
		return nil, err
	}
	if s.query.To < 2 || s.query.To-2 <= s.query.From {
		return nil, fmt.Errorf("%w of whole epochs in the window", ErrNoRecords)
	}
	settled := s.query
	settled.To -= 2 // switches may not have sent all of these
	looked, ok := e.Store.Sketches.Looked(settled)
	if !ok {
		return nil, fmt.Errorf("%w of an epoch that was counted in slices", ErrNoRecords)
	}
	if !needed(s.epochs, looked) {
		return nil, nil
	}
	paths, err := e.tried(s)
	if err != nil {
		return nil, err
	}
	a := &Subepochs{Sketch: number, Epochs: s.epochs, Looked: looked, Last: s.query.To - 1}
	a.Logs, a.Ratio, err = e.Store.Sketches.FindPlan(disketch.TargetSearch{Query: s.query, Epoch: looked, Paths: paths, Seed: e.FlowSeed})
	return a, err
}

// Target finds one target for all switches, from the records of the last epochs and
// the paths of the flows that records name: of the sketch with the number.
func (e *Engine) Target(sketch uint16) (*Target, error) {
	s, err := e.sketch(func(f *store.Fragment) bool { return f.ID.Sketch == sketch })
	if err != nil {
		return nil, err
	}
	if !s.kind.Flows() {
		return nil, fmt.Errorf("sketch %d is of kind %v, whose epochs are not divided: it has no target", sketch, s.kind)
	}
	paths, err := e.tried(s)
	if err != nil {
		return nil, err
	}
	a := &Target{Basis: s.Basis, Sketch: sketch, Unit: unitName(s.unit)}
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
