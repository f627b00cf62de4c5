package hash

import (
	"encoding/binary"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// reference is XXH64 by the library, the other way around: seeded digest,
// written in pieces.
func reference(seed uint64, words ...uint64) uint64 {
	d := xxhash.NewWithSeed(seed)
	for _, w := range words {
		d.Write(binary.LittleEndian.AppendUint64(nil, w))
	}
	return d.Sum64()
}

// TestPublishedValues pins the family to values that other implementations of
// XXH64 state.
func TestInvert64(t *testing.T) {
	seed, a := uint64(0), uint64(1)
	for range 1000 {
		seed, a = Uint64(seed, 1), Uint64(a, 2)
		if b := Invert64(seed, Uint64(seed, a)); b != a {
			t.Fatalf("the hash of %x under %x is that of %x", a, seed, b)
		}
	}
}

func TestPublishedValues(t *testing.T) {
	for _, c := range []struct {
		seed uint64
		in   string
		want uint64
	}{
		{0, "", 0xef46db3751d8e999},
		{0, "a", 0xd24ec4f1a98c6e5b},
		{0, "abc", 0x44bc2cf5ad770999},
	} {
		if got := Bytes(c.seed, []byte(c.in)); got != c.want {
			t.Errorf("Bytes(%d, %q) = %016x, want %016x", c.seed, c.in, got, c.want)
		}
	}
}

func TestEqualToXXH64(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	edge := []uint64{0, 1, 1 << 63, ^uint64(0), prime1, prime2, prime5}
	word := func() uint64 {
		if r.IntN(4) == 0 {
			return edge[r.IntN(len(edge))]
		}
		return r.Uint64()
	}
	for range 20000 {
		seed := word()
		var w [8]uint64
		for i := range w {
			w[i] = word()
		}
		for _, c := range []struct {
			words     int
			got, want uint64
		}{
			{1, Uint64(seed, w[0]), reference(seed, w[:1]...)},
			{2, Uint64x2(seed, w[0], w[1]), reference(seed, w[:2]...)},
			{4, Uint64x4(seed, w[0], w[1], w[2], w[3]), reference(seed, w[:4]...)},
			{5, Uint64x5(seed, w[0], w[1], w[2], w[3], w[4]), reference(seed, w[:5]...)},
			{8, Uint64x8(seed, &w), reference(seed, w[:]...)},
		} {
			if c.got != c.want {
				t.Fatalf("seed %x, first %d of %x: %016x, want %016x", seed, c.words, w, c.got, c.want)
			}
		}
	}
}

func TestBytesOfAllLengths(t *testing.T) {
	b := make([]byte, 200)
	for i := range b {
		b[i] = byte(i * 37)
	}
	for n := range b {
		d := xxhash.NewWithSeed(42)
		for i := range n {
			d.Write(b[i : i+1])
		}
		if got, want := Bytes(42, b[:n]), d.Sum64(); got != want {
			t.Errorf("%d bytes: %016x, want %016x", n, got, want)
		}
		if Bytes(0, b[:n]) != xxhash.Sum64(b[:n]) {
			t.Errorf("%d bytes under seed 0 differ from XXH64 without a seed", n)
		}
	}
}

func TestReduce(t *testing.T) {
	for _, c := range []struct{ hash, n, want uint64 }{
		{0, 10, 0}, {^uint64(0), 10, 9}, {1 << 63, 10, 5}, {1 << 60, 16, 1}, {^uint64(0), 1, 0},
	} {
		if got := Reduce(c.hash, c.n); got != c.want {
			t.Errorf("Reduce(%x, %d) = %d, want %d", c.hash, c.n, got, c.want)
		}
	}
}

var sink uint64

func TestAllocatesNothing(t *testing.T) {
	b, w := make([]byte, 100), [8]uint64{1, 2, 3}
	if n := testing.AllocsPerRun(100, func() {
		sink += Bytes(1, b[:7]) + Bytes(2, b) + Uint64(3, 4) + Uint64x2(5, 6, 7)
		sink += Uint64x4(1, 2, 3, 4, 5) + Uint64x5(1, 2, 3, 4, 5, 6) + Uint64x8(1, &w)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// TestInlined fails if the one-word and two-word hashes, which stages call per
// packet, stop being inlined.
func TestInlined(t *testing.T) {
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Skipf("no compiler here: %v", err)
	}
	for _, f := range []string{"Uint64", "Uint64x2", "Reduce", "round", "tail", "finish"} {
		if !strings.Contains(string(out), "can inline "+f+"\n") {
			t.Errorf("%s is no longer inlined", f)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	buf, w := make([]byte, 64), [8]uint64{1, 2, 3, 4, 5, 6, 7, 8}
	// Independent inputs: what counts is the throughput over a batch, not the
	// latency of one hash.
	for _, c := range []struct {
		name string
		f    func(i uint64) uint64
	}{
		{"Uint64", func(i uint64) uint64 { return Uint64(1, i) }},
		{"Uint64x2", func(i uint64) uint64 { return Uint64x2(1, i, 2) }},
		{"Uint64x4", func(i uint64) uint64 { return Uint64x4(1, i, 2, 3, 4) }},
		{"Uint64x5", func(i uint64) uint64 { return Uint64x5(1, i, 2, 3, 4, 5) }},
		{"Uint64x8", func(i uint64) uint64 { w[0] = i; return Uint64x8(1, &w) }},
		{"Bytes/8", func(i uint64) uint64 { buf[0] = byte(i); return Bytes(1, buf[:8]) }},
		{"Bytes/16", func(i uint64) uint64 { buf[0] = byte(i); return Bytes(1, buf[:16]) }},
		{"Bytes/40", func(i uint64) uint64 { buf[0] = byte(i); return Bytes(1, buf[:40]) }},
		{"Bytes/64", func(i uint64) uint64 { buf[0] = byte(i); return Bytes(1, buf) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var acc, i uint64
			for b.Loop() {
				i++
				acc ^= c.f(i)
			}
			sink = acc
		})
	}
}

// TestBehind: a first word can be made part of the seed.
func TestBehind(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 1000 {
		seed, a, b := r.Uint64(), r.Uint64(), r.Uint64()
		if got, want := Uint64(Behind(seed, a), b), Uint64x2(seed, a, b); got != want {
			t.Fatalf("%x behind %x with seed %x: %016x, want %016x", b, a, seed, got, want)
		}
	}
}
