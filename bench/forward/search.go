package forward

import (
	"fmt"
	"math"
)

// search finds the highest rates that a device carries with at most a given loss.
//
// A shared machine loses packets now and then for reasons that are not the device's, so
// one trial decides nothing: a rate meets a goal if most of its trials do, as in MLRsearch
// (draft-ietf-bmwg-mlrsearch, whose "exceed ratio" is one half here). Trials are kept, so
// that the second goal begins with what the first one found out.
type search struct {
	// trial offers a rate in packets per second. It returns the share of the packets that were
	// lost, 0 to 1, and the rate that the source really reached.
	trial func(rate float64) (loss, reached float64, err error)
	// trials at most are made at one rate, an odd number.
	trials int
	// precision at which the search ends: the ratio of the lowest rate that fails to the
	// highest that passes, minus 1.
	precision float64
	// floor is the rate in packets per second below which the device counts as
	// carrying nothing.
	floor float64

	// fastest is the highest rate that the source is known to reach. Where it reaches less than asked for at a rate below that, the machine
	// held it up: such a trial says nothing of the device and is made again.
	fastest float64
	again   int // trials that were made again

	points []point
}

// heldUp is how many trials at one rate are made again since the source was held up.
const heldUp = 3

// point holds the losses of the trials at one rate.
type point struct {
	rate    float64
	losses  []float64
	limited bool // the source did not reach the rate
}

// limitedBelow is the share of a rate that a source must reach.
const limitedBelow = 0.995

// found is the result for one goal.
type found struct {
	Rate float64 `json:"rate"` // packets per second; 0: none at or above the floor
	// SourceLimited: the device may carry more than the source can send.
	SourceLimited bool `json:"source_limited"`
	Trials        int  `json:"trials"` // made for this goal
}

// highest searches the highest rate with a loss of at most goal, beginning at start.
func (s *search) highest(goal, start float64) (found, error) {
	low, high := s.bounds(goal)
	before := s.made()
	rate := start
	if low > 0 || !math.IsInf(high, 1) {
		rate = next(low, high)
	}
	for steps := 0; !s.close(low, high); steps++ {
		if steps == 64 {
			return found{}, fmt.Errorf("the search for a rate with a loss of %g does not end: between %.0f and %.0f pps", goal, low, high)
		}
		p, err := s.visit(rate, goal)
		if err != nil {
			return found{}, err
		}
		switch passes := p.passes(goal); {
		case passes && p.limited && p.rate <= low*(1+s.precision):
			// More was asked for than before, and no more was sent.
			return found{max(low, p.rate), true, s.made() - before}, nil
		case passes:
			low = max(low, p.rate)
		default:
			high = p.rate
		}
		if high <= s.floor {
			return found{0, false, s.made() - before}, nil
		}
		rate = next(low, high)
	}
	return found{low, false, s.made() - before}, nil // the device lost packets of a rate just above
}

// next is the rate to try between bounds: their geometric mean, or a step outwards where one
// of them is unknown.
func next(low, high float64) float64 {
	switch {
	case low == 0:
		return high / 1.6
	case math.IsInf(high, 1):
		return low * 1.4
	}
	return math.Sqrt(low * high)
}

func (s *search) close(low, high float64) bool {
	return low > 0 && high/low-1 <= s.precision
}

func (s *search) made() int {
	n := s.again
	for _, p := range s.points {
		n += len(p.losses)
	}
	return n
}

// bounds takes from earlier trials the highest rate below all failures that passes, and the lowest
// that fails. Only decided points count.
func (s *search) bounds(goal float64) (low, high float64) {
	high = math.Inf(1)
	for i := range s.points {
		if p := &s.points[i]; p.decided(goal, s.trials) && !p.passes(goal) {
			high = min(high, p.rate)
		}
	}
	for i := range s.points {
		p := &s.points[i]
		if p.decided(goal, s.trials) && p.passes(goal) && p.rate > low && p.rate < high {
			low = p.rate
		}
	}
	return low, high
}

// visit makes trials at a rate until it is decided whether most meet the goal.
func (s *search) visit(rate, goal float64) (*point, error) {
	p := point{rate: rate}
	for again := 0; !p.decided(goal, s.trials); {
		loss, reached, err := s.trial(rate)
		if err != nil {
			return nil, err
		}
		if reached < rate*limitedBelow && rate <= s.fastest && again < heldUp {
			again++
			s.again++
			continue
		}
		s.fastest = max(s.fastest, reached)
		p.losses = append(p.losses, loss)
		if reached < rate*limitedBelow {
			p.limited, p.rate = true, min(p.rate, reached)
		}
	}
	s.points = append(s.points, p)
	return &s.points[len(s.points)-1], nil
}

// decided reports whether further trials of n cannot change the majority.
func (p *point) decided(goal float64, n int) bool {
	met := p.met(goal)
	return 2*met > n || 2*(len(p.losses)-met) > n
}

func (p *point) passes(goal float64) bool { return 2*p.met(goal) > len(p.losses) }

func (p *point) met(goal float64) (n int) {
	for _, loss := range p.losses {
		if loss <= goal {
			n++
		}
	}
	return n
}
