package hash

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// bothWays runs f with the wide instructions, if the processor has them, and
// without.
func bothWays(t *testing.T, f func(t *testing.T)) {
	has := wide
	defer func() { wide = has }()
	for _, w := range []bool{false, true} {
		if w && !has {
			t.Log("the processor has no AVX-512DQ: only the portable way is tested")
			continue
		}
		wide = w
		t.Run(fmt.Sprintf("wide=%v", w), f)
	}
}

// TestBlocksEqualSingles: many hashes at once are the single ones, for every
// number of them, and nothing behind the last is written.
func TestBlocksEqualSingles(t *testing.T) {
	const most = 70
	bothWays(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 7))
		var w [5][]uint64
		for n := 0; n <= most; n++ {
			seed := r.Uint64()
			for j := range w {
				w[j] = make([]uint64, n)
				for i := range w[j] {
					w[j][i] = r.Uint64() >> (8 * r.IntN(9) & 63)
				}
			}
			for _, c := range []struct {
				name  string
				block func(dst []uint64)
				one   func(i int) uint64
			}{
				{"1", func(dst []uint64) { Uint64s(dst, seed, w[0]) },
					func(i int) uint64 { return Uint64(seed, w[0][i]) }},
				{"2", func(dst []uint64) { Uint64x2s(dst, seed, w[0], w[1]) },
					func(i int) uint64 { return Uint64x2(seed, w[0][i], w[1][i]) }},
				{"5", func(dst []uint64) { Uint64x5s(dst, seed, w[0], w[1], w[2], w[3], w[4]) },
					func(i int) uint64 { return Uint64x5(seed, w[0][i], w[1][i], w[2][i], w[3][i], w[4][i]) }},
			} {
				dst := make([]uint64, n+8)
				c.block(dst[:n])
				for i, got := range dst {
					want := uint64(0)
					if i < n {
						want = c.one(i)
					}
					if got != want {
						t.Fatalf("%s words, %d inputs: number %d is %016x, want %016x", c.name, n, i, got, want)
					}
				}
			}
		}
	})
}

// TestBlocksInPlace: the hashes may replace an input.
func TestBlocksInPlace(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		a := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}
		b := append([]uint64(nil), a...)
		Uint64x2s(b, 5, a, b)
		for i := range a {
			if want := Uint64x2(5, a[i], a[i]); b[i] != want {
				t.Errorf("number %d is %016x, want %016x", i, b[i], want)
			}
		}
	})
}

// TestBlocksRefuseShortInputs: a short input panics before anything is written.
func TestBlocksRefuseShortInputs(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		long, short := make([]uint64, 9), make([]uint64, 8)
		for name, f := range map[string]func(){
			"1": func() { Uint64s(long, 0, short) },
			"2": func() { Uint64x2s(long, 0, long, short) },
			"5": func() { Uint64x5s(long, 0, long, long, long, long, short) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s words: no panic", name)
					}
				}()
				f()
			}()
		}
	})
}

func BenchmarkBlocks(b *testing.B) {
	const n = 64
	var w [5][]uint64
	for j := range w {
		w[j] = make([]uint64, n)
	}
	dst := make([]uint64, n)
	has := wide
	defer func() { wide = has }()
	for _, way := range []bool{false, true} {
		if way && !has {
			continue
		}
		for _, c := range []struct {
			words int
			block func()
		}{
			{1, func() { Uint64s(dst, 1, w[0]) }},
			{2, func() { Uint64x2s(dst, 1, w[0], w[1]) }},
			{5, func() { Uint64x5s(dst, 1, w[0], w[1], w[2], w[3], w[4]) }},
		} {
			b.Run(fmt.Sprintf("words=%d/wide=%v", c.words, way), func(b *testing.B) {
				wide = way
				for b.Loop() {
					c.block()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/hash")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
