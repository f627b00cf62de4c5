package sink

import (
	"maps"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// poolDoubt is the probability with which a bound of a Pool's estimate may fail.
// Pools have many samples, and their bounds are compared with what switches measured
// themselves, so they are to hold when looked at often.
const poolDoubt = 1e-9

// Pool joins the samples of a hop over flows: what all of their packets met there. The
// samples of every flow count with their number, and a sketch's with the weights that
// it gives them, so nothing is lost in joining. It belongs to one goroutine at a time.
//
// The paper asks for quantiles of flows. What a switch measures of itself is of all
// packets, and the median of flows' medians is not that of their packets.
type Pool struct {
	codec    *encode.Codec
	weights  map[uint64]float64 // by code
	n        uint64
	flows    int
	variance float64 // of ranks, in samples, because of sketches
}

// Pool adds what a quantiles query knows of a flow's hop, from 1, to a pool, which is
// made if into is nil. It returns the pool, and into if there is no sample, or
// samples of another code.
func (r *Recorder) Pool(query string, flow pint.FlowKey, hop int, into *Pool) *Pool {
	r.find(query, func(q *recordedQuery) bool {
		s := q.stream(flow, hop)
		if s == nil || s.n == 0 || q.Aggregation != pint.Quantiles {
			return false
		}
		codec := q.streams.codec
		if into == nil {
			into = &Pool{codec: codec, weights: map[uint64]float64{}}
		}
		// Two live plans may code the values differently.
		if into.codec == codec || into.codec.Same(codec) {
			into.add(q.streams.of(q.samples.find(q.Flow.Of(flow)).hops), s)
		}
		return true
	})
	return into
}

// add joins the samples of a flow, whose weights are their number together.
func (p *Pool) add(plan *streamPlan, s *stream) {
	for code, n := range s.counts {
		if n != 0 {
			p.weights[uint64(code)] += float64(n)
		}
	}
	if s.sketch != nil {
		list := s.list(plan)
		scale := float64(s.n) / total(list)
		for _, x := range list {
			p.weights[plan.keys.code(x.key)] += scale * x.weight
		}
		p.variance += scale * scale * s.sketch.variance()
	}
	p.n += s.n
	p.flows++
}

// Flows is how many flows were joined.
func (p *Pool) Flows() int { return p.flows }

// Samples is how many samples they had.
func (p *Pool) Samples() uint64 { return p.n }

// rankError bounds how far ranks in the pool may be from those of all packets: by
// sampling, and by the sketches, whose errors are independent of each other.
func (p *Pool) rankError() float64 {
	sampling := math.Sqrt(math.Log(2/poolDoubt) / (2 * float64(p.n)))
	return sampling + sketchError(p.variance, float64(p.n), poolDoubt)
}

// Quantiles returns an estimate for each rank, in [0, 1]. The values are interpolated within the
// step of their code; the bounds, which hold with a probability of 1 - 1e-9
// each, are not, and are widened by what random rounding may do.
func (p *Pool) Quantiles(ranks ...float64) []Quantile {
	codes := slices.Sorted(maps.Keys(p.weights))
	e := p.rankError()
	list := make([]Quantile, len(ranks))
	for i, rank := range ranks {
		low, _ := p.codec.Interval(p.code(codes, rank-e))
		_, high := p.codec.Interval(p.code(codes, rank+e))
		if rank-e <= 0 {
			low = 0
		}
		if rank+e >= 1 {
			high = math.Inf(1)
		}
		list[i] = Quantile{Value: p.interpolate(codes, rank), Low: low, High: high, Samples: p.n}
	}
	return list
}

// Sampling returns the values between which a quantile is with a probability of 1 - 1e-9 as far as
// sampling and sketches go: how far it might be off if codes were exact.
func (p *Pool) Sampling(rank float64) (low, high float64) {
	codes, e := slices.Sorted(maps.Keys(p.weights)), p.rankError()
	low, high = p.interpolate(codes, rank-e), p.interpolate(codes, rank+e)
	if rank-e <= 0 {
		low = 0
	}
	if rank+e >= 1 {
		high = math.Inf(1)
	}
	return low, high
}

// code is the smallest code of which at least a share rank of the weight is at
// most that.
func (p *Pool) code(codes []uint64, rank float64) uint64 {
	need, sum := max(1, math.Ceil(min(max(rank, 0), 1)*float64(p.n))), 0.0
	for _, c := range codes {
		if sum += p.weights[c]; sum >= need {
			return c
		}
	}
	return codes[len(codes)-1]
}

// interpolate spreads the weight of a code evenly over the step around it. Random
// rounding of values between two codes shares them in proportion to how near each
// is, so that the share of codes below gives a value's position within the step.
func (p *Pool) interpolate(codes []uint64, rank float64) float64 {
	need := min(max(rank, 0), 1) * float64(p.n)
	sum := 0.0
	for i, c := range codes {
		w := p.weights[c]
		if sum += w; sum >= need || i == len(codes)-1 {
			return p.codec.Between(c, (need-(sum-w))/w-0.5)
		}
	}
	return 0
}
