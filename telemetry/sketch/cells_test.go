package sketch

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// TestCellsEqualBigTwin adds at random around the limits, beside 64-bit cells.
func TestCellsEqualBigTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	steps := []int64{1, -1, 1500, math.MaxInt32, math.MinInt32, math.MaxInt32 - 1, 1 << 40, -1 << 62, 1 << 62}
	for range 2000 {
		c, _ := NewCells(3)
		want, saturated := [3]int64{}, uint64(0)
		for range 10 {
			i, v := r.IntN(3), steps[r.IntN(len(steps))]
			c.Add(uint64(i), v)
			clamped := min(max(want[i]+v, math.MinInt32), math.MaxInt32)
			switch {
			case want[i] == math.MaxInt32 || want[i] == math.MinInt32:
				saturated++ // It stays where it is.
			case clamped != want[i]+v:
				saturated++
				fallthrough
			default:
				want[i] = clamped
			}
		}
		if c.Saturated() != saturated {
			t.Fatalf("%d saturated, want %d", c.Saturated(), saturated)
		}
		sum, squares := int64(0), 0.0
		for i, v := range want {
			sum += v
			squares += float64(v) * float64(v)
			if int64(c.Values()[i]) != v || c.IsSaturated(uint64(i)) != (v == math.MaxInt32 || v == math.MinInt32) {
				t.Fatalf("cells %v, want %v", c.Values(), want)
			}
		}
		if c.Sum() != sum || c.SumSquares() != squares {
			t.Fatalf("sum %d, squares %v; want %d, %v", c.Sum(), c.SumSquares(), sum, squares)
		}
	}
}

func TestCellsMergeInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		parts := make([]Cells, 4)
		for i := range parts {
			parts[i], _ = NewCells(5)
			for range 4 {
				parts[i].Add(r.Uint64N(5), r.Int64N(1<<30))
			}
		}
		forth, back := parts[0].Clone(), parts[3].Clone()
		for i := 1; i < 4; i++ {
			if forth.Merge(&parts[i]) != nil || back.Merge(&parts[3-i]) != nil {
				t.Fatal("cells of one width do not merge")
			}
		}
		if !slices.Equal(forth.Values(), back.Values()) {
			t.Fatalf("%v one way, %v the other", forth.Values(), back.Values())
		}
	}
	a, _ := NewCells(3)
	b, _ := NewCells(4)
	if err := a.Merge(&b); !errors.Is(err, ErrShape) {
		t.Errorf("Merge: %v", err)
	}
}

// TestHostileLengths gives lengths that no memory could hold, with nothing behind
// them, and counts what is allocated.
func TestHostileLengths(t *testing.T) {
	for name, b := range map[string][]byte{
		"cells of 2^63":    append(AppendHeader(nil, KindCountMinRow), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 1, 2),
		"cells of 2^30":    append(AppendHeader(nil, KindCountMinRow), 0x80, 0x80, 0x80, 0x80, 4, 0, 1, 2),
		"one cell too few": append(AppendHeader(nil, KindCountMinRow), 3, 0, 1, 2),
		"no cells":         append(AppendHeader(nil, KindCountMinRow), 0, 0),
		"a cell of 2^32":   append(AppendHeader(nil, KindCountMinRow), 1, 0, 0x80, 0x80, 0x80, 0x80, 0x20),
		"a long number":    append(AppendHeader(nil, KindCountMinRow), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
		"bytes behind":     append(AppendHeader(nil, KindCountMinRow), 1, 0, 2, 0),
		"another version":  {version + 1, byte(KindCountMinRow), 1, 0, 2},
		"another kind":     {version, byte(KindCountSketchRow), 1, 0, 2},
		"nothing":          {},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := NewReader(b, KindCountMinRow)
		d.Cells()
		err := d.Close()
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: read without a fault", name)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
	}
}
