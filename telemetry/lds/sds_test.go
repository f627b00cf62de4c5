package lds

import (
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestSDS compares with sums kept per flow: a mean is that of the flows that
// share the cell with the fewest packets.
func TestSDS(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testSDS(t, family) })
	}
}

func testSDS(t *testing.T, family hash.Family) {
	const rows, columns, flows = 3, 29, 60
	s, err := NewSDS(rows, columns, 4)
	if err != nil {
		t.Fatal(err)
	}
	s.Use(family)
	half, _ := NewSDS(rows, columns, 4)
	half.Use(family)
	r := rand.New(rand.NewPCG(1, 1))
	var sum, count [flows]int64
	for i := range 3000 {
		f, d := r.IntN(flows), r.Int64N(1e6)
		sum[f], count[f] = sum[f]+d, count[f]+1
		if i%2 == 0 {
			s.Add(uint64(f), d)
		} else {
			half.Add(uint64(f), d)
		}
	}
	if err := s.Merge(half); err != nil {
		t.Fatal(err)
	}
	for f := range flows {
		wantSum, wantCount := int64(0), int64(1<<62)
		for row := range rows {
			var cs, cn int64
			for g := range flows {
				if s.cell(uint64(g), row) == s.cell(uint64(f), row) {
					cs, cn = cs+sum[g], cn+count[g]
				}
			}
			if cn < wantCount {
				wantSum, wantCount = cs, cn
			}
		}
		mean, n := s.Flow(uint64(f))
		if int64(n) != wantCount || mean != float64(wantSum)/float64(wantCount) {
			t.Errorf("flow %d: %g of %d, want %g of %d", f, mean, n, float64(wantSum)/float64(wantCount), wantCount)
		}
	}
	if n := testing.AllocsPerRun(100, func() { s.Add(1, 2) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	s.Reset()
	if mean, n := s.Flow(1); mean != 0 || n != 0 {
		t.Error("not empty after Reset")
	}
	other, _ := NewSDS(rows, columns, 5)
	other.Use(family)
	foreign, _ := NewSDS(rows, columns, 4)
	foreign.Use(hash.CRC - family)
	if s.Merge(other) == nil || s.Merge(foreign) == nil {
		t.Error("sketches of other seeds or families merge")
	}
	for _, c := range [][2]int{{0, 1}, {MaxRows + 1, 1}, {1, 0}, {4, MaxCells}} {
		if _, err := NewSDS(c[0], c[1], 0); err == nil {
			t.Errorf("%d x %d: no error", c[0], c[1])
		}
	}
}
