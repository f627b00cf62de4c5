package oblivious

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mathext"
)

// Calibrated estimates the volume, packets or bytes, from the samples of switches, one of each, as samplers made them, and
// from their exact totals: see Calibrate.
func Calibrated(of Unit, delta float64, samples ...*Sample) (Estimate, error) {
	union, err := Union(samples...)
	if err != nil {
		return Estimate{}, err
	}
	switches := make([][]*Sample, len(samples))
	for i, s := range samples {
		if !s.counted() && s.Packets > 0 {
			return Estimate{}, fmt.Errorf("%w: a sample does not say how often its packets were seen", ErrUnlike)
		}
		switches[i] = samples[i : i+1]
	}
	union.Calibrate(switches)
	return union.Volume(of, delta)
}

// Calibrate has the estimates of a union use the exact totals of the switches whose samples it joins, all samples of a switch in
// one list (generalised regression: Deville and Särndal, 1992). Samples that do not say how often their entries were seen may
// be among them, and totals of bytes are used where samples depend on bytes.
//
// Each switch i has an exact total T_i, and an estimate E_i of the same from its own sample: an entry that it saw n times, and
// sampled with the probability p, counts n/p. What chance made wrong with E_i it made wrong with the union's estimate U, too, as both are of
// the same packets. So with any numbers beta_i
//
//	U + sum_i beta_i (T_i - E_i)
//
// is as unbiased as U is, and beta are those with which it varies least, as the entries tell. The same is done with all
// estimates from the entries below the smallest threshold of the samples alone: these are fewer, but where each packet passes
// two of the edge switches, half the sum of their totals is the volume, and it is exact. What varies less counts; neither topology nor routes need be known. The
// difference to U is shared among the entries by what each explains of it, so that sets of flows have their parts of it, which add up.
//
// Bounds remain those of the union alone, and values are within them. They could not be narrower without knowing how often the packets came again
// that were not sampled: a total counts them, and the sample does not tell of them. So totals count where a class of packets shows that they can be relied on:
//
//   - TCP, UDP and others are estimated apart. TCP's packets have sequence numbers, so that few come twice; a hello of a
//     routing protocol may come a thousand times as the same packet. Of classes other than TCP, totals count only if they explain nearly
//     all that was sampled (explained);
//   - totals that contradict the sample, beyond what chance does once in a thousand times (contradicted), do not count.
func (s *Sample) Calibrate(switches [][]*Sample) {
	s.adjust = [2][]float64{}
	if s.Limits == nil || s.Unit == Flows || len(s.Entries) == 0 {
		return
	}
	c := newCalibration(s, switches)
	for _, of := range []Unit{Packets, Bytes} {
		w, err := s.weigher(of)
		if err != nil || of == Bytes && s.Unit == Packets {
			continue
		}
		adjust, counts := make([]float64, len(s.Entries)), false
		for class := range classes {
			counts = c.class(w, class, adjust) || counts
		}
		if counts {
			s.adjust[of-Packets] = adjust
		}
	}
}

const (
	// explained is the share of the union's variance which totals leave at most where packets may come again often: more
	// means that packets of the class came again, or passed the switches, in ways that differ.
	explained = 1. / 20
	// contradicted is the probability with which chance alone has a class' totals left out.
	contradicted = 1e-3
	// leastPerSwitch is how many entries there are at least for each beta.
	leastPerSwitch = 4
	// fitSightings bounds how many sightings beta are found from; of more, entries are drawn.
	fitSightings = 1 << 18
)

// calibration says which switches saw the entries of a union: those of entry e are sightings[first[e]:first[e+1]], of larger
// thresholds first.
type calibration struct {
	totals    [][classes]Totals // by switch
	sightings []sighting
	first     []int32
	least     uint64 // the smallest threshold of all samples: below it each sighting is known
}

// sighting says how often an entry was seen in a sample.
type sighting struct {
	sw, times uint32
	limit     uint64 // the sample's threshold
	whole     bool   // the sample lacks nothing
}

func newCalibration(union *Sample, switches [][]*Sample) *calibration {
	c := &calibration{totals: make([][classes]Totals, len(switches)), first: make([]int32, len(union.Entries)+1), least: math.MaxUint64}
	for _, samples := range switches {
		for _, s := range samples {
			c.least = min(c.least, s.Threshold.Value)
		}
	}
	// Ranks are searched without the rest of the entries, which is four fifths of them.
	ranks := make([]Rank, len(union.Entries))
	for i := range union.Entries {
		ranks[i] = union.Entries[i].Rank
	}
	// Of each switch: where the union has the entries of its samples, one sample behind the other; and how many there are of each sample.
	places, found := make([][]int32, len(switches)), []int(nil)
	for sw, samples := range switches {
		for _, s := range samples {
			if !s.counted() {
				continue
			}
			first, at := len(places[sw]), 0
			for i := range s.Entries {
				rank := s.Entries[i].Rank
				if !rank.less(s.Threshold) {
					break
				}
				if at = findRank(ranks, at, rank); at == len(ranks) || ranks[at] != rank {
					break // it is no sample of this union
				}
				places[sw] = append(places[sw], int32(at))
				c.first[at+1]++
			}
			found = append(found, len(places[sw])-first)
		}
	}
	for e := range union.Entries {
		c.first[e+1] += c.first[e]
	}
	c.sightings = make([]sighting, c.first[len(union.Entries)])
	next := slices.Clone(c.first)
	for sw, samples := range switches {
		for _, s := range samples {
			if !s.counted() {
				continue
			}
			whole := s.complete()
			for i, entry := range places[sw][:found[0]] {
				j := next[entry]
				for ; j > c.first[entry] && c.sightings[j-1].limit < s.Threshold.Value; j-- {
					c.sightings[j] = c.sightings[j-1]
				}
				c.sightings[j] = sighting{uint32(sw), s.Seen[i], s.Threshold.Value, whole}
				next[entry]++
			}
			places[sw], found = places[sw][found[0]:], found[1:]
		}
	}
	for sw, samples := range switches {
		for _, s := range samples {
			if !s.counted() {
				continue
			}
			for class, t := range s.Classes {
				c.totals[sw][class].Packets += t.Packets
				c.totals[sw][class].Bytes += t.Bytes
			}
		}
	}
	return c
}

// findRank is the first of sorted ranks, from one on, that is at least rank.
func findRank(ranks []Rank, from int, rank Rank) int {
	step := 1
	for from+step < len(ranks) && ranks[from+step].less(rank) {
		from += step
		step *= 2
	}
	to := min(from+step+1, len(ranks))
	for from < to {
		if middle := (from + to) / 2; ranks[middle].less(rank) {
			from = middle + 1
		} else {
			to = middle
		}
	}
	return from
}

// regression are the entries of a class. An entry is sampled if its rank is below a threshold, by the union with a probability p
// and by its k-th sighting with p_k, p being the largest; so of two of these the covariance of being sampled, over both
// probabilities, is min(1-p, 1-p_k) / (p p_k), and the estimates' variance a sum of products with such a kernel.
type regression struct {
	first []int32   // of the entries' sightings
	own   []float64 // a/p of each entry, of the value a
	left  []float64 // 1-p
	sw    []int32   // of each sighting
	times []float64 // a n/p_k
	lack  []float64 // 1-p_k, increasing for an entry
	moved []float64 // room for a number for each sighting
}

// add adds an entry. Under a common threshold, if there is one, all probabilities are those of that.
func (r *regression) add(w *weigher, e int, sightings []sighting, common *uint64) {
	value, p := w.part(e)
	if common != nil {
		p = w.probability(*common, w.entries[e].Bytes)
	}
	r.own, r.left = append(r.own, value/p), append(r.left, 1-p)
	for i := range sightings {
		s := &sightings[i]
		pk := 1.
		switch {
		case common != nil:
			pk = p
		case !s.whole:
			pk = w.probability(s.limit, w.entries[e].Bytes)
		}
		r.sw, r.times, r.lack, r.moved = append(r.sw, int32(s.sw)), append(r.times, value*float64(s.times)/pk), append(r.lack, 1-pk), append(r.moved, 0)
	}
	r.first = append(r.first, int32(len(r.sw)))
}

// spread multiplies the numbers of an entry's sightings, in moved, and own with the kernel, in place.
func (r *regression) spread(e int, own float64) {
	from, to := r.first[e], r.first[e+1]
	behind, before := 0., own*r.left[e]
	for _, y := range r.moved[from:to] {
		behind += y
	}
	for i := from; i < to; i++ {
		y := r.moved[i]
		behind -= y
		before += r.lack[i] * y
		r.moved[i] = before + r.lack[i]*behind
	}
}

// explain is what beta count of an entry: its part of the sum of beta E.
func (r *regression) explain(e int, beta []float64) (sum float64) {
	for i := r.first[e]; i < r.first[e+1]; i++ {
		sum += beta[r.sw[i]] * r.times[i]
	}
	return sum
}

// variances are those of the union's estimate, of sum beta E, and their covariance.
func (r *regression) variances(beta []float64) (own, totals, both float64) {
	for e := range r.own {
		from, to := r.first[e], r.first[e+1]
		for i := from; i < to; i++ {
			r.moved[i] = beta[r.sw[i]] * r.times[i]
		}
		own += r.own[e] * r.own[e] * r.left[e]
		both += r.own[e] * r.left[e] * r.explain(e, beta)
		r.spread(e, 0)
		for i := from; i < to; i++ {
			totals += beta[r.sw[i]] * r.times[i] * r.moved[i]
		}
	}
	return own, totals, both
}

// fit finds the beta with which the union's estimate and the totals together vary least, by conjugate gradients from 0, which end after as many steps as
// there are switches but for rounding.
func (r *regression) fit(switches int) []float64 {
	beta, gradient, step, curved := make([]float64, switches), make([]float64, switches), make([]float64, switches), make([]float64, switches)
	// onto sums the sightings' numbers by switch.
	onto := func(out []float64, e int) {
		for i := r.first[e]; i < r.first[e+1]; i++ {
			out[r.sw[i]] += r.times[i] * r.moved[i]
		}
	}
	for e := range r.own {
		clear(r.moved[r.first[e]:r.first[e+1]])
		r.spread(e, r.own[e])
		onto(gradient, e)
	}
	// Totals of switches differ by magnitudes: steps are in units of their own curvature.
	scale := make([]float64, switches)
	for i, sw := range r.sw {
		scale[sw] += r.times[i] * r.times[i] * r.lack[i]
	}
	for i, v := range scale {
		if v > 0 {
			scale[i] = 1 / v
		}
	}
	scaled := make([]float64, switches)
	floats.MulTo(scaled, gradient, scale)
	copy(step, scaled)
	slope := floats.Dot(gradient, scaled)
	end := 1e-18 * slope
	for range 2*switches + 20 {
		if slope <= end {
			break
		}
		clear(curved)
		for e := range r.own {
			for i := r.first[e]; i < r.first[e+1]; i++ {
				r.moved[i] = step[r.sw[i]] * r.times[i]
			}
			r.spread(e, 0)
			onto(curved, e)
		}
		curve := floats.Dot(step, curved)
		if !(curve > 0) {
			break
		}
		floats.AddScaled(beta, slope/curve, step)
		floats.AddScaled(gradient, -slope/curve, curved)
		floats.MulTo(scaled, gradient, scale)
		before := slope
		slope = floats.Dot(gradient, scaled)
		floats.Scale(slope/before, step)
		floats.Add(step, scaled)
	}
	return beta
}

// candidate is a way to estimate a class by the totals.
type candidate struct {
	estimate float64   // less the union's
	rest     float64   // its variance
	apart    float64   // the variance of the difference
	parts    []float64 // of the difference, by entry of the union; their sum is below
	sum      float64
}

// class adds to adjust what the totals of a class make of its entries, and reports false if they do not count.
func (c *calibration) class(w *weigher, class int, adjust []float64) bool {
	var entries []int32
	used := make([]bool, len(c.totals))
	own := 0.
	for e := range w.entries {
		if classOf(w.entries[e].Key.Proto) != class {
			continue
		}
		entries = append(entries, int32(e))
		value, p := w.part(e)
		own += value * value * (1 - p) / (p * p)
		for _, s := range c.sightings[c.first[e]:c.first[e+1]] {
			used[s.sw] = true
		}
	}
	switches := 0
	for _, u := range used {
		if u {
			switches++
		}
	}
	if switches == 0 || own == 0 {
		return false
	}
	best := c.candidate(w, class, entries, switches, nil)
	if other := c.candidate(w, class, entries, switches, &c.least); best == nil || other != nil && other.rest < best.rest {
		best = other
	}
	if best == nil {
		return false // too few entries to tell what the totals have in common
	}
	most := own
	if class != classOf(protoTCP) {
		most *= explained
	}
	if !(best.rest < most) || !(best.sum > 0) || math.Abs(best.estimate) > -mathext.NormalQuantile(contradicted/2)*math.Sqrt(best.apart) {
		return false
	}
	for i, e := range entries {
		adjust[e] = best.estimate * best.parts[i] / best.sum
	}
	return true
}

// candidate estimates a class by the totals, from entries by thresholds of their own or below a common one; nil: of too few entries.
func (c *calibration) candidate(w *weigher, class int, entries []int32, switches int, common *uint64) *candidate {
	all, some := &regression{first: []int32{0}}, &regression{first: []int32{0}}
	share := fitSightings / max(float64(len(c.sightings)), fitSightings)
	var at []int32 // the entries of all, by place in entries
	for i, e := range entries {
		if common != nil && w.entries[e].Rank.Value >= *common {
			continue
		}
		sightings := c.sightings[c.first[e]:c.first[e+1]]
		all.add(w, int(e), sightings, common)
		at = append(at, int32(i))
		// Ranks do not decide which are drawn: they are by another hash of the id.
		if share < 1 && float64(w.entries[e].Rank.ID*0x9e3779b97f4a7c15) < share*(1<<64) {
			some.add(w, int(e), sightings, common)
		}
	}
	if share == 1 {
		some = all
	}
	if len(some.own) < leastPerSwitch*switches {
		return nil
	}
	beta := some.fit(len(c.totals))
	own, totals, both := all.variances(beta)
	n := float64(len(some.own))
	out := &candidate{rest: (own + totals - 2*both) * n / (n - float64(switches)), parts: make([]float64, len(entries))}
	out.estimate = c.difference(w.of, class, beta, all)
	if common == nil {
		for k, i := range at {
			out.parts[i] = all.own[k] * all.left[k] * all.explain(k, beta)
			out.sum += out.parts[i]
		}
		out.apart = totals
		return out
	}
	union := 0.
	for i, e := range entries {
		value, p := w.part(int(e))
		out.parts[i] = value * value * (1 - p) / (p * p)
		union += out.parts[i]
		out.estimate -= value / p
	}
	shared := 0. // the covariance of the union's and this one
	for k, i := range at {
		value, p := w.part(int(entries[i]))
		part := value / p * (1 - p) * (all.own[k] - all.explain(k, beta))
		out.estimate += all.own[k]
		out.parts[i] -= part
		shared += part
	}
	out.sum = union - shared
	out.apart = union + own + totals - 2*both - 2*shared
	return out
}

// difference is sum beta (T - E).
func (c *calibration) difference(of Unit, class int, beta []float64, r *regression) (sum float64) {
	for sw, t := range c.totals {
		if of == Bytes {
			sum += beta[sw] * float64(t[class].Bytes)
		} else {
			sum += beta[sw] * float64(t[class].Packets)
		}
	}
	for e := range r.own {
		sum -= r.explain(e, beta)
	}
	return sum
}
