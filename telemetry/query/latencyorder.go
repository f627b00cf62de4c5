package query

import (
	"math"

	"github.com/weirswitch/weir/telemetry/pint/sink"
)

// ordered is a sample of a hop: the how manieth packet of the flow with a digest it was, of any hop, by what its code was rounded, and the code.
type ordered struct {
	packet, rounding uint32
	code             uint64
}

// alikeCorrelation is how much a sample of a hop has in common with the next one of it at least, for both to stand better for the packets nearest to them than
// for all packets alike. Where what packets meet is correlated by e^(-theta distance), and they are sampled at random, once in a
// unit of distance, neighbours have a correlation of a = 1/(1+theta). A share of the samples has a variance of 1 over their number, in units of
// its own, and that by the nearest packets of
//
//	3/2 + (a + 2a^2 + 2a^3)/2 + (a^2 (1+a)^2 / 2 - 2a) / (1-a)
//
// over it, which is 3/2 of independent packets, below 1 from here on, and goes to 0.
const alikeCorrelation = 0.311

// onePath reports whether the flow that was asked for took one path in all of the window, so that its samples at a hop are in one order.
func (p *hopPool) onePath() bool {
	hops := map[int]bool{}
	for at := range p.by {
		for other := range p.by {
			if other.hops != at.hops {
				return false
			}
		}
		if hops[at.hop] {
			return false
		}
		hops[at.hop] = true
	}
	return p.d.one
}

// refine makes the quantiles of a flow's hop more exact. Where the flow took one path and its samples are alike enough (alikeCorrelation, and a standard
// error), each stands for the flow's packets that are nearest to it in order of arrival, as queues change slowly; else all count alike. Values are the
// likeliest ones of codes and their rounding. Bounds are those of samples that count alike.
func (t *hopTally) refine(c *coding, v *ValueStats, packets uint32, onePath bool) {
	if c.codec == nil || len(t.order) != int(t.n) || len(v.Quantiles) == 0 || t.n < leastOfMean {
		return
	}
	ranks := make([]float64, len(v.Quantiles))
	for i := range ranks {
		ranks[i] = v.Quantiles[i].Rank
	}
	var weights []uint64
	if onePath && t.areAlike(ranks) {
		weights = t.nearest(packets)
	}
	var value func(rank float64) float64
	if l := sink.NewLikeliest(c.codec); l != nil {
		for i, o := range t.order {
			l.Add(o.code, uint64(o.rounding), float64(weightOf(weights, i)))
		}
		l.Solve(t.n)
		value = l.Quantile
	} else if weights != nil {
		value = t.between(c, weights)
	} else {
		return
	}
	for i, rank := range ranks {
		q := &v.Quantiles[i]
		q.Value = min(max(c.scale*value(rank), q.Low), q.High)
	}
}

// weightOf is a sample's weight; without weights all count alike.
func weightOf(weights []uint64, i int) uint64 {
	if weights == nil {
		return 1
	}
	return weights[i]
}

// areAlike reports whether samples next to each other are, on average over the quantiles of some ranks.
func (t *hopTally) areAlike(ranks []float64) bool {
	sum := 0.
	for _, p := range t.places(ranks) {
		sum += t.alike(p.code)
	}
	return sum/float64(len(ranks)) > alikeCorrelation+1/math.Sqrt(float64(t.n))
}

// nearest is how many of the flow's packets are nearest to each sample, doubled.
func (t *hopTally) nearest(packets uint32) []uint64 {
	weights, begin := make([]uint64, len(t.order)), uint64(0)
	for i, o := range t.order {
		end := 2 * uint64(packets)
		if i+1 < len(t.order) {
			end = uint64(o.packet) + uint64(t.order[i+1].packet)
		}
		weights[i] = end - begin
		begin = end
	}
	return weights
}

// between are the quantiles of weighted codes. A code's packets are spread evenly over the step around it, but not beyond the smallest and the largest
// code: random rounding of values there would have given the next code, too.
func (t *hopTally) between(c *coding, weights []uint64) func(rank float64) float64 {
	whole := newTally(c)
	for i, o := range t.order {
		whole.addMany(o.code, weights[i])
	}
	ends := whole.places([]float64{0, 1})
	return func(rank float64) float64 {
		p, low, high := whole.places([]float64{rank})[0], -0.5, 0.5
		if p.code == ends[0].code {
			low = 0
		}
		if p.code == ends[1].code {
			high = 0
		}
		return c.codec.Between(p.code, low+(high-low)*max(p.part+0.5, 0))
	}
}

// alike is the correlation of a sample's being at most a code with the next one's; 0 if all are, or none.
func (t *hopTally) alike(code uint64) float64 {
	below, both := 0, 0
	for i, o := range t.order {
		if o.code <= code {
			below++
			if i+1 < len(t.order) && t.order[i+1].code <= code {
				both++
			}
		}
	}
	n := float64(len(t.order))
	share := float64(below) / n
	if share == 0 || share == 1 {
		return 0
	}
	return (float64(both)/(n-1) - share*share) / (share * (1 - share))
}
