package query

import (
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// loopPlan detects loops beside paths.
func loopPlan(t testing.TB) *pintplan.Plan {
	t.Helper()
	p, err := pintplan.New(pintplan.Config{ID: 4, Seed: 2, Bits: 24, Queries: []pint.Query{
		{Name: "path", Value: pint.SwitchID, Aggregation: pint.Path, Bits: 8, Frequency: 1,
			Static: &pint.StaticQuery{Code: pint.Linear, ValueBits: 10, Layers: encode.Dense(pint.Linear)}},
		{Name: "loop", Value: pint.SwitchID, Aggregation: pint.Loop, Bits: 16, Frequency: 1, Threshold: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Flows whose packets pass a switch twice are listed, by their marks and by their paths, and no
// others.
func TestLoops(t *testing.T) {
	for _, p := range []*pintplan.Plan{loopPlan(t), pintplan.Default()} {
		n := newSinks(t, p)
		for i := range 4000 {
			flow := i % 40
			path := []uint32{1, 2, 3, 4}
			if flow == 7 {
				path = []uint32{1, 2, 3, 2, 3, 2, 3, 4}
			}
			n.send(key(flow), int64(i)<<16, path...)
		}
		n.flush(t, nil)
		a := ask[*LoopsAnswer](t, n.engine(), &Question{Kind: KindLoops})
		if len(a.Flows) != 1 || a.Flows[0].Flow != FormatKey(key(7)) || a.Reported != 0 {
			t.Fatalf("plan %d: %+v", p.ID, a)
		}
		f := a.Flows[0]
		if !slices.Equal(f.Repeated, []string{n.store.Name(2), n.store.Name(3)}) || f.Doubt > 1e-4 || f.Packets != 100 || len(f.Path) != 8 {
			t.Errorf("plan %d: %+v", p.ID, f)
		}
		if marked := p.ID == 4; (f.Marked > 20) != marked || (a.ByChance > 0) != marked {
			t.Errorf("plan %d: %d marked, %g by chance", p.ID, f.Marked, a.ByChance)
		}
		if a := ask[*LoopsAnswer](t, n.engine(), &Question{Kind: KindLoops, Flow: FormatKey(key(8))}); len(a.Flows) != 0 || a.Packets != 100 {
			t.Errorf("plan %d: a flow without a loop: %+v", p.ID, a)
		}
	}
}

// Packets that loop for ever reach no sink: what switches report of them is told all the same.
func TestLoopReports(t *testing.T) {
	n := newSinks(t, loopPlan(t))
	for i := range 50 {
		n.loops = append(n.loops, *n.send(key(3), 1<<28+int64(i)<<16, 1, 2, 3, 2, 3))
	}
	n.all = nil
	n.flush(t, nil)
	a := ask[*LoopsAnswer](t, n.engine(), &Question{Kind: KindLoops})
	if a.Reported != 50 || len(a.Flows) != 1 || a.Flows[0].Reported != 50 || a.Flows[0].FirstNs != 1<<28 || !slices.Equal(a.Flows[0].By, []string{n.store.Name(22)}) {
		t.Errorf("%+v", a)
	}
	if a.Records == 0 || a.Switches != 1 || a.FlowCount != 1 {
		t.Errorf("basis %+v", a)
	}
	// Beside flows that arrive.
	for i := range 500 {
		n.send(key(4), 1<<28+int64(i)<<16, 1, 2, 3)
	}
	n.loops = nil
	n.flush(t, nil)
	a = ask[*LoopsAnswer](t, n.engine(), &Question{Kind: KindLoops})
	if a.Reported != 50 || len(a.Flows) != 1 || a.Packets != 500 || a.Switches != 2 {
		t.Errorf("%+v", a)
	}
}

// Ranks that bound a quantile are about as far away as the normal distribution has it, and beyond
// what chance does: of 200,000 draws the share outside is at most the risk.
func TestRankBounds(t *testing.T) {
	n := newSinks(t, pintplan.Default())
	const draws, samples, risk = 2000, 100, 0.02
	for _, rank := range []float64{0.5, 0.9, 0.99} {
		low, high := rankBounds(rank, samples, risk)
		if !(low < rank && rank < high && low >= 0 && high <= 1) {
			t.Errorf("rank %g: %g to %g", rank, low, high)
		}
		outside := 0
		for range draws {
			below := 0
			for range samples {
				if n.rng.Float64() < rank {
					below++
				}
			}
			if share := float64(below) / samples; share < low || share > high {
				outside++
			}
		}
		if float64(outside) > 2*risk*draws {
			t.Errorf("rank %g: %d of %d draws are outside of %g to %g", rank, outside, draws, low, high)
		}
	}
	for _, n := range []uint64{1, 1 << 40} {
		for _, rank := range []float64{0, 1} {
			if low, high := rankBounds(rank, n, 0.01); low < 0 || high > 1 || low > rank || high < rank {
				t.Errorf("rank %g of %d: %g to %g", rank, n, low, high)
			}
		}
	}
}
