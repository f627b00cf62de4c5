package oblivious

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mathext"
)

// Calibrated estimates the volume, packets or bytes, from the samples of the unit
// itself, as samplers made them, and from the switches' exact totals (generalised regression: Deville and
// Särndal, 1992). It is known of each entry of the improved merge how often each switch i saw it, n_ei. Of all
// sums beta of switches, the one is sought that counts each entry once as nearly
// as possible, so that the totals count most of the volume exactly,
//
//	sum_e a_e/p_e (1 - sum_i beta_i n_ei) + sum_i beta_i total_i,
//
// and what the entries add is the small rest that beta does not explain. Where each packet
// passes two of the edge switches, half the sum of their totals is the volume; neither topology
// nor routes need be known.
//
// TCP, UDP and other packets are estimated apart, where all samplers counted by protocol: TCP's have sequence
// numbers, so that few come twice and totals say much, and a hello of a routing protocol may come a
// thousand times as the same packet. Of one that was not sampled the fit knows nothing. So totals of other protocols count only where they
// explain nearly all that was sampled (explained), and else, and where it varies less, the union of the samples does.
//
// Totals are of bytes on the wire: where packets are padded or tagged, the estimate is too large by up to as
// much as they are. Sample.Subset has no such error.
func Calibrated(of Unit, delta float64, samples ...*Sample) (Estimate, error) {
	merged, err := Improved(samples...)
	if err != nil {
		return Estimate{}, err
	}
	if merged.Unit != of || of == Flows {
		return Estimate{}, fmt.Errorf("%w: totals are of packets or bytes, as the sample", ErrUnit)
	}
	byClass := true
	for _, s := range samples {
		if len(s.Seen) != len(s.Entries) {
			return Estimate{}, fmt.Errorf("%w: a merged or decoded sample does not say how often its packets were seen", ErrUnlike)
		}
		counted := uint64(0)
		for _, c := range s.Classes {
			counted += c.Packets
		}
		byClass = byClass && counted == s.Packets
	}
	plain, err := merged.Volume(of, delta)
	if err != nil || merged.complete() {
		return plain, err
	}
	union, err := Union(samples...)
	if err != nil {
		return Estimate{}, err
	}
	w, err := merged.weigher(of)
	if err != nil {
		return Estimate{}, err
	}
	alone, err := union.weigher(of)
	if err != nil {
		return Estimate{}, err
	}
	if len(w.entries) < 4*len(samples) {
		return plain, nil // too few to tell what the totals have in common
	}
	c := newCalibration(w, samples)
	sum := calibrated{byUnion: true}
	if byClass {
		for class := range classes {
			in := func(e *Entry) bool { return classOf(e.Key.Proto) == class }
			total := func(s *Sample) Totals { return s.Classes[class] }
			sum.add(c.estimate(w, alone, samples, in, total, class == classOf(protoTCP)))
		}
	} else {
		all := func(*Entry) bool { return true }
		sum.add(c.estimate(w, alone, samples, all, func(s *Sample) Totals { return Totals{s.Packets, s.Bytes} }, true))
	}
	if sum.byUnion {
		return union.Volume(of, delta)
	}
	risk := (1 - reserve) * delta / 2
	// Beside the normal error of what was sampled, as much may not have been sampled
	// of a kind for which beta is wrong altogether as is missing with the risk.
	half := -mathext.NormalQuantile(risk)*math.Sqrt(sum.variance) - sum.heaviest*math.Log(risk)
	return Estimate{sum.value, max(0, sum.value-half), sum.value + half}, nil
}

// explained is the share of the union's variance which totals leave at most where packets may come again often.
const explained = 1. / 20

// calibrated is an estimate of some of the packets.
type calibrated struct {
	value, variance, heaviest float64
	byUnion                   bool // all of it
}

func (c *calibrated) add(o calibrated) {
	c.value += o.value
	c.variance += o.variance
	c.heaviest = max(c.heaviest, o.heaviest)
	c.byUnion = c.byUnion && o.byUnion
}

// estimate is that of the entries in a class, of which the switches have totals: by them, or by the union, alone.
func (c *calibration) estimate(w, alone *weigher, samples []*Sample, in func(*Entry) bool, total func(*Sample) Totals, rarelyAgain bool) calibrated {
	union := calibrated{byUnion: true}
	for e := range alone.entries {
		if in(&alone.entries[e]) {
			a, p := alone.part(e)
			union.value += a / p
			union.variance += a * a * (1 - p) / (p * p)
		}
	}
	union.heaviest = alone.heaviest()
	weights, entries := make([]float64, len(w.entries)), 0
	for e := range w.entries {
		if in(&w.entries[e]) {
			a, p := w.part(e)
			weights[e] = a * a * (1 - p) / (p * p)
			entries++
		}
	}
	if entries < 4*len(samples) {
		return union
	}
	beta, rest := c.fit(weights, len(samples))
	out := calibrated{heaviest: w.heaviest()}
	for i, s := range samples {
		t := total(s)
		if w.of == Bytes {
			out.value += beta[i] * float64(t.Bytes)
		} else {
			out.value += beta[i] * float64(t.Packets)
		}
	}
	for e := range w.entries {
		if in(&w.entries[e]) {
			a, p := w.part(e)
			out.value += a / p * rest[e]
			out.variance += weights[e] * rest[e] * rest[e]
		}
	}
	n := float64(entries)
	out.variance *= n / (n - float64(len(samples)))
	if most := union.variance; out.variance < most && (rarelyAgain || out.variance < most*explained) {
		return out
	}
	return union
}

// calibration says which switches have the entries of a merged sample: those of entry e
// are seen[first[e]:first[e+1]].
type calibration struct {
	seen  []sighting
	first []int32
}

// sighting says how often a switch saw an entry.
type sighting struct {
	sw    int32
	times float32
}

func newCalibration(w *weigher, samples []*Sample) *calibration {
	index := make(map[Rank]int32, len(w.entries))
	c := &calibration{first: make([]int32, len(w.entries)+1)}
	for e := range w.entries {
		index[w.entries[e].Rank] = int32(e)
	}
	each := func(do func(entry int32, seen sighting)) {
		for sw, s := range samples {
			for i := range s.Entries {
				if entry, ok := index[s.Entries[i].Rank]; ok {
					do(entry, sighting{int32(sw), float32(s.Seen[i])})
				}
			}
		}
	}
	each(func(entry int32, _ sighting) { c.first[entry+1]++ })
	for e := range w.entries {
		c.first[e+1] += c.first[e]
	}
	c.seen = make([]sighting, c.first[len(w.entries)])
	next := append([]int32(nil), c.first...)
	each(func(entry int32, seen sighting) {
		c.seen[next[entry]] = seen
		next[entry]++
	})
	return c
}

// fit returns the beta that leaves the least of the squares, weighted by the variance that each entry adds, and what it
// leaves of each entry, by conjugate gradients from 0, which end after as many steps as there are
// switches but for rounding.
func (c *calibration) fit(weights []float64, switches int) (beta, rest []float64) {
	entries := len(weights)
	beta, rest = make([]float64, switches), make([]float64, entries)
	gradient, step, moved := make([]float64, switches), make([]float64, switches), make([]float64, entries)
	for e := range rest {
		rest[e] = 1
	}
	downhill := func() float64 {
		clear(gradient)
		for e, r := range rest {
			for _, s := range c.seen[c.first[e]:c.first[e+1]] {
				gradient[s.sw] += weights[e] * r * float64(s.times)
			}
		}
		return floats.Dot(gradient, gradient)
	}
	slope := downhill()
	copy(step, gradient)
	end := 1e-20 * slope
	for range 2*switches + 20 {
		if slope <= end {
			break
		}
		curve := 0.
		for e := range moved {
			moved[e] = 0
			for _, s := range c.seen[c.first[e]:c.first[e+1]] {
				moved[e] += step[s.sw] * float64(s.times)
			}
			curve += weights[e] * moved[e] * moved[e]
		}
		if curve == 0 {
			break
		}
		length := slope / curve
		floats.AddScaled(beta, length, step)
		floats.AddScaled(rest, -length, moved)
		before := slope
		slope = downhill()
		floats.Scale(slope/before, step)
		floats.Add(step, gradient)
	}
	return beta, rest
}
