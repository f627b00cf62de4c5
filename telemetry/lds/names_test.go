package lds

import (
	"math/rand/v2"
	"testing"
)

// TestLostFlows: all flows that lost packets are named, with the exact number, among many that did not, through blocks, two workers and
// records; where more lost packets than there is room for, it says so. The flows are those of one seed: with
// others, or as many flows as there is room for, the list may be incomplete, and then says so.
func TestLostFlows(t *testing.T) {
	for _, lossy := range []int{0, 1, 150, 2000} {
		c := Config{Rows: 2, Columns: 300, Virtual: 1, IntervalNs: 1 << 30, Seed: 4, LostFlows: 200}
		from, other, to := newPoint(t, c), newPoint(t, c), newPoint(t, c)
		r := rand.New(rand.NewPCG(5, uint64(lossy)))
		hash := func(n FlowName) uint64 { return n.Addresses*3 ^ n.Ports }
		var block blockOf
		truth := map[FlowName]int64{}
		for i := range 4000 {
			name := FlowName{r.Uint64(), r.Uint64() & (1<<40 - 1)}
			flow, lost := hash(name), 0
			if i < lossy {
				lost = 1 + r.IntN(20)
				truth[name] = int64(lost)
			}
			for k := range 20 + r.IntN(30) {
				id := r.Uint64()
				p := from
				if id&1 != 0 {
					p = other
				}
				block.Name[block.put(p, flow, id, 5, 60, 1)] = name
				if k >= lost {
					to.Add(flow, id, 7, 60)
					to.Name(flow, name)
				}
			}
		}
		block.flush()
		if err := from.Merge(other); err != nil {
			t.Fatal(err)
		}
		sent, err := Decode(encode(t, from), 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(encode(t, to), 0)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Subtract(sent, got, AnyDelay())
		if err != nil {
			t.Fatal(err)
		}
		flows, complete, known := d.LostFlows(hash)
		if !known || complete != (lossy <= 200) {
			t.Fatalf("%d lost packets: known %v, complete %v", lossy, known, complete)
		}
		if complete && len(flows) != len(truth) {
			t.Errorf("%d flows named, %d lost packets", len(flows), len(truth))
		}
		for _, f := range flows {
			if complete && truth[f.Name] != f.Lost {
				t.Errorf("%+v lost %d, not %d", f.Name, f.Lost, truth[f.Name])
			}
		}
		from.Begin(1)
		if n := testing.AllocsPerRun(10, func() {
			for i := range uint64(64) {
				block.Name[block.put(from, 0, i, 1<<30, 60, 1)] = FlowName{i, i}
			}
			block.flush()
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
