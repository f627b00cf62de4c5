package traffic

import (
	"context"
	"testing"

	"github.com/weirswitch/weir/dataplane/xsk"
)

// BenchmarkSource sends b.N packets over a veth to the XDP sink, whose work is in the figure:
// on a veth it runs on the source's core.
func BenchmarkSource(b *testing.B) {
	works := []struct {
		name string
		w    Workload
	}{
		{"64B-1k", DefaultWorkload()},
		{"64B-10M", with(func(w *Workload) { w.Flows = MaxFlows })},
		{"64B-10M-zipf", with(func(w *Workload) { w.Flows, w.Order, w.Exponent = MaxFlows, Zipf, 1 })},
		{"imix-1k", with(func(w *Workload) { w.Sizes = IMIX() })},
	}
	makers := []struct {
		name string
		make func(Port, Workload) (Source, error)
	}{
		{"live", func(p Port, w Workload) (Source, error) { return NewLiveSource(p, w) }},
		{"xsk", func(p Port, w Workload) (Source, error) { return NewXSKSource(p, 0, w, xsk.Copy) }},
		{"packet", func(p Port, w Workload) (Source, error) { return NewPacketSource(p, w) }},
	}
	for _, maker := range makers {
		for _, work := range works {
			b.Run(maker.name+"/"+work.name, func(b *testing.B) { benchmarkSource(b, maker.make, work.w) })
		}
	}
}

func benchmarkSource(b *testing.B, newSource func(Port, Workload) (Source, error), w Workload) {
	from, to := cable(b, 1)
	sink, err := NewXDPSink(to, w, SinkOptions{Duplicates: true}, false)
	must(b, err)
	defer sink.Close()
	source, err := newSource(from, w)
	must(b, err)
	defer source.Close()
	b.ResetTimer()
	sent, err := source.Run(context.Background(), Load{Count: uint64(b.N)})
	must(b, err)
	b.StopTimer()
	b.ReportMetric(sent.Rate/1e6, "Mpps")
	r, err := sink.Report()
	must(b, err)
	b.ReportMetric(float64(r.Lost(sent.Packets))/float64(sent.Packets)*100, "loss%")
}
