package oblivious

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
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
		e, err := Calibrated(c.Unit, 0.001, samples...) // values are within bounds, which may miss
		want := truth(nw.packets, c.Unit, func(*Key) bool { return true })
		if err != nil || math.Abs(e.Value-want) > 1e-6*want || e.Low > want || e.High < want {
			t.Errorf("%s: %+v, want %g, %v", c.name(), e, want, err)
		}
	}
}

// TestCalibratedIsUnbiased: over 2,000 seeds, in a network whose totals say little, the mean is within five standard
// errors of the truth and a thousandth, which the fit of beta to the same entries may cost, bounds of delta = 0.1 miss it
// at most as often (by luck 1.3 times as often with a chance below 1e-5), and the error is no larger than that of the union
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
			m, err := Union(samples...)
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
	u, err := Union(few)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := u.Volume(Packets, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := Calibrated(Packets, 0.1, few); err != nil || e != plain {
		t.Errorf("two entries: %+v, the sample alone %+v, %v", e, plain, err)
	}
}

// calibrate joins the samples of switches, each of several epochs of very different sizes, calibrated and alone.
func calibrate(t *testing.T, switches [][]*Sample) (calibrated, alone *Sample) {
	t.Helper()
	alone, err := Union(slices.Concat(switches...)...)
	if err != nil {
		t.Fatal(err)
	}
	calibrated = alone.Clone()
	calibrated.Calibrate(switches)
	return calibrated, alone
}

// epochs passes packets through two switches in a row, in epochs of 6,000, 300 and 1,500 packets; after passes 2 and 3 of the switches again.
func epochs(t *testing.T, c Config, ps []seen, again func(i int) int) [][]*Sample {
	t.Helper()
	out := make([][]*Sample, 2)
	for _, n := range []int{6000, 300, 1500} {
		for sw := range out {
			s := sampler(t, c)
			for i := range ps[:n] {
				for range 1 + again(i) {
					s.Add(ps[i].id, ps[i].bytes, &ps[i].key)
				}
			}
			out[sw] = append(out[sw], s.Sample())
		}
		ps = ps[n:]
	}
	return out
}

// TestCalibrateEpochs: over epochs of different sizes, in packets and in bytes by each kind of sample, both switches of a row count
// each packet once, so that the volume is exact; sets of flows that make up the whole add up to it, and their errors over
// 200 seeds are no larger than those of the sample alone. Of TCP packets a few come again, others as
// often as one likes. Seeds are fixed.
func TestCalibrateEpochs(t *testing.T) {
	all := func(*Key) bool { return true }
	some := func(k *Key) bool { return k.SrcPort%3 == 1 }
	others := func(k *Key) bool { return k.SrcPort%3 != 1 }
	ps := packets(8, 7800, 60)
	for _, c := range []Config{{Kind: DUS, Unit: Packets}, {Kind: UWRA, Unit: Bytes}, {Kind: NWPS, Unit: Bytes}, {Kind: NWPS, Unit: Both}} {
		for _, of := range []Unit{Packets, Bytes} {
			if c.Unit == Packets && of == Bytes {
				continue
			}
			for name, again := range map[string]func(int) int{"once": func(int) int { return 0 }, "again": func(i int) int { return 5 * (1 - min(i%50, 1)) }} {
				whole, part := truth(ps, of, all), truth(ps, of, some)
				var calibrated, alone, ofPart, ofPartAlone, exact, outside float64
				const seeds = 200
				for seed := range uint64(seeds) {
					c.Size, c.Seed = 150, seed
					u, plain := calibrate(t, epochs(t, c, ps, again))
					value := func(s *Sample, in In) Estimate {
						e, err := s.Subset(of, 0.05, in)
						if err != nil || e.Low > e.Value || e.High < e.Value {
							t.Fatalf("%+v, %v", e, err)
						}
						return e
					}
					v, v0 := value(u, all), value(plain, all)
					p, p0, rest := value(u, some), value(plain, some), value(u, others)
					free := func(e Estimate) bool { return e.Low < e.Value && e.Value < e.High } // not held by its bounds
					if free(v) && free(p) && free(rest) && math.Abs(p.Value+rest.Value-v.Value) > 1e-9*whole || v.Low != v0.Low || v.High != v0.High || p.Low != p0.Low {
						t.Fatalf("%s of %v, seed %d: %+v and %+v are not %+v", c.name(), of, seed, p, rest, v)
					}
					calibrated += (v.Value - whole) * (v.Value - whole)
					alone += (v0.Value - whole) * (v0.Value - whole)
					ofPart += (p.Value - part) * (p.Value - part)
					ofPartAlone += (p0.Value - part) * (p0.Value - part)
					if math.Abs(v.Value/whole-1) < 1e-9 {
						exact++
					}
					if v.Low > whole || v.High < whole {
						outside++
					}
				}
				t.Logf("%s of %v, %s: %.3f of the sample's error, %.3f of a part's, %.2f exact, %.3f outside", c.name(), of, name,
					math.Sqrt(calibrated/alone), math.Sqrt(ofPart/ofPartAlone), exact/seeds, outside/seeds)
				if calibrated > alone || ofPart > ofPartAlone {
					t.Errorf("%s of %v, %s: the error is %.3f of that of the sample alone, of a part %.3f", c.name(), of, name, math.Sqrt(calibrated/alone), math.Sqrt(ofPart/ofPartAlone))
				}
				// By luck 22 or more of 200 are outside with a probability of 6e-4.
				if outside >= 22 {
					t.Errorf("%s of %v, %s: %g of %d bounds do not hold", c.name(), of, name, outside, seeds)
				}
				// Values that bounds of 95 % do not reach are not exact.
				if name == "once" && exact < 0.9*seeds {
					t.Errorf("%s of %v: exact %g times of %d", c.name(), of, exact, seeds)
				}
			}
		}
	}
}

// TestTotalsThatContradict: packets that a host chose not to be sampled, or that came a thousand times without being sampled, move the
// volume no further than the sample's own bounds, and beyond what chance does, not at all.
func TestTotalsThatContradict(t *testing.T) {
	ps := packets(9, 5000, 40)
	c := Config{Kind: DUS, Unit: Packets, Size: 200}
	for _, more := range []uint64{0, 100, 400, 1000, 5000, 100_000} {
		s := sampler(t, c).addAll(ps)
		s.CountOf(protoTCP, more, 0) // none of which is sampled
		u, plain := calibrate(t, [][]*Sample{{s.Sample()}})
		v, err := u.Subset(Packets, 0.05, HasProto(protoTCP))
		v0, err0 := plain.Subset(Packets, 0.05, HasProto(protoTCP))
		if err != nil || err0 != nil || v.Low != v0.Low || v.High != v0.High || v.Value < v.Low || v.Value > v.High {
			t.Errorf("%d more: %+v, the sample alone %+v", more, v, v0)
		}
		if more >= 5000 && v.Value != v0.Value {
			t.Errorf("%d more move %g to %g", more, v0.Value, v.Value)
		}
	}
}
