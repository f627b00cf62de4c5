package query

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/store"
)

// planOfChecksum has paths with checksums, and latencies of hops.
func planOfChecksum(t *testing.T) *pintplan.Plan {
	t.Helper()
	queries := []pint.Query{
		pintplan.Default().Queries[0],
		{Name: "checksum", Value: pint.SwitchID, Aggregation: pint.Checksum, Bits: 16, Frequency: 1},
		{Name: "latency", Value: pint.HopLatency, Aggregation: pint.Quantiles, Bits: 8, Frequency: 1,
			Numeric: &pint.NumericQuery{Multiplicative: true, Min: 100, Max: 1_000_000}},
	}
	p, err := pintplan.New(pintplan.Config{ID: 3, Seed: 3, Bits: queries[0].Bits + 24, Queries: queries})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func names(path []uint32) (all []string) {
	s := &store.Store{}
	for _, sw := range path {
		all = append(all, s.Name(sw))
	}
	return all
}

// Packets of flows that take several paths at once, chosen for each packet, give all of these, each certain and right, and hop latencies are of the
// right switches. Two of some 5,000 pairs of paths of a flow have one checksum with a probability of 0.07: with this seed none has.
func TestParallelPaths(t *testing.T) {
	n := newSinks(t, planOfChecksum(t))
	ways := map[Key][][]uint32{}
	const packets = 400
	for flow := range 60 {
		k := key(flow)
		for p := range 1 + flow%6 {
			way := []uint32{1, uint32(10 + p), uint32(50 + (p+flow)%7), 2}
			if p == 3 {
				way = append(way[:3], 30, 2) // a longer one
			}
			ways[k] = append(ways[k], way)
		}
		for i := range packets * len(ways[k]) {
			n.send(k, int64(1+i)*1_000_000, ways[k][n.rng.IntN(len(ways[k]))]...)
		}
	}
	n.flush(t, func(int64, int) bool { return false })
	for how, e := range map[string]*Engine{"": n.engine(), "condensed, ": n.condensed(t, 0, 1000).engine()} {
		a := ask[*PathAnswer](t, e, &Question{Kind: "path", Limit: 100})
		if len(a.Flows) != len(ways) {
			t.Fatalf("%s%d flows", how, len(a.Flows))
		}
		for i := range a.Flows {
			f := &a.Flows[i]
			want := ways[f.Key]
			if len(want) == 1 {
				if len(f.Parallel) != 0 || !f.Certain || len(f.Passages) != 1 || !slices.Equal(f.Passages[0].Switches, names(want[0])) {
					t.Errorf("%sone path: %+v", how, f)
				}
				continue
			}
			if len(f.Parallel) != len(want) || len(f.Passages) != 0 || f.Packets != packets*uint64(len(want)) {
				t.Errorf("%s%s: %d packets by %d paths at once and %d passages, not %d", how, f.Flow, f.Packets, len(f.Parallel), len(f.Passages), len(want))
			}
			sum := uint64(0)
			for _, p := range f.Parallel {
				sum += p.Packets
				if !p.Certain || !slices.ContainsFunc(want, func(w []uint32) bool { return slices.Equal(names(w), p.Switches) }) {
					t.Errorf("%s%s: %+v, not of %v", how, f.Flow, p, want)
				}
			}
			if how == "" && sum != f.Packets {
				t.Errorf("%s: %d packets by paths, %d in all", f.Flow, sum, f.Packets)
			}
		}
	}
	l := ask[*LatencyAnswer](t, n.engine(), &Question{Kind: "latency", Limit: 100})
	if l.Unlocated != 0 || len(l.Hops) == 0 {
		t.Errorf("%d flows are unlocated, %d switches", l.Unlocated, len(l.Hops))
	}
	sw := map[string]uint32{}
	for id := range uint32(80) {
		sw[names([]uint32{id})[0]] = id
	}
	for i := range l.Hops {
		h := &l.Hops[i]
		// At a switch a packet stays 1,000 ns times its number, and up to 500 more; codes have an error of some percent.
		if low := float64(sw[h.Switch]) * 1000; h.Quantiles[0].Value < 0.9*low || h.Quantiles[0].Value > 1.1*(low+500) {
			t.Errorf("%s has %+v", h.Switch, h.Quantiles[0])
		}
	}
}

// A flow whose path changes has passages as without a checksum, and a damaged one makes no path of it; a flow's loop is found in whichever path has it.
func TestParallelAndChanged(t *testing.T) {
	n := newSinks(t, planOfChecksum(t))
	first, second := []uint32{1, 2, 3}, []uint32{1, 4, 3}
	for i := range int64(400) {
		way := first
		if i >= 200 {
			way = second
		}
		n.send(key(1), (1+i)*1_000_000, way...)
	}
	n.send(key(1), 50_500_000, 1, 9, 3) // what damages the digest of one packet
	for i := range int64(400) {
		way := first
		if i%2 == 0 {
			way = []uint32{1, 2, 1, 2, 3}
		}
		n.send(key(2), (1+i)*1_000_000, way...)
	}
	n.flush(t, func(int64, int) bool { return false })
	a := ask[*PathAnswer](t, n.engine(), &Question{Kind: "path", Flow: FormatKey(key(1))})
	f := &a.Flows[0]
	if len(f.Parallel) != 0 || len(f.Passages) != 2 || f.Changes != 1 || f.Strays != 1 || f.Packets != 401 || !f.Certain ||
		!slices.Equal(f.Passages[0].Switches, names(first)) || !slices.Equal(f.Passages[1].Switches, names(second)) || f.Passages[1].FromNs != 201_000_000 {
		t.Errorf("%+v", f)
	}
	loops := ask[*LoopsAnswer](t, n.engine(), &Question{Kind: "loops"})
	if len(loops.Flows) != 1 || loops.Flows[0].Flow != FormatKey(key(2)) || strings.Join(loops.Flows[0].Repeated, " ") != strings.Join(names([]uint32{1, 2}), " ") || loops.Flows[0].Packets != 400 {
		t.Errorf("%+v", loops.Flows)
	}
}
