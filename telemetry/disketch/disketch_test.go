package disketch

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// arrival is a packet of a test, at a time in units of 2^-16 of the window's
// first epochs.
type arrival struct {
	flow uint64
	time uint64 // ns
}

// network runs fragments over arrivals in the order of time, as a switch
// would: one counter each, whose records are collected at each subepoch's end.
type network struct {
	t         *testing.T
	config    Config
	fragments map[uint64]*Fragment
	records   Records
	all       []*Record
	paths     map[uint64][]uint64
}

func newNetwork(t *testing.T, c Config, memory map[uint64]int, paths map[uint64][]uint64) *network {
	n := &network{t: t, config: c, fragments: map[uint64]*Fragment{}, paths: paths}
	for sw, m := range memory {
		c.ID.Switch, c.Memory = sw, m
		f, err := NewFragment(c)
		if err != nil {
			t.Fatal(err)
		}
		n.fragments[sw] = f
	}
	return n
}

// run plays arrivals of epoch e, sorted by time; values are all v.
func (n *network) run(e uint64, packets []arrival, v int64) {
	n.t.Helper()
	for sw, f := range n.fragments {
		c, err := f.NewCounter()
		if err != nil {
			n.t.Fatal(err)
		}
		s := f.Begin(e)
		rest := packets
		for sub := range s.N() {
			c.Begin(s, sub)
			for ; len(rest) > 0 && n.config.Epochs.Subepoch(rest[0].time, s.Log) == sub; rest = rest[1:] {
				if path := n.paths[rest[0].flow]; slices.Contains(path, sw) {
					c.Add(rest[0].flow, v, len(path) == 1)
				}
			}
			r := c.Record().Clone()
			f.Observe(r)
			if err := n.records.Add(r); err != nil {
				n.t.Fatal(err)
			}
			n.all = append(n.all, r)
		}
	}
}

func (n *network) path(flow uint64) []uint64 { return n.paths[flow] }

// uniform makes packets of flows, of sizes from 1 to most of which few are
// large, at random times of an epoch.
func uniform(r *rand.Rand, epochs Epochs, epoch uint64, flows []uint64, most int) []arrival {
	var all []arrival
	for i, f := range flows {
		for range max(most/(1+i%101), 1) {
			all = append(all, arrival{f, epoch<<epochs + r.Uint64N(1<<epochs)})
		}
	}
	slices.SortFunc(all, func(a, b arrival) int { return int(int64(a.time) - int64(b.time)) })
	return all
}

func flowsOf(n int) []uint64 {
	flows := make([]uint64, n)
	for i := range flows {
		flows[i] = hash.Uint64(3, uint64(i))
	}
	return flows
}

// TestSubepochsAreBitsOfTime takes the example of Figure 11 of the paper, moved to
// where our shortest epoch is.
func TestSubepochsAreBitsOfTime(t *testing.T) {
	const e = Epochs(20)
	at := uint64(5)<<20 | 0b1101<<16 | 77
	if e.Epoch(at) != 5 || e.Subepoch(at, 4) != 0b1101 || e.Subepoch(at, 1) != 1 || e.Subepoch(at, 0) != 0 {
		t.Errorf("epoch %d, subepochs %b %b %b", e.Epoch(at), e.Subepoch(at, 4), e.Subepoch(at, 1), e.Subepoch(at, 0))
	}
}

// TestStep is Equation 6.
func TestStep(t *testing.T) {
	for _, c := range []struct {
		log         uint8
		rho, target float64
		most, want  uint8
	}{
		{0, 20.1, 10, 10, 1}, {3, 20.1, 10, 10, 4}, {3, 20, 10, 10, 3}, {3, 5, 10, 10, 3},
		{3, 4.9, 10, 10, 2}, {0, 4.9, 10, 10, 0}, {10, 99, 10, 10, 10}, {2, 99, 0, 10, 2}, {4, 0, 0, 10, 4},
	} {
		if got := step(c.log, c.rho, c.target, c.most); got != c.want {
			t.Errorf("Step(%d, %g, %g, %d) = %d, want %d", c.log, c.rho, c.target, c.most, got, c.want)
		}
	}
}

// TestScheduleSpreadsFlows: each flow has one subepoch, all are used alike, other
// epochs and fragments choose independently. 6.5 standard deviations of a count have
// a chance of 1e-10, and 800 are looked at in each family.
func TestScheduleSpreadsFlows(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testScheduleSpreadsFlows(t, family) })
	}
}

func testScheduleSpreadsFlows(t *testing.T, family hash.Family) {
	const flows, log = 1 << 16, 4
	c := Config{ID: ID{Switch: 1}, Kind: CountMin, Memory: 64, Epochs: 24, Seed: 9, Hash: family}
	f, _ := NewFragment(c)
	c.ID.Switch = 2
	g, _ := NewFragment(c)
	schedules := []Schedule{f.Begin(0), f.Begin(1), g.Begin(0)}
	for i := range schedules {
		schedules[i].Log = log
		for j := range i {
			if schedules[i].Seed == schedules[j].Seed {
				t.Fatal("two schedules of one seed")
			}
		}
	}
	var joint [3][16][16]int
	for _, flow := range flowsOf(flows) {
		counted := 0
		for sub := range schedules[0].N() {
			if schedules[0].Counts(flow, sub, false) {
				counted++
			}
		}
		if counted != 1 {
			t.Fatalf("flow %x is counted in %d subepochs", flow, counted)
		}
		for i, s := range schedules {
			joint[i][s.Subepoch(flow)][schedules[(i+1)%3].Subepoch(flow)]++
		}
	}
	mean := float64(flows) / 256
	for i := range joint {
		for a := range joint[i] {
			for b, n := range joint[i][a] {
				if math.Abs(float64(n)-mean) > 6.5*math.Sqrt(mean) {
					t.Errorf("schedules %d: %d flows in (%d, %d), about %.0f expected", i, n, a, b, mean)
				}
			}
		}
	}
}

// TestSingleHopFlowsHaveTwoSubepochs is Section 4.4: one in each half.
func TestSingleHopFlowsHaveTwoSubepochs(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testSingleHopFlowsHaveTwoSubepochs(t, family) })
	}
}

func testSingleHopFlowsHaveTwoSubepochs(t *testing.T, family hash.Family) {
	for log := range uint8(5) {
		s := Schedule{Log: log, Seed: 4, SingleHop: true, Hash: family}
		for _, flow := range flowsOf(100) {
			var in []uint64
			for sub := range s.N() {
				if s.Counts(flow, sub, true) {
					in = append(in, sub)
				}
			}
			want := []uint64{s.Subepoch(flow), s.second(s.Subepoch(flow))}
			slices.Sort(want)
			if !slices.Equal(in, slices.Compact(want)) || log > 0 && in[1]-in[0] != s.N()/2 {
				t.Fatalf("n = %d: counted in %v", s.N(), in)
			}
		}
	}
}

// TestSums: over all records of an epoch, the cells of a fragment hold what its
// records say was counted, and that is each flow's packets of its own subepoch, however the
// counting is divided among workers.
func TestSums(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testSums(t, family) })
	}
}

func testSums(t *testing.T, family hash.Family) {
	r := rand.New(rand.NewPCG(1, 1))
	flows := flowsOf(300)
	for _, kind := range []Kind{CountMin, CountSketch, UnivMon} {
		for _, log := range []uint8{0, 3} {
			const e = Epochs(20)
			f, err := NewFragment(Config{ID: ID{Switch: 7}, Kind: kind, Memory: 4096, Epochs: e, Seed: 2, SingleHop: true, Hash: family})
			if err != nil {
				t.Fatal(err)
			}
			s := f.Begin(5)
			s.Log = log
			packets := uniform(r, e, 5, flows, 9)
			workers := make([]*Counter, 3)
			for i := range workers {
				workers[i], _ = f.NewCounter()
			}
			var counted, seen, want uint64
			var cells int64
			for sub := range s.N() {
				for _, w := range workers {
					w.Begin(s, sub)
				}
				for i, p := range packets {
					if e.Subepoch(p.time, log) != sub {
						continue
					}
					w := workers[i%3]
					if i%2 == 0 {
						w.Add(p.flow, 1, i%4 == 0)
					} else {
						w.AddBatch([]uint64{p.flow}, []int64{1}, false)
					}
					if s.Counts(p.flow, sub, i%4 == 0) {
						want++
					}
				}
				for _, w := range workers[1:] {
					if err := workers[0].Merge(w); err != nil {
						t.Fatal(err)
					}
				}
				rec := workers[0].Record()
				counted, seen = counted+rec.Packets, seen+rec.Seen
				if rec.Value != rec.Packets {
					t.Errorf("%d packets of one each make %d", rec.Packets, rec.Value)
				}
				for _, c := range rec.Cells(0) {
					cells += int64(c)
				}
			}
			if counted != want || seen != uint64(len(packets)) {
				t.Errorf("%v, n = %d: counted %d of %d, seen %d of %d", kind, s.N(), counted, want, seen, len(packets))
			}
			if kind == CountMin && uint64(cells) != counted {
				t.Errorf("cells hold %d, the records say %d", cells, counted)
			}
		}
	}
}

// TestAloneIsExact: where no flow meets another, with n = 1 or with packets spread
// evenly, all compositions give the exact count.
func TestAloneIsExact(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testAloneIsExact(t, family) })
	}
}

func testAloneIsExact(t *testing.T, family hash.Family) {
	flow := flowsOf(1)[0]
	path := []uint64{1, 2, 3, 4, 5}
	for _, kind := range []Kind{CountSketch, CountMin, UnivMon} {
		n := newNetwork(t, Config{Kind: kind, Epochs: 20, Seed: 3, Hash: family}, map[uint64]int{1: 4096, 2: 400, 3: 2000, 4: 4096, 5: 1000}, map[uint64][]uint64{flow: path})
		for sw, f := range n.fragments {
			f.SetTarget(1e-9 * float64(sw)) // n doubles each epoch
		}
		for e := range uint64(4) {
			var packets []arrival
			for i := range uint64(64) {
				packets = append(packets, arrival{flow, e<<20 + i<<14})
			}
			n.run(e, packets, 3)
		}
		if n.records.N(ID{Switch: 2}, 3) != 8 {
			t.Errorf("n is %d in epoch 3", n.records.N(ID{Switch: 2}, 3))
		}
		for _, how := range []Composition{Rows, Likeliest} {
			a := n.records.Frequency(Query{To: 4, Hash: family, Composition: how}, flow, PathFunc(n.path))
			// Likeliest admits the noise that a cell may hide.
			if math.Abs(a.Value-4*64*3) > map[Composition]float64{Rows: 1e-6, Likeliest: 20}[how] || a.Low > 768 || a.High < 768 || len(a.Missing) > 0 {
				t.Errorf("%v, composition %d: %+v", kind, how, a)
			}
		}
	}
}

// slowRows is Step 2 of Section 4.3 word by word: nm equal subepochs.
func slowRows(obs []observation, nm int, minimum bool) float64 {
	estimates := []float64{}
	for j := range nm {
		var o []float64
		for _, x := range obs {
			n := math.Round(1 / (x.to - x.from))
			if s := math.Round(x.from * n); float64(j) >= s*float64(nm)/n && float64(j) < (s+1)*float64(nm)/n {
				o = append(o, x.count/(float64(nm)/n))
			}
		}
		switch {
		case len(o) == 0:
		case minimum:
			estimates = append(estimates, slices.Min(o))
		default:
			slices.Sort(o)
			estimates = append(estimates, (o[(len(o)-1)/2]+o[len(o)/2])/2)
		}
	}
	sum := 0.0
	for _, e := range estimates {
		sum += e
	}
	return sum / float64(len(estimates)) * float64(nm)
}

// TestRowsEqualsThePaper compares random observations with the twin.
func TestRowsEqualsThePaper(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 5000 {
		c := composer{minimum: r.IntN(2) == 0}
		nm := 1
		for range 1 + r.IntN(5) {
			n := 1 << r.IntN(5)
			nm = max(nm, n)
			s := float64(r.IntN(n)) / float64(n)
			c.obs = append(c.obs, observation{from: s, to: s + 1/float64(n), window: 1 / float64(n), observed: observed{count: float64(r.IntN(100) - 20)}, level: &level{rho: 1}})
		}
		got := c.rows(0, 1)
		if want := slowRows(c.obs, nm, c.minimum); math.Abs(got.value-want) > 1e-9*(1+math.Abs(want)) {
			t.Fatalf("%v: %g, the paper's is %g", c.obs, got.value, want)
		}
		if got.covered <= 0 || got.covered > 1+1e-12 || got.spread < -1e-12 {
			t.Fatalf("covered %g, spread %g", got.covered, got.spread)
		}
	}
}

// TestPathChange: a flow that goes another way from the middle of the epoch on
// is weighed by time, and a switch of both paths counts it all the time.
func TestPathChange(t *testing.T) {
	flow := flowsOf(1)[0]
	const cut = 5.0 / 16
	paths := segments{{[]uint64{1, 2}, 0, cut}, {[]uint64{1, 3}, cut, 1}}
	for _, log := range []int{0, 1, 2} {
		n := newNetwork(t, Config{Kind: CountSketch, Epochs: 20, Seed: 3}, map[uint64]int{1: 400, 2: 400, 3: 400}, map[uint64][]uint64{})
		for e := range uint64(log + 1) {
			before, after := arrivals(flow, e, 0, 20), arrivals(flow, e, 20, 64)
			for sw, packets := range map[uint64][]arrival{1: append(before, after...), 2: before, 3: after} {
				only := &network{t: t, config: n.config, fragments: map[uint64]*Fragment{sw: n.fragments[sw]}, paths: map[uint64][]uint64{flow: {sw}}}
				n.fragments[sw].SetTarget(1e-9)
				only.run(e, packets, 1)
				for _, r := range only.all {
					if err := n.records.Add(r); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		a := n.records.Frequency(Query{From: uint64(log), To: uint64(log) + 1, Composition: Rows}, flow, paths)
		if math.Abs(a.Value-64) > 1e-9 || len(a.Missing) != 0 {
			t.Errorf("n = %d: %+v", 1<<log, a)
		}
	}
}

type segments []Segment

func (s segments) Path(buf []Segment, _, _ uint64) []Segment { return append(buf, s...) }

// arrivals are packets of a flow at from/64 to to/64 of an epoch.
func arrivals(flow, epoch, from, to uint64) (all []arrival) {
	for i := from; i < to; i++ {
		all = append(all, arrival{flow, epoch<<20 + i<<14})
	}
	return all
}

// TestMissing: a switch that lost its records is named, and the answer goes on
// without it.
func TestMissing(t *testing.T) {
	flow := flowsOf(1)[0]
	n := newNetwork(t, Config{Kind: CountMin, Epochs: 20, Seed: 3}, map[uint64]int{1: 400, 2: 400, 3: 400}, map[uint64][]uint64{flow: {1, 2, 3}})
	for e := range uint64(3) {
		n.run(e, arrivals(flow, e, 0, 10), 1)
	}
	var kept Records
	for _, r := range n.all {
		if r.Fragment.Switch != 2 || r.Epoch != 1 {
			if err := kept.Add(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	a := kept.Frequency(Query{To: 3, Composition: Rows}, flow, PathFunc(n.path))
	if want := []Missing{{1, ID{Switch: 2}}}; a.Value != 30 || !slices.Equal(a.Missing, want) || a.Covered != 1 {
		t.Errorf("%+v, missing should be %v", a, want)
	}
	if a = kept.Frequency(Query{To: 4}, flow, PathFunc(n.path)); len(a.Missing) != 4 || a.Covered != 0.75 {
		t.Errorf("an epoch without records: %+v", a)
	}
	if a = kept.Frequency(Query{To: 3}, flow+1, PathFunc(n.path)); len(a.Missing) != 3 || a.Covered != 0 {
		t.Errorf("a flow without a path: %+v", a)
	}
	if err := kept.Add(n.all[0]); !errors.Is(err, ErrDuplicate) {
		t.Errorf("twice: %v", err)
	}
	other := n.all[0].Clone()
	other.Log = 3
	if err := kept.Add(other); !errors.Is(err, ErrConflict) {
		t.Errorf("another n: %v", err)
	}
}

// TestAddDoesNotAllocate holds for the packet path.
func TestAddDoesNotAllocate(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testAddDoesNotAllocate(t, family) })
	}
}

func testAddDoesNotAllocate(t *testing.T, family hash.Family) {
	flows := flowsOf(100)
	values := make([]int64, 100)
	for _, kind := range []Kind{CountSketch, CountMin, UnivMon} {
		f, _ := NewFragment(Config{Kind: kind, Memory: 4096, Epochs: 20, Hash: family})
		c, _ := f.NewCounter()
		s := f.Begin(0)
		for _, s.Log = range []uint8{0, 2} {
			if n := testing.AllocsPerRun(100, func() {
				c.Begin(s, 0)
				c.Add(flows[0], 1, true)
				c.AddBatch(flows, values, false)
			}); n != 0 {
				t.Errorf("%v: %g allocations", kind, n)
			}
		}
	}
}

// TestAddBatchEqualsAdd over random traffic, n and batch sizes.
func TestAddBatchEqualsAdd(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testAddBatchEqualsAdd(t, family) })
	}
}

func testAddBatchEqualsAdd(t *testing.T, family hash.Family) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 300 {
		kind := Kind(1 + r.IntN(3))
		f, _ := NewFragment(Config{Kind: kind, Memory: 64 + r.IntN(999), Epochs: 20, Seed: r.Uint64(), Hash: family, SingleHop: r.IntN(2) == 0})
		a, _ := f.NewCounter()
		b, _ := f.NewCounter()
		s := f.Begin(0)
		s.Log = uint8(r.IntN(4))
		sub, single := r.Uint64N(s.N()), r.IntN(2) == 0
		a.Begin(s, sub)
		b.Begin(s, sub)
		flows, values := flowsOf(r.IntN(200)), []int64{}
		for _, x := range flows {
			values = append(values, r.Int64N(1500))
			a.Add(x, values[len(values)-1], single)
		}
		b.AddBatch(flows, values, single)
		x, _ := a.Record().AppendBinary(nil)
		y, _ := b.Record().AppendBinary(nil)
		if !slices.Equal(x, y) {
			t.Fatalf("%v, n = %d: the records differ", kind, s.N())
		}
	}
}
