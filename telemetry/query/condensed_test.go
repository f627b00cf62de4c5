package query

import (
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
	c, err := sink.NewCondenser(n.plan, sink.CondenserConfig{MaxFlows: 1000, Partitions: record.Partitions})
	if err != nil {
		t.Fatal(err)
	}
	other := *n
	other.store = &store.Store{}
	sequence, sent := [record.Partitions]uint64{}, [record.Partitions]uint64{}
	for from := 0; from < len(n.all); {
		slice := int64(n.all[from].TimeNs) >> sliceBits
		var raw [record.Partitions][]pint.Record
		for ; from < len(n.all) && int64(n.all[from].TimeNs)>>sliceBits == slice; from++ {
			o := &n.all[from]
			c.Add(o)
			if pint.Sampled(o.ID, share) {
				p := o.Flow.Partition(record.Partitions)
				raw[p] = append(raw[p], *o)
			}
		}
		for p, x := range c.Take(flows) {
			if x.Packets == 0 {
				continue
			}
			x.Share = share
			b := &pint.DigestBatch{Boot: 1, Sequence: sequence[p], Sent: sent[p], Plan: n.plan.ID, Records: raw[p], Condensed: &x}
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
	// Of one flow there is the sample.
	q := &Question{Kind: KindLatency, Flow: FormatKey(key(3))}
	l, m = ask[*LatencyAnswer](t, n.engine(), q), ask[*LatencyAnswer](t, c.engine(), q)
	wide := func(h *HopStats) float64 { return h.Quantiles[0].RankHigh - h.Quantiles[0].RankLow }
	if len(m.Hops) != len(l.Hops) || m.Used*8 > l.Used || wide(&m.Hops[0]) < 2*wide(&l.Hops[0]) {
		t.Errorf("all digests: %+v\ncondensed: %+v", l, m)
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
