package countmin

import (
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// traffic returns n flow hashes of 200,000 flows with Pareto sizes, in random
// order.
func traffic(n int) (h []uint64, v []int64) {
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.1, 1, 199_999)
	for range n {
		h = append(h, hash.Uint64(1, z.Uint64()))
		v = append(v, 1)
	}
	return h, v
}

// naive is the textbook's Count-Min Sketch.
type naive struct {
	rows [][]int64
}

func (s *naive) add(h uint64, v int64) {
	for i, row := range s.rows {
		row[hash.Uint64(uint64(i), h)%uint64(len(row))] += v
	}
}

// BenchmarkRow states ns per packet for 128 KiB of cells and 200,000 flows.
func BenchmarkRow(b *testing.B) {
	const batch = 64
	h, v := traffic(1 << 20)
	perPacket := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/packet")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("Add", func(b *testing.B) {
		r, _ := NewRowBytes(128<<10, 7)
		b.ReportAllocs()
		for i := 0; b.Loop(); i = (i + batch) & (len(h) - 1) {
			for j, x := range h[i : i+batch] {
				r.Add(x, v[i+j])
			}
		}
		perPacket(b)
	})
	b.Run("AddBatch", func(b *testing.B) {
		r, _ := NewRowBytes(128<<10, 7)
		b.ReportAllocs()
		for i := 0; b.Loop(); i = (i + batch) & (len(h) - 1) {
			r.AddBatch(h[i:i+batch], v[i:i+batch])
		}
		perPacket(b)
	})
	b.Run("naive5", func(b *testing.B) {
		var s naive
		for range 5 {
			s.rows = append(s.rows, make([]int64, 128<<10/5/8))
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i = (i + batch) & (len(h) - 1) {
			for j, x := range h[i : i+batch] {
				s.add(x, v[i+j])
			}
		}
		perPacket(b)
	})
}
