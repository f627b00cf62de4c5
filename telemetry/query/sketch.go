package query

import (
	"errors"
	"fmt"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/store"
)

// Frequency is how often a flow occurred, by each system that knows.
type Frequency struct {
	Flow string `json:"flow"`
	// Sample is what the network-wide sample says; nil: there is none.
	Sample *SampleFrequency `json:"sample,omitempty"`
	// Sketch is what the fragments on the flow's path say; nil: there are none, or
	// the path is not known.
	Sketch *SketchFrequency `json:"sketch,omitempty"`
	// Faults say why a system does not know.
	Faults []string `json:"faults,omitempty"`
}

// SampleFrequency is the sample's part of a Frequency.
type SampleFrequency struct {
	Basis
	Packets Bounded `json:"packets"`
	Bytes   Bounded `json:"bytes"`
}

// SketchFrequency is the fragments' part of a Frequency.
type SketchFrequency struct {
	Basis
	Unit string   `json:"unit"`
	Path []string `json:"path"`
	Bounded
	// Covered is the share of the time of which there was a record of the flow.
	Covered float64 `json:"covered"`
	// Rounded is what the rounding of cells in records, to keep within the switches' budgets, adds to the standard error, which the bounds
	// account for; of sketches that are never too low, by how much the value may be too high by it. 0: cells are whole.
	Rounded float64 `json:"rounded,omitempty"`
	// Absent are fragments on the path of which a record should be there.
	Absent []Absent `json:"absent"`
}

// Absent is a fragment's epoch of which nothing came, or not the subepoch that
// was asked for.
type Absent struct {
	Epoch    uint64 `json:"epoch"`
	Fragment string `json:"fragment"` // "switch s1, sketch 0"; empty: the path was not known
}

// Frequency asks for the packets and bytes of a flow.
func (e *Engine) Frequency(flow Key) (*Frequency, error) {
	f := &Frequency{Flow: FormatKey(flow)}
	sample, err := e.sampleFrequency(flow)
	if f.Sample = sample; err != nil {
		f.Faults = append(f.Faults, err.Error())
	}
	sketch, sketchErr := e.SketchFrequency(flow)
	if f.Sketch = sketch; sketchErr != nil {
		f.Faults = append(f.Faults, sketchErr.Error())
	}
	if sample == nil && sketch == nil {
		return nil, errors.Join(err, sketchErr)
	}
	if err := e.stopped(); err != nil {
		return nil, err // rather than a part
	}
	return f, nil
}

func (e *Engine) sampleFrequency(flow Key) (*SampleFrequency, error) {
	n, err := e.samples(store.OfSamples)
	if err != nil {
		return nil, err
	}
	in := func(k *Key) bool { return *k == flow }
	packets, err := n.subset(oblivious.Packets, in, false)
	bytes, err2 := n.subset(oblivious.Bytes, in, false)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return &SampleFrequency{n.Basis, packets, bytes}, nil
}

// sketch is a question to the fragments of one sketch.
type sketch struct {
	Basis
	query  disketch.Query
	epochs disketch.Epochs
	kind   disketch.Kind
	unit   disketch.Unit
	paths  Paths // nil: none are known
}

// sketch finds the records of a sketch in the window: that with the lowest number
// of those that suit. If the network was given epochs of another length, another unit or
// another hash family meanwhile, the question is about the latest ones: their numbers and values
// are not comparable.
func (e *Engine) sketch(suits func(*store.Fragment) bool) (*sketch, error) {
	basis, err := e.basis(store.OfFragments)
	if err != nil {
		return nil, err
	}
	var like *store.Fragment
	var have store.Window // of all times
	for _, f := range e.Store.Fragments {
		if !suits(f) {
			continue
		}
		if have = have.Join(f.Window); !f.Overlaps(basis.Window) {
			continue
		}
		if like == nil || f.ID.Sketch < like.ID.Sketch || f.ID.Sketch == like.ID.Sketch && f.From > like.From {
			like = f
		}
	}
	if like == nil {
		return nil, e.none("a sketch's fragments", "add the stage disketch to the switches' graphs", have)
	}
	s := &sketch{Basis: basis, query: disketch.Query{Sketch: like.ID.Sketch, Hash: like.Hash}, epochs: like.Epochs, kind: like.Kind, unit: like.Unit}
	s.query.Confidence = basis.Confidence
	s.query.From, s.query.To = ^uint64(0), 0
	switches := map[uint32]bool{}
	for _, f := range e.Store.Fragments {
		if f.ID.Sketch != like.ID.Sketch || f.Kind != like.Kind || f.Unit != like.Unit || f.Epochs != like.Epochs || f.Hash != like.Hash || !f.Overlaps(s.Window) {
			continue
		}
		s.rest(switches, &f.Origin)
		s.query.From, s.query.To = min(s.query.From, f.Epoch), max(s.query.To, f.Epoch+1)
	}
	s.paths, err = e.joined(s.Window)
	return s, err
}

// FlowID is what fragments whose key is the 5-tuple know a flow by, on switches of a hash
// family: its flow hash.
func (e *Engine) FlowID(f hash.Family, flow Key) uint64 {
	return uint64(uint32(Hash(f, flow, e.FlowSeed)))
}

// countsFlows says that a fragment is of a kind that counts what flows send.
func countsFlows(f *store.Fragment) bool { return f.Kind.Flows() }

// unitName is what the sketch's values are of.
func (s *sketch) unitName() string {
	if s.kind == disketch.Bloom {
		return "epochs"
	}
	return unitName(s.unit)
}

func unitName(u disketch.Unit) string {
	if u == disketch.Bytes {
		return oblivious.Bytes.String()
	}
	return oblivious.Packets.String()
}

// SketchFrequency asks the fragments on the flow's path.
func (e *Engine) SketchFrequency(flow Key) (*SketchFrequency, error) {
	all, err := e.SketchFrequencies([]Key{flow})
	if err != nil {
		return nil, err
	}
	if all[0].Path == nil {
		return nil, fmt.Errorf("the path of flow %s is not known: fragments count it on its path only: %w", FormatKey(flow), ErrUnknownFlow)
	}
	return &all[0], nil
}

// SketchFrequencies asks for many flows at a time; one without a known path has
// a nil Path and no value. Where there are no fragments that count, those of kind bloom say in how many
// epochs a flow was there.
func (e *Engine) SketchFrequencies(flows []Key) ([]SketchFrequency, error) {
	s, err := e.sketch(countsFlows)
	if errors.Is(err, ErrNoRecords) {
		if seen, err2 := e.sketch(func(f *store.Fragment) bool { return f.Kind == disketch.Bloom }); err2 == nil {
			s, err = seen, nil
		}
	}
	if err != nil {
		return nil, err
	}
	asker := e.Store.Sketches.Asker()
	list := make([]SketchFrequency, len(flows))
	paths, ids := located{paths: map[uint64]*timeline{}}, make([]uint64, 0, len(flows))
	timelines := make([]*timeline, len(flows))
	for i, flow := range flows {
		if timelines[i] = e.path(s, flow); timelines[i] != nil {
			id := e.FlowID(s.query.Hash, flow)
			paths.paths[id], ids = timelines[i], append(ids, id)
		}
	}
	asker.Learn(s.query, ids, &paths)
	for i, flow := range flows {
		if err := e.stopped(); err != nil {
			return nil, err
		}
		list[i] = SketchFrequency{Basis: s.Basis, Unit: s.unitName()}
		path := timelines[i]
		if path == nil {
			continue
		}
		a := asker.Frequency(s.query, e.FlowID(s.query.Hash, flow), path)
		f := &list[i]
		f.Bounded, f.Covered, f.Rounded = Bounded{a.Value, a.Low, a.High}, a.Covered, a.Rounded
		for _, sw := range path.switches() {
			f.Path = append(f.Path, e.Store.Name(sw))
		}
		f.Absent = e.absent(a.Missing)
	}
	return list, nil
}

// path is a flow's, nil: unknown.
func (e *Engine) path(s *sketch, flow Key) *timeline {
	if s.paths == nil {
		return nil
	}
	passages := s.paths.Path(flow)
	if passages == nil {
		return nil
	}
	return newTimeline(s.epochs, passages)
}

func (e *Engine) absent(missing []disketch.Missing) []Absent {
	var list []Absent
	for _, m := range missing {
		a := Absent{Epoch: m.Epoch}
		if m.Fragment != (disketch.ID{}) {
			a.Fragment = fmt.Sprintf("switch %s, sketch %d", e.Store.Name(uint32(m.Fragment.Switch)), m.Fragment.Sketch)
		}
		list = append(list, a)
	}
	return list
}
