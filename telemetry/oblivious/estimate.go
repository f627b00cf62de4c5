package oblivious

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Estimate is a value with the bounds that hold except with the probability
// delta that was asked for. Where nothing was left out, all three are the exact
// value.
type Estimate struct{ Value, Low, High float64 }

// ErrUnit is returned for a question about what a sample does not count.
var ErrUnit = errors.New("the sample does not count this")

// Volume estimates what passed the network, each packet once: packets or bytes,
// from a sample of either; or flows, from a sample of flows.
func (s *Sample) Volume(of Unit, delta float64) (Estimate, error) {
	return s.Subset(of, delta, func(*Key) bool { return true })
}

// Frequency estimates the packets or bytes of a flow.
func (s *Sample) Frequency(of Unit, delta float64, flow Key) (Estimate, error) {
	return s.Subset(of, delta, func(k *Key) bool { return *k == flow })
}

// DistinctFlows estimates the number of flows, from a sample of flows.
func (s *Sample) DistinctFlows(delta float64) (Estimate, error) { return s.Volume(Flows, delta) }

// Subset estimates the volume of a set of flows. It is unbiased: an entry
// counts as many as its probability of being sampled says (Horvitz and
// Thompson, 1952), and given the other entries, that is the probability of a
// rank below the threshold.
func (s *Sample) Subset(of Unit, delta float64, in In) (Estimate, error) {
	w, err := s.weigher(of)
	if err != nil {
		return Estimate{}, err
	}
	if !(delta > 0 && delta < 1) {
		return Estimate{}, fmt.Errorf("delta %g: choose a probability above 0 and below 1", delta)
	}
	var sum share
	for i := range w.entries {
		if in(&w.entries[i].Key) {
			w.add(&sum, i)
		}
	}
	return sum.estimate(w.largest(), delta), nil
}

// Share estimates which share of the volume a set of flows has, 0 if there is no
// volume. Its bounds are made of those of the set and of the rest (Zou and Donner,
// 2008): the ratio r at the lower one satisfies
//
//	(set - r rest)^2 = (set - set.Low)^2 + r^2 (rest.High - rest)^2
func (s *Sample) Share(of Unit, delta float64, in In) (Estimate, error) {
	set, err := s.Subset(of, delta, in)
	if err != nil {
		return Estimate{}, err
	}
	rest, err := s.Subset(of, delta, func(k *Key) bool { return !in(k) })
	if err != nil {
		return Estimate{}, err
	}
	if set.High == 0 {
		return Estimate{}, nil
	}
	return Estimate{Value: set.Value / max(set.Value+rest.Value, math.SmallestNonzeroFloat64), Low: leastShare(set, rest), High: 1 - leastShare(rest, set)}, nil
}

// leastShare solves that equation, a r^2 - 2 b r + c = 0. Its b^2 - a c is computed as a sum of squares: the difference
// loses half of the digits where the bounds are equal, and others on processors with a fused multiply-add (arm64).
func leastShare(set, rest Estimate) float64 {
	c := set.Low * (2*set.Value - set.Low)
	if c == 0 {
		return 0
	}
	b := set.Value * rest.Value
	return c / (c + b + math.Hypot(rest.Value*(set.Value-set.Low), (rest.High-rest.Value)*math.Sqrt(c)))
}

// EffectiveSize is how many entries a uniform sample has that is as good: the
// volume over the most that one entry weighs. Of a simple or improved merge in
// its own unit that is the number of entries, but for the large packets of NWPS,
// which are certain and count as if they were sampled. The largest integer means a
// sample that lacks nothing.
func (s *Sample) EffectiveSize(of Unit) (int, error) {
	w, err := s.weigher(of)
	if err != nil {
		return 0, err
	}
	var sum share
	for i := range w.entries {
		w.add(&sum, i)
	}
	size := math.Floor(sum.value() / w.heaviest() * (1 + 1e-12)) // of what rounding took
	if !(size < math.MaxInt) {
		return math.MaxInt, nil
	}
	return int(size), nil
}

// Flow is a flow with its estimate.
type Flow struct {
	Key Key
	Estimate
}

// Flows estimates all flows that have an entry, the largest first.
func (s *Sample) Flows(of Unit, delta float64) ([]Flow, error) { return s.flows(of, delta, 0) }

// flows estimates those whose value is at least the given one.
func (s *Sample) flows(of Unit, delta, least float64) ([]Flow, error) {
	w, err := s.weigher(of)
	if err != nil {
		return nil, err
	}
	if !(delta > 0 && delta < 1) {
		return nil, fmt.Errorf("delta %g: choose a probability above 0 and below 1", delta)
	}
	shares := make(map[Key]share)
	for i := range w.entries {
		key := w.entries[i].Key
		sum := shares[key]
		w.add(&sum, i)
		shares[key] = sum
	}
	var flows []Flow
	largest := w.largest()
	for key, sum := range shares {
		if sum.value() >= least {
			flows = append(flows, Flow{key, sum.estimate(largest, delta)})
		}
	}
	slices.SortFunc(flows, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), a.Key.compare(&b.Key))
	})
	return flows, nil
}

// HeavyHitters returns the flows whose estimate is at least theta - epsilon/2
// of the estimated volume, the largest first. With HeavyHitterSize entries or
// more (EffectiveSize), all flows above theta are among them, except with
// probability delta, and each flow below theta - epsilon is with probability
// delta*epsilon at most (Lemma 3); epsilon 0 reports by the estimates alone.
// The bounds of each flow hold except with probability delta, whatever the size.
func (s *Sample) HeavyHitters(of Unit, theta, epsilon, delta float64) ([]Flow, error) {
	if !(theta > 0 && theta <= 1) || !(epsilon >= 0 && epsilon < 2*theta) {
		return nil, fmt.Errorf("theta %g, epsilon %g: choose a share in (0, 1], and an error below twice that", theta, epsilon)
	}
	w, err := s.weigher(of)
	if err != nil {
		return nil, err
	}
	// What is proven is proven of the sample alone, without Calibrate.
	var sum share
	for i := range w.entries {
		w.add(&sum, i)
	}
	return s.flows(of, delta, (theta-epsilon/2)*sum.value())
}

// weigher gives the weight of the entries of a sample.
type weigher struct {
	ranker
	entries []Entry
	limit   uint64
	limits  []uint64
	whole   bool // nothing was left out
	of      Unit
	adjust  []float64 // see Calibrate; nil: nothing
}

func (s *Sample) weigher(of Unit) (*weigher, error) {
	if (s.Unit == Flows) != (of == Flows) || of < Packets || of > Flows {
		return nil, fmt.Errorf("%w: it is one of %v, asked for %v", ErrUnit, s.Unit, of)
	}
	r := newRanker(Config{Kind: s.Kind, Unit: s.Unit, Seed: s.Seed})
	w := &weigher{r, s.below(), s.Threshold.Value, s.Limits, s.complete(), of, nil}
	if of != Flows {
		w.adjust = s.adjust[of-Packets]
	}
	return w, nil
}

// part returns what entry i counts, and the probability of its being sampled.
func (w *weigher) part(i int) (value, probability float64) {
	e := &w.entries[i]
	value = 1
	byteByByte := w.bytes && w.kind == UWRA
	switch {
	case w.of == Bytes && !byteByByte:
		value = float64(e.Bytes)
	case w.of == Packets && byteByByte:
		value = 1 / float64(e.Bytes)
	}
	switch {
	case w.limits != nil:
		return value, w.probability(w.limits[i], e.Bytes)
	case w.whole:
		return value, 1
	}
	return value, w.probability(w.limit, e.Bytes)
}

// add counts entry i.
func (w *weigher) add(s *share, i int) {
	if value, p := w.part(i); p >= 1 {
		s.exact += value
	} else {
		s.sampled.add(value, p)
	}
	if w.adjust != nil {
		s.adjust += w.adjust[i]
	}
}

// largest is the entry that stands for the most that was not sampled, of those
// that were sampled by chance; 0 if none was.
func (w *weigher) largest() (most chance) {
	for i := range w.entries {
		if value, p := w.part(i); p < 1 {
			var one chance
			if one.add(value, p); one.unseen > most.unseen {
				most = one
			}
		}
	}
	return most
}

// heaviest is the most that an entry stands for, of those that were sampled by
// chance; 0 if none was.
func (w *weigher) heaviest() (most float64) {
	for i := range w.entries {
		if value, p := w.part(i); p < 1 {
			most = max(most, value/p)
		}
	}
	return most
}
