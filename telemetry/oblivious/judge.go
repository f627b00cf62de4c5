package oblivious

import (
	"math"
	"slices"
)

// judgeDelta is the probability with which a sample without a fault is found to have one.
const judgeDelta = 1e-9

// Judge holds the sample of one switch, or the union of its samples of many epochs, against the switch's own exact count of packets, and
// returns what does not fit, in packets; both are 0 for a sample that fits, except with probability 1e-9, and for one of flows.
//
//   - surplus: counted beyond what the sample accounts for. Packets of the same id, which the sample takes for one,
//     cause it: identical packets, and packets that came again. So does a host that knows the hash
//     function, and sends packets that are never sampled.
//   - excess: that the sample accounts for beyond what was counted, which no traffic causes if the hash
//     function is secret: the packets were chosen for their ranks, or the record is forged.
func (s *Sample) Judge() (surplus, excess uint64) {
	if s.Unit == Flows {
		return 0, 0
	}
	w, err := s.weigher(Packets)
	if err != nil {
		return 0, 0
	}
	var sum share
	for i := range w.entries {
		w.add(&sum, i)
	}
	low, high := sum.exact, sum.value()
	if most := w.heaviestPossible(); most > 0 {
		least, largest := chernoff((high-low)/most, judgeDelta)
		low, high = sum.exact+least*most, sum.exact+largest*most
	}
	counted := float64(s.Packets)
	if over := counted - math.Ceil(high); over > 0 {
		surplus = uint64(over)
	}
	if over := math.Floor(low) - counted; over > 0 {
		excess = uint64(min(over, math.MaxInt64))
	}
	return surplus, excess
}

// leastBytes is the length of the shortest packet that a switch samples: Ethernet's header and IPv4's.
const leastBytes = 14 + 20

// heaviestPossible is the most that a packet can stand for which was sampled by chance, or could have been: of
// samples by bytes that is the shortest packet, also if none of these was sampled.
func (w *weigher) heaviestPossible() float64 {
	most := w.heaviest()
	if !w.bytes || w.whole {
		return most
	}
	value, limit := 1., w.limit
	if w.kind == UWRA {
		value = 1. / leastBytes
	}
	if len(w.limits) > 0 {
		limit = slices.Min(w.limits)
	}
	if p := w.probability(limit, leastBytes); p < 1 {
		most = max(most, value/p)
	}
	return most
}

// chernoff returns the smallest and the largest mean of a sum of independent
// variables in [0, 1] under which the sum would come out as far as x with
// probability above delta/2: P <= exp(-(x ln(x/mean) - x + mean)). It is wider than
// the bounds of estimates, but proven for entries of any weights.
//
// With mean = e^u the exponent is convex in u on both sides of x, so Newton's
// steps from beyond the root come down to it and never pass it.
func chernoff(x, delta float64) (low, high float64) {
	budget := math.Log(2 / delta)
	if x == 0 {
		return 0, budget
	}
	solve := func(u float64) float64 {
		for range 50 {
			mean := math.Exp(u)
			step := (x*(math.Log(x)-u) - x + mean - budget) / (mean - x)
			if u -= step; math.Abs(step) < 1e-12 {
				break
			}
		}
		return math.Exp(u)
	}
	// At the starts the exponent exceeds the budget.
	return solve(math.Log(x) - budget/x - 1), solve(math.Log(x + budget + math.Sqrt(2*x*budget)))
}
