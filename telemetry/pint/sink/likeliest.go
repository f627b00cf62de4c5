package sink

import (
	"math"

	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// Likeliest finds the distribution of values that most likely has given codes which were rounded at random. A value at x, counted in steps of codes, gets the
// code floor(x + u), where u follows from the packet's id and so is known here, too: the code c says that x is at least c - u, and less than
// c - u + 1. Codes of packets with different u thus tell much more of where values are within a step than codes alone: of values that are all the same, n
// samples leave a range of about 2/n steps. The distribution of values that are known by intervals is
// found by steps of expectation and maximisation (Turnbull, JRSS B 38, 1976) from one that is even. It ends with a step that makes the samples less than e
// times as likely, as that fits their luck: the very likeliest distribution sits on few points.
type Likeliest struct {
	codec *encode.Codec
	cells int       // of a step
	begin []float64 // weight of the samples whose intervals begin at a cell, from one step below the code 0
	first int       // the first cell of any interval
	last  int       // behind the last one
	total float64
	share []float64 // by cell, from first on

	samples float64
}

// likeliestSteps is how many steps there are at most; most have 2 to 20.
const likeliestSteps = 100

// likeliestBits: steps are divided into so many cells that there are 2^likeliestBits, but 2^mostCellBits of a step at most. Codes of as many bits are fine enough.
const likeliestBits, mostCellBits = 12, 6

// NewLikeliest is nil for codes that are not rounded at random, or so fine that it does not matter.
func NewLikeliest(c *encode.Codec) *Likeliest {
	bits := c.Bits()
	if !c.RoundsAtRandom() || bits >= likeliestBits {
		return nil
	}
	l := &Likeliest{codec: c, cells: 1 << min(likeliestBits-bits, mostCellBits)}
	l.begin = make([]float64, l.cells<<bits+1)
	l.first = len(l.begin)
	return l
}

// Add takes in a sample's code and by what it was rounded, below encode.RoundOne.
func (l *Likeliest) Add(code, rounding uint64, weight float64) {
	at := l.cells*(int(code)+1) - int(math.Round(float64(l.cells)*float64(rounding)/encode.RoundOne))
	l.begin[at] += weight
	l.first, l.last = min(l.first, at), max(l.last, at+l.cells)
	l.total += weight
}

// Solve finds the distribution, of one sample or more. They are as good as so many that count alike.
func (l *Likeliest) Solve(samples uint64) {
	l.samples = float64(samples)
	n := l.last - l.first
	l.share = make([]float64, n)
	for i := range l.share {
		l.share[i] = 1 / float64(n)
	}
	below := make([]float64, n+1)  // sum of the shares below a cell
	factor := make([]float64, n+1) // of the cells of the intervals that begin at a cell
	before := math.Inf(-1)
	for range likeliestSteps {
		for i, s := range l.share {
			below[i+1] = below[i] + s
		}
		likelihood := 0. // logarithm of that of the samples
		for i := 0; i <= n-l.cells; i++ {
			weight, share := l.begin[l.first+i]/l.total, below[i+l.cells]-below[i]
			if factor[i] = 0; weight > 0 && share > 0 {
				factor[i] = weight / share
				likelihood += weight * l.samples * math.Log(share)
			}
		}
		if likelihood < before+1 {
			break
		}
		before = likelihood
		sum := 0.
		for i := range l.share {
			sum += factor[i]
			if i >= l.cells {
				sum -= factor[i-l.cells]
			}
			l.share[i] *= max(sum, 0)
		}
	}
}

// Quantile is the smallest value of which at least a share rank are at most that. The smallest and the largest of n samples stand for ranks of 1/2n
// and 1 - 1/2n.
func (l *Likeliest) Quantile(rank float64) float64 {
	end := 0.5 / l.samples
	rank = min(max(rank, end), 1-end)
	at, sum := float64(len(l.share)), 0.
	for i, s := range l.share {
		if sum+s >= rank && s > 0 {
			at = float64(i) + max(rank-sum, 0)/s
			break
		}
		sum += s
	}
	at = (float64(l.first)+at)/float64(l.cells) - 1
	code := max(math.Round(at), 0)
	return l.codec.Between(min(uint64(code), uint64(1)<<l.codec.Bits()-1), min(max(at-code, -0.5), 0.5))
}
