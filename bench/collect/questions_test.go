package collect

import (
	"testing"

	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// BenchmarkQuestions asks the store of a network whose samples are not full, warm.
func BenchmarkQuestions(b *testing.B) {
	c := DefaultConfig()
	c.Shorten()
	n, err := newNetwork(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	a, err := newApplier()
	if err != nil {
		b.Fatal(err)
	}
	for _, kind := range []record.Kind{record.PINT, record.DiSketch, record.Oblivious} {
		if err := a.fill(n.messages[kind]); err != nil {
			b.Fatal(err)
		}
	}
	view := a.live.View(store.Window{})
	e := query.Engine{Store: view}
	for _, q := range questions {
		b.Run(q.metric, func(b *testing.B) {
			before := processTime()
			for i := 0; b.Loop(); i++ {
				ask := q.about(n, i)
				if _, err := e.Ask(b.Context(), &ask); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processTime()-before).Nanoseconds())/1e6/float64(b.N), "cpu-ms/op")
		})
	}
}
