package sketch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestAddBlock compares with flows that are added one by one, for blocks of every size, rows of few and of many cells, and values
// that cells saturate at.
func TestAddBlock(t *testing.T) {
	has := wide
	defer func() { wide = has }()
	for _, wide = range []bool{false, true} {
		if wide && !has {
			t.Log("the processor lacks AVX-512DQ: not all ways are tested")
			continue
		}
		t.Run(fmt.Sprintf("wide=%v", wide), testAddBlock)
	}
}

func testAddBlock(t *testing.T) {
	r := rand.New(rand.NewPCG(28, 1))
	for _, family := range []hash.Family{hash.XX, hash.CRC, hash.AES} {
		for _, width := range []int{1, 2, 7, 1000, 1 << 14} {
			for signs := range uint64(2) {
				got, err := NewRow(width, 1)
				if err != nil {
					t.Fatal(err)
				}
				got.Use(family)
				want := got.Clone()
				for round := range 4 * (Block + 1) {
					if round%100 == 0 {
						got.Reset(uint64(round))
						want.Reset(uint64(round))
					}
					h, v := make([]uint64, round%(Block+1)), make([]int64, round%(Block+1))
					for i := range h {
						h[i], v[i] = r.Uint64(), 1
						switch r.IntN(40) {
						case 0:
							v[i] = r.Int64N(1<<62 + 1)
						case 1:
							v[i] = math.MaxInt32 - r.Int64N(3)
						case 2:
							v[i] = 0
						case 3:
							v[i] = -r.Int64N(1 << 33)
						}
						m, d := want.Mix(h[i]), v[i]
						if m&signs != 0 {
							d = -d
						}
						want.Count(hash.Reduce(m, uint64(width)), d)
					}
					got.AddBlock(h, v, signs)
					if !slices.Equal(got.Cells(), want.Cells()) || got.Saturated() != want.Saturated() {
						t.Fatalf("%v, %d cells, signs %d, %d flows: %d saturated, want %d, or other cells", family, width, signs, len(h), got.Saturated(), want.Saturated())
					}
				}
				if width < 1000 && got.Saturated() == 0 {
					t.Errorf("%d cells: none met a limit", width)
				}
			}
		}
	}
}
