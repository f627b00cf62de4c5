package transport

import (
	"context"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
)

// BenchmarkPaperTree is 400 us of the paper's network at half load, per feedback.
func BenchmarkPaperTree(b *testing.B) {
	sizes, err := LoadDistribution(netsim.DataDir(), WebSearch)
	if err != nil {
		b.Skip(err)
	}
	for _, name := range []string{"int", "pint"} {
		b.Run(name, func(b *testing.B) {
			c := hpccConfig(b, fabric.PaperTree, name)
			c.Deadline = 400 * event.Microsecond
			flows, err := Arrivals{Hosts: 320, Sizes: sizes, Load: 0.5, Rate: 100e9, Until: c.Deadline, Seed: 1}.Flows()
			if err != nil {
				b.Fatal(err)
			}
			events := 0.0
			for b.Loop() {
				s, err := New(c, flows)
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Run(context.Background()); err != nil {
					b.Fatal(err)
				}
				events += float64(s.net.Counts().Events)
			}
			b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
		})
	}
}
