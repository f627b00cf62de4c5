package lds

import (
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// BenchmarkAdd measures the cost per packet, with flows as a trace has them:
// 146,000, of heavy-tailed sizes, in random order.
func BenchmarkAdd(b *testing.B) {
	multi := Config{Rows: 4, Columns: 17500, Virtual: 5, Rates: []float64{0.01, 0.1, 0.5, 1}, IntervalNs: 1e9}
	virtual := Config{Rows: 4, Columns: 17500, Virtual: 5, IntervalNs: 1e9}
	one := Config{Rows: 1, Columns: 70000, Virtual: 1, IntervalNs: 1e9}
	for _, c := range []struct {
		name   string
		config Config
	}{{"4x17500", DefaultConfig()}, {"k5", virtual}, {"banks", multi}, {"1x70000", one}} {
		b.Run(c.name, func(b *testing.B) {
			p, err := NewPoint(c.config)
			if err != nil {
				b.Fatal(err)
			}
			// One flow in four is heavy: the zipf-like half of packets.
			r := rand.New(rand.NewPCG(1, 2))
			flows := make([]uint64, 1<<16)
			for i := range flows {
				f := uint64(r.IntN(146000))
				if i&1 == 0 {
					f = uint64(r.IntN(1460))
				}
				flows[i] = hash.Uint64(9, f)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				p.Add(flows[i&(len(flows)-1)], uint64(i)*0x9e3779b97f4a7c15, int64(i)&(1<<29-1), 100)
				i++
			}
		})
	}
}
