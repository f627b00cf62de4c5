package encode

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
)

// BothWays runs f with the wide instructions that the processor has, with those for four words, and without.
func BothWays(t *testing.T, f func(t *testing.T)) {
	has, hasFour := wide, four
	defer func() { wide, four = has, hasFour }()
	for _, w := range []struct{ wide, four bool }{{false, false}, {false, true}, {true, false}} {
		if w.wide && !has || w.four && !hasFour {
			t.Log("the processor lacks AVX-512DQ or AVX2: not all ways are tested")
			continue
		}
		wide, four = w.wide, w.four
		t.Run(fmt.Sprintf("wide=%v,four=%v", w.wide, w.four), f)
	}
}

// TestWideReservoir compares with the thresholds, at these, one beside them, and anywhere.
func TestWideReservoir(t *testing.T) {
	if !wide {
		t.Skip("the processor lacks AVX-512DQ")
	}
	r := rand.New(rand.NewPCG(41, 2))
	for _, accept := range &reservoirAccept {
		for round := range 2000 {
			n, turn := 1+round%BlockSize, r.IntN(64)
			most := []int{3, 15, 16, 17, pint.MaxHops}[r.IntN(5)]
			var words, hops [BlockSize]uint64
			for i := range words {
				hop := 1 + r.IntN(most)
				w := accept[hop] + uint64(r.IntN(3)) - 1
				if r.IntN(4) == 0 {
					w = r.Uint64()
				}
				words[i], hops[i] = bits.RotateLeft64(w, -turn), uint64(hop)
			}
			got := wideReservoir(&words, &hops, uint64(turn), &accept, n)
			for i := range n {
				if want := bits.RotateLeft64(words[i], turn) <= accept[hops[i]]; got>>i&1 != 0 != want {
					t.Fatalf("word %d of %d, %x, hop %d: %v, want %v", i, n, words[i], hops[i], !want, want)
				}
			}
		}
	}
}

// TestLanes compares with the definitions, for every number of words; what is beyond stays.
func TestLanes(t *testing.T) {
	BothWays(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(41, 1))
		// Few different words, so that equal ones and the ends of ranges are met.
		word := func() uint64 {
			switch r.IntN(4) {
			case 0:
				return uint64(r.IntN(4)) - 2
			case 1:
				return r.Uint64() >> 32 << 32
			case 2:
				return uint64(r.IntN(64)) << 32
			}
			return r.Uint64()
		}
		for round := range 200 * (BlockSize + 1) {
			n := round % (BlockSize + 1)
			var a, limits, dst, was [BlockSize + 8]uint64
			for i := range a {
				a[i], limits[i], dst[i] = word(), word(), word()
			}
			was = dst
			turn, low, width := r.IntN(64), word(), word()
			which, shift, mask, keep := r.Uint64(), uint8(r.IntN(64)), word(), word()
			merge(dst[:n], a[:n], which, shift, mask, keep)
			most, in := atMost(a[:n], limits[:], turn), within(a[:n], turn, low, width)
			for i := range dst {
				w := was[i]
				if i < n && which>>i&1 != 0 {
					w = w&keep ^ a[i]<<shift&mask
				}
				if dst[i] != w {
					t.Fatalf("merge of %d, word %d: %x, want %x", n, i, dst[i], w)
				}
			}
			for i := range 64 {
				turned := bits.RotateLeft64(a[i], turn)
				if got, want := most>>i&1 != 0, i < n && turned <= limits[i]; got != want {
					t.Fatalf("atMost of %d, word %d: %v, want %v", n, i, got, want)
				}
				if got, want := in>>i&1 != 0, i < n && turned-low <= width; got != want {
					t.Fatalf("within of %d, word %d: %v, want %v", n, i, got, want)
				}
			}
		}
	})
}
