package topk

import (
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

func traffic(n int) []uint64 {
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.1, 1, 199_999)
	h := make([]uint64, n)
	for i := range h {
		h[i] = hash.Uint64(1, z.Uint64())
	}
	return h
}

// BenchmarkOffer states ns per packet for 1024 entries and 200,000 flows, beside
// a map that counts them all.
func BenchmarkOffer(b *testing.B) {
	h := traffic(1 << 20)
	b.Run("Table", func(b *testing.B) {
		t, _ := New[Key](1024, 1)
		key := new(Key)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			t.Offer(h[i&(len(h)-1)], key, 1)
		}
	})
	b.Run("map", func(b *testing.B) {
		m := map[uint64]int64{}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			m[h[i&(len(h)-1)]]++
		}
	})
}
