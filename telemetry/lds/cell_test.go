package lds

import (
	"math/rand/v2"
	"testing"
)

// TestSpill: cells that outgrow the packed form are exact, by one packet at a time, in blocks and merged; a cell for which a
// point has no room is refused, and no other one.
func TestSpill(t *testing.T) {
	c := Config{Rows: 2, Columns: 4000, Virtual: 1, IntervalNs: 1 << 30, Seed: 2}
	a, b := newPoint(t, c), newPoint(t, c)
	twin := make([]Cell, len(a.cells))
	r := rand.New(rand.NewPCG(3, 3))
	var block blockOf
	add := func(flow uint64, weight uint32) {
		id, at := r.Uint64(), r.Int64N(c.IntervalNs)
		for _, i := range cellsOf(a, flow, id) {
			twin[i].merge(&Cell{Sum: at * int64(weight), Count: uint64(weight), Digest: uint32(a.group.family.Uint64(a.group.packet, id)), Bytes: 1500})
		}
		a.AddWeighted(flow, id, at, 1500, weight)
		block.put(b, flow, id, at, 1500, weight)
	}
	for range 3000 {
		add(r.Uint64N(20), 1+r.Uint32N(3000))
	}
	for range 300 {
		add(1000+r.Uint64N(400), 1)
	}
	block.flush()
	if a.spill.used == 0 || a.spill.used != b.spill.used || a.Overfull() != 0 {
		t.Fatalf("%d and %d cells were moved, %d had no room", a.spill.used, b.spill.used, a.Overfull())
	}
	for i, want := range twin {
		if a.at(i) != want || b.at(i) != want {
			t.Fatalf("cell %d is %+v, in blocks %+v, want %+v", i, a.at(i), b.at(i), want)
		}
	}
	if err := a.Merge(b); err != nil {
		t.Fatal(err)
	}
	for i, want := range twin {
		half := want
		if want.merge(&half); a.at(i) != want {
			t.Fatalf("cell %d is merged to %+v, want %+v", i, a.at(i), want)
		}
	}
	// Each of these flows fills its cells, and there are more of them than the spill has entries.
	for flow := range uint64(1000) {
		a.AddWeighted(flow, flow, 5, 60, countLimit)
		b.AddWeighted(flow, flow, 9, 60, countLimit)
	}
	if a.Overfull() == 0 {
		t.Fatal("no cell is overfull")
	}
	a, b = newPoint(t, c), newPoint(t, c)
	for flow := range uint64(1000) {
		a.AddWeighted(flow, flow, 5, 60, countLimit)
		b.AddWeighted(flow, flow, 9, 60, countLimit)
	}
	a, err := Decode(encode(t, a), 0)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Subtract(a, b, AnyDelay())
	if err != nil {
		t.Fatal(err)
	}
	if d.Cells(Overfull) == 0 || d.Cells(Overfull) != a.Overfull() {
		t.Errorf("%d cells refused as overfull, %d are", d.Cells(Overfull), a.Overfull())
	}
	if mean, ok := d.MeanNs(); !ok || mean != 4 {
		t.Errorf("a mean of %g, want 4", mean)
	}
	a.Begin(4)
	if a.Overfull() != 0 || a.spill.used != 0 || a.at(3) != (Cell{}) {
		t.Error("an interval begins with what was before")
	}
}

// TestSpillOfLongIntervals: where an interval is so long that any cell may outgrow the packed form, all have room.
func TestSpillOfLongIntervals(t *testing.T) {
	p := newPoint(t, Config{Rows: 2, Columns: 4000, Virtual: 1, IntervalNs: 287e9, Seed: 2})
	for flow := range uint64(40_000) {
		p.AddWeighted(flow, flow, 5, 60, countLimit)
	}
	if p.spill.used < 7900 || p.Overfull() != 0 {
		t.Errorf("%d of 8000 cells were moved, %d had no room", p.spill.used, p.Overfull())
	}
}

// TestBlockOfColumns: points of different columns mix in a block.
func TestBlockOfColumns(t *testing.T) {
	defer func(w bool) { wide = w }(wide)
	for _, w := range []bool{wide, false} {
		wide = w
		for _, c := range shapes()[1:] {
			r := rand.New(rand.NewPCG(5, c.Seed))
			var configs []Config
			for _, columns := range []int{max(c.Virtual, 9), c.Columns, max(c.Virtual, 1000)} {
				configs = append(configs, c)
				configs[len(configs)-1].Columns = columns
			}
			together, err := NewPointsOf(configs)
			if err != nil {
				t.Fatal(err)
			}
			var single []*Point
			for _, c := range configs {
				single = append(single, newPoint(t, c))
			}
			var b blockOf
			for range 2000 {
				i, flow, id, at, bytes, times := r.IntN(len(configs)), r.Uint64N(20), r.Uint64(), r.Int64N(c.IntervalNs), length(r), weight(r)
				single[i].AddWeighted(flow, id, at, bytes, times)
				b.put(together[i], flow, id, at, bytes, times)
			}
			b.flush()
			for i, p := range together {
				for j := range p.cells {
					if p.at(j) != single[i].at(j) {
						t.Fatalf("%+v: cell %d is %+v, want %+v", p.config, j, p.at(j), single[i].at(j))
					}
				}
			}
		}
	}
	c := shapes()[1]
	other := c
	other.Seed++
	if _, err := NewPointsOf([]Config{c, other}); err == nil {
		t.Error("points of different seeds are made together")
	}
}
