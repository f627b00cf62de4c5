package tower

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

func flows(seed uint64, n int) map[uint64]int64 {
	r := rand.New(rand.NewPCG(seed, 't'))
	all := map[uint64]int64{}
	for range n {
		all[r.Uint64()] += 1 + int64(r.ExpFloat64()*r.ExpFloat64()*20)
	}
	return all
}

// fill adds each flow by packets of one, in a random order that does not matter for the bound.
func fill(r *Row, all map[uint64]int64) {
	for f, v := range all {
		for range v {
			r.Add(f, 1)
		}
	}
}

// TestNeverTooLow: of flows below and above what a byte holds, of merged copies, and of values larger than one.
func TestNeverTooLow(t *testing.T) {
	for seed := range uint64(50) {
		family := hash.Family(seed % 2)
		a, err := NewRowBytes(600, seed)
		if err != nil {
			t.Fatal(err)
		}
		a.Use(family)
		b := a.Clone()
		one, two := flows(seed, 150), flows(seed+1000, 150)
		one[1], two[1], one[2] = 200, 100, 5000
		fill(a, one)
		fill(b, two)
		mean := 0.0
		for f, v := range one {
			if got := a.Estimate(f); got < v {
				t.Fatalf("seed %d: %d, the flow has %d", seed, got, v)
			} else {
				mean += float64(got-v) / float64(len(one))
			}
		}
		if mean > a.Error(1) {
			t.Errorf("seed %d: a mean error of %g, above %g", seed, mean, a.Error(1))
		}
		if err := a.Merge(b); err != nil {
			t.Fatal(err)
		}
		for f := range one {
			if got := a.Estimate(f); got < one[f]+two[f] {
				t.Fatalf("seed %d: merged %d, the flow has %d", seed, got, one[f]+two[f])
			}
		}
		if !a.Holds() {
			t.Error("its counters do not hold its total")
		}
	}
}

// TestBatch: AddBatch is Add of each.
func TestBatch(t *testing.T) {
	a, _ := NewRowBytes(1000, 3)
	b := a.Clone()
	r := rand.New(rand.NewPCG(3, 3))
	for range 100 {
		h, v := make([]uint64, r.IntN(200)), make([]int64, 200)
		for i := range h {
			h[i], v[i] = r.Uint64N(500), r.Int64N(100)
			a.Add(h[i], v[i])
		}
		b.AddBatch(h, v)
	}
	if !reflect.DeepEqual(a, b) {
		t.Error("the rows differ")
	}
	h, v := make([]uint64, 64), make([]int64, 64)
	if n := testing.AllocsPerRun(100, func() { a.AddBatch(h, v) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func TestBinary(t *testing.T) {
	a, _ := NewRowBytes(200, 3)
	fill(a, flows(1, 100))
	b, _ := a.AppendBinary(nil)
	var got Row
	if err := got.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(&got, a) {
		t.Fatalf("%v", err)
	}
	for i := range b {
		if err := new(Row).UnmarshalBinary(b[:i]); err == nil {
			t.Fatalf("%d of %d bytes are taken", i, len(b))
		}
	}
}

func FuzzRow(f *testing.F) {
	a, _ := NewRowBytes(64, 3)
	fill(a, flows(1, 10))
	b, _ := a.AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Row
		if r.UnmarshalBinary(b) == nil {
			r.Estimate(7)
			r.Holds()
		}
	})
}
