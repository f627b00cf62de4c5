package query

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/store"
)

// network is the sample of the whole network in a window.
type network struct {
	Basis
	union  *oblivious.Sample
	shares []SwitchVolume
	doubt  doubt
}

// SwitchVolume is what passed one switch, exactly.
type SwitchVolume struct {
	Switch  string `json:"switch"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// samples joins the samples of all switches and epochs in the window. A packet
// that passes switches in different epochs still counts once.
func (e *Engine) samples(of string) (*network, error) {
	if n := e.unions[of]; n != nil {
		return n, nil
	}
	confidence, err := e.confidence()
	if err != nil {
		return nil, err
	}
	key := unionKey{of, e.window(), e.Limits.orDefaults().Entries}
	found, err := e.Store.Remember(key, func() (any, int64, error) {
		n, err := e.unite(of)
		if err != nil {
			return nil, 0, err
		}
		return n, int64(len(n.union.Entries)) * unionEntryBytes, nil
	})
	if err != nil {
		return nil, err
	}
	n := *found.(*network) // other questions have it, too, with a confidence of their own
	n.Confidence, n.Missing, n.shares = confidence, slices.Clone(n.Missing), slices.Clone(n.shares)
	if of != store.OfFlowSamples {
		n.doubt.deny(n.union, n.delta())
	}
	if e.unions != nil {
		e.unions[of] = &n
	}
	return &n, nil
}

// unionKey is what a union of samples depends on.
type unionKey struct {
	of      string
	window  store.Window
	entries int
}

// unionEntryBytes is what an entry of a union takes, with its limit, and what totals add to it.
const unionEntryBytes = 120

func (e *Engine) unite(of string) (*network, error) {
	basis, err := e.basis(of)
	if err != nil {
		return nil, err
	}
	n := &network{Basis: basis}
	for i := range basis.Missing {
		n.doubt.missed += float64(basis.Missing[i].Packets)
	}
	shape, err := e.sampleShape(&n.Basis, of)
	if err != nil {
		return nil, err
	}
	var parts []*oblivious.Sample
	var from []*witness // of each part
	switches, witnesses := map[uint32]bool{}, map[uint32]*witness{}
	var order []*witness
	for _, s := range e.Store.Samples {
		if (s.Unit == oblivious.Flows) != (of == store.OfFlowSamples) || !s.Overlaps(n.Window) || shapeOf(s) != shape {
			continue
		}
		n.rest(switches, &s.Origin)
		w := witnesses[s.Switch]
		if w == nil {
			w = &witness{SwitchVolume: SwitchVolume{Switch: e.Store.Name(s.Switch)}}
			witnesses[s.Switch], order = w, append(order, w)
		}
		w.add(s)
		parts, from = append(parts, s.Sample), append(from, w)
	}
	if len(parts) == 0 {
		return nil, e.none("a "+of, "add the stage oblivious to the switches' graphs", e.Store.Of(of))
	}
	parts = cut(parts, e.Limits.orDefaults().Entries)
	for i, w := range from {
		w.parts = append(w.parts, parts[i])
	}
	for _, w := range order {
		if err := errors.Join(e.stopped(), n.judge(w, of)); err != nil {
			return nil, err
		}
	}
	if n.union, err = oblivious.Union(parts...); err != nil {
		return nil, fmt.Errorf("join the switches' samples: %w: give all switches the same kind, unit, seed and hash", err)
	}
	if n.doubt.excess == 0 { // else the entries' weights mean nothing
		bySwitch := make([][]*oblivious.Sample, len(order))
		for i, w := range order {
			bySwitch[i] = w.parts
		}
		n.union.Calibrate(bySwitch)
	}
	return n, e.stopped()
}

func (n *network) delta() float64 { return 1 - n.Confidence }

// Volume is what passed the network, each packet counted once.
type Volume struct {
	Basis
	Packets Bounded `json:"packets"`
	Bytes   Bounded `json:"bytes"`
	// Naive sums count a packet once for each switch that it passed.
	NaivePackets uint64         `json:"naive_packets"`
	NaiveBytes   uint64         `json:"naive_bytes"`
	Entries      int            `json:"entries"` // of the joined sample
	PerSwitch    []SwitchVolume `json:"per_switch"`
	// Flows names the set of flows that Packets and Bytes are of, and Share is which
	// part of the network's volume they are; empty and nil: all of it.
	Flows string `json:"flows,omitempty"`
	Share *Share `json:"share,omitempty"`
}

// Share is a part of the network's volume.
type Share struct {
	Packets Bounded `json:"packets"`
	Bytes   Bounded `json:"bytes"`
}

// Volume asks what passed the network. A set of flows other than nil restricts
// it to these; the naive sums are of all flows.
func (e *Engine) Volume(in oblivious.In) (*Volume, error) {
	n, err := e.samples(store.OfSamples)
	if err != nil {
		return nil, err
	}
	return n.volume(in)
}

// Select asks what of the selected flows passed the network, and which share of
// its volume that is.
func (e *Engine) Select(s *Selection) (*Volume, error) {
	if s.All() {
		return e.Volume(nil)
	}
	n, err := e.samples(store.OfSamples)
	if err != nil {
		return nil, err
	}
	if err := s.answerable(n.union.Entries); err != nil {
		return nil, err
	}
	v, err := n.volume(s.Has)
	if err == nil {
		v.Flows = s.String()
	}
	return v, err
}

func (n *network) volume(in oblivious.In) (*Volume, error) {
	whole := in == nil
	if whole {
		in = func(*Key) bool { return true }
	}
	packets, err := n.subset(oblivious.Packets, in, whole)
	bytes, err2 := n.subset(oblivious.Bytes, in, whole)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	v := &Volume{Basis: n.Basis, Packets: packets, Bytes: bytes, Entries: len(n.union.Entries), PerSwitch: n.shares}
	for _, s := range n.shares {
		v.NaivePackets += s.Packets
		v.NaiveBytes += s.Bytes
	}
	if whole {
		return v, nil
	}
	packets, err = n.share(oblivious.Packets, in)
	bytes, err2 = n.share(oblivious.Bytes, in)
	v.Share = &Share{packets, bytes}
	return v, errors.Join(err, err2)
}

// HeavyFlow is a flow with its size.
type HeavyFlow struct {
	Key   Key     `json:"-"`
	Flow  string  `json:"flow"`
	Share float64 `json:"share" unit:"share of the volume"` // of the network's volume, or the point's
	// Trust is how much of what the flow's cells hold is expected to be its own; nil: no
	// cells were asked.
	Trust *float64 `json:"trust,omitempty" unit:"share"`
	Bounded
}

// HeavyHitters are the flows of at least a share of the network's volume, or of that of a
// measurement point, the largest first.
type HeavyHitters struct {
	Basis
	By string `json:"by"` // BySample, BySketch or ByPoint
	// At is the measurement point, which was asked for so many Candidates: its cells
	// have no keys.
	At         string  `json:"at,omitempty"`
	Candidates int     `json:"candidates,omitempty"`
	Unit       string  `json:"unit" column:"unit"`
	Theta      float64 `json:"theta"`
	// Reported are the flows whose estimate is at least Theta - Epsilon/2. Guaranteed
	// says that the sample is large enough for this: all flows above Theta are
	// reported, except with probability Delta, and each flow below Theta - Epsilon is
	// with probability Delta*Epsilon at most. A sketch guarantees nothing of the kind.
	Epsilon    float64 `json:"epsilon"`
	Delta      float64 `json:"delta"`
	Guaranteed bool    `json:"guaranteed"`
	// LeastEpsilon is the smallest one that the sample guarantees; nil: none up to
	// Theta. EffectiveSize is the number of entries that a uniform sample as good has,
	// 0 if nothing was left out.
	LeastEpsilon  *float64    `json:"least_epsilon"`
	EffectiveSize int         `json:"effective_size,omitempty"`
	Volume        Bounded     `json:"volume"` // 0 if it was not needed
	Flows         []HeavyFlow `json:"flows" rows:""`
	More          int         `json:"more,omitempty"` // flows that the question's limit left out
	// Unlocated flows are named by the sketch's records, but their paths are not
	// known; Absent are fragments on the paths of the others.
	Unlocated int      `json:"unlocated"`
	Absent    []Absent `json:"absent"`
	// Unsent candidates are in no row of some interval's record of the measurement point, which a budget cut, and not listed.
	Unsent int `json:"unsent,omitempty"`
}

// What an answer can be by.
const (
	BySample = "sample"
	BySketch = "sketch"
	ByPoint  = "measurement point"
)

// HeavyHitters asks for the flows of at least the share theta of all packets, or
// bytes, but for an error of epsilon, up to theta; with epsilon 0, for those whose
// estimates are.
func (e *Engine) HeavyHitters(unit oblivious.Unit, theta, epsilon float64) (*HeavyHitters, error) {
	n, err := e.samples(store.OfSamples)
	if err != nil {
		return nil, err
	}
	volume, err := n.subset(unit, func(*Key) bool { return true }, true)
	if err != nil {
		return nil, err
	}
	flows, err := n.union.HeavyHitters(unit, theta, epsilon, n.delta())
	if err != nil {
		return nil, err
	}
	h := &HeavyHitters{Basis: n.Basis, By: BySample, Unit: unit.String(), Theta: theta, Epsilon: epsilon, Delta: n.delta(), Volume: volume}
	for _, f := range flows {
		h.Flows = append(h.Flows, HeavyFlow{Key: f.Key, Flow: FormatKey(f.Key), Share: f.Value / max(volume.Value, 1), Bounded: n.doubt.hold(bounded(f.Estimate), unit, false)})
	}
	if n.doubt.any() {
		return h, nil // nothing is promised
	}
	return h, h.promise(n.union, unit)
}

// promise says what the sample's size guarantees.
func (h *HeavyHitters) promise(s *oblivious.Sample, unit oblivious.Unit) error {
	size, err := s.EffectiveSize(unit)
	if err != nil {
		return err
	}
	least := 0.0
	if size < math.MaxInt {
		h.EffectiveSize, least = size, oblivious.HeavyHitterError(h.Theta, size, h.Delta)
	}
	if !math.IsInf(least, 1) {
		h.LeastEpsilon, h.Guaranteed = &least, h.Epsilon >= least
	}
	return nil
}

// Cardinality is the number of flows.
type Cardinality struct {
	Basis
	Flows Bounded `json:"flows"`
}

// Cardinality asks for the number of flows: of the switches' samples of flows, or without these of their fragments of
// kind hyperloglog.
func (e *Engine) Cardinality() (*Cardinality, error) {
	n, err := e.samples(store.OfFlowSamples)
	if errors.Is(err, ErrNoRecords) {
		if c, err := e.sketchCardinality(); !errors.Is(err, ErrNoRecords) {
			return c, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w; the number of flows needs flows = true in [stages.oblivious], or fragments of kind hyperloglog", err)
	}
	flows, err := n.union.DistinctFlows(n.delta())
	if err != nil {
		return nil, err
	}
	return &Cardinality{n.Basis, n.doubt.hold(bounded(flows), oblivious.Flows, true)}, nil
}

// sketchCardinality asks the fragments of a sketch of registers.
func (e *Engine) sketchCardinality() (*Cardinality, error) {
	s, err := e.sketch(func(f *store.Fragment) bool { return f.Kind == disketch.HyperLogLog })
	if err != nil {
		return nil, err
	}
	flows, err := e.Store.Sketches.Flows(s.query)
	if err != nil {
		return nil, err
	}
	return &Cardinality{s.Basis, Bounded{flows.Value, flows.Low, flows.High}}, nil
}

// Candidates are the flows that the samples name, those of the sample of flows
// if there is one.
func (e *Engine) Candidates() ([]Key, error) {
	n, err := e.samples(store.OfFlowSamples)
	if errors.Is(err, ErrNoRecords) {
		n, err = e.samples(store.OfSamples)
	}
	if err != nil {
		return nil, err
	}
	seen := map[Key]bool{}
	var keys []Key
	for i := range n.union.Entries {
		if k := n.union.Entries[i].Key; !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	return keys, nil
}
