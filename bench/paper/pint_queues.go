package paper

import (
	"math"
	"math/rand/v2"
	"slices"
)

// hopQueue draws the latencies of a switch from a model of its queue, since
// the paper's traces are not public: an M/G/1 queue whose packets are 64 to
// 1500 bytes, two thirds of them at the ends, on a link of 10 Gbit/s, and a
// fixed time of 1 us for the pipeline. Waiting follows Lindley's recursion, so
// latencies of consecutive packets hang together as in a real queue, and the
// tail is exponential with the load's rate.
type hopQueue struct {
	load float64
	wait float64 // ns
}

const pipelineNs, bytePerNs = 1000, 1.25

// next is the latency, in ns, of the next packet.
func (q *hopQueue) next(r *rand.Rand) float64 {
	bytes := 64 + 1436*r.Float64()
	switch u := r.Float64(); {
	case u < 1.0/3:
		bytes = 64
	case u < 2.0/3:
		bytes = 1500
	}
	service := bytes / bytePerNs
	latency := pipelineNs + q.wait + service
	// The mean size is 782 bytes, whatever the draws.
	q.wait = max(0, q.wait+service-782/bytePerNs/q.load*r.ExpFloat64())
	return latency
}

// hopQueues are the queues along a path: loads from 0.3 to 0.9.
func hopQueues(hops int) []hopQueue {
	q := make([]hopQueue, hops)
	for i := range q {
		q[i].load = 0.3 + 0.6*float64(i)/float64(max(hops-1, 1))
	}
	return q
}

// settle lets a queue forget that it began empty.
func (q *hopQueue) settle(r *rand.Rand) {
	for range 2000 {
		q.next(r)
	}
}

// quantileOf is the value of a rank in sorted values.
func quantileOf(sorted []float64, rank float64) float64 {
	return sorted[min(int(math.Ceil(rank*float64(len(sorted))))-1, len(sorted)-1)]
}

func sortedCopy(v []float64) []float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v
}
