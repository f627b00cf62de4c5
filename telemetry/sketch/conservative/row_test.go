package conservative

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

func newRow(t testing.TB, bytes int, onePass bool, seed uint64) *Row {
	r, err := NewRowBytes(bytes, onePass, seed)
	if err != nil {
		t.Fatal(err)
	}
	r.Use(hash.Family(seed % 2))
	return r
}

// packets are flows at random, of sizes with a heavy tail, one packet after another.
func packets(seed uint64, n int) (flows []uint64, exact map[uint64]int64) {
	r := rand.New(rand.NewPCG(seed, 'c'))
	exact = map[uint64]int64{}
	for range n {
		f := uint64(200 * r.Float64() * r.Float64() * r.Float64())
		flows, exact[f] = append(flows, f), exact[f]+1
	}
	return flows, exact
}

// TestNeverTooLow: nor above what an update of all counters says, of single rows and of merged copies; and conservative update is the
// better one in the mean over the seeds.
func TestNeverTooLow(t *testing.T) {
	var excess [2]int64
	for seed := range uint64(50) {
		one, exactOne := packets(seed, 2000)
		two, exactTwo := packets(seed+1000, 500)
		for i, onePass := range []bool{false, true} {
			a, b := newRow(t, 600, onePass, seed), newRow(t, 600, onePass, seed)
			plain := newRow(t, 600, onePass, seed)
			for _, f := range one {
				a.Add(f, 1)
				first, second := plain.at(plain.family.Uint64(plain.seed, f))
				*first++
				*second++
			}
			for _, f := range two {
				b.Add(f, 1)
			}
			for f, v := range exactOne {
				got := a.Estimate(f)
				if got < v || got > plain.Estimate(f) {
					t.Fatalf("one pass %v, seed %d: %d, the flow has %d, Count-Min of two rows says %d", onePass, seed, got, v, plain.Estimate(f))
				}
				excess[i] += got - v
			}
			if a.Total() != uint64(len(one)) || !a.Holds() {
				t.Errorf("one pass %v: %d of %d, held: %v", onePass, a.Total(), len(one), a.Holds())
			}
			if err := a.Merge(b); err != nil {
				t.Fatal(err)
			}
			for f := range exactOne {
				if got := a.Estimate(f); got < exactOne[f]+exactTwo[f] {
					t.Fatalf("one pass %v, seed %d: merged %d, the flow has %d", onePass, seed, got, exactOne[f]+exactTwo[f])
				}
			}
		}
	}
	if excess[0] == 0 || excess[0] >= excess[1] {
		t.Errorf("in all %d too much by conservative update, %d by SuMax", excess[0], excess[1])
	}
}

// TestFull: full counters stay so, and are counted.
func TestFull(t *testing.T) {
	for _, onePass := range []bool{false, true} {
		r := newRow(t, LeastBytes, onePass, 1)
		for range 3 {
			r.Add(7, 1<<31)
		}
		if r.Estimate(7) != 1<<32-1 || r.Saturated() != 2 || r.Total() != 3<<31 {
			t.Errorf("one pass %v: %d, %d full, total %d", onePass, r.Estimate(7), r.Saturated(), r.Total())
		}
	}
}

// TestBatch: AddBatch is Add of each, and allocates nothing.
func TestBatch(t *testing.T) {
	for _, onePass := range []bool{false, true} {
		a, b := newRow(t, 1000, onePass, 3), newRow(t, 1000, onePass, 3)
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
}

func TestMergeRefuses(t *testing.T) {
	a := newRow(t, 80, false, 2)
	for name, b := range map[string]*Row{"width": newRow(t, 160, false, 2), "seed": newRow(t, 80, false, 4), "family": newRow(t, 80, false, 2), "update": newRow(t, 80, true, 2)} {
		if name == "family" {
			b.Use(1 - a.family)
		}
		if a.Merge(b) == nil {
			t.Errorf("a row of another %s merges", name)
		}
	}
}

func TestBinary(t *testing.T) {
	for _, onePass := range []bool{false, true} {
		a := newRow(t, 200, onePass, 4)
		flows, _ := packets(1, 1000)
		for _, f := range flows {
			a.Add(f, 1)
		}
		b, _ := a.AppendBinary(nil)
		if got, err := Decode(b, onePass); err != nil || !reflect.DeepEqual(got, a) {
			t.Fatalf("%v", err)
		}
		if _, err := Decode(b, !onePass); err == nil {
			t.Error("a row of the other update is taken")
		}
		for i := range b {
			if _, err := Decode(b[:i], onePass); err == nil {
				t.Fatalf("%d of %d bytes are taken", i, len(b))
			}
		}
	}
}

func FuzzRow(f *testing.F) {
	for _, onePass := range []bool{false, true} {
		a := newRow(f, 64, onePass, 2)
		a.Add(3, 1000)
		b, _ := a.AppendBinary(nil)
		f.Add(b, onePass)
	}
	f.Fuzz(func(t *testing.T, b []byte, onePass bool) {
		if r, err := Decode(b, onePass); err == nil {
			r.Estimate(7)
			r.Holds()
			r.Cells(0)
		}
	})
}

func BenchmarkAddBatch(b *testing.B) {
	for _, onePass := range []bool{false, true} {
		b.Run(fmt.Sprintf("onepass=%v", onePass), func(b *testing.B) {
			r := newRow(b, 128<<10, onePass, 2)
			h, v := make([]uint64, 64), make([]int64, 64)
			b.ReportAllocs()
			for b.Loop() {
				for i := range h {
					h[i] = h[i]*0x9e3779b97f4a7c15 + uint64(i)
				}
				r.AddBatch(h, v)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/packet")
		})
	}
}
