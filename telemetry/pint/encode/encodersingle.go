package encode

import (
	"github.com/weirswitch/weir/telemetry/pint"
)

// singleStatic is a Static of one instance as Encoder.Encode has it in its
// loop, for what paths use most: hashed values with at most two layers, and
// linear values where every hop acts.
type singleStatic struct {
	valueMask uint64
	seeds     staticSeeds
	upTo      uint64 // H at most this: layer 0, else layer 1
	layers    [2]singleLayer
	reservoir bool // layer 0 is reservoir sampling, and layer 1, if there is one, is not
}

type singleLayer struct {
	keep   uint64 // Baseline: 0, since it overwrites; otherwise all ones
	accept [pint.MaxHops + 1]uint64
}

// newSingleStatic returns the kind of step that encodes like s.
func newSingleStatic(s *Static) (*singleStatic, stepKind) {
	if s.Instances != 1 || s.Vector || len(s.layers) > 2 {
		return nil, stepStatic
	}
	t := &singleStatic{valueMask: s.valueMask, seeds: s.seeds[0], upTo: s.layers[0].upTo}
	for i := range s.layers {
		l := &s.layers[i]
		t.layers[i].accept = l.accept
		if !l.baseline {
			t.layers[i].keep = ^uint64(0)
		}
	}
	t.reservoir = s.layers[0].baseline && (len(s.layers) == 1 || !s.layers[1].baseline)
	switch {
	case s.Values == pint.Hashed:
		return t, stepHashed
	case s.Values == pint.Linear && len(s.layers) == 1 && s.layers[0].always:
		return t, stepLinear
	}
	return nil, stepStatic
}
