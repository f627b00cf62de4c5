package pint

import "iter"

// LatencyBuckets iterates over the histogram of the latencies of all packets that left by a port, as far as plans
// ask for latencies: the least latency in ns of each bucket that is not empty, and its packets. Latencies of
// 2^40 ns and more count as the longest below. It is up to 100 ms old.
func (m *Module) LatencyBuckets(port int) iter.Seq2[uint64, uint64] {
	var sum histogram
	for _, s := range m.stages {
		s.shown.mu.Lock()
		sum.merge(&s.shown.latency[port])
		s.shown.mu.Unlock()
	}
	return func(yield func(ns, packets uint64) bool) {
		for i, n := range sum.counts {
			if low, _ := boundsOf(i); n != 0 && !yield(low, n) {
				return
			}
		}
	}
}
