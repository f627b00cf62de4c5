package disketch

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// sliced plays flows into the slices of a fragment's epoch: burst flows send all in one slice.
func sliced(t *testing.T, kind Kind, memory int, flows map[uint64]int, burst bool, seed uint64) *Record {
	t.Helper()
	f, err := NewFragment(Config{Kind: kind, Memory: memory, Levels: 4, Epochs: 27, Seed: seed, Hash: hash.XX, Slices: SliceLog})
	if err != nil {
		t.Fatal(err)
	}
	plan := f.Begin(16)
	if f.Slices(16) != SliceLog || plan.N() != 1 {
		t.Fatalf("%d subepochs, 2^%d slices", plan.N(), f.Slices(16))
	}
	r := rand.New(rand.NewPCG(seed, 's'))
	var at [1 << SliceLog][]uint64
	for _, flow := range slices.Sorted(maps.Keys(flows)) { // the seed decides all
		where := r.IntN(len(at))
		for range flows[flow] {
			if !burst {
				where = r.IntN(len(at))
			}
			at[where] = append(at[where], flow)
		}
	}
	s, err := f.NewSlices()
	if err != nil {
		t.Fatal(err)
	}
	counter, err := f.NewCounter()
	if err != nil {
		t.Fatal(err)
	}
	s.Begin(plan, SliceLog)
	for _, all := range at {
		counter.Begin(plan, 0)
		for _, flow := range all {
			counter.Add(flow, 1, false)
		}
		if err := s.Add(counter); err != nil {
			t.Fatal(err)
		}
	}
	if !s.Complete() {
		t.Fatal(s.String())
	}
	return s.Record().Clone()
}

func tailed(n int, seed uint64) map[uint64]int {
	r := rand.New(rand.NewPCG(seed, 'f'))
	flows := map[uint64]int{}
	for range n {
		flows[r.Uint64()] = int(min(math.Pow(r.Float64(), -0.8), 300))
	}
	return flows
}

// TestSlices: the slices add up to what a counter of the epoch has, and their squares say how flows send:
// n times those of n slices less those of the epoch is (n-1) packets for packets that come independently, and
// (n-1) squares for bursts. The margins are six standard errors of some 4000 cells.
func TestSlices(t *testing.T) {
	for _, kind := range []Kind{CountSketch, CountMin, UnivMon} {
		for _, burst := range []bool{false, true} {
			flows := tailed(2000, 7)
			r := sliced(t, kind, 4*4096*4, flows, burst, 3)
			f, _ := NewFragment(Config{Kind: kind, Memory: 4 * 4096 * 4, Levels: 4, Epochs: 27, Seed: 3, Hash: hash.XX, Slices: SliceLog})
			whole, _ := f.NewCounter()
			whole.Begin(f.Begin(16), 0)
			packets, squares := 0.0, 0.0
			for flow, n := range flows {
				whole.Add(flow, int64(n), false)
				packets += float64(n)
				squares += float64(n) * float64(n)
			}
			for level := range r.rows.levels() {
				if !slices.Equal(r.Cells(level), whole.Record().Cells(level)) {
					t.Errorf("%v: the slices do not add up", kind)
				}
			}
			if got := r.Squares[0] / squares; math.Abs(got-1) > 0.2 {
				t.Errorf("%v: a second moment of %g times the true one", kind, got)
			}
			for log := 1; log <= SliceLog; log++ {
				n := math.Ldexp(1, log)
				got, want := (n*r.Squares[log]-r.Squares[0])/(n-1), packets
				if burst {
					want = squares
				}
				if math.Abs(got/want-1) > 0.25 {
					t.Errorf("%v, bursts %v: an error of time of %g, want %g, with n = %g", kind, burst, got, want, n)
				}
			}
			// The record carries it.
			b, _ := r.AppendBinary(nil)
			x, err := Decode(b, hash.XX)
			if err != nil || !slices.Equal(x.Squares, r.Squares) {
				t.Errorf("%v: %v after decoding, %v", kind, x, err)
			}
		}
	}
}

// TestChoose: with bursts n stays 1 however crowded cells are; with flows that send evenly it does not where they are
// crowded, and does where they are not.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		memory int
		burst  bool
		pays   bool
	}{{4 * 100, false, true}, {4 * 100, true, false}, {4 * 40000, false, false}, {4 * 40000, true, false}} {
		flows := map[uint64]int{}
		r := rand.New(rand.NewPCG(1, 'f'))
		for range 400 {
			flows[r.Uint64()] = 20
		}
		var records Records
		if err := records.Add(sliced(t, CountSketch, c.memory, flows, c.burst, 5)); err != nil {
			t.Fatal(err)
		}
		path := [][]uint64{{0, 0, 0, 0, 0}}
		e, err := records.Choose(TargetSearch{Epoch: 16, Paths: path, Trials: 1000})
		if err != nil {
			t.Fatal(err)
		}
		var choice Choice
		if log := choice.Found(e); log != 0 {
			t.Errorf("%+v: n = 2^%d by one look", c, log)
		}
		log := choice.Found(e)
		plan, ratio, err := records.FindPlan(TargetSearch{Epoch: 16, Paths: path, Trials: 1000})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v: errors %.3g, n = 2^%d; plan %v, %.3g", c, e, log, plan, ratio)
		if (log > 0) != c.pays || (plan[0] > 0) != c.pays || (ratio < 1) != c.pays {
			t.Errorf("%+v: errors %.3g, n = 2^%d; plan %v, %.3g", c, e, log, plan, ratio)
		}
	}
}

// TestChooseOfFewCells: a fragment of so few cells that their squares say little of when flows send keeps n = 1, however they send.
func TestChooseOfFewCells(t *testing.T) {
	for seed := range uint64(20) {
		flows := map[uint64]int{}
		r := rand.New(rand.NewPCG(seed, 'f'))
		for range 400 {
			flows[r.Uint64()] = 20
		}
		var records Records
		if err := records.Add(sliced(t, CountSketch, 4*(leastCells-1), flows, seed&1 != 0, seed)); err != nil {
			t.Fatal(err)
		}
		e, err := records.Choose(TargetSearch{Epoch: 16, Paths: [][]uint64{{0, 0, 0, 0, 0}}, Trials: 200})
		if err != nil {
			t.Fatal(err)
		}
		var choice Choice
		choice.Found(e)
		if log := choice.Found(e); log != 0 {
			t.Errorf("seed %d: n = 2^%d of %d cells", seed, log, leastCells-1)
		}
	}
}

// TestGrownTraffic: n is 1 from when an epoch had more than twice the packets of the one that was looked at, to the next one that is. An assignment stays
// in force. What a choice found of less traffic is forgotten.
func TestGrownTraffic(t *testing.T) {
	f, err := NewFragment(Config{Kind: CountSketch, Memory: 400, Epochs: 30, Slices: 4})
	if err != nil {
		t.Fatal(err)
	}
	f.Aim(2)
	counter, err := f.NewCounter()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := f.NewSlices()
	if err != nil {
		t.Fatal(err)
	}
	var got []uint8
	play := func(from, to uint64, packets uint64) {
		for e := from; e < to; e++ {
			s := f.Begin(e)
			got = append(got, s.Log)
			looked := f.Slices(e) > 0
			if looked {
				parts.Begin(s, 1)
				counter.BeginSlice(s)
			}
			for sub := range s.N() {
				if !looked {
					counter.Begin(s, sub)
				}
				for flow := range packets / s.N() {
					counter.Add(flow, 1, false)
				}
				if !looked {
					f.Observe(counter.Record())
				}
			}
			if looked {
				if err := parts.Add(counter); err != nil {
					t.Fatal(err)
				}
				parts.Skip()
				f.Observe(parts.Record())
			}
		}
	}
	play(0, 8, 1000)
	play(8, 10, 2000)
	play(10, 20, 2004)
	f.Assign(Assignment{Log: 3, From: 22, Until: 24})
	play(20, 24, 5000)
	if want := []uint8{0, 0, 1, 2, 0, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 0, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("n = 2^%v, want 2^%v", got, want)
	}
	var c Choice
	for range 8 {
		c.Found(Errors{1, 0.1, 0.1, 0.1, 0.1})
	}
	if c.Log() == 0 {
		t.Error("n = 1 where more pays")
	}
	if log := c.Found(Errors{3, 2.85, 2.85, 2.85, 2.85}); log == 0 {
		t.Error("one look was enough to forget eight")
	}
	if log := c.Found(Errors{50, 47.5, 47.5, 47.5, 47.5}); log != 0 {
		t.Errorf("n = 2^%d by looks at less traffic", log)
	}
	if log := c.Found(Errors{50, 5, 5, 5, 5}); log == 0 {
		t.Error("n = 1 where more pays in two looks")
	}
}

// TestPlanned: epochs are looked at in slices when they should be, n approaches the goal between them, an assignment has
// precedence while it is in force, and a target over both.
func TestPlanned(t *testing.T) {
	f, err := NewFragment(Config{Kind: CountSketch, Memory: 400, Epochs: 30, Slices: 4})
	if err != nil {
		t.Fatal(err)
	}
	f.Aim(3)
	const first = 1000
	f.Assign(Assignment{Log: 2, From: first + 10, Until: first + 14})
	var got []uint8
	for e := uint64(first); e < first+20; e++ {
		s := f.Begin(e)
		if again := f.Begin(e); again != s {
			t.Errorf("epoch %d: %+v, then %+v", e, s, again)
		}
		if looked := e == first || e == first+1 || e == first+4 || e%16 == 0; looked != (f.Slices(e) == 4) || looked && s.Log != 0 {
			t.Errorf("epoch %d: 2^%d slices, n = 2^%d", e, f.Slices(e), s.Log)
		}
		got = append(got, s.Log)
	}
	if want := []uint8{0, 0, 1, 2, 0, 3, 3, 3, 0, 3, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("n = 2^%v, want 2^%v", got, want)
	}
	for range 5 {
		f.Late()
	}
	if f.Begin(first + 24); f.Slices(first+24) != 0 {
		t.Error("slices are counted that were late")
	}
	f.SetTarget(5)
	f.Assign(Assignment{Log: 4, From: 0, Until: math.MaxUint64})
	if f.Begin(first+30).Log == 4 {
		t.Error("an assignment has precedence over a target")
	}
}

// TestNoSlicesLeft: a switch that chose more subepochs, and then looks at no epoch any more, has n = 1, as traffic may change.
func TestNoSlicesLeft(t *testing.T) {
	f, err := NewFragment(Config{Kind: CountSketch, Memory: 400, Epochs: 30, Slices: 1})
	if err != nil {
		t.Fatal(err)
	}
	f.Aim(1)
	log := func(epoch uint64) uint8 { return f.Begin(epoch).Log }
	log(1000)
	if log(1003) != 1 {
		t.Fatal("n is not what was aimed at")
	}
	f.Late()
	if got := log(1005); got != 0 {
		t.Errorf("n = 2^%d, and no epoch says whether that is right", got)
	}
	f.Assign(Assignment{Log: 2, From: 1006, Until: 1007})
	if got := log(1006); got != 2 {
		t.Errorf("n = 2^%d, with an assignment of 2^2", got)
	}
}
