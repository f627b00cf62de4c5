package api

import (
	"strconv"
	"testing"

	"github.com/weirswitch/weir/telemetry/query"
)

// BenchmarkNewAnswer converts heavy hitters of many flows.
func BenchmarkNewAnswer(b *testing.B) {
	for _, n := range []int{10, 1000} {
		h := &query.HeavyHitters{Unit: "packets", By: query.BySample}
		for i := range n {
			size := float64(i) * 1.5
			h.Flows = append(h.Flows, query.HeavyFlow{Flow: "10.0.0.1:1234 > 10.0.0.2:80 udp", Share: 1 / (1 + size), Bounded: query.Bounded{Value: size, Low: size / 2, High: size * 2}})
		}
		b.Run("flows="+strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewAnswer(h); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
