package pint

import (
	"math/rand/v2"
	"testing"
)

// TestLatencyBuckets: every packet is in the bucket of its latency, of the port that it left by, whichever way
// it took through the stage.
func TestLatencyBuckets(t *testing.T) {
	const hops = 3
	n := newChain(t, hops, DefaultConfig(), largeFrame)
	r := rand.New(rand.NewPCG(12, 12))
	var frames [][]byte
	for i := range 2000 {
		frames = append(frames, ethernet(0x0800, ipv4(64, 0x4000, 6, tcp(i%8, 80, uint32(i), random(r, 50)))))
	}
	for hop := range hops {
		want := map[uint64]uint64{} // by the bucket's least latency
		frames = n.at(hop, frames, func() int64 {
			v := r.Int64() >> r.IntN(64)
			low, _ := boundsOf(bucketOf(uint64(v)))
			want[low]++
			return v
		})
		n.nodes[hop].stage.Tick(0)
		got := map[uint64]uint64{}
		for low, packets := range n.nodes[hop].module.LatencyBuckets(1) {
			got[low] += packets
		}
		if len(want) < 300 || len(got) != len(want) {
			t.Errorf("hop %d: %d buckets, want %d", hop+1, len(got), len(want))
		}
		for low, packets := range want {
			if got[low] != packets {
				t.Errorf("hop %d: %d packets of %d ns and more, want %d", hop+1, got[low], low, packets)
			}
		}
		for low := range n.nodes[hop].module.LatencyBuckets(0) {
			t.Errorf("hop %d: the port that nothing left by has packets of %d ns", hop+1, low)
		}
	}
}
