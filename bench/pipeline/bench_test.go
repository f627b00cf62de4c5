package pipeline

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkPipeline measures the table of graphs for benchstat, as BenchmarkPipeline/GRAPH/FLOWS.
// Packets are written outside the clock, so ns/packet is of passes alone, and ns/op is left out.
func BenchmarkPipeline(b *testing.B) {
	for _, g := range Graphs {
		b.Run(fmt.Sprintf("%s/%s", g.Name, flowsLabel(g.Flows)), func(b *testing.B) {
			c := DefaultConfig()
			if testing.Short() {
				if g.Slow {
					b.Skip("takes long")
				}
				c.Warm = 0
			}
			r, u := open(b, g, c.Frames)
			if g.Cold {
				u.cold = newEvictor()
			}
			if len(u.sources) > 0 {
				u.warm(r, c.Warm)
			}
			var sum sample
			b.ReportAllocs()
			for b.Loop() {
				s := u.measure(r, time.Nanosecond)
				sum.packets += s.packets
				sum.wall += s.wall
				sum.cpu += s.cpu
			}
			if err := u.check(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(sum.ns(), "ns/packet")
			b.ReportMetric(1e3/sum.ns(), "Mpps")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// flowsLabel writes a number of flows as 10k, 1M.
func flowsLabel(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 1000 && n%1000 == 0:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}
