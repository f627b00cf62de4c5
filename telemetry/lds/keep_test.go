package lds

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestKeep: points that keep some cells compare in those that both keep. Totals are whole, each flow is known in the row that is
// left, or not at all.
func TestKeep(t *testing.T) {
	const flows = 2000
	c := Config{Rows: 4, Columns: 1000, Virtual: 1, IntervalNs: 1e9, Seed: 25}
	from, to := newPoint(t, c), newPoint(t, c)
	r := rand.New(rand.NewPCG(25, 1))
	lost := 0
	for i := range 40_000 {
		flow, id, at := uint64(i%flows), r.Uint64(), r.Int64N(9e8)
		from.Add(flow, id, at, 1000)
		if i%997 == 0 {
			lost++
			continue
		}
		to.Add(flow, id, at+5000, 1000)
	}
	whole, err := Subtract(from, to, AnyDelay())
	if err != nil {
		t.Fatal(err)
	}
	long := len(encode(t, from))
	from.Keep(500)
	to.Keep(1200)
	short := encode(t, from)
	if len(short) > long/3 {
		t.Errorf("an eighth of %d bytes takes %d", long, len(short))
	}
	points := [2]*Point{}
	for i, p := range []*Point{from, to} {
		if points[i], err = Decode(encode(t, p), c.Hash); err != nil || points[i].Kept() != p.Kept() {
			t.Fatal(err)
		}
	}
	d, err := Subtract(points[0], points[1], AnyDelay())
	if err != nil {
		t.Fatal(err)
	}
	if n, known := d.Lost(); !known || n != int64(lost) || d.Kept() != 0.125 || d.Cells(Unsent) != 3500 {
		t.Errorf("%d of %d lost, %v of the cells", n, lost, d.Kept())
	}
	if mean, ok := d.MeanNs(); !ok || math.Abs(mean-5000) > 1e-6 {
		t.Errorf("a mean delay of %v", mean)
	}
	unsent := 0
	for flow := range uint64(flows) {
		e, of := d.Flow(flow, 1, Balanced), whole.Flow(flow, 1, Balanced)
		if e.Unsent {
			unsent++
			if e.HasDelay || e.HasLoss || e.Packets != 0 {
				t.Fatalf("flow %d of no row: %+v", flow, e)
			}
			continue
		}
		if e.Packets < of.Packets || e.Packets < flows/100 {
			t.Fatalf("flow %d has %v packets, and %v by all rows", flow, e.Packets, of.Packets)
		}
	}
	// A standard deviation is 0.011, and 6 of them fail by chance with 2e-9.
	if share := float64(unsent) / flows; math.Abs(share-0.5) > 0.067 {
		t.Errorf("%.3f of the flows are not in the half of the row that is kept", share)
	}
	v := points[0].Volumes(Packets, 0.95)
	if math.Abs(v.Total()-40_000) > 6000 || !v.Flow(0).Unsent && v.Flow(0).Most < 20 {
		t.Errorf("a total of %v, flow 0: %+v", v.Total(), v.Flow(0))
	}
}
