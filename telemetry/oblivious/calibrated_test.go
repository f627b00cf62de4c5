package oblivious

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// irregular is a network of twelve switches, in which a packet passes one of the first four, and then each of the
// others with a probability that depends on its flow; evenly, exactly two of the last three as well, or else one
// in five packets passes its first switch again.
func irregular(r *rand.Rand, n int, evenly bool) network {
	nw := network{packets: packets(2, n, 40), n: 12}
	for i := range nw.packets {
		flow := int(nw.packets[i].key.SrcPort)
		at := []int{r.IntN(4)}
		for sw := 4; sw < 9; sw++ {
			if (flow>>(sw-4))&1 == 1 || r.IntN(4) == 0 {
				at = append(at, sw)
			}
		}
		if evenly {
			without := r.IntN(3)
			at = append(at, 9+(without+1)%3, 9+(without+2)%3)
		} else if r.IntN(3) > 0 {
			at = append(at, 9+r.IntN(3))
		}
		if !evenly && r.IntN(5) == 0 {
			at = append(at, at[0])
		}
		nw.switches = append(nw.switches, at)
	}
	return nw
}

// TestCalibratedIsExact: where some switches' totals count each packet equally often, as of those that all packets enter by,
// the estimate is the volume.
func TestCalibratedIsExact(t *testing.T) {
	nw := irregular(rand.New(rand.NewPCG(1, 1)), 20_000, true)
	for _, c := range []Config{{Kind: DUS, Unit: Packets, Size: 100}, {Kind: UWRA, Unit: Bytes, Size: 100}, {Kind: NWPS, Unit: Bytes, Size: 100}} {
		samplers := make([]*Sampler, nw.n)
		for i := range samplers {
			samplers[i] = sampler(t, c)
		}
		samples := nw.samples(t, samplers)
		e, err := Calibrated(c.Unit, 0.05, samples...)
		want := truth(nw.packets, c.Unit, func(*Key) bool { return true })
		if err != nil || math.Abs(e.Value-want) > 1e-6*want || e.Low > want || e.High < want {
			t.Errorf("%s: %+v, want %g, %v", c.name(), e, want, err)
		}
	}
}

// TestCalibratedIsUnbiased: over 2,000 seeds, in a network whose totals say little, the mean is within five standard
// errors of the truth and a thousandth, which the fit of beta to the same entries may cost, bounds of delta = 0.1 miss it
// at most as often (by luck 1.3 times as often with a chance below 1e-5), and the error is no larger than that of the sample
// alone. Seeds are fixed.
func TestCalibratedIsUnbiased(t *testing.T) {
	if testing.Short() {
		t.Skip("2,000 seeds take long")
	}
	t.Parallel()
	const seeds, delta = 2000, 0.1
	nw := irregular(rand.New(rand.NewPCG(2, 2)), 3000, false)
	for _, c := range []Config{{Kind: DUS, Unit: Packets, Size: 60}, {Kind: NWPS, Unit: Bytes, Size: 60}} {
		samplers := make([]*Sampler, nw.n)
		for i := range samplers {
			samplers[i] = sampler(t, c)
		}
		want := truth(nw.packets, c.Unit, func(*Key) bool { return true })
		var sum, square, plain, misses float64
		for seed := range uint64(seeds) {
			for _, s := range samplers {
				s.config.Seed = seed
				s.ranker = newRanker(s.config)
			}
			samples := nw.samples(t, samplers)
			e, err := Calibrated(c.Unit, delta, samples...)
			if err != nil {
				t.Fatal(err)
			}
			m, err := Improved(samples...)
			if err != nil {
				t.Fatal(err)
			}
			p, err := m.Volume(c.Unit, delta)
			if err != nil {
				t.Fatal(err)
			}
			sum += e.Value - want
			square += (e.Value - want) * (e.Value - want)
			plain += (p.Value - want) * (p.Value - want)
			if e.Low > want || e.High < want {
				misses++
			}
		}
		mean, deviation := sum/seeds, math.Sqrt(square/seeds)
		t.Logf("%s: bias %.5f, deviation %.4f of the volume, of the sample alone %.4f; misses over delta %.2f", c.name(), mean/want, deviation/want, math.Sqrt(plain/seeds)/want, misses/seeds/delta)
		if math.Abs(mean) > 5*deviation/math.Sqrt(seeds)+1e-3*want {
			t.Errorf("%s: biased by %.4f of the volume", c.name(), mean/want)
		}
		if square > plain {
			t.Errorf("%s: deviation %.4f of the volume, of the sample alone %.4f", c.name(), deviation/want, math.Sqrt(plain/seeds)/want)
		}
		if misses/seeds > 1.3*delta {
			t.Errorf("%s: misses over delta %.2f", c.name(), misses/seeds/delta)
		}
	}
}

func TestCalibratedRefuses(t *testing.T) {
	ps := packets(4, 60, 9)
	s := sampler(t, Config{Kind: NWPS, Unit: Bytes, Size: 1000}).addAll(ps).Sample()
	if e, err := Calibrated(Bytes, 0.1, s); err != nil || e.Low != e.High || math.Abs(e.Value-truth(ps, Bytes, func(*Key) bool { return true })) > 1e-6*e.Value {
		t.Errorf("nothing left out: %+v, %v", e, err)
	}
	if _, err := Calibrated(Packets, 0.1, s); !errors.Is(err, ErrUnit) {
		t.Errorf("packets of a sample of bytes: %v", err)
	}
	if _, err := Calibrated(Bytes, 0.1); !errors.Is(err, ErrUnlike) {
		t.Errorf("no sample: %v", err)
	}
	if _, err := Calibrated(Bytes, 0, s); err == nil {
		t.Error("delta 0 is accepted")
	}
	decoded := s.Clone()
	decoded.Seen = nil
	if _, err := Calibrated(Bytes, 0.1, s, decoded); !errors.Is(err, ErrUnlike) {
		t.Errorf("a sample that does not say how often: %v", err)
	}
	few := sampler(t, Config{Kind: DUS, Unit: Packets, Size: 3}).addAll(ps).Sample()
	plain, err := few.Volume(Packets, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := Calibrated(Packets, 0.1, few); err != nil || e != plain {
		t.Errorf("two entries: %+v, the sample alone %+v, %v", e, plain, err)
	}
}
