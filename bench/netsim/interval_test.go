package netsim

import (
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/patch"
	"github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/hash"
	sketch "github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/record"
)

const (
	intervalBits = 20
	intervalHop  = 30_000 // ns that a packet stays in each switch
)

// intervalPoint is one measurement point's records, by interval.
type intervalPoint struct {
	module *lds.Module
	got    map[int64]*sketch.Point
}

func (p *intervalPoint) collect(t *testing.T, now int64, last bool) {
	p.module.Collect(now, last, func(_ *record.Header, body func([]byte) ([]byte, error)) {
		b, err := body(nil)
		if err != nil {
			t.Fatal(err)
		}
		point, err := sketch.Decode(b, hash.XX)
		if err != nil {
			t.Fatal(err)
		}
		p.got[point.Interval()] = point
	})
}

// measureIntervals sends packets through source, transit and sink, and returns
// the points behind the source, in front of the transit switch, and at the sink, where
// the shim has come and is not yet gone.
func measureIntervals(t *testing.T, marks int, bit bool) []*intervalPoint {
	t.Helper()
	measure := func(port string) *lds.Config {
		c := lds.DefaultConfig()
		c.Ports, c.Rows, c.Columns, c.IntervalBits, c.IntervalBit = []string{port}, 2, 64, intervalBits, bit
		return &c
	}
	digests := func(edge ...string) *pint.Config {
		c := pint.DefaultConfig()
		c.Edge, c.IntervalBits = edge, marks
		return &c
	}
	pairs := &patch.Config{Pairs: [][2]string{{"a", "b"}}}
	frames := newCache(t)
	n, err := NewNetwork([]Switch{
		{ID: 1, Ports: []string{"a", "b"}, Graph: []string{"parse", "patch", "pint", "lds_egress"},
			Stages: map[string]any{"patch": pairs, "pint": digests("a"), "lds_egress": measure("b")}},
		{ID: 2, Ports: []string{"a", "b"}, Graph: []string{"parse", "lds_ingress", "patch", "pint"},
			Stages: map[string]any{"patch": pairs, "pint": digests(), "lds_ingress": measure("a")}},
		{ID: 3, Ports: []string{"a", "b"}, Graph: []string{"parse", "lds_ingress", "patch", "lds_egress", "pint"},
			Stages: map[string]any{"patch": pairs, "pint": digests("b"), "lds_ingress": measure("a"), "lds_egress": measure("b")}},
	}, []Cable{{{0, 1}, {1, 0}}, {{1, 1}, {2, 0}}}, frames)
	if err != nil {
		t.Fatal(err)
	}
	n.Delay = func(int) int64 { return intervalHop }
	var points []*intervalPoint
	for sw := range 3 {
		for _, m := range n.Chain(sw) {
			if p, ok := m.Module.(*lds.Module); ok {
				points = append(points, &intervalPoint{p, map[int64]*sketch.Point{}})
			}
		}
	}
	b := packet.NewBatch(frames, packet.BatchSize)
	now := int64(8) << intervalBits
	for i := range uint16(6000) {
		now += 2003
		f := frame(1, 2, i)
		if ends, data := send(t, n, frames, b, End{0, 0}, f, now); len(ends) != 1 || string(data[0]) != string(f) {
			t.Fatalf("packet %d leaves at %v as % x", i, ends, data)
		}
		for _, p := range points {
			p.collect(t, now, false)
		}
	}
	n.Finish(now + 10*intervalHop)
	for _, p := range points {
		p.collect(t, now+10*intervalHop, true)
	}
	return points
}

// TestIntervalBit: the source's interval bit tells all points behind it in which
// interval a packet counts, so packets under way at an edge spoil no cell. By
// their clocks alone, and with a bit that is always clear, they do.
func TestIntervalBit(t *testing.T) {
	for _, c := range []struct {
		name  string
		marks int
		bit   bool
		exact bool
	}{{"marked", intervalBits, true, true}, {"clear", 0, true, false}, {"by clock", intervalBits, false, false}} {
		points := measureIntervals(t, c.marks, c.bit)
		if len(points) != 4 {
			t.Fatalf("%d points", len(points))
		}
		// Behind the source to: in front of the transit switch, of the sink, inside the sink.
		for far, hops := range []int64{0, 1, 2} {
			refused, intervals := 0, 0
			for number := int64(9); number < 18; number++ {
				from, to := points[0].got[number], points[far+1].got[number]
				if from == nil || to == nil {
					t.Fatalf("%s: no record of interval %d", c.name, number)
				}
				d, err := sketch.Subtract(from, to, sketch.AnyDelay())
				if err != nil {
					t.Fatal(err)
				}
				intervals++
				refused += d.Refused()
				if !c.exact {
					continue
				}
				if mean, ok := d.MeanNs(); !ok || mean != float64(hops*intervalHop) || from.Packets() < 500 {
					t.Errorf("interval %d, point %d: delay %v of %d packets, want %d", number, far, mean, from.Packets(), hops*intervalHop)
				}
			}
			if c.exact && refused != 0 || !c.exact && hops > 0 && refused == 0 {
				t.Errorf("%s, point %d: %d cells are refused in %d intervals", c.name, far, refused, intervals)
			}
		}
	}
}
