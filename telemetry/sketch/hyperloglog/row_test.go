package hyperloglog

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// rowOf is a row that nothing was added to yet.
func rowOf(t testing.TB, bytes int, seed uint64) *Row {
	r, err := NewRowBytes(bytes, seed)
	if err != nil {
		t.Fatal(err)
	}
	r.Use(hash.Family(seed % 2))
	return r
}

// TestFlows: from none to many more than registers, the mean relative error over 200 rows is none, and its root mean square is StdErr:
// six standard deviations of either, and a tenth of StdErr for what the formula leaves out. So with the row's own hash, and where
// flows are hashes of 32 bits already, by each family, of keys that differ in a few bits as neighbours' do.
func TestFlows(t *testing.T) {
	for name, add := range map[string]func(x *Row, seed, flow uint64){
		"hashed": func(x *Row, _, f uint64) { x.Add(hash.Uint64(1, f), 1) },
		"xxhash": func(x *Row, seed, f uint64) { x.AddUniform([]uint64{uint64(uint32(hash.XX.Uint64x2(seed, f, 6)))}) },
		"crc":    func(x *Row, seed, f uint64) { x.AddUniform([]uint64{uint64(uint32(hash.CRC.Uint64x2(seed, f, 6)))}) },
		"aes":    func(x *Row, seed, f uint64) { x.AddUniform([]uint64{uint64(uint32(hash.AES.Uint64x2(seed, f, 6)))}) },
	} {
		t.Run(name, func(t *testing.T) { testFlows(t, add) })
	}
}

func testFlows(t *testing.T, add func(x *Row, seed, flow uint64)) {
	const rows = 200
	for _, flows := range []int{0, 1, 10, 100, 700, 3000, 20_000} {
		r := rand.New(rand.NewPCG(1, uint64(flows)))
		sum, squares, stderr := 0.0, 0.0, 0.0
		for seed := range uint64(rows) {
			x := rowOf(t, 300, seed) // 256 registers
			first := r.Uint64()
			for f := range uint64(flows) {
				add(x, seed, first+f)
				add(x, seed, first+f) // once more is no other flow
			}
			if x.Total() != uint64(2*flows) || !x.Holds() {
				t.Fatalf("total %d, held: %v", x.Total(), x.Holds())
			}
			stderr = x.StdErr()
			off := (x.Flows() - float64(flows)) / max(float64(flows), 1)
			sum, squares = sum+off/rows, squares+off*off/rows
		}
		if flows == 0 && sum != 0 {
			t.Errorf("no flows: %g", sum)
		}
		rms := math.Sqrt(squares)
		if math.Abs(sum) > 6*stderr/math.Sqrt(rows) || rms > stderr*(1.1+6/math.Sqrt(2*rows)) {
			t.Errorf("%d flows: mean error %.4f, rms %.4f; the standard error is %.4f", flows, sum, rms, stderr)
		}
	}
}

// TestUnion: rows of any sizes join to exactly the smaller row of all flows.
func TestUnion(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for seed := range uint64(20) {
		a, b := rowOf(t, 16<<r.IntN(8), seed), rowOf(t, 16<<r.IntN(8), seed)
		all := rowOf(t, min(a.Bytes(), b.Bytes()), seed)
		for range r.IntN(3000) {
			f := r.Uint64()
			[]*Row{a, b}[r.IntN(2)].Add(f, 1)
			all.Add(f, 1)
		}
		got, err := a.Union(b)
		if err != nil || !reflect.DeepEqual(got, all) {
			t.Fatalf("%d and %d registers: %v, %.1f flows, want %.1f", a.Bytes(), b.Bytes(), err, got.Flows(), all.Flows())
		}
	}
	a, b := rowOf(t, 64, 2), rowOf(t, 64, 4)
	if _, err := a.Union(b); err == nil || a.Merge(b) == nil {
		t.Error("rows of two seeds join")
	}
	if a.Merge(rowOf(t, 128, 2)) == nil {
		t.Error("copies of two sizes merge")
	}
}

// TestBatch: AddBatch is Add of each, and allocates nothing; copies merge to what one row would hold.
func TestBatch(t *testing.T) {
	a, b, c := rowOf(t, 1024, 3), rowOf(t, 1024, 3), rowOf(t, 1024, 3)
	r := rand.New(rand.NewPCG(3, 3))
	for i := range 100 {
		h, v := make([]uint64, r.IntN(200)), make([]int64, 200)
		for j := range h {
			h[j], v[j] = r.Uint64(), r.Int64N(100)
			a.Add(h[j], v[j])
		}
		[]*Row{b, c}[i%2].AddBatch(h, v)
	}
	if err := b.Merge(c); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("the rows differ: %v", err)
	}
	h, v := make([]uint64, 64), make([]int64, 64)
	if n := testing.AllocsPerRun(100, func() { a.AddBatch(h, v) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
	seed := a.Seed()
	if a.Reset(99); a.Seed() != seed || a.Flows() != 0 {
		t.Error("an empty row has another seed, or flows")
	}
}

func TestBinary(t *testing.T) {
	a := rowOf(t, 64, 4)
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
	b[len(b)-1] = 60 // 6 bits choose the register, 58 are left
	if _, err := Decode(b); err == nil {
		t.Error("a rank beyond the hash's bits is taken")
	}
}

func FuzzRow(f *testing.F) {
	a := rowOf(f, 16, 2)
	a.Add(3, 1000)
	b, _ := a.AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := Decode(b); err == nil {
			r.Flows()
			r.Holds()
			if _, err := r.Union(rowOf(t, 32, r.seed)); err != nil && r.seed%2 == 0 {
				t.Error(err)
			}
		}
	})
}
