package lds

import (
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/record"
)

// TestRecordBytes: by default the records of both stages of a switch take less than 0.4 MB in a second, whatever the flows of its points are and however many points there
// are, from the first interval on; both ends of a link compare, though one has one busy point and the other one many. A point alone has what idle ones leave.
func TestRecordBytes(t *testing.T) {
	const intervals, mostOfSwitch = 3, 400_000
	c := DefaultConfig()
	for _, flows := range []int{1000, 17_000, 100_000, 1_000_000} {
		config := c.sketch(hash.XX)
		r := rand.New(rand.NewPCG(21, uint64(flows)))
		out, _ := lds.NewPoint(config)
		in, _ := lds.NewPoint(config)
		idle, _ := lds.NewPoint(config)
		for _, p := range []*lds.Point{out, in} {
			p.Begin(1)
			p.SetRows(config.BestRows(float64(flows), c.RecordBytes))
		}
		for flow := range uint64(flows) {
			for range 3 {
				id, at := r.Uint64(), int64(1)<<30+r.Int64N(1<<29)
				out.Add(flow, id, at, 500)
				in.Add(flow, id, at+5000, 500)
			}
		}
		var modules [2]*Module
		for i, build := range []func() (*Module, error){func() (*Module, error) { return NewEgress(c, testEnv) }, func() (*Module, error) { return NewIngress(c, testEnv) }} {
			var err error
			if modules[i], err = build(); err != nil {
				t.Fatal(err)
			}
		}
		// An egress with a busy point among 40, and an ingress with four that are busy.
		busy, points := [2]int{1, 4}, [2]int{40, 4}
		for number := int64(1); number <= intervals; number++ {
			total := 0
			var last [2]*lds.Point
			for side, p := range []*lds.Point{out, in} {
				idle.Enter(number)
				p.Enter(number)
				for i := range points[side] {
					of := idle
					if i < busy[side] {
						of = p
					}
					modules[side].send(point{port: i}, 0, of, 0, func(h *record.Header, body func([]byte) ([]byte, error)) {
						b, err := record.Append(nil, h, body)
						if err != nil {
							t.Fatal(err)
						}
						total += len(b)
						_, payload, _, err := record.Decode(b)
						if err != nil {
							t.Fatal(err)
						}
						q, err := lds.Decode(payload, hash.XX)
						if err != nil {
							t.Fatal(err)
						}
						if of == p {
							last[side] = q
						}
					})
				}
			}
			d, err := lds.Subtract(last[0], last[1], lds.AnyDelay())
			if err != nil {
				t.Fatal(err)
			}
			mean, ok := d.MeanNs()
			if total > mostOfSwitch || !ok || mean != 5000 || d.Refused() != 0 {
				t.Errorf("%d flows, interval %d: %d bytes, a mean of %g (%t), %d cells refused", flows, number, total, mean, ok, d.Refused())
			}
			if number > 1 && d.Kept() < 1.0/64 || flows == 1000 && d.Kept() < 1 && number > 1 {
				t.Errorf("%d flows, interval %d: %g of the cells", flows, number, d.Kept())
			}
			t.Logf("%d flows a point, interval %d: %d bytes, %.3g of the cells", flows, number, total, d.Kept())
		}
	}
}
