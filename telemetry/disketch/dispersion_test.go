package disketch

import (
	"math"
	"testing"
)

// TestDispersion: what a record in slices says of the next epoch, which is divided, is at least 1 and at most what was counted, whatever its squares are,
// and nothing if the unit changed in between.
func TestDispersion(t *testing.T) {
	const flow, epoch = 7, 8
	id := ID{Switch: 1}
	for _, c := range []struct {
		what    string
		unit    Unit
		squares [2]float64 // of the epoch, and of its halves
		want    float64
	}{
		{"even packets", Packets, [2]float64{10_000, 5_050}, 1},
		{"bursts of 5 packets", Packets, [2]float64{10_000, 5_250}, 5},
		{"one burst", Packets, [2]float64{10_000, 10_000}, 100},
		{"less than even", Packets, [2]float64{10_000, 0}, 1},
		{"no squares", Packets, [2]float64{}, 1},
		{"squares of no traffic", Packets, [2]float64{0, math.MaxFloat64}, 100},
		{"another unit", Bytes, [2]float64{10_000, 10_000}, 1},
	} {
		var records Records
		for i, unit := range []Unit{c.unit, Packets} {
			f, err := NewFragment(Config{ID: id, Kind: CountSketch, Unit: unit, Memory: 4096, Epochs: 27, Slices: SliceLog})
			if err != nil {
				t.Fatal(err)
			}
			counter, err := f.NewCounter()
			if err != nil {
				t.Fatal(err)
			}
			plan := f.Schedule(epoch+uint64(i), uint8(i))
			for sub := range plan.N() {
				counter.Begin(plan, sub)
				if plan.Subepoch(flow) == sub {
					for range 100 {
						counter.Add(flow, 1, false)
					}
				}
				r := counter.Record().Clone()
				if i == 0 {
					r.Squares = c.squares[:]
				}
				if err := records.Add(r); err != nil {
					t.Fatal(err)
				}
			}
		}
		a := records.Asker()
		if got := a.dispersionAt(id, epoch+1); got != c.want {
			t.Errorf("%s: dispersion %g, want %g", c.what, got, c.want)
		}
		// Of 0 packets, a bound is a number too.
		for _, f := range []uint64{flow, flow + 1} {
			answer := a.Frequency(Query{From: epoch + 1, To: epoch + 2}, f, PathFunc(func(uint64) []uint64 { return []uint64{1} }))
			if math.IsNaN(answer.Low) || math.IsNaN(answer.High) || math.IsInf(answer.High, 0) || answer.High < answer.Value {
				t.Errorf("%s: flow %d: %+v", c.what, f, answer)
			}
		}
	}
}
