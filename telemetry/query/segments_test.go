package query

import (
	"fmt"
	"math"
	"testing"

	"github.com/weirswitch/weir/telemetry/lds"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/record"
)

// TestSegments: the delay of a flow over two links and a switch between them, each of which is the slowest in turn, and measured or not.
func TestSegments(t *testing.T) {
	for _, c := range []struct {
		links  [2]int64 // ns
		inside uint64   // ns
		points [2]bool  // links' second ends have points
		named  int      // the segment that is the slowest; -1: it cannot be known
	}{
		{[2]int64{4e6, 1e6}, 500_000, [2]bool{true, true}, 0},
		{[2]int64{1e6, 4e6}, 500_000, [2]bool{true, true}, 2},
		{[2]int64{1e6, 5e5}, 4_000_000, [2]bool{true, true}, 1},
		{[2]int64{2e6, 2e6}, 500_000, [2]bool{true, true}, -1},
		// What is left for the link that nothing measured: too much to name another one, and little.
		{[2]int64{1e6, 4e6}, 500_000, [2]bool{true, false}, -1},
		{[2]int64{4e6, 1e6}, 500_000, [2]bool{true, false}, 0},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			path := route3(1)
			n := newSinks(t, pintplan.Default())
			// One packet of ten takes ten times as long as each other one: the median is far from the mean, which is c.inside.
			waits := func() uint64 { return c.inside * 10 / 19 }
			n.latency = func(uint32, Key) uint64 { return waits() }
			const interval, packets = 1 << 30, 4000
			config := lds.Config{Rows: 4, Columns: 500, Virtual: 5, IntervalNs: interval, Seed: 2}
			k, lost := key(1), 0
			for number := int64(1); number <= 2; number++ {
				var at [4]*lds.Point // out, in, out, in
				for i := range at {
					at[i], _ = lds.NewPoint(config)
					at[i].Begin(number)
				}
				for i := range int64(packets) {
					id, now := n.rng.Uint64(), number*interval+i*200_000
					inside := c.inside * 10 / 19
					if i%10 == 3 {
						inside *= 10
					}
					waits = func() uint64 { return inside }
					n.send(k, now, path...)
					flow := Hash(0, k, 0)
					at[0].Add(flow, id, now, 100)
					now += c.links[0] + n.rng.Int64N(1000)
					at[1].Add(flow, id, now, 100)
					now += int64(inside)
					at[2].Add(flow, id, now, 100)
					if i == 77 {
						lost++
						continue // on the second link
					}
					at[3].Add(flow, id, now+c.links[1]+n.rng.Int64N(1000), 100)
				}
				for i, p := range []struct {
					sw       uint32
					instance uint16
				}{{path[0], 1}, {path[1], 0}, {path[1], 3}, {path[2], 0}} {
					if i == 1 && !c.points[0] || i == 2 && !c.points[1] {
						continue
					}
					add(t, n.store, record.Header{Kind: record.LDS, Switch: p.sw, Instance: p.instance, Start: number * interval, Span: interval}, at[i].AppendBinary)
				}
			}
			n.flush(t, nil)
			q := &Question{Kind: KindDelay, Flow: FormatKey(k), From: "c", To: "g", Segments: true}
			b := ask[*Between](t, n.engine(), q)
			if len(b.Segments) != 3 {
				t.Fatalf("%+v", b.Segments)
			}
			for i, s := range b.Segments {
				truth := float64([]int64{c.links[0], int64(c.inside), c.links[1]}[i])
				measured := i == 1 || c.points[i/2]
				if measured != (s.By != "") || measured == (s.Why != "") || measured && math.Abs(s.Delay.Value/truth-1) > 0.1 || s.Slowest != (i == c.named) {
					t.Errorf("segment %d: %+v, truth %g, to be named: %d", i, s, truth, c.named)
				}
				if want := float64(lost) * float64(i/2); i != 1 && measured && (!s.HasLoss || s.Lost != want) {
					t.Errorf("segment %d: lost %+v, truth %g", i, s, want)
				}
			}
			sum := 0.0
			for _, s := range b.Segments {
				sum += s.Delay.Value
			}
			if all := c.points[0] && c.points[1]; all && math.Abs(sum/b.Delay.Value-1) > 0.03 {
				t.Errorf("segments of %g together, from end to end %g", sum, b.Delay.Value)
			}
			q.Segments = false
			if b := ask[*Between](t, n.engine(), q); b.Segments != nil {
				t.Errorf("not asked for: %+v", b.Segments)
			}
		})
	}
}
