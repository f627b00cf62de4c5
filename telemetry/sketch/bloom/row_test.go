package bloom

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

func newRow(t testing.TB, bytes int, seed uint64) *Row {
	r, err := NewRowBytes(bytes, seed)
	if err != nil {
		t.Fatal(err)
	}
	r.Use(hash.Family(seed % 2))
	return r
}

// TestNeverMisses a flow, and false positives are as frequent as Error says: over 20 rows of 10,000 questions each, six standard
// deviations of the answers and some of what hashes that share a step add.
func TestNeverMisses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 'b'))
	yes, want, asked := 0.0, 0.0, 0.0
	for seed := range uint64(20) {
		a, b := newRow(t, 1200, seed), newRow(t, 1200, seed)
		var flows []uint64
		for i := range 1600 { // six bits each
			f := r.Uint64()
			flows = append(flows, f)
			[]*Row{a, b}[i%2].Add(f, 1)
		}
		if err := a.Merge(b); err != nil {
			t.Fatal(err)
		}
		if a.Total() != 1600 || !a.Holds() {
			t.Errorf("total %d, held: %v", a.Total(), a.Holds())
		}
		for _, f := range flows {
			if a.Estimate(f) != 1 {
				t.Fatalf("seed %d: flow %#x was there", seed, f)
			}
		}
		for range 10_000 {
			yes += float64(a.Estimate(r.Uint64()))
			asked++
		}
		want += 10_000 * a.Error(0)
	}
	if off := math.Abs(yes - want); off > 6*math.Sqrt(want)+0.02*want {
		t.Errorf("%g of %g are false positives, want %g", yes, asked, want)
	}
}

// TestBatch: AddBatch is Add of each, and allocates nothing.
func TestBatch(t *testing.T) {
	a, b := newRow(t, 1000, 3), newRow(t, 1000, 3)
	r := rand.New(rand.NewPCG(3, 3))
	for range 20 {
		h, v := make([]uint64, r.IntN(200)), make([]int64, 200)
		for i := range h {
			h[i], v[i] = r.Uint64(), r.Int64N(100)
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

func TestMergeRefuses(t *testing.T) {
	a := newRow(t, 80, 2)
	for name, b := range map[string]*Row{"width": newRow(t, 160, 2), "seed": newRow(t, 80, 4), "family": newRow(t, 80, 2)} {
		if name == "family" {
			b.Use(1 - a.family)
		}
		if a.Merge(b) == nil {
			t.Errorf("a row of another %s merges", name)
		}
	}
}

func TestBinary(t *testing.T) {
	a := newRow(t, 100, 4)
	for f := range uint64(50) {
		a.Add(f, 1)
	}
	b, _ := a.AppendBinary(nil)
	if got, err := Decode(b); err != nil || !reflect.DeepEqual(got, a) {
		t.Fatalf("%v", err)
	}
	for i := range b {
		if _, err := Decode(b[:i]); err == nil {
			t.Fatalf("%d of %d bytes are taken", i, len(b))
		}
	}
	a.total = 0
	if a.Holds() {
		t.Error("bits without an addition are held")
	}
}

func FuzzRow(f *testing.F) {
	a := newRow(f, 16, 2)
	a.Add(3, 1000)
	b, _ := a.AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := Decode(b); err == nil {
			r.Estimate(7)
			r.Holds()
		}
	})
}
