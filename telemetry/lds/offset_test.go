package lds

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestOffset: two clocks that differ, delays that differ per packet, and equal
// smallest delays of both directions: the offset is found, and lies within its
// bounds even where the directions are unequal.
func TestOffset(t *testing.T) {
	c := Config{Rows: 2, Columns: 400, Virtual: 2, IntervalNs: 1e9, Seed: 31}
	for _, x := range []struct {
		name            string
		offset          int64 // of the clock at the other end
		forward, back   int64 // smallest delays
		differ, drowned bool
	}{
		{"equal clocks", 0, 50_000, 50_000, false, false},
		{"far apart", 3_000_000, 50_000, 50_000, true, true},
		{"far apart the other way", -3_000_000, 50_000, 50_000, true, true},
		{"nearly equal", 2_000, 50_000, 50_000, false, false},
		{"a way that takes longer", 0, 5_000_000, 50_000, false, true}, // nobody can tell
	} {
		r := rand.New(rand.NewPCG(31, 31))
		measure := func(least, offset int64) *Difference {
			a, b := newPoint(t, c), newPoint(t, c)
			for range 2000 {
				flow, id, at := r.Uint64N(500), r.Uint64(), r.Int64N(c.IntervalNs/2)
				a.Add(flow, id, at, 60)
				b.Add(flow, id, at+offset+least+r.Int64N(1+least/100), 60)
			}
			return subtract(t, a, b)
		}
		forth, back := measure(x.forward, x.offset), measure(x.back, -x.offset)
		f, ok1 := forth.LeastNs()
		b, ok2 := back.LeastNs()
		if !ok1 || !ok2 {
			t.Fatal("no cell survived without a fault")
		}
		o, truth := OffsetBetween(f, b, true), float64(x.offset)
		if o.Moved || !o.HasValue || o.Low > truth || o.High < truth {
			t.Errorf("%s: %+v does not hold %g", x.name, o, truth)
		}
		if x.forward == x.back && math.Abs(o.Value-truth) > 0.01*float64(x.forward) {
			t.Errorf("%s: %+v, want %g", x.name, o, truth)
		}
		by, differ := o.Differ()
		mean, _ := forth.MeanNs()
		if differ != x.differ || o.Drowns(mean) != x.drowned || by > math.Abs(truth) {
			t.Errorf("%s: differ %t by %g, drowns %t: %+v", x.name, differ, by, o.Drowns(mean), o)
		}
	}
}

func TestOffsetOfOneWay(t *testing.T) {
	o := OffsetBetween(500, 0, false)
	if by, known := o.Differ(); known || by != 0 || o.HasValue || o.Drowns(100) {
		t.Errorf("%+v", o)
	}
	o = OffsetBetween(-500, 0, false)
	if by, known := o.Differ(); !known || by != 500 || !o.Drowns(-300) {
		t.Errorf("packets that arrive before they leave: %+v", o)
	}
	if o = OffsetBetween(100, -300, true); !o.Moved || !o.Drowns(1e9) {
		t.Errorf("delays that no offset fits: %+v", o)
	}
	a := newPoint(t, shapes()[1])
	if _, ok := subtract(t, a, a.Clone()).LeastNs(); ok {
		t.Error("a least delay of no packet")
	}
}
