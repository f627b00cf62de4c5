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
	e := sum.estimate(w.largestPossible(), judgeDelta)
	counted := float64(s.Packets)
	if over := counted - math.Ceil(e.High); over > 0 {
		surplus = uint64(over)
	}
	if over := math.Floor(e.Low) - counted; over > 0 {
		excess = uint64(min(over, math.MaxInt64))
	}
	return surplus, excess
}

// leastBytes is the length of the shortest packet that a switch samples: Ethernet's header and IPv4's.
const leastBytes = 14 + 20

// largestPossible is the largest weight that a packet can have which was sampled by chance, or could have been: of
// samples by bytes that is the shortest packet's, also if none of these was sampled.
func (w *weigher) largestPossible() float64 {
	most := w.largest()
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
