package paper

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintpath "github.com/weirswitch/weir/telemetry/pint/path"
)

// collector is the expected number of draws that collect all of n coupons.
func collector(n int) float64 {
	h := 0.0
	for i := 1; i <= n; i++ {
		h += 1 / float64(i)
	}
	return float64(n) * h
}

// TestRivals compares the rivals with what is known of coupon collectors. 6
// standard errors have a chance of 2e-9.
func TestRivals(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func() trial
		want float64
	}{
		{"ppm", func() trial { return ppmTrial(20) }, collector(160)},
		{"ams2 with all functions", func() trial { return ams2Trial(20, 8) }, collector(160)},
		{"ams2 with one function", func() trial { return ams2Trial(20, 1) }, collector(20)},
	} {
		s, err := trials(context.Background(), Options{Seed: 1}, c.name, 4000, func() (trial, error) { return c.run(), nil })
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, x := range s {
			sum += (x - s.mean()) * (x - s.mean())
		}
		if e := math.Sqrt(sum) / float64(len(s)); math.Abs(s.mean()-c.want) > 6*e {
			t.Errorf("%s: %.2f packets, expected %.2f within %.2f", c.name, s.mean(), c.want, 6*e)
		}
	}
}

// TestTrialsDoNotDependOnWorkers: one core or many give the same runs.
func TestTrialsDoNotDependOnWorkers(t *testing.T) {
	once := func() sample {
		s, err := wholeTrials(context.Background(), Options{Seed: 4}, "same", 9, encode.Hybrid(9), pintpath.NewPeeling, 200)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := runtime.GOMAXPROCS(1)
	alone := once()
	runtime.GOMAXPROCS(4)
	together := once()
	runtime.GOMAXPROCS(before)
	if !slices.Equal(alone, together) {
		t.Error("one worker and four give different runs")
	}
}

func TestTrialsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := pintFig5(ctx, Options{Quick: true}); err == nil {
		t.Error("a cancelled run gives rows")
	}
}

// TestDecodeTrialCounts: the packet count is the first with which the solver
// succeeds, for a solver that is called step by step, and for one that is not.
func TestDecodeTrialCounts(t *testing.T) {
	s, err := encode.NewStatic(encode.StaticConfig{Bits: 16, ValueBits: 16, Layers: encode.Hybrid(6), Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	path := []uint64{5, 4, 3, 2, 1, 6}
	for _, make := range []func(*encode.Static) pintpath.Solver{pintpath.NewPeeling, pintpath.NewElimination} {
		run := decodeTrial(s, make(s), func(*rand.Rand) []uint64 { return path }, 1000)
		for i := range uint64(100) {
			got, err := run(rand.New(rand.NewPCG(1, i)))
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, i))
			var obs []pintpath.Observation
			var sol pintpath.Solution
			for !sol.Unique {
				id := r.Uint64()
				obs = append(obs, pintpath.Observation{ID: id, Digest: s.Digest(new(encode.Scratch), id, path)})
				make(s).Solve(obs, len(path), &sol)
			}
			if int(got) != len(obs) {
				t.Fatalf("%d packets, one by one %d", int(got), len(obs))
			}
		}
	}
}

// floors are what the rows must reach, in short runs too: the slack of quick
// runs is in the figures.
func TestFloors(t *testing.T) {
	o := Options{Seed: 2, Quick: true}
	rows := map[string]float64{}
	figures := []func(context.Context, Options) ([]Row, error){pintFig5, pintK2}
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, f := range figures {
		all, err := f(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			rows[r.Metric] = r.Value
		}
	}
	for metric, bound := range map[string][2]float64{
		"baseline.mean":    {2.94, 3.06},
		"interleaved.mean": {2.61, 2.72},
		"baseline.median":  {86, 92},
		"baseline.p99":     {180, 200},
		"hybrid.median":    {40, 43},
		"hybrid.p99":       {64, 72},
		"best.median":      {25, 33},
		"best.p99":         {25, 48},
	} {
		v, ok := rows[metric]
		if !ok || v < bound[0] || v > bound[1] {
			t.Errorf("%s is %v, not in %v", metric, v, bound)
		}
	}
}

// TestNoWrongPathIsCertain follows flows through changes of path, in the
// networks of figure 10.
func TestNoWrongPathIsCertain(t *testing.T) {
	o := Options{Seed: 3, Data: dataDir(t)}
	networks, err := fig10Networks(o)
	if err != nil {
		t.Fatal(err)
	}
	decoders, err := wrongDecoders(o, networks)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, 4))
	for _, n := range networks[1:] {
		for _, kind := range []string{"dense", "links", "paper"} {
			right := 0
			for range 150 {
				outcome := followFlow(r, n, decoders[n.name+kind])
				if outcome&wronglyCertain != 0 {
					t.Errorf("%s, %s: a wrong path is certain", n.name, kind)
				}
				if outcome&rightlyCertain != 0 {
					right++
				}
			}
			if right < 140 {
				t.Errorf("%s, %s: %d of 150 flows end with the right path, certain", n.name, kind, right)
			}
		}
	}
}

// TestTopologyHelps: on the same paths, links known must save packets.
func TestTopologyHelps(t *testing.T) {
	o := Options{Seed: 5, Data: dataDir(t)}
	networks, err := fig10Networks(o)
	if err != nil {
		t.Fatal(err)
	}
	n := networks[0]
	dense, err := n.trials(context.Background(), o, "dense", densePlan(8, 2), pintpath.NewElimination, 59, 40)
	if err != nil {
		t.Fatal(err)
	}
	links, err := n.trials(context.Background(), o, "links", linkPlan(8, 2), n.walks, 59, 40)
	if err != nil {
		t.Fatal(err)
	}
	if dense.mean() > 40 || links.mean() > 12 {
		t.Errorf("%.1f packets without links, %.1f with", dense.mean(), links.mean())
	}
}
