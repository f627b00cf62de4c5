package paper

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/disketch"
)

// TestDSMemories: the memories have the mean and the inequality that are asked for.
func TestDSMemories(t *testing.T) {
	for seed := range uint64(50) {
		sum, shares := 0, []float64{}
		for _, m := range dsMemories(20, 64<<10, true, seed) {
			sum += m
			shares = append(shares, float64(m))
		}
		if g := gini(shares); math.Abs(g-dsGini) > 0.01 || math.Abs(float64(sum)/(20*64<<10)-1) > 0.01 {
			t.Errorf("seed %d: Gini %.3f, mean %d", seed, g, sum/20)
		}
		r := rand.New(rand.NewPCG(seed, 1))
		for _, cov := range []float64{0, 0.9, 1.8} {
			if got := variation(varied(r, 5, cov)); math.Abs(got-cov) > 0.01 {
				t.Errorf("seed %d: coefficient of variation %.3f, want %g", seed, got, cov)
			}
		}
	}
	if g := gini([]float64{10, 30, 100, 160, 200}); math.Abs(g-0.408) > 1e-9 {
		t.Errorf("the paper's example has %g", g)
	}
}

func smallTraffic(t *testing.T) *dsTraffic {
	trace, err := workload.Synthetic{Packets: 100_000, Flows: 10_000, Seconds: 5, Seed: 1}.Trace()
	if err != nil {
		t.Fatal(err)
	}
	net, err := dsFatTree()
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newDSTraffic(net, trace, 1)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestDSTraffic: paths have 1, 3 or 5 switches in the proportions of two hosts
// at each edge switch, 5-hop flows pass one core, and each packet is at each
// switch of its path once. Six standard deviations have a chance of 2e-9.
func TestDSTraffic(t *testing.T) {
	tr := smallTraffic(t)
	byHops := map[int]float64{}
	want := 0
	for i := range tr.flows {
		f := &tr.flows[i]
		byHops[len(f.path)]++
		want += len(f.path) * int(f.packets)
		cores := 0
		for _, node := range f.path {
			if tr.net.coreMark[node] {
				cores++
			}
		}
		if cores != len(f.path)/5 {
			t.Fatalf("path %v has %d cores", f.path, cores)
		}
	}
	n := float64(len(tr.flows))
	for hops, p := range map[int]float64{1: 1.0 / 15, 3: 2.0 / 15, 5: 12.0 / 15} {
		if math.Abs(byHops[hops]-n*p) > 6*math.Sqrt(n*p*(1-p)) {
			t.Errorf("%g of %g flows have %d hops", byHops[hops], n, hops)
		}
	}
	got := 0
	for e := range tr.at {
		for _, s := range tr.at[e] {
			got += len(s)
		}
	}
	if got != want {
		t.Errorf("%d packets at switches, want %d", got, want)
	}
}

// TestDSOrder: with memories as crowded as in the figures at 512 KB, systems stand in
// the paper's order and as far apart as is asked; without pressure all are exact.
func TestDSOrder(t *testing.T) {
	tr := smallTraffic(t)
	rmse := func(memory int) (aggregated, disco, sketch, rows float64) {
		memories := dsMemories(20, memory, true, 1)
		a, err := tr.aggregated(disketch.CountSketch, memories, 1)
		if err != nil {
			t.Fatal(err)
		}
		d, err := tr.disco(disketch.CountSketch, memories, 1)
		if err != nil {
			t.Fatal(err)
		}
		out, err := tr.run(context.Background(), dsRun{
			kind: disketch.CountSketch, memory: memories, seed: 1, trials: 500,
			ways:   []disketch.Composition{disketch.Likeliest, disketch.Rows},
			wanted: func(f *dsFlow) bool { return len(f.path) == 5 },
		})
		if err != nil {
			t.Fatal(err)
		}
		if out.converged > 8 {
			t.Errorf("%d bytes: %d epochs to converge", memory, out.converged)
		}
		root := func(x []float64) float64 { return math.Sqrt(tr.squares(x, 5)) }
		return root(a), root(d), root(out.estimate[0]), root(out.estimate[1])
	}
	a, d, s, r := rmse(512 << 10 / 20)
	t.Logf("aggregated %.3f, DISCO %.3f, DiSketch %.3f, by rows %.3f", a, d, s, r)
	if d/s < 4 || a/s < 50 || d/r < 2 {
		t.Errorf("aggregated %.3f, DISCO %.3f, DiSketch %.3f, by rows %.3f", a, d, s, r)
	}
	if testing.Short() {
		return
	}
	if a, d, s, r = rmse(4 << 20); a > 0.05 || d > 0.05 || s > 0.05 || r > 0.05 {
		t.Errorf("with memory in plenty: aggregated %g, DISCO %g, DiSketch %g, by rows %g", a, d, s, r)
	}
}

// TestSuMax compares with a Count-Min of the same cells: never below the truth,
// never above Count-Min.
func TestSuMax(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	s, plain := newSuMax(3, 3*4*50, 1), newSuMax(3, 3*4*50, 1)
	exact := map[uint64]float64{}
	for range 5000 {
		f := r.Uint64N(200)
		exact[f]++
		s.add(f)
		for row := range plain.cells {
			*plain.cell(row, f)++
		}
	}
	better := 0
	for f, n := range exact {
		if s.estimate(f) < n || s.estimate(f) > plain.estimate(f) {
			t.Errorf("flow %d: %g, it has %g, Count-Min says %g", f, s.estimate(f), n, plain.estimate(f))
		}
		if s.estimate(f) < plain.estimate(f) {
			better++
		}
	}
	if better < 100 {
		t.Errorf("better than Count-Min for %d of %d flows", better, len(exact))
	}
}

func TestMemoryFor(t *testing.T) {
	sizes, c := []int{8, 16, 32}, curve{16, 4, 1}
	for err, want := range map[float64]float64{20: 8, 16: 8, 4: 16, 8: 8 * math.Sqrt2, 1: 32, 0.5: math.Inf(1)} {
		if got := memoryFor(sizes, c, err); math.Abs(got-want) > 1e-9 && got != want {
			t.Errorf("error %g: %g KB, want %g", err, got, want)
		}
	}
}
