package sink

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/plan"
)

// whole is room for all that there is.
var whole = Room{Flows: 1000, FlowValues: math.Inf(1)}

// TestCondenser: paths of flows that sent enough are certain and right, packets are counted, values by switch are those of the
// digests, and a change of path is seen.
func TestCondenser(t *testing.T) {
	p := plan.Default()
	c, err := NewCondenser(p, CondenserConfig{MaxFlows: 64, Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := NewReader(p)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(25, 7))
	const flows, packets = 30, 400
	changed := []uint64{9, 8, 7}
	var want [100]uint64 // readings by switch
	slice := func(path func(flow int) []uint64) []pint.Condensed {
		clear(want[:])
		for n := range flows * packets {
			flow := n % flows
			o := network(e, r, flow, path(flow), func(hop int) pint.Observed {
				return pint.Observed{pint.SwitchID: path(flow)[hop-1], pint.HopLatency: 1000 + path(flow)[hop-1], pint.EgressUtilisation: 30_000}
			})
			c.Add(&o, 0)
			if at, ok := reader.Read(1, &o); ok {
				want[path(flow)[at.Hop-1]]++
			}
		}
		return c.Take(whole)
	}
	check := func(all []pint.Condensed, path func(flow int) []uint64, moved int) {
		t.Helper()
		listed, total, read := 0, uint64(0), [100]uint64{}
		for part := range all {
			x := &all[part]
			listed += len(x.Flows)
			total += x.Packets
			if x.Listed() != x.Packets || x.Unlocated != 0 {
				t.Errorf("%d of %d packets are listed, %d readings of no switch", x.Listed(), x.Packets, x.Unlocated)
			}
			for i := range x.Flows {
				f := &x.Flows[i]
				flow := int(f.Flow.SrcPort)
				if f.Flow.Partition(4) != part || f.Packets != packets || !slices.Equal(x.PathOf(f), path(flow)) || (f.Changes > 0) != (flow == moved) {
					t.Errorf("flow %d: %+v by %v, not %v", flow, f, x.PathOf(f), path(flow))
				}
			}
			for _, v := range x.Values {
				for _, n := range v.Counts {
					read[v.Switch] += n.Count
				}
			}
		}
		if listed != flows || total != flows*packets {
			t.Errorf("%d flows of %d packets", listed, total)
		}
		for sw := range read {
			// Between a change and its notice readings are of the old path.
			if off := int64(read[sw]) - int64(want[sw]); moved < 0 && off != 0 || off > packets || off < -packets {
				t.Errorf("switch %d: %d readings of %d", sw, read[sw], want[sw])
			}
		}
	}
	check(slice(pathOf), pathOf, -1)
	check(slice(pathOf), pathOf, -1)
	other := func(flow int) []uint64 {
		if flow == 4 {
			return changed
		}
		return pathOf(flow)
	}
	check(slice(other), other, 4)
	if all := c.Take(whole); slices.ContainsFunc(all, func(x pint.Condensed) bool { return x.Packets != 0 || len(x.Values) != 0 }) {
		t.Errorf("a slice without digests has %+v", all)
	}
	for _, flow := range []int{3, 4, 3} {
		o := network(e, r, flow, pathOf(flow), func(int) pint.Observed { return pint.Observed{} })
		c.Add(&o, 0)
	}
	var listed []pint.CondensedFlow
	for _, x := range c.Take(Room{Flows: 1}) {
		listed = append(listed, x.Flows...)
	}
	if len(listed) != 1 || listed[0].Flow != flowKey(3) || listed[0].Packets != 2 {
		t.Errorf("listed are %+v, where the largest of two flows has room", listed)
	}
}

// TestCondenserOfSingleFlows: what queries read of a flow is counted by hop, all of it, slice by slice; of one whose path changed, or that had few
// packets, there are no counts; and they take the room that they were given, the largest flows first.
func TestCondenserOfSingleFlows(t *testing.T) {
	p := plan.Default()
	c, err := NewCondenser(p, CondenserConfig{MaxFlows: 64, Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := NewReader(p)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(25, 11))
	const flows, few, moved = 20, 3, 5
	// In the first slices there is room for all. In the third, for all if four codes are counted together, and in the last for some.
	steps := []uint8{0, 0, mostStep, mostStep}
	for slice := range steps {
		want := [flows][8]map[uint8]uint64{}
		room := whole
		if slice == 3 {
			room.FlowValues = 200
		}
		send := func(flow int, path []uint64) {
			o := network(e, r, flow, path, func(hop int) pint.Observed {
				return pint.Observed{pint.SwitchID: path[hop-1], pint.HopLatency: 1000 + r.Uint64N(500), pint.EgressUtilisation: 30_000}
			})
			c.Add(&o, 0)
			if at, ok := reader.Read(1, &o); ok {
				if want[flow][at.Hop] == nil {
					want[flow][at.Hop] = map[uint8]uint64{}
				}
				want[flow][at.Hop][uint8(at.Digest)]++
			}
		}
		for flow := range flows {
			for i := range 300 + 10*flow {
				path := pathOf(flow)
				if flow == moved && slice == 1 && i > 150 {
					path = []uint64{9, 8, 7}
				}
				if flow != few || i < 10 {
					send(flow, path)
				}
			}
		}
		needs := c.Needs()
		if slice == 2 {
			room.FlowValues = needs.FlowValues
		}
		bytes, smallest := 0.0, uint64(math.MaxUint64)
		var left []uint64
		for _, x := range c.Take(room) {
			for i := range x.Flows {
				f := &x.Flows[i]
				flow := int(f.Flow.SrcPort)
				if f.Values == nil {
					if flow == few || (slice == 1 || slice == 2) && flow == moved { // it moves back
						continue
					}
					if slice != 3 {
						t.Errorf("slice %d: flow %d of %d packets has no values", slice, flow, f.Packets)
					}
					left = append(left, f.Packets)
					continue
				}
				if flow == few || (slice == 1 || slice == 2) && flow == moved {
					t.Errorf("slice %d: flow %d has values", slice, flow)
				}
				bytes, smallest = bytes+FlowValuesBytes(f.Values), min(smallest, f.Packets)
				for _, v := range f.ValuesOf(1) {
					got, joined := map[uint8]uint64{}, map[uint8]uint64{}
					for _, n := range v.Counts {
						got[n.Code] = n.Count
					}
					for code, n := range want[flow][v.Hop] {
						joined[code&^(1<<x.Step-1)] += n
					}
					if !maps.Equal(got, joined) || x.Step != steps[slice] {
						t.Errorf("slice %d: flow %d has %v of 2^%d codes at hop %d, not %v", slice, flow, got, x.Step, v.Hop, joined)
					}
				}
				if n := len(f.ValuesOf(1)); n != len(x.PathOf(f)) {
					t.Errorf("slice %d: flow %d has values at %d hops of %d", slice, flow, n, len(x.PathOf(f)))
				}
			}
		}
		if slice == 3 {
			if bytes > 200 || bytes == 0 || len(left) == 0 || slices.Max(left) > smallest {
				t.Errorf("values of %.0f bytes in room for 200: the smallest flow with values has %d packets, %d have none", bytes, smallest, len(left))
			}
		} else if bytes < 0.999*needs.FlowValues || slice == 2 && bytes > 1.001*needs.FlowValues {
			t.Errorf("slice %d: values take %.0f bytes, and %.0f were asked for", slice, bytes, needs.FlowValues)
		}
	}
	if c.blocks != len(c.free) {
		t.Errorf("of %d counts %d are free between slices", c.blocks, len(c.free))
	}
}

// TestCondenserCountsAreBounded: there are maxBlocks counts of single flows, and all are free again when a slice ends, those of evicted flows too.
func TestCondenserCountsAreBounded(t *testing.T) {
	p := plan.Default()
	c, err := NewCondenser(p, CondenserConfig{MaxFlows: maxBlocks, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(25, 12))
	for slice, flows := range []int{maxBlocks + 500, 300} {
		for n := range flows {
			for range fewReadings * 3 / 2 { // from edge to edge: the path is known, and random digests deny it now and then
				c.Add(&pint.Record{Flow: flowKey(n), ID: r.Uint64(), Digest: r.Uint64N(1 << 16), Plan: p.ID, Hops: 1}, 1)
			}
			if c.blocks > maxBlocks {
				t.Fatalf("%d counts", c.blocks)
			}
		}
		with := 0
		for _, f := range c.Take(Room{Flows: math.MaxInt, FlowValues: math.Inf(1)})[0].Flows {
			if f.Values != nil {
				with++
			}
		}
		if want := min(flows, maxBlocks/2) / 2; with < want || with > min(flows, maxBlocks) || c.blocks != len(c.free) {
			t.Errorf("slice %d: of %d flows %d have values; of %d counts %d are free", slice, flows, with, c.blocks, len(c.free))
		}
	}
}

// TestCondenserIsBounded: of more flows than there is room for some are forgotten, and none of their packets.
func TestCondenserIsBounded(t *testing.T) {
	p := plan.Default()
	c, err := NewCondenser(p, CondenserConfig{MaxFlows: 50, Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(25, 8))
	for n := range 2000 {
		c.Add(&pint.Record{Flow: flowKey(n % 400), ID: r.Uint64(), Digest: r.Uint64N(1 << 16), Plan: p.ID, Hops: 5}, 0)
	}
	packets, listed := uint64(0), uint64(0)
	for _, x := range c.Take(whole) {
		packets, listed = packets+x.Packets, listed+x.Listed()
		if len(x.Flows) > 50 {
			t.Errorf("%d flows", len(x.Flows))
		}
	}
	if packets != 2000 || listed >= packets || c.Evicted() < 350 {
		t.Errorf("%d packets, %d of flows that are listed; %d flows evicted", packets, listed, c.Evicted())
	}
}

// BenchmarkCondenser states ns per digest, of flows whose paths are certain.
func BenchmarkCondenser(b *testing.B) {
	p := plan.Default()
	c, err := NewCondenser(p, CondenserConfig{MaxFlows: 1 << 15, Partitions: 16})
	if err != nil {
		b.Fatal(err)
	}
	e, err := p.Compile()
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(25, 9))
	records := make([]pint.Record, 1<<18)
	for i := range records {
		flow := r.IntN(1000)
		records[i] = network(e, r, flow, pathOf(flow), func(hop int) pint.Observed {
			return pint.Observed{pint.SwitchID: pathOf(flow)[hop-1], pint.HopLatency: 1000}
		})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Add(&records[i&(len(records)-1)], 0)
	}
}

// TestCondenserOfParallelPaths: where a plan has a checksum, a flow that takes two paths at once has none in a slice, and all its packets
// are counted; once it keeps to one, it has that.
func TestCondenserOfParallelPaths(t *testing.T) {
	path := plan.Default().Queries[0]
	p, err := plan.New(plan.Config{ID: 2, Seed: 2, Bits: path.Bits + 16, Queries: []pint.Query{path, {Name: "checksum", Aggregation: pint.Checksum, Bits: 16, Frequency: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCondenser(p, CondenserConfig{MaxFlows: 64, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(25, 10))
	ways := [][]uint64{{1, 2, 3}, {1, 4, 3}}
	for slice, choose := range []func(i int) int{func(int) int { return 0 }, func(i int) int { return i % 2 }, func(i int) int { return i % 2 }, func(int) int { return 1 }} {
		for i := range 300 {
			way := ways[choose(i)]
			o := network(e, r, 1, way, func(hop int) pint.Observed { return pint.Observed{pint.SwitchID: way[hop-1]} })
			c.Add(&o, 0)
		}
		x := c.Take(whole)[0]
		got, want := x.PathOf(&x.Flows[0]), map[int][]uint64{0: ways[0], 3: ways[1]}[slice]
		if !slices.Equal(got, want) || x.Flows[0].Packets != 300 {
			t.Errorf("slice %d: %d packets by %v, not %v", slice, x.Flows[0].Packets, got, want)
		}
	}
}
