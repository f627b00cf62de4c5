package oblivious

import (
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// network is a small one: packets, and the switches that each passes.
type network struct {
	packets  []seen
	switches [][]int
	n        int
}

// testNetwork has five switches. The first sees a third of the packets, the
// second all but those, the third few packets, the fourth none, and the fifth one
// of so few bytes that by bytes too it has less than a sample. One packet is
// heavier than all thresholds.
func testNetwork() network {
	nw := network{packets: packets(1, 160, 6), n: 5}
	nw.packets[100].bytes = 9000
	nw.packets[81].bytes = 9
	for i := range nw.packets {
		s := []int{1}
		if i%3 == 0 {
			s = []int{0}
		}
		if i%5 == 0 {
			s = []int{0, 1}
		}
		if i%40 == 0 {
			s = append(s, 2)
		}
		if i == 81 {
			s = append(s, 4)
		}
		nw.switches = append(nw.switches, s)
	}
	return nw
}

func (nw *network) samples(t testing.TB, samplers []*Sampler) []*Sample {
	for i := range samplers {
		samplers[i].Reset()
	}
	for i, p := range nw.packets {
		for _, s := range nw.switches[i] {
			samplers[s].Add(p.id, p.bytes, &p.key)
		}
	}
	out := make([]*Sample, len(samplers))
	for i := range samplers {
		out[i] = samplers[i].Sample()
	}
	return out
}

// TestUnbiased: over 10,000 seeds, the mean of each estimate lies within three
// standard errors of the truth: volume, two flows, a prefix, a protocol and a
// port; packets and bytes; each kind, each merge. Seeds are fixed, so the test
// cannot fail by luck; what it computes is the same on each machine. (Were
// seeds drawn anew, one of the 108 comparisons would fail in up to 25 % of the runs,
// so the test is as sharp as it can be.) With crc there are fewer seeds, and six standard
// errors.
func TestUnbiased(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("TestUnbiasedWithCRC has fewer seeds")
	}
	testUnbiased(t, hash.XX, 10_000, 3)
}

func TestUnbiasedWithCRC(t *testing.T) {
	t.Parallel()
	testUnbiased(t, hash.CRC, 2000, 6)
}

func testUnbiased(t *testing.T, family hash.Family, seeds, deviations float64) {
	nw := testNetwork()
	all := func(*Key) bool { return true }
	subsets := map[string]In{
		"volume": all,
		"flow 0": func(k *Key) bool { return *k == flowKey(0) },
		"flow 3": func(k *Key) bool { return *k == flowKey(3) },
		"prefix": SrcIn(netip.MustParsePrefix("10.0.0.0/30")),
		"proto":  HasProto(17),
		"port":   HasPort(2),
	}
	for _, c := range []Config{
		{Kind: DUS, Unit: Packets, Size: 16}, {Kind: UWRA, Unit: Bytes, Size: 16}, {Kind: NWPS, Unit: Bytes, Size: 16},
	} {
		c.Hash = family
		samplers := make([]*Sampler, nw.n)
		for i := range samplers {
			samplers[i] = sampler(t, c)
		}
		type sums struct{ truth, sum, square float64 }
		got := map[string]*sums{}
		heavier := 0
		for seed := range uint64(seeds) {
			for _, s := range samplers {
				s.config.Seed = seed
				s.ranker = newRanker(s.config)
			}
			samples := nw.samples(t, samplers)
			if seed == 0 && !(samples[3].complete() && len(samples[3].Entries) == 0 && samples[4].complete() && len(samples[4].Entries) > 0 && !samples[0].complete()) {
				t.Fatalf("%s: no empty switch, none with less than a sample, or none with more", c.name())
			}
			for merge, f := range map[string]func(...*Sample) (*Sample, error){"simple": Simple, "improved": Improved, "union": Union} {
				m, err := f(samples...)
				if err != nil {
					t.Fatal(err)
				}
				if m.complete() && merge != "union" {
					t.Fatalf("%s, %s: nothing was left out", c.name(), merge)
				}
				if c.Kind == NWPS && m.probability(9000) >= 1 {
					heavier++
				}
				for _, of := range []Unit{Packets, Bytes} {
					w, err := m.weigher(of)
					if err != nil {
						t.Fatal(err)
					}
					for name, in := range subsets {
						var s share
						for i := range w.entries {
							if in(&w.entries[i].Key) {
								w.add(&s, i)
							}
						}
						key := merge + ", " + of.String() + ", " + name
						if got[key] == nil {
							got[key] = &sums{truth: truth(nw.packets, of, in)}
						}
						x := s.value()
						got[key].sum += x
						got[key].square += x * x
					}
				}
			}
		}
		if c.Kind == NWPS && heavier == 0 {
			t.Error("no packet was heavier than the threshold")
		}
		for key, s := range got {
			mean := s.sum / seeds
			e := math.Sqrt((s.square/seeds - mean*mean) / seeds)
			if math.Abs(mean-s.truth) > deviations*e || e == 0 {
				t.Errorf("%s, %s: mean %.3f, truth %.3f, standard error %.3f", c.name(), key, mean, s.truth, e)
			}
		}
	}
}

// probability is the one of a packet of the given bytes.
func (s *Sample) probability(bytes uint32) float64 {
	r := newRanker(Config{Kind: s.Kind, Unit: s.Unit})
	return r.probability(s.Threshold.Value, bytes)
}

func truth(ps []seen, of Unit, in In) (sum float64) {
	for i := range ps {
		if !in(&ps[i].key) {
			continue
		}
		if of == Bytes {
			sum += float64(ps[i].bytes)
		} else {
			sum++
		}
	}
	return sum
}

// TestCompleteIsExact: switches that saw less than a sample, and empty ones,
// are counted exactly, with equal bounds.
func TestCompleteIsExact(t *testing.T) {
	ps := packets(4, 60, 9)
	for _, c := range kinds {
		if c.Unit == Flows {
			continue
		}
		c.Size = 20_000
		samples := []*Sample{
			sampler(t, c).Sample(), sampler(t, c).addAll(ps[:40]).Sample(), sampler(t, c).addAll(ps[30:]).Sample(),
		}
		for i, merge := range []func(...*Sample) (*Sample, error){Simple, Improved, Union} {
			m, err := merge(samples...)
			if err != nil {
				t.Fatal(err)
			}
			for _, of := range []Unit{Packets, Bytes} {
				e, err := m.Volume(of, 0.01)
				want := truth(ps, of, func(*Key) bool { return true })
				if err != nil || math.Abs(e.Value-want) > 1e-6*want || e.Low != e.Value || e.High != e.Value {
					t.Errorf("%s, merge %d: %v are %+v, want %g: %v", c.name(), i, of, e, want, err)
				}
			}
		}
		for _, merge := range []func(...*Sample) (*Sample, error){Simple, Improved, Union} {
			empty, err := merge(samples[0], samples[0])
			if err != nil {
				t.Fatal(err)
			}
			if e, err := empty.Volume(Bytes, 0.5); err != nil || e != (Estimate{}) {
				t.Errorf("%s: nothing is %+v, %v", c.name(), e, err)
			}
		}
	}
}

// TestDistinctFlows samples flows by their hash: the number of flows, and of
// those of a subset, whatever their sizes. The seed is fixed; the bounds of
// delta = 1e-7 would fail by luck less often than that.
func TestDistinctFlows(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testDistinctFlows(t, family) })
	}
}

func testDistinctFlows(t *testing.T, family hash.Family) {
	s := sampler(t, Config{Kind: DUS, Unit: Flows, Size: 2000, Seed: 3, Hash: family})
	const flows = 30_000
	for round := range 3 {
		for f := range flows / (1 + round) {
			k := flowKey(f)
			s.Add(family.Uint64(99, uint64(f)), 100, &k)
		}
	}
	m := s.Sample()
	e, err := m.DistinctFlows(1e-7)
	if err != nil || e.Low > flows || e.High < flows || e.High/e.Low > 1.4 {
		t.Errorf("%d flows are estimated as %+v, %v", flows, e, err)
	}
	e, err = m.Subset(Flows, 1e-7, HasProto(17))
	if err != nil || e.Low > flows/3 || e.High < flows/3 {
		t.Errorf("%d flows are estimated as %+v, %v", flows/3, e, err)
	}
	if _, err := m.Volume(Packets, 0.1); !errors.Is(err, ErrUnit) {
		t.Errorf("packets of a sample of flows: %v", err)
	}
	if _, err := sampler(t, Config{Kind: DUS, Unit: Packets, Size: 9}).Sample().DistinctFlows(0.1); !errors.Is(err, ErrUnit) {
		t.Errorf("flows of a sample of packets: %v", err)
	}
}

func TestHeavyHitters(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testHeavyHitters(t, family) })
	}
}

func testHeavyHitters(t *testing.T, family hash.Family) {
	s := sampler(t, Config{Kind: NWPS, Unit: Bytes, Size: 20_000, Seed: 3, Hash: family})
	id := uint64(0)
	// Flow f has 2^f packets.
	total, sizes := 0.0, make([]float64, 12)
	for f := range sizes {
		key := flowKey(f)
		for range 1 << f {
			id++
			bytes := uint32(64 + id%1000)
			s.Add(family.Uint64(1, id), bytes, &key)
			sizes[f] += float64(bytes)
			total += float64(bytes)
		}
	}
	flows, err := s.Sample().HeavyHitters(Bytes, 0.1, 0, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	if len(flows) != 3 {
		t.Fatalf("%d heavy hitters of 0.1, want 3", len(flows))
	}
	for i, f := range flows {
		if f.Key != flowKey(11-i) || math.Abs(f.Value-sizes[11-i]) > 1e-6*total {
			t.Errorf("heavy hitter %d is %v with %g bytes, want %v with %g", i, f.Key, f.Value, flowKey(11-i), sizes[11-i])
		}
	}
	// With an epsilon, the share that counts is 0.1 - 0.1/2.
	if flows, _ = s.Sample().HeavyHitters(Bytes, 0.1, 0.1, 0.01); len(flows) != 4 {
		t.Errorf("%d heavy hitters of 0.1 with an error of 0.1, want 4", len(flows))
	}
	for _, c := range [][3]float64{{0, 0, 0.1}, {1.1, 0, 0.1}, {0.1, -1, 0.1}, {0.1, 0.2, 0.1}, {0.1, 0, 0}, {0.1, 0, 1}, {math.NaN(), 0, 0.1}} {
		if _, err := s.Sample().HeavyHitters(Bytes, c[0], c[1], c[2]); err == nil {
			t.Errorf("theta, epsilon, delta of %v: no error", c)
		}
	}
}

// TestChernoff checks the bounds by their definition: at the bound, the
// exponent is the budget.
func TestChernoff(t *testing.T) {
	for _, x := range []float64{0, 0.9, 1, 17, 1e4, 1e9} {
		for _, delta := range []float64{0.5, 0.05, 1e-9} {
			low, high := chernoff(x, delta)
			for _, mean := range []float64{low, high} {
				exponent := mean - x
				if x > 0 {
					exponent += x * math.Log(x/mean)
				}
				budget := math.Log(2 / delta)
				if x == 0 && mean == low {
					if low != 0 {
						t.Errorf("nothing sampled: at least %g", low)
					}
					continue
				}
				if math.Abs(exponent-budget) > 1e-3*budget {
					t.Errorf("x %g, delta %g: the exponent at %g is %g, want %g", x, delta, mean, exponent, budget)
				}
			}
			if low > x || high < x {
				t.Errorf("x %g, delta %g: bounds %g and %g", x, delta, low, high)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for _, c := range []struct{ epsilon, delta float64 }{{0.1, 0.1}, {0.01, 0.001}, {0.5, 0.5}} {
		volume, err1 := VolumeSize(c.epsilon, c.delta)
		frequency, err2 := FrequencySize(c.epsilon, c.delta)
		heavy, err3 := HeavyHitterSize(1, c.epsilon, c.delta)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		if e := volumeError(volume, c.delta); e > c.epsilon || volumeError(volume-1, c.delta) < c.epsilon {
			t.Errorf("%+v: size %d has a volume error of %g", c, volume, e)
		}
		if e := frequencyError(frequency, c.delta); e > c.epsilon || frequencyError(frequency-1, c.delta) < c.epsilon {
			t.Errorf("%+v: size %d has a frequency error of %g", c, frequency, e)
		}
		if heavy > 2*frequency || volume > frequency {
			t.Errorf("%+v: sizes %d, %d, %d", c, volume, frequency, heavy)
		}
	}
	for _, c := range []struct{ epsilon, delta float64 }{{0, 0.1}, {1, 0.1}, {0.1, 0}, {0.1, 1}, {1e-6, 0.1}, {math.NaN(), 0.1}} {
		for i, f := range []func(float64, float64) (int, error){VolumeSize, FrequencySize, func(e, d float64) (int, error) { return HeavyHitterSize(1, e, d) }} {
			if n, err := f(c.epsilon, c.delta); err == nil {
				t.Errorf("%+v, size %d: %d", c, i, n)
			}
		}
	}
}

// TestHeavyHitterSize: the size falls with epsilon, is at most the one of Lemma 3,
// and HeavyHitterError inverts it.
func TestHeavyHitterSize(t *testing.T) {
	for _, theta := range []float64{1, 0.5, 0.1, 0.001} {
		for _, delta := range []float64{0.5, 0.05, 1e-6} {
			before := math.Inf(1)
			for _, part := range []float64{0.05, 0.1, 0.2, 0.4, 0.8, 1} {
				epsilon := part * theta
				x := heavyHitterSize(theta, epsilon, delta)
				if lemma3 := 12 / (epsilon * epsilon) * math.Log(2/(delta*epsilon)); x > before || x > lemma3 || !(x > 0) {
					t.Errorf("theta %g, epsilon %g, delta %g: %g entries; Lemma 3 has %g, a smaller epsilon %g", theta, epsilon, delta, x, lemma3, before)
				}
				before = x
				if epsilon == 1 {
					continue
				}
				n, err := HeavyHitterSize(theta, epsilon, delta)
				if x > maxSize {
					if err == nil {
						t.Errorf("%d entries", n)
					}
					continue
				}
				if e := HeavyHitterError(theta, n, delta); err != nil || e > epsilon*(1+1e-6) || HeavyHitterError(theta, n-1, delta) < epsilon*(1-1e-6) {
					t.Errorf("theta %g, epsilon %g, delta %g: %d entries have an error of %g, %v", theta, epsilon, delta, n, e, err)
				}
			}
			if e := HeavyHitterError(theta, 2, delta); !math.IsInf(e, 1) && theta < 1 {
				t.Errorf("two entries have an error of %g for %g", e, theta)
			}
		}
	}
	for _, c := range [][3]float64{{0.1, 0.2, 0.1}, {0, 0, 0.1}, {math.NaN(), 0.1, 0.1}, {2, 0.1, 0.1}, {0.1, math.NaN(), 0.1}, {0.1, 0.05, 0}} {
		if n, err := HeavyHitterSize(c[0], c[1], c[2]); err == nil {
			t.Errorf("theta, epsilon, delta of %v: %d", c, n)
		}
	}
}

// TestHeavyHittersKeepTheirPromise: with HeavyHitterSize entries, flows just as
// large as theta are reported, and flows just below theta - epsilon are not, but
// for the stated probabilities; with a thirtieth of the entries that fails. Seeds are
// fixed. By luck, 200 runs whose true rate is delta would have more than twice as many
// misses with a probability below 1e-4, and Bernstein's true rate is far below delta.
func TestHeavyHittersKeepTheirPromise(t *testing.T) {
	const theta, epsilon, delta, total, runs = 0.05, 0.025, 0.1, 20_000, 200
	size, err := HeavyHitterSize(theta, epsilon, delta)
	if err != nil || size > total/4 {
		t.Fatalf("%d entries of %d: %v", size, total, err)
	}
	misses := func(size int) (lost, wrong float64) {
		s := sampler(t, Config{Kind: DUS, Unit: Packets, Size: size + 1}) // the last entry is the threshold
		for run := range uint64(runs) {
			s.Reset()
			id := run << 32
			for f := range 30 { // ten of theta, twenty of theta - epsilon less one packet
				n := total / 40
				if key := flowKey(f); f < 10 {
					addTimes(s, &id, 2*n, &key)
				} else {
					addTimes(s, &id, n-1, &key)
				}
			}
			m := s.Sample()
			if n, err := m.EffectiveSize(Packets); err != nil || n != size {
				t.Fatalf("effective size %d of %d entries, %v", n, size, err)
			}
			flows, err := m.HeavyHitters(Packets, theta, epsilon, delta)
			if err != nil {
				t.Fatal(err)
			}
			heavy := 0
			for _, f := range flows {
				if f.Key.SrcPort < 10 {
					heavy++
				} else {
					wrong++
				}
			}
			if heavy < 10 {
				lost++
			}
		}
		return lost / runs / delta, wrong / runs / 20 / (delta * epsilon)
	}
	if lost, wrong := misses(size); lost > 1 || wrong > 1 {
		t.Errorf("%d entries: misses over delta %.2f, wrong flows over delta*epsilon %.2f", size, lost, wrong)
	}
	if lost, wrong := misses(size / 30); lost < 2 || wrong < 2 {
		t.Errorf("%d entries: misses over delta %.2f, wrong flows over delta*epsilon %.2f: the test shows nothing", size/30, lost, wrong)
	}
}

// addTimes adds packets of a flow, each with an id of its own.
func addTimes(s *Sampler, id *uint64, n int, key *Key) {
	for range n {
		*id++
		s.Add(*id, 100, key)
	}
}

// TestExactShare: bounds of a share that is known keep nearly all digits, whatever the processor rounds.
func TestExactShare(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 10000 {
		set, rest := float64(r.Uint64N(1<<40)+1), float64(r.Uint64N(1<<40)+1)
		got, want := leastShare(Estimate{set, set, set}, Estimate{rest, rest, rest}), set/(set+rest)
		if math.Abs(got-want) > 1e-15 {
			t.Fatalf("%g of %g: %g, want %g", set, set+rest, got, want)
		}
	}
}

// TestShare: the bounds of a share hold, are within 0 and 1, and are equal where
// nothing was left out. Those of delta = 1e-7 would fail by luck less often.
func TestShare(t *testing.T) {
	ps := packets(8, 5000, 30)
	sets := map[string]In{
		"all": func(*Key) bool { return true }, "none": func(*Key) bool { return false },
		"proto": HasProto(17), "flow": func(k *Key) bool { return *k == flowKey(2) },
	}
	for _, c := range kinds {
		if c.Unit == Flows {
			continue
		}
		for _, size := range []int{300, 1 << 20} {
			c.Size = size
			s := sampler(t, c).addAll(ps).Sample()
			for name, in := range sets {
				for _, of := range []Unit{Packets, Bytes} {
					e, err := s.Share(of, 1e-7, in)
					want := truth(ps, of, in) / truth(ps, of, sets["all"])
					if err != nil || !(0 <= e.Low && e.Low <= want+1e-9 && want-1e-9 <= e.High && e.High <= 1) || s.complete() && math.Abs(e.Low-e.High) > 1e-9 {
						t.Errorf("%s, %d entries, share of %s in %v: %+v, truth %g, %v", c.name(), size, name, of, e, want, err)
					}
				}
			}
		}
	}
	empty := sampler(t, Config{Kind: DUS, Unit: Packets, Size: 9}).Sample()
	if e, err := empty.Share(Packets, 0.1, sets["all"]); err != nil || e != (Estimate{}) {
		t.Errorf("a share of nothing: %+v, %v", e, err)
	}
	if _, err := empty.Share(Flows, 0.1, sets["all"]); !errors.Is(err, ErrUnit) {
		t.Errorf("a share of flows: %v", err)
	}
	if n, err := empty.EffectiveSize(Packets); err != nil || n != math.MaxInt {
		t.Errorf("nothing left out: effective size %d, %v", n, err)
	}
	if _, err := empty.EffectiveSize(Flows); !errors.Is(err, ErrUnit) {
		t.Errorf("effective size for flows: %v", err)
	}
}

func TestEstimateRefuses(t *testing.T) {
	s := sampler(t, Config{Kind: NWPS, Unit: Bytes, Size: 9}).Sample()
	for _, delta := range []float64{0, 1, -1, math.NaN()} {
		if _, err := s.Volume(Bytes, delta); err == nil {
			t.Errorf("delta %g: no error", delta)
		}
		if _, err := s.Flows(Bytes, delta); err == nil {
			t.Errorf("delta %g: no error", delta)
		}
	}
	if _, err := s.Frequency(0, 0.1, Key{}); !errors.Is(err, ErrUnit) {
		t.Errorf("unit 0: %v", err)
	}
}

func TestKey(t *testing.T) {
	k4, k6, none := flowKey(1), flowKey(0), Key{}
	if got := k4.SrcAddr().String(); got != "10.0.0.1" {
		t.Errorf("source %s", got)
	}
	if !k6.SrcAddr().Is6() || none.DstAddr().IsValid() {
		t.Error("addresses of the wrong family")
	}
	if !DstIn(netip.PrefixFrom(k4.DstAddr(), 32))(&k4) || DstIn(netip.MustParsePrefix("0.0.0.0/0"))(&none) {
		t.Error("DstIn")
	}
	if !HasPort(443)(&k4) || !HasPort(1)(&k4) || HasPort(2)(&k4) {
		t.Error("HasPort")
	}
}

// volumeError is the epsilon that a sample of the size has for its volume: what
// VolumeSize inverts.
func volumeError(size int, delta float64) float64 {
	// (size-1) e^2 = c (1+e)
	n, c := float64(size-1), 3*math.Log(2/delta)
	return (c + math.Sqrt(c*c+4*n*c)) / (2 * n)
}

// frequencyError is likewise what FrequencySize inverts.
func frequencyError(size int, delta float64) float64 {
	return math.Sqrt(12 * math.Log(4/delta) / float64(size))
}

// TestBothUnits: of a sample of Both, the variance is at most 1 + m/bothBytes times that of a sample of packets for packets, and 1 + bothBytes/m times that of
// one of bytes for bytes, where packets have m bytes on average: here of traffic of which half are of 60 bytes. A sample in the other unit is worse than that for packets. Of
// 1,000 runs a variance has a standard error of 4.5 %, so a fifth more or less than its bound is no luck (below 1e-4).
func TestBothUnits(t *testing.T) {
	const runs, packets, size = 1000, 3000, 200
	m := (60 + 1500) / 2.
	variance := map[Unit][2]float64{} // of packets, of bytes
	for _, unit := range []Unit{Packets, Bytes, Both} {
		var sum [2]float64
		for seed := range uint64(runs) {
			s := sampler(t, Config{Kind: NWPS, Unit: unit, Size: size, Seed: seed})
			key := flowKey(1)
			for id := range uint64(packets) {
				s.Add(hash.Uint64(seed^5, id), 60+uint32(id&1)*1440, &key)
			}
			sample := s.Sample()
			for i, of := range []Unit{Packets, Bytes} {
				e, err := sample.Volume(of, 0.1)
				if err != nil {
					t.Fatal(err)
				}
				off := e.Value/map[Unit]float64{Packets: packets, Bytes: packets * m}[of] - 1
				sum[i] += off * off / runs
			}
		}
		variance[unit] = sum
		t.Logf("by %v: standard error of packets %.4f, of bytes %.4f", unit, math.Sqrt(sum[0]), math.Sqrt(sum[1]))
	}
	for i, bound := range []float64{(1 + m/bothBytes) * variance[Packets][0], (1 + bothBytes/m) * variance[Bytes][1]} {
		if got := variance[Both][i]; got > 1.2*bound {
			t.Errorf("%v: a variance of %g, at most %g", Packets+Unit(i), got, bound)
		}
	}
	if variance[Bytes][0] < 2*variance[Both][0] {
		t.Errorf("packets by a sample of bytes have a variance of %g, by both %g", variance[Bytes][0], variance[Both][0])
	}
}
