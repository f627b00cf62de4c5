package paper

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/hash"
)

// averageErrors estimates each flow by the mean delay of all packets.
func (x *crossing) averageErrors() []flowError {
	all := x.truth().all
	return x.errors(func(int) (float64, bool) { return all, true })
}

// delaySample is a packet's delay at the time it was sent.
type delaySample struct {
	timeNs int64
	delay  float64
}

// mpeFlow is what NetFlow keeps of a flow at both ends.
type mpeFlow struct {
	first, last delaySample
	sampled     bool
}

// mpeErrors is the Multi-Point Estimator: NetFlow at both ends samples the same
// packets, and its records give two delays per sampled flow, those of its first
// and its last sampled packet. A flow's estimate is the mean over these samples
// of all flows between its own two. Flows without a sampled packet get the mean
// of all packets, as in the paper.
func (x *crossing) mpeErrors(rate float64) []flowError {
	flows := make([]mpeFlow, len(x.trace.Flows))
	x.arrivals(func(p workload.Packet, d int64, lost bool) {
		if lost || float64(hash.Uint64x2(x.seed, ldsSampleSeed, p.ID)) >= rate*(1<<64) {
			return
		}
		f := &flows[p.Flow]
		f.last = delaySample{p.TimeNs, float64(d)}
		if !f.sampled {
			f.first, f.sampled = f.last, true
		}
	})
	var all []delaySample
	for _, f := range flows {
		if f.sampled {
			all = append(all, f.first, f.last)
		}
	}
	slices.SortFunc(all, func(a, b delaySample) int { return cmp.Compare(a.timeNs, b.timeNs) })
	sums := make([]float64, len(all)+1)
	for i, s := range all {
		sums[i+1] = sums[i] + s.delay
	}
	at := func(s delaySample, t int64) int { return cmp.Compare(s.timeNs, t) }
	return x.errors(func(f int) (float64, bool) {
		if !flows[f].sampled {
			return x.truth().all, true
		}
		low, _ := slices.BinarySearchFunc(all, flows[f].first.timeNs, at)
		high, _ := slices.BinarySearchFunc(all, flows[f].last.timeNs+1, at)
		return (sums[high] - sums[low]) / float64(high-low), true
	})
}

// What rivals keep of a flow, in bytes, without what a hash table takes beside its entries: its key, 13, and a sum of
// times, 6, and a count, 4, at either end; or the key, first and last time, 8 each, and a count, 4.
const (
	meanEntryBytes = 23
	mpeEntryBytes  = 33
)

// samplingRate is the rate of sampling packets at which so many flows have a sampled packet.
func (x *crossing) samplingRate(flows float64) float64 {
	low, high := 0.0, 1.0
	for range 50 {
		rate, sampled := (low+high)/2, 0.0
		for i := range x.trace.Flows {
			sampled += 1 - math.Pow(1-rate, float64(x.trace.Flows[i].Packets))
		}
		if sampled > flows {
			high = rate
		} else {
			low = rate
		}
	}
	return low
}

// sampledErrors keeps a mean for each flow that has a packet which the hash of its id samples, at the rate that so many flows have one. Other flows get the
// mean of all packets.
func (x *crossing) sampledErrors(flows int) []flowError {
	rate := x.samplingRate(float64(flows))
	sum, count := make([]float64, len(x.trace.Flows)), make([]float64, len(x.trace.Flows))
	x.arrivals(func(p workload.Packet, d int64, lost bool) {
		if !lost && float64(hash.Uint64x2(x.seed, ldsSampleSeed, p.ID)) < rate*(1<<64) {
			sum[p.Flow] += float64(d)
			count[p.Flow]++
		}
	})
	return x.errors(func(f int) (float64, bool) {
		if count[f] == 0 {
			return x.truth().all, true
		}
		return sum[f] / count[f], true
	})
}

// rliErrors is Reference Latency Interpolation: the sender injects probes at a
// fixed rate, whose delays the receiver knows; the delay of a packet is taken to
// lie on the line between the probes before and behind it, and averaged in
// counters per flow. A probe is delayed like a packet of some flow, drawn anew
// each time. So many flows, by hash, have counters, the others get the mean of all packets; 0: all flows have.
func (x *crossing) rliErrors(perSecond float64, flows int) []flowError {
	gap := 1e9 / perSecond
	probes := make([]float64, int(math.Ceil(float64(x.trace.DurationNs)/gap))+2)
	for i := range probes {
		h := hash.Uint64x2(x.seed, ldsProbeSeed, uint64(i))
		probes[i] = float64(x.delays.of(x.seed, uint32(hash.Reduce(h, uint64(len(x.trace.Flows)))), h, int64(float64(i)*gap)))
	}
	sum, count := make([]float64, len(x.trace.Flows)), make([]float64, len(x.trace.Flows))
	x.arrivals(func(p workload.Packet, _ int64, lost bool) {
		if lost {
			return
		}
		before, part := math.Modf(float64(p.TimeNs) / gap)
		i := int(before)
		sum[p.Flow] += probes[i]*(1-part) + probes[i+1]*part
		count[p.Flow]++
	})
	share := 1.0
	if flows > 0 {
		share = float64(flows) / float64(len(x.trace.Flows))
	}
	return x.errors(func(f int) (float64, bool) {
		if float64(hash.Uint64x2(x.seed, ldsClassSeed, uint64(f))) >= share*(1<<64) {
			return x.truth().all, true
		}
		return sum[f] / count[f], count[f] > 0
	})
}
