package disketch

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestBoundsOverSeeds: of each kind, with each decoder, also where Checked has learnt that Rows is better, and with each n,
// bounds of 95 % fail in at most 5 % of 10,000 networks of fragments of 4 to 20 columns. The margin is six standard
// deviations: a chance of 1e-9 for each of the cases.
func TestBoundsOverSeeds(t *testing.T) {
	seeds := 10_000
	if testing.Short() {
		seeds = 500
	}
	const hops, flows = 3, 60
	for _, of := range []struct {
		kind    Kind
		rounded bool // cells, by each of the roundings
	}{{CountSketch, false}, {CountMin, false}, {Tower, false}, {Conservative, false}, {SuMax, false}, {CountSketch, true}, {CountMin, true}} {
		kind := of.kind
		var outside [3]int
		for seed := range uint64(seeds) {
			r := rand.New(rand.NewPCG(seed, 'b'))
			log := uint8(seed % 3)
			type packet struct {
				at   float64
				flow int
			}
			var hashes [flows]uint64
			var truth [flows]float64
			var packets []packet
			for i := range hashes {
				hashes[i] = r.Uint64()
				for range int(min(math.Pow(r.Float64(), -0.8), 100)) {
					packets = append(packets, packet{r.Float64(), i})
					truth[i]++
				}
			}
			slices.SortFunc(packets, func(a, b packet) int { return int(math.Copysign(1, a.at-b.at)) })
			var records Records
			var path []uint64
			for sw := range uint64(hops) {
				f, err := NewFragment(Config{ID: ID{Switch: sw}, Kind: kind, Memory: 4 * (16 + r.IntN(64)), Epochs: 27, Seed: seed, Hash: hash.Family(seed % 2)})
				if err != nil {
					t.Fatal(err)
				}
				c, err := f.NewCounter()
				if err != nil {
					t.Fatal(err)
				}
				plan, rest := f.Schedule(9, log), packets
				for sub := range plan.N() {
					c.Begin(plan, sub)
					for len(rest) > 0 && uint64(rest[0].at*float64(plan.N())) == sub {
						c.Add(hashes[rest[0].flow], 1, false)
						rest = rest[1:]
					}
					x := c.Record().Clone()
					if of.rounded {
						x = roundedBy(t, x, roundings[seed/3%uint64(len(roundings))])
					}
					if err := records.Add(x); err != nil {
						t.Fatal(err)
					}
				}
				path = append(path, sw)
			}
			paths := PathFunc(func(uint64) []uint64 { return path })
			for how := range outside {
				q := Query{From: 9, To: 10, Composition: Composition(how), Hash: hash.Family(seed % 2)}
				asker := records.Asker()
				if how == int(Checked) {
					asker.Learn(q, hashes[:], paths)
				}
				i := int(seed) % flows
				if a := asker.Frequency(q, hashes[i], paths); truth[i] < a.Low || truth[i] > a.High || a.Value < a.Low || a.Value > a.High {
					outside[how]++
				}
				if a := asker.Frequency(q, r.Uint64(), paths); a.Value < 0 || a.Low < 0 {
					t.Fatalf("%v, seed %d, composition %d: %g, at least %g, of a flow that sent nothing", kind, seed, how, a.Value, a.Low)
				}
			}
		}
		const mostOutside = 0.05
		most := mostOutside + 6*math.Sqrt(mostOutside*(1-mostOutside)/float64(seeds))
		for how, n := range outside {
			share := float64(n) / float64(seeds)
			t.Logf("%v, rounded %v, composition %d: %.2f %% of %d outside", kind, of.rounded, how, 100*share, seeds)
			if share > most {
				t.Errorf("%v, rounded %v, composition %d: %.2f %% of %d outside of bounds of 95 %%", kind, of.rounded, how, 100*share, seeds)
			}
		}
	}
}

// TestBoundsOfBursts: a tenth of the flows send all in one burst. Their bounds hold as those of the others do: fragments have looked at an epoch before, and
// how unevenly flows send on average widens the bounds of what is extrapolated.
func TestBoundsOfBursts(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 30
	}
	const hops, flows, bursts, each = 5, 60, 6, 30
	for _, kind := range []Kind{CountSketch, CountMin} {
		for _, cells := range []int{64, 1024} {
			for log := range uint8(4) {
				var outside [2]int // of flows that send evenly, and in bursts
				for seed := range uint64(seeds) {
					r := rand.New(rand.NewPCG(seed, 'w'))
					var hashes [flows]uint64
					for i := range hashes {
						hashes[i] = r.Uint64()
					}
					var records Records
					var path []uint64
					var fragments [hops]*Fragment
					for sw := range uint64(hops) {
						f, err := NewFragment(Config{ID: ID{Switch: sw}, Kind: kind, Memory: 4 * cells, Epochs: 27, Seed: seed, Slices: SliceLog})
						if err != nil {
							t.Fatal(err)
						}
						fragments[sw], path = f, append(path, sw)
					}
					for _, epoch := range []uint64{8, 9} { // the first is looked at
						var at [flows][each]float64
						for i := range at {
							for j := range at[i] {
								if at[i][j] = r.Float64(); i < bursts {
									at[i][j] = at[i][0]
								}
							}
						}
						for _, f := range fragments {
							c, err := f.NewCounter()
							if err != nil {
								t.Fatal(err)
							}
							during := func(plan Schedule, sub, part, parts uint64) {
								c.Begin(plan, sub)
								for i, h := range hashes {
									for _, x := range at[i] {
										if uint64(x*float64(parts)) == part {
											c.Add(h, 1, false)
										}
									}
								}
							}
							if epoch == 8 {
								looks, err := f.NewSlices()
								if err != nil {
									t.Fatal(err)
								}
								plan := f.Schedule(epoch, 0)
								looks.Begin(plan, SliceLog)
								for part := range uint64(1 << SliceLog) {
									during(plan, 0, part, 1<<SliceLog)
									if err := looks.Add(c); err != nil {
										t.Fatal(err)
									}
								}
								if err := records.Add(looks.Record().Clone()); err != nil {
									t.Fatal(err)
								}
								continue
							}
							plan := f.Schedule(epoch, log)
							for sub := range plan.N() {
								during(plan, sub, sub, plan.N())
								if err := records.Add(c.Record().Clone()); err != nil {
									t.Fatal(err)
								}
							}
						}
					}
					asker := records.Asker()
					for i, h := range hashes {
						if a := asker.Frequency(Query{From: 9, To: 10}, h, PathFunc(func(uint64) []uint64 { return path })); a.Low > each || a.High < each {
							outside[map[bool]int{true: 1}[i < bursts]]++
						}
					}
				}
				even, burst := float64(outside[0])/float64(seeds*(flows-bursts)), float64(outside[1])/float64(seeds*bursts)
				t.Logf("%v, %d cells, n = %d: outside of bounds of 95 %% %.1f %% of flows that send evenly, %.1f %% of those that send in bursts", kind, cells, 1<<log, 100*even, 100*burst)
				if even > 0.05 || burst > 0.05 {
					t.Errorf("%v, %d cells, n = %d: more than 5 %% are outside of bounds of 95 %%", kind, cells, 1<<log)
				}
			}
		}
	}
}
