package query

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/store"
)

// doubt holds what samples say against what the switches counted exactly, and what they did not count. A sample takes packets of one id for one,
// and a host that knows the hash function chooses which of its packets are sampled; the switches' own
// counts of packets and bytes are not moved by either. So an answer has no value and no bounds that these counts
// deny, and is not exact where they do not agree with the samples.
type doubt struct {
	surplus, excess float64 // packets of all switches
	surplusBytes    float64 // that the surplus may have at most
	// missed packets passed switches that did not measure them, each at one switch or at several: any flow may have had them.
	missed float64
	// Packets and bytes that passed the network, by the switches' counts: at least those of one switch, unless
	// packets passed it twice, and at most those of all together. A switch counts bytes on the wire, and a packet's length is
	// without tags, shims and padding (docs/oblivious.md): least has as few as these leave.
	least, most [2]float64 // of packets, of bytes
	wire        float64    // bytes on the wire at the switch that had most
	// denied is what may be in no sample where one switch counted more than the bounds of the whole allow, though by no more than a
	// sample can be wrong by chance; else 0.
	denied [2]float64
}

// witness is one switch: what it counted in all of the window, and its samples.
type witness struct {
	SwitchVolume
	parts           []*oblivious.Sample
	surplus, excess uint64 // packets of single records
}

// add notes a record.
func (w *witness) add(s *store.Sample) {
	w.Packets += s.Packets
	w.Bytes += s.Bytes
	w.surplus += s.Surplus
	w.excess += s.Excess
}

// judge holds a switch's samples against its counts: each record was held against its own, and all of them are together, since a host may
// repeat its packets once per record. What does not fit is named in the basis.
func (n *network) judge(w *witness, of string) error {
	surplus, excess := w.surplus, w.excess
	if len(w.parts) > 1 {
		union, err := oblivious.Union(w.parts...)
		if err != nil {
			return err
		}
		s, x := union.Judge()
		surplus, excess = max(surplus, s), max(excess, x)
	}
	n.shares = append(n.shares, w.SwitchVolume)
	n.doubt.total(&w.SwitchVolume)
	n.doubt.surplus += float64(surplus)
	n.doubt.surplusBytes += float64(surplus) * w.longest()
	n.doubt.excess += float64(excess)
	if surplus == w.surplus && excess == w.excess {
		return nil // the store has named it
	}
	at := slices.IndexFunc(n.Missing, func(m store.Missing) bool { return m.Switch == w.Switch && m.Of == of && m.Instance == 0 })
	if at < 0 {
		at = len(n.Missing)
		n.Missing = append(n.Missing, store.Missing{Switch: w.Switch, Of: of})
	}
	n.Missing[at].Surplus, n.Missing[at].Excess = surplus, excess
	return nil
}

const (
	// mostOverhead is by how much a frame is longer than its packet: padding of the shortest one, 26 bytes, two VLAN tags, a shim of
	// 14 bytes, and room for more tags.
	mostOverhead = 64
	// mostFrame is the longest one with an MTU of 9,216 bytes: what is not IP is no longer.
	mostFrame = 9216 + 18
)

// longest bounds the length of a packet that a switch counted and its samples do not account for. Where these lack nothing it has the id of one that is
// in them, and so its length, if it is IP.
func (w *witness) longest() float64 {
	longest := uint32(0)
	for _, s := range w.parts {
		if !s.Complete() {
			return mostBytes
		}
		for i := range s.Entries {
			longest = max(longest, s.Entries[i].Bytes)
			if s.Entries[i].Key.Version == 0 {
				longest = max(longest, mostFrame)
			}
		}
	}
	return float64(longest)
}

// total notes what passed a switch in all of the window.
func (d *doubt) total(v *SwitchVolume) {
	packets, bytes := float64(v.Packets), float64(v.Bytes)
	d.least[0] = max(d.least[0], packets)
	d.least[1] = max(d.least[1], bytes-mostOverhead*packets)
	d.wire = max(d.wire, bytes)
	d.most[0] += packets
	d.most[1] += bytes
}

// deny holds the bounds that an estimate of the whole has, with a question's confidence, against what single switches counted.
func (d *doubt) deny(union *oblivious.Sample, delta float64) {
	for i, unit := range []oblivious.Unit{oblivious.Packets, oblivious.Bytes} {
		d.denied[i] = 0
		e, err := union.Subset(unit, delta, func(*Key) bool { return true })
		switch {
		case err != nil:
		case d.least[i] > e.High && unit == oblivious.Packets:
			d.denied[i] = d.least[i] - e.Low
		case d.least[i] > e.High, unit == oblivious.Bytes && d.denied[0] > d.surplus && d.wire > e.High: // missed packets have bytes
			d.denied[i] = d.wire - e.Low
		}
	}
}

// disagree reports whether samples and counts do.
func (d *doubt) disagree() bool { return d.surplus > 0 || d.excess > 0 || d.denied != [2]float64{} }

// any reports whether samples and counts disagree, or packets are in neither.
func (d *doubt) any() bool { return d.missed > 0 || d.disagree() }

// hold brings an estimate of all packets or bytes, or of a part of them, within what the counts allow.
func (d *doubt) hold(b Bounded, unit oblivious.Unit, all bool) Bounded {
	if unit == oblivious.Flows {
		b.High += d.missed
		return b
	}
	i, missed := 0, d.missed
	if unit == oblivious.Bytes {
		i, missed = 1, missed*mostBytes
	}
	if d.excess > 0 {
		b.Low, b.High = 0, d.most[i] // the entries' weights mean nothing
	}
	// Any flow may have had the packets that are in no sample.
	more := max(d.denied[i], d.surplus)
	if unit == oblivious.Bytes {
		more = max(d.denied[i], d.surplusBytes)
	}
	b.High += more
	b.High = min(b.High, d.most[i]) + missed
	if all && d.disagree() {
		b.Value = max(b.Value, d.least[i])
		b.High = max(b.High, d.least[i])
	}
	b.Low = min(b.Low, b.High)
	b.Value = min(max(b.Value, b.Low), b.High)
	return b
}

// subset estimates a set of flows; all says that it is all of them.
func (n *network) subset(of oblivious.Unit, in oblivious.In, all bool) (Bounded, error) {
	e, err := n.union.Subset(of, n.delta(), in)
	return n.doubt.hold(bounded(e), of, all), err
}

// share estimates which share of the volume a set of flows has.
func (n *network) share(of oblivious.Unit, in oblivious.In) (Bounded, error) {
	e, err := n.union.Share(of, n.delta(), in)
	if err != nil || !n.doubt.any() {
		return bounded(e), err
	}
	part, err := n.subset(of, in, false)
	all, err2 := n.subset(of, func(*Key) bool { return true }, true)
	b := Bounded{e.Value, part.Low / max(all.High, 1), min(1, part.High/max(all.Low, 1))}
	b.Value = min(max(b.Value, b.Low), b.High)
	return b, cmp.Or(err, err2)
}

// sampleShape is what samples must agree in to be joined.
type sampleShape struct {
	kind oblivious.Kind
	unit oblivious.Unit
	seed uint64
	hash hash.Family
}

// String names a shape in errors.
func (s sampleShape) String() string {
	return fmt.Sprintf("kind %v, unit %v, seed %#x, hash %v", s.kind, s.unit, s.seed, s.hash)
}

func shapeOf(s *store.Sample) sampleShape { return sampleShape{s.Kind, s.Unit, s.Seed, s.Origin.Hash} }

// sampleShape finds the shape of the window's samples that most switches have, and names the others in the basis: one
// switch with another seed does not keep the others from being asked. Of two shapes that as many have none is chosen.
func (e *Engine) sampleShape(b *Basis, of string) (shape sampleShape, err error) {
	type holder struct {
		sampleShape
		sw uint32
	}
	records, switches, one := map[holder]uint64{}, map[sampleShape]int{}, map[sampleShape]*oblivious.Sample{}
	for _, s := range e.Store.Samples {
		if (s.Unit == oblivious.Flows) != (of == store.OfFlowSamples) || !s.Overlaps(b.Window) {
			continue
		}
		at := holder{shapeOf(s), s.Switch}
		if records[at]++; records[at] == 1 {
			switches[at.sampleShape]++
			one[at.sampleShape] = s.Sample
		}
	}
	most, ties := 0, 0
	for s, n := range switches {
		switch {
		case n > most:
			shape, most, ties = s, n, 1
		case n == most:
			ties++
		}
	}
	if ties > 1 {
		var names []string
		for at := range records {
			names = append(names, fmt.Sprintf("%s: %v", e.Store.Name(at.sw), at.sampleShape))
		}
		slices.Sort(names)
		var tied []*oblivious.Sample
		for s, n := range switches {
			if n == most {
				tied = append(tied, one[s])
			}
		}
		slices.SortFunc(tied, func(a, b *oblivious.Sample) int {
			return cmp.Or(cmp.Compare(a.Hash, b.Hash), cmp.Compare(a.Seed, b.Seed))
		})
		_, err := oblivious.Union(tied...)
		return shape, fmt.Errorf("join the switches' samples: %w: give all switches the same kind, unit, seed and hash (as many switches have one as another: %s)",
			err, strings.Join(names[:min(len(names), 8)], "; "))
	}
	for at, n := range records {
		if at.sampleShape != shape {
			b.Missing = append(b.Missing, store.Missing{Switch: e.Store.Name(at.sw), Of: of, Disputed: min(n, math.MaxInt64)})
		}
	}
	slices.SortStableFunc(b.Missing, func(a, b store.Missing) int {
		return cmp.Or(cmp.Compare(a.Switch, b.Switch), cmp.Compare(a.Instance, b.Instance))
	})
	return shape, nil
}
