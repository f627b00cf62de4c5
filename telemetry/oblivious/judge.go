package oblivious

import "math"

// judgeDelta is the probability with which a sample without a fault is found to have one.
const judgeDelta = 1e-9

// Judge holds the sample of one switch against the switch's own exact count of packets, and returns what does not
// fit, in packets; both are 0 for a sample that fits, except with probability 1e-9, and for one of flows.
//
//   - surplus: counted beyond what the sample accounts for. Packets of the same id, which the sample takes for one,
//     cause it: identical packets, and packets that came again. So does a host that knows the hash
//     function, and sends packets that are never sampled.
//   - excess: that the sample accounts for beyond what was counted, which no traffic causes if the hash
//     function is secret: the packets were chosen for their ranks, or the record is forged.
func (s *Sample) Judge() (surplus, excess uint64) {
	if s.Unit == Flows || s.Limits != nil {
		return 0, 0
	}
	e, err := s.Volume(Packets, judgeDelta)
	if err != nil {
		return 0, 0
	}
	counted := float64(s.Packets)
	if over := counted - math.Ceil(e.High); over > 0 {
		surplus = uint64(over)
	}
	if over := math.Floor(e.Low) - counted; over > 0 {
		excess = uint64(min(over, math.MaxInt64))
	}
	return surplus, excess
}
