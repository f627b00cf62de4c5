package query

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/pint/sink"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// condensed is the store of a sink that condensed the same digests, slice by slice.
func (n *sinks) condensed(t testing.TB, share uint8, flows int) *sinks {
	t.Helper()
	return n.condensedIn(t, share, flows, func(int64) bool { return true })
}

// condensedIn is the store of a sink that condensed in some slices, and sent all digests in the others.
func (n *sinks) condensedIn(t testing.TB, share uint8, flows int, in func(slice int64) bool) *sinks {
	t.Helper()
	return n.condensedWith(t, share, sink.Room{Flows: flows, FlowValues: math.Inf(1)}, in)
}

func (n *sinks) condensedWith(t testing.TB, share uint8, room sink.Room, in func(slice int64) bool) *sinks {
	t.Helper()
	var c *sink.Condenser
	other := *n
	other.store = &store.Store{}
	sequence, sent := [record.Partitions]uint64{}, [record.Partitions]uint64{}
	for from := 0; from < len(n.all); {
		slice := int64(n.all[from].TimeNs) >> sliceBits
		var raw [record.Partitions][]pint.Record
		switch {
		case !in(slice):
			c = nil
		case c == nil:
			var err error
			if c, err = sink.NewCondenser(n.plan, sink.CondenserConfig{MaxFlows: 1000, Partitions: record.Partitions}); err != nil {
				t.Fatal(err)
			}
		}
		for ; from < len(n.all) && int64(n.all[from].TimeNs)>>sliceBits == slice; from++ {
			o := &n.all[from]
			if c != nil {
				c.Add(o, 0)
			}
			if c == nil || pint.Sampled(o.ID, share) {
				p := o.Flow.Partition(record.Partitions)
				raw[p] = append(raw[p], *o)
			}
		}
		all := make([]pint.Condensed, record.Partitions)
		if c != nil {
			all = c.Take(room)
		}
		for p, x := range all {
			if x.Packets == 0 && len(raw[p]) == 0 {
				continue
			}
			b := &pint.DigestBatch{Boot: 1, Sequence: sequence[p], Sent: sent[p], Plan: n.plan.ID, Records: raw[p]}
			if c != nil {
				x.Share, b.Condensed = share, &x
			}
			sequence[p]++
			sent[p] += uint64(len(raw[p]))
			add(t, other.store, record.Header{Kind: record.PINT, Switch: 21, Instance: uint16(p), Plan: n.plan.ID, Start: slice << sliceBits, Span: 1 << sliceBits, Hash: n.plan.Hash},
				func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, b), nil })
		}
	}
	if c := other.store.Counts(); c.Unreadable+c.Conflicts+c.Duplicates != 0 {
		t.Fatalf("records were refused: %+v", c)
	}
	other.store.Sort()
	return &other
}

// TestCondensedAnswers: what a sink condensed answers as all digests do: paths, how many packets, latencies of all flows. What is of the sample
// has wider bounds, and answers say of how many packets it is.
func TestCondensedAnswers(t *testing.T) {
	n := newSinks(t, pintplan.Default())
	const flows, packets = 60, 600
	key := func(i int) Key {
		return Key{Version: 4, Proto: 6, Src: [16]byte{10, 0, 0, byte(i)}, Dst: [16]byte{10, 0, 1, byte(i)}, SrcPort: uint16(i), DstPort: 443}
	}
	for p := range packets {
		for i := range flows {
			path := route3(i)
			if i == 7 && p >= packets/2 {
				path = []uint32{path[0], 10 + (path[1]-9)%3, path[2]}
			}
			n.send(key(i), int64(p)*4_000_000+int64(i), path...)
		}
	}
	n.flush(t, nil)
	c := n.condensed(t, 4, 1000)
	all, few := ask[*PathAnswer](t, n.engine(), &Question{Kind: KindPath}), ask[*PathAnswer](t, c.engine(), &Question{Kind: KindPath})
	if all.Share != 1 || few.Share != 1./16 || few.LeftOut != 0 || few.FlowCount != flows || few.Digests > all.Digests/10 {
		t.Fatalf("all: %+v\ncondensed: %+v", all.DigestBasis, few.DigestBasis)
	}
	byFlow := map[string]*FlowPath{}
	for i := range few.Flows {
		byFlow[few.Flows[i].Flow] = &few.Flows[i]
	}
	for i := range all.Flows {
		a := &all.Flows[i]
		f := byFlow[a.Flow]
		switch {
		case f == nil:
			t.Errorf("%s is not known", a.Flow)
		case !slices.Equal(a.Hops, f.Hops) || !f.Certain || f.Packets != a.Packets || (f.Changes > 0) != (a.Changes > 0) || len(f.Passages) != len(a.Passages):
			t.Errorf("all digests: %+v\ncondensed: %+v", a, f)
		}
	}
	one := ask[*PathAnswer](t, c.engine(), &Question{Kind: KindPath, Flow: FormatKey(key(3))})
	if len(one.Flows) != 1 || !one.Flows[0].Certain || one.Flows[0].Packets != packets {
		t.Errorf("one flow: %+v", one)
	}
	// In a window in which nothing else tells it, a path is known too.
	late := ask[*PathAnswer](t, c.engine(), &Question{Kind: KindPath, Flow: FormatKey(key(3)), Last: 1 << sliceBits})
	if len(late.Flows) != 1 || !late.Flows[0].Certain || !slices.Equal(late.Flows[0].Hops, one.Flows[0].Hops) {
		t.Errorf("in the last slice: %+v", late)
	}
	l, m := ask[*LatencyAnswer](t, n.engine(), &Question{Kind: KindLatency}), ask[*LatencyAnswer](t, c.engine(), &Question{Kind: KindLatency})
	if len(l.Hops) != len(m.Hops) {
		t.Fatalf("%d switches of %d", len(m.Hops), len(l.Hops))
	}
	for i := range l.Hops {
		a, b := &l.Hops[i], &m.Hops[i]
		// All readings are counted, but for those of a flow between a change and its notice.
		if a.Switch != b.Switch || math.Abs(float64(a.Samples)-float64(b.Samples)) > packets || math.Abs(a.Quantiles[0].Value-b.Quantiles[0].Value) > 0.02*a.Quantiles[0].Value || a.Flows != b.Flows {
			t.Errorf("all digests: %+v\ncondensed: %+v", a, b)
		}
	}
	// Of one flow there is what sinks counted; of one whose path changed it is of the other slices; where there was no room for it, the sample.
	wide := func(h *HopStats) float64 { return h.Quantiles[0].RankHigh - h.Quantiles[0].RankLow }
	for flow, counted := range map[int]float64{3: 1, 7: 0.5} {
		q := &Question{Kind: KindLatency, Flow: FormatKey(key(flow))}
		l, m = ask[*LatencyAnswer](t, n.engine(), q), ask[*LatencyAnswer](t, c.engine(), q)
		if m.Counted < counted || counted == 1 && (len(m.Hops) != len(l.Hops) || m.Used != l.Used || wide(&m.Hops[0]) != wide(&l.Hops[0])) {
			t.Errorf("all digests: %+v\ncounted: %+v", l, m)
		}
		for i := range l.Hops {
			if counted < 1 {
				break
			}
			if a, b := &l.Hops[i], &m.Hops[i]; a.Switch != b.Switch || a.Samples != b.Samples || math.Abs(a.Quantiles[0].Value-b.Quantiles[0].Value) > 0.03*a.Quantiles[0].Value {
				t.Errorf("all digests: %+v\ncounted: %+v", a, b)
			}
		}
	}
	q := &Question{Kind: KindLatency, Flow: FormatKey(key(3))}
	l = ask[*LatencyAnswer](t, n.engine(), q)
	m = ask[*LatencyAnswer](t, n.condensedWith(t, 4, sink.Room{Flows: 1000}, func(int64) bool { return true }).engine(), q)
	if len(m.Hops) != len(l.Hops) || m.Counted != 0 || m.Used*8 > l.Used || wide(&m.Hops[0]) < 2*wide(&l.Hops[0]) {
		t.Errorf("all digests: %+v\nsample: %+v", l, m)
	}
	// Paths for other systems are the same.
	for _, e := range []*Engine{n.engine(), c.engine()} {
		p, err := e.joined(e.window())
		if err != nil {
			t.Fatal(err)
		}
		if path := p.Path(key(3)); len(path) != 1 || !slices.Equal(path[0].Switches, route3(3)) {
			t.Errorf("the path of a flow is %v", path)
		}
	}
	// What there is no room for is counted.
	short := ask[*PathAnswer](t, n.condensed(t, 9, 10).engine(), &Question{Kind: KindPath})
	if short.LeftOut == 0 || short.LeftOut >= flows*packets {
		t.Errorf("%d packets are left out of %d", short.LeftOut, flows*packets)
	}
}

// TestCondensedForATime: where a sink condensed in a part of the window alone, the paths of the other parts are those that all digests
// there tell, before, between and behind.
func TestCondensedForATime(t *testing.T) {
	n := newSinks(t, pintplan.Default())
	key := Key{Version: 4, Proto: 6, Src: [16]byte{10, 0, 0, 1}, Dst: [16]byte{10, 0, 1, 1}, SrcPort: 1, DstPort: 443}
	const perSlice, slices8 = 200, 8
	paths := [][]uint32{{1, 10, 4}, {1, 11, 4}, {1, 12, 4}}
	for _, sw := range []uint32{1, 4, 10, 11, 12} { // known, and with records
		other := key
		other.SrcPort = uint16(100 + sw)
		n.send(other, 1, sw)
	}
	// The path changes in the middle of slices 1, 3, 5 and 7.
	at := func(ns int64) []uint32 {
		return paths[(ns+1<<sliceBits-1<<(sliceBits-1))>>(sliceBits+1)%int64(len(paths))]
	}
	for i := range int64(perSlice * slices8) {
		ns := i << sliceBits / perSlice
		n.send(key, ns, at(ns)...)
	}
	n.flush(t, nil)
	for name, in := range map[string]func(int64) bool{
		"never":    func(int64) bool { return false },
		"first":    func(s int64) bool { return s < 3 },
		"last":     func(s int64) bool { return s >= 5 },
		"between":  func(s int64) bool { return s == 2 || s == 3 },
		"on, off":  func(s int64) bool { return s/2%2 == 0 },
		"but some": func(s int64) bool { return s != 4 && s != 5 },
		"always":   func(int64) bool { return true },
	} {
		c := n.condensedIn(t, 4, 1000, in)
		e := c.engine()
		e.Switches = []uint64{1, 4, 10, 11, 12}
		a := ask[*PathAnswer](t, e, &Question{Kind: KindPath, Flow: FormatKey(key)})
		if len(a.Flows) != 1 || !a.Flows[0].Certain || a.Flows[0].Packets != perSlice*slices8 {
			t.Fatalf("%s: %+v", name, a.Flows)
		}
		f := &a.Flows[0]
		number := func(hop int) uint32 { return uint32(f.Hops[hop].Number) }
		if end := at(slices8<<sliceBits - 1); len(f.Hops) != 3 || number(1) != end[1] {
			t.Errorf("%s: the path at the end is %+v, want %v", name, f.Hops, end)
		}
		if len(f.Passages) != 5 || f.Changes != 4 {
			t.Errorf("%s: %d passages and %d changes, want 5 and 4: %+v", name, len(f.Passages), f.Changes, f.Passages)
		}
		p, err := e.joined(e.window())
		if err != nil {
			t.Fatal(err)
		}
		passages := p.Path(key)
		for s := range int64(slices8) {
			if s%2 == 1 {
				continue // it changes in these
			}
			middle, got := s<<sliceBits+1<<(sliceBits-1), []uint32(nil)
			for _, x := range passages {
				if x.From <= middle {
					got = x.Switches
				}
			}
			if !slices.Equal(got, at(middle)) {
				t.Errorf("%s: the path in the middle of slice %d is %v, want %v", name, s, got, at(middle))
			}
		}
	}
}

// TestCountedBounds: bounds of a flow's hops hold whatever slices without counts met: here all that is slow is in the slice in which the path changes, which
// has none, so that few packets are known of each path. Bounds err with a probability of 1e-9 each, of which there are about 50.
func TestCountedBounds(t *testing.T) {
	n := newSinks(t, pintplan.Default())
	key := Key{Version: 4, Proto: 6, Src: [16]byte{10, 0, 0, 1}, Dst: [16]byte{10, 0, 1, 1}, SrcPort: 1, DstPort: 443}
	slow := uint64(0)
	n.latency = func(sw uint32, _ Key) uint64 { return uint64(sw)*1000 + n.rng.Uint64N(400) + slow }
	const perSlice, count = 900, 9
	paths := [][]uint32{{1, 10, 4}, {1, 11, 4}}
	met := map[string][]uint64{} // by switch
	for slice := range count {
		for i := range perSlice {
			path := paths[0]
			if slice > 4 || slice == 4 && i > perSlice/2 {
				path = paths[1]
			}
			if slow = 0; slice == 4 {
				slow = 50_000
			}
			for _, sw := range path {
				n.met[sw] = nil
			}
			n.send(key, int64(slice)<<sliceBits+int64(i)<<sliceBits/perSlice, path...)
			for _, sw := range path {
				name := fmt.Sprint(sw)
				met[name] = append(met[name], n.met[sw]...)
			}
		}
	}
	n.flush(t, nil)
	for name, in := range map[string]func(int64) bool{"all": func(int64) bool { return true }, "one slice raw": func(s int64) bool { return s != 7 }} {
		for _, bytes := range []float64{math.Inf(1), 0} {
			c := n.condensedWith(t, 6, sink.Room{Flows: 10, FlowValues: bytes}, in)
			for _, hop := range []int{0, 2} {
				e := c.engine()
				e.Confidence = 1 - 1e-9
				a := ask[*LatencyAnswer](t, e, &Question{Kind: KindLatency, Flow: FormatKey(key), Hop: hop, Quantiles: []float64{0.2, 0.5, 0.8}})
				if (a.Counted > 0.5) != (bytes > 0) {
					t.Errorf("%s: of the packets %v are counted, in room for %v bytes", name, a.Counted, bytes)
				}
				if places := map[int]int{0: 4, 2: 2}[hop]; bytes > 0 && len(a.Hops) < places {
					t.Errorf("%s: %d places: %+v", name, len(a.Hops), a.Hops)
				}
				for _, h := range a.Hops {
					all := met[h.Switch]
					slices.Sort(all)
					if h.Flows != 1 {
						t.Errorf("%s: %d flows at %s", name, h.Flows, h.Switch)
					}
					for _, q := range h.Quantiles {
						truth := float64(all[int(q.Rank*float64(len(all)))])
						if truth < q.Low || truth > q.High && !q.Open {
							t.Errorf("%s, room %v, hop %d: quantile %v at %s is %v, and the bounds are %v and %v", name, bytes, hop, q.Rank, h.Switch, truth, q.Low, q.High)
						}
					}
				}
			}
		}
	}
}

// TestTallyOfAPart: bounds hold whatever the part of the whole met that samples are not of: here it met less, or more, than all others.
func TestTallyOfAPart(t *testing.T) {
	c := &coding{Query: &pint.Query{Bits: 8}}
	const n, unknown = 3000, 1000
	for name, other := range map[string]int{"less": 0, "more": 255} {
		known, all := newTally(c), make([]int, 0, n+unknown)
		for i := range n {
			known.add(uint64(50 + i%100))
			all = append(all, 50+i%100)
		}
		for range unknown {
			all = append(all, other)
		}
		known.unknown = unknown / float64(n+unknown)
		slices.Sort(all)
		for _, rank := range []float64{0.01, 0.2, 0.5, 0.8, 0.99} {
			low, high := known.rankBounds(rank, 1e-6)
			truth := all[int(rank*float64(len(all)))]
			places := known.places([]float64{low, high})
			if low > 0 && int(places[0].code) > truth || high < 1 && int(places[1].code) < truth {
				t.Errorf("%s: rank %v is %d, and the bounds %d and %d", name, rank, truth, places[0].code, places[1].code)
			}
		}
	}
}

// TestTallyOfMany: what sinks counted is more than single digests ever are.
func TestTallyOfMany(t *testing.T) {
	for _, bits := range []int{8, denseBits + 1} {
		y := newTally(&coding{Query: &pint.Query{Bits: bits}})
		y.addMany(3, 1<<33)
		y.addMany(7, 1<<32)
		if p := y.places([]float64{0.5, 0.9}); p[0].code != 3 || p[1].code != 7 {
			t.Errorf("codes of %d bits: %+v", bits, p)
		}
	}
}

// TestTallyOfWeights: readings that stand for many packets bound a quantile as far as so many readings do, and not as so many packets.
func TestTallyOfWeights(t *testing.T) {
	c := &coding{Query: &pint.Query{Bits: 8}}
	weighed, plain := newTally(c), newTally(c)
	weighed.weight = 5
	for code := range uint64(200) {
		weighed.addMany(code, 1<<5)
		plain.add(code)
	}
	low, high := rankBounds(0.5, plain.independent(), 0.01)
	if l, h := rankBounds(0.5, weighed.independent(), 0.01); l != low || h != high || high-low < 0.1 {
		t.Errorf("ranks %v to %v of readings of 32 packets, %v to %v of single ones", l, h, low, high)
	}
}
