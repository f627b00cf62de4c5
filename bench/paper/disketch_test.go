package paper

import (
	"cmp"
	"context"
	"flag"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
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

// TestDSTraffic: paths have 1, 3 or 5 switches in the proportions of two hosts
// at each edge switch, 5-hop flows pass one core, and each packet is at each
// switch of its path once. Six standard deviations have a chance of 2e-9.
func TestDSTraffic(t *testing.T) {
	tr := syntheticTraffic(t, 100_000)
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

// TestDivide: several divisions of epochs in one run give what each gives alone.
func TestDivide(t *testing.T) {
	tr := syntheticTraffic(t, 100_000)
	c := dsRun{
		kind: disketch.CountSketch, memory: dsMemories(20, 800, true, 1), seed: 1, trials: 200, singleHop: true, wanted: tr.some(0),
		ways: []disketch.Composition{disketch.Rows, disketch.Likeliest, disketch.Checked},
	}
	by := []dsDivision{{dsFixed, 0}, {dsFixed, 1}, {dsCentral, 0}, {dsAutonomous, 0}, {dsCoordinated, 0}}
	together, err := tr.divide(t.Context(), c, by)
	if err != nil {
		t.Fatal(err)
	}
	for i, division := range by {
		c.how, c.log = division.how, division.log
		alone, err := tr.run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(together[i], alone) {
			t.Errorf("%+v: together the mean n is %g and the target %g, alone %g and %g", division, together[i].subepochs, together[i].target, alone.subepochs, alone.target)
		}
	}
	if slices.Equal(together[0].estimate[0], together[1].estimate[0]) || together[3].subepochs <= 1 {
		t.Errorf("divisions do not differ: n = 2 gives what n = 1 does, or switches choose n = %g", together[3].subepochs)
	}
}

// TestDSOrder: with memories as crowded as in the figures at 512 KB, systems stand in
// the paper's order and as far apart as is asked; without pressure all are exact.
func TestDSOrder(t *testing.T) {
	tr := syntheticTraffic(t, 100_000)
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

// TestEntropies: with memory in plenty each system of the ablation finds the entropy.
func TestEntropies(t *testing.T) {
	tr := syntheticTraffic(t, 100_000)
	bits, err := tr.entropies(t.Context(), 4<<20, 10, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	exact := tr.entropy()
	for _, system := range dsSystems() {
		if x, ok := bits[system.name]; !ok || math.Abs(x-exact) > 0.05*exact {
			t.Errorf("%s: %.3f bits, %.3f are exact", system.name, x, exact)
		}
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

// TestErrorRatio: a ratio of errors and its interval are of one statistic, whose answer is known for made-up errors.
func TestErrorRatio(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	check := func(what string, a, b sample, ratio, low, high float64) {
		t.Helper()
		e := dsErrors{"a": a, "b": b}
		gotLow, gotHigh := e.ratioInterval("a", "b")
		near(what, e.over("a", "b"), ratio)
		near(what+", low", gotLow, low)
		near(what+", high", gotHigh, high)
	}
	check("twice the error in each placement", sample{4, 16, 36}, sample{1, 4, 9}, 2, 2, 2)
	// Shares of 1/2 and 3/2 of the mean beside 1 and 1: the differences are -1/4 and 1/4 of a logarithm, and Student's quantile is tan(0.475 pi), 12.706.
	half := math.Tan(0.475*math.Pi) * 0.25
	check("two placements", sample{1, 3}, sample{2, 2}, 1, math.Exp(-half), math.Exp(half))
	check("less than what counts", sample{1e-10, 3e-10}, sample{1e-9, 1e-9}, 1, 1, 1)
	e := dsErrors{"a": {1, 3}, "none": {0, 0}}
	low, high := e.interval("a")
	near("an error, low", low, math.Sqrt2*math.Exp(-half))
	near("an error, high", high, math.Sqrt2*math.Exp(half))
	if low, high := e.interval("none"); low != 0 || high != 0 {
		t.Errorf("no error: %g to %g", low, high)
	}
	if low, high := (dsErrors{"a": {1}, "b": {4}}).ratioInterval("a", "b"); low != 0 || !math.IsInf(high, 1) {
		t.Errorf("one placement says %g to %g", low, high)
	}
	// Squared errors with expectations 4 and 1, in part by the same luck: 95 % of the intervals hold the ratio 2, as far as ten placements tell.
	r := rand.New(rand.NewPCG(5, 5))
	const draws, placements, deviation = 2000, 10, 0.5
	held := 0
	for range draws {
		e := dsErrors{}
		for range placements {
			common := r.NormFloat64()
			e["a"] = append(e["a"], 4*math.Exp(deviation*(common+r.NormFloat64())-deviation*deviation))
			e["b"] = append(e["b"], math.Exp(deviation*(common+r.NormFloat64())-deviation*deviation))
		}
		if low, high := e.ratioInterval("a", "b"); low <= 2 && 2 <= high {
			held++
		}
	}
	if held < draws*92/100 || held > draws*98/100 {
		t.Errorf("%d of %d intervals hold the ratio", held, draws)
	}
}

// TestUnevenEpochs: switches that choose n alone gain where all epochs are even, and lose nothing where flows send all of an epoch in one burst, in all epochs or in those that are
// looked at. One uneven epoch that is looked at keeps n = 1 for some nine looks more: n = 2 gains from even epochs less than it loses by one uneven one in eight.
func TestUnevenEpochs(t *testing.T) {
	net, err := dsFatTree()
	if err != nil {
		t.Fatal(err)
	}
	seeds := uint64(4)
	if testing.Short() {
		seeds = 2
	}
	for _, c := range []struct {
		name   string
		uneven func(epoch uint64) bool
		most   float64 // errors over those of n = 1
	}{
		{"none", func(uint64) bool { return false }, 0.9},
		{"one that is looked at", func(e uint64) bool { return e == 1 }, 1.05},
		{"every eighth", func(e uint64) bool { return e%8 == 0 }, 1.05},
		{"every eighth, of which none is looked at", func(e uint64) bool { return e%8 == 3 }, 1.1},
		{"all", func(uint64) bool { return true }, 1.05},
	} {
		e := dsErrors{}
		for seed := uint64(1); seed <= seeds; seed++ {
			trace, err := dsUneven(Options{Seed: seed}, 0)
			if err != nil {
				t.Fatal(err)
			}
			tr, err := newDSTraffic(net, trace, seed)
			if err != nil {
				t.Fatal(err)
			}
			for epoch := range tr.at {
				for _, packets := range tr.at[epoch] {
					if !c.uneven(uint64(epoch)) {
						continue
					}
					for i := range packets {
						packets[i].tick = uint32(hash.Uint64x2(seed, uint64(epoch), tr.flows[packets[i].flow].hash) & 0xffff)
					}
					slices.SortStableFunc(packets, func(a, b dsPacket) int { return cmp.Compare(a.tick, b.tick) })
				}
			}
			run := dsRun{kind: disketch.CountSketch, memory: dsMemories(20, 819, true, seed), seed: seed, trials: 500, wanted: tr.some(net.full), ways: []disketch.Composition{disketch.Checked}}
			outs, err := tr.divide(t.Context(), run, []dsDivision{{dsFixed, 0}, {dsFixed, 1}, {dsAutonomous, 0}})
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range []string{"n1", "n2", "autonomous"} {
				e[name] = append(e[name], tr.squaresOf(outs[i].estimate[0], run.wanted))
			}
		}
		low, high := e.ratioInterval("autonomous", "n1")
		t.Logf("uneven epochs: %s: n = 1 errs by %.3f packets, n = 2 by %.3f of that, n that each switch chooses by %.3f (95 %%: %.3f to %.3f)",
			c.name, e.rmse("n1"), e.over("n2", "n1"), e.over("autonomous", "n1"), low, high)
		if e.over("autonomous", "n1") > c.most {
			t.Errorf("uneven epochs: %s: errors are %.3f of those with n = 1, more than %g", c.name, e.over("autonomous", "n1"), c.most)
		}
	}
}

// TestSomeBurstyFlows: where a share of the flows sends in bursts, numbers of subepochs that each switch chooses alone do not make errors larger:
// not by more than 1.05 with any share and memory, and not in the mean.
func TestSomeBurstyFlows(t *testing.T) {
	net, err := dsFatTree()
	if err != nil {
		t.Fatal(err)
	}
	shares, sizes, seeds := []float64{0.01, 0.03, 0.1, 0.3}, []int{2, 8, 32}, uint64(*unevenSeeds)
	if testing.Short() {
		shares, sizes, seeds = []float64{0.1}, []int{16}, 1
	}
	logs := sample{}
	for _, share := range shares {
		errors := make([]dsErrors, len(sizes))
		for seed := uint64(1); seed <= seeds; seed++ {
			m := dsMap{net: net}
			if err := m.traffic(Options{Seed: seed}, share); err != nil {
				t.Fatal(err)
			}
			for i, kb := range sizes {
				if errors[i] == nil {
					errors[i] = dsErrors{}
				}
				memory := dsMemories(len(net.graph.Nodes), kb<<10/dsAblationShrink, true, seed)
				run := dsRun{kind: disketch.CountSketch, memory: memory, seed: seed, trials: 1000, wanted: m.wanted, ways: []disketch.Composition{disketch.Checked}}
				outs, err := m.now.divide(t.Context(), run, []dsDivision{{dsFixed, 0}, {how: dsAutonomous}})
				if err != nil {
					t.Fatal(err)
				}
				for k, name := range []string{"n1", "autonomous"} {
					errors[i][name] = append(errors[i][name], m.now.squaresOf(outs[k].estimate[0], m.wanted))
				}
			}
		}
		for i, e := range errors {
			ratio := e.over("autonomous", "n1")
			low, high := e.ratioInterval("autonomous", "n1")
			t.Logf("%g of the flows in bursts, %d KB: n that each switch chooses errs by %.3f of n = 1 (95 %%: %.3f to %.3f), which errs by %.3g packets", share, sizes[i], ratio, low, high, e.rmse("n1"))
			logs = append(logs, math.Log(ratio))
			if ratio > 1.05 {
				t.Errorf("%g of the flows in bursts, %d KB: errors are %.3f of those with n = 1", share, sizes[i], ratio)
			}
		}
	}
	if mean := math.Exp(logs.mean()); mean > 1 {
		t.Errorf("errors are %.3f of those with n = 1 in the mean", mean)
	}
}

var unevenSeeds = flag.Int("uneven-seeds", 4, "seeds of TestUnevenMemories and TestSomeBurstyFlows, from 1 on")

// TestUnevenMemories: where a path's switches have very uneven memories (a cell of figure 14), numbers of subepochs that each switch chooses alone
// do not make errors larger. The ratio of one seed is that of ten draws, in which a few heavy flows have most of the error: it is 0.88 to
// 1.09, so the mean of several seeds is what is held.
func TestUnevenMemories(t *testing.T) {
	seeds := *unevenSeeds
	if testing.Short() {
		seeds = min(seeds, 2)
	}
	logs := sample{}
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		trace, err := workload.Synthetic{Packets: fig14Packets, Flows: fig14Flows, Seconds: 5, Seed: seed}.Trace()
		if err != nil {
			t.Fatal(err)
		}
		e := dsErrors{}
		for i := range uint64(10) {
			d := fig14Drawn(seed, i, trace, 1.8, 0.9)
			for name, how := range map[string]dsHow{"n1": dsFixed, "autonomous": dsAutonomous} {
				run := dsRun{kind: disketch.CountSketch, memory: d.memory, seed: i, wanted: fig14Wanted, how: how, ways: []disketch.Composition{disketch.Checked}, trials: 2000}
				out, err := d.traffic.run(t.Context(), run)
				if err != nil {
					t.Fatal(err)
				}
				e[name] = append(e[name], d.traffic.squares(out.estimate[0], fig14Hops))
			}
		}
		logs = append(logs, math.Log(e.over("autonomous", "n1")))
		low, high := e.ratioInterval("autonomous", "n1")
		t.Logf("seed %d: n = 1 errs by %.3f packets, n that each switch chooses by %.3f of that (95 %%: %.3f to %.3f)", seed, e.rmse("n1"), e.over("autonomous", "n1"), low, high)
	}
	mean, half := logs.mean(), logs.half()
	t.Logf("geometric mean %.3f, 95 %%: %.3f to %.3f", math.Exp(mean), math.Exp(mean-half), math.Exp(mean+half))
	if math.Exp(mean) > 1.05 {
		t.Errorf("errors are %.3f of those with n = 1", math.Exp(mean))
	}
}
