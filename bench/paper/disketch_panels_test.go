package paper

import (
	"context"
	"math"
	"testing"

	"github.com/weirswitch/weir/telemetry/disketch"
)

// TestJackknife: of a mean it is the interval of the mean, and of a function of it the one that the function's slope gives.
func TestJackknife(t *testing.T) {
	s := sample{1, 2, 4, 8, 9, 11, 12, 13}
	mean := func(without int) float64 { return s.without(without).mean() }
	if got, want := jackknife(len(s), mean), s.half(); math.Abs(got-want) > 1e-9*want {
		t.Errorf("of the mean it is %g, its interval %g", got, want)
	}
	slope := 2 * s.mean()
	square := func(without int) float64 { return mean(without) * mean(without) }
	if got, want := jackknife(len(s), square), slope*s.half(); math.Abs(got-want) > 0.02*want {
		t.Errorf("of the square it is %g, the slope times the interval %g", got, want)
	}
	if len(s) != 8 || s[7] != 13 {
		t.Errorf("the sample is %v now", s)
	}
}

// TestPanelIsTheAblation: the main panel has the errors that the ablation has by its longer way, and by the same placements. The ablation searches for the target by the
// likeliest composition alone, so disketch_rows is compared with a division of switches that searches by medians of rows, and is none of the ablation's.
func TestPanelIsTheAblation(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	o := Options{Seed: 5, Quick: true, Data: dataDir(t)}
	panels, err := dsPanels(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &panels[0]
	e, err := p.errors(context.Background(), o, 8)
	if err != nil {
		t.Fatal(err)
	}
	wanted := p.traffic.some(p.traffic.net.full)
	for i := range 2 {
		seed := o.Seed + uint64(i)
		placed, err := p.traffic.placed(context.Background(), p.kind, dsMemories(len(p.traffic.net.graph.Nodes), 8<<10/p.shrink, true, seed), seed, 500, wanted, false)
		if err != nil {
			t.Fatal(err)
		}
		run := dsRun{kind: p.kind, memory: dsMemories(len(p.traffic.net.graph.Nodes), 8<<10/p.shrink, true, seed), seed: seed, trials: 500, search: disketch.Rows, ways: []disketch.Composition{disketch.Rows}, wanted: wanted}
		outs, err := p.traffic.divide(context.Background(), run, []dsDivision{{how: dsCentral}})
		if err != nil {
			t.Fatal(err)
		}
		rows := p.traffic.squaresOf(outs[0].estimate[0], wanted)
		if got := e["disketch_rows"][i]; got != rows || got == p.traffic.squaresOf(placed.estimate["central.rows"], wanted) {
			t.Errorf("placement %d, disketch_rows: %g, by medians of rows %g, the ablation has %g", i, got, rows, p.traffic.squaresOf(placed.estimate["central.rows"], wanted))
		}
		for panel, ablation := range map[string]string{"disco": "disco.rows", "disco_renewed": "n1.rows", "disketch": "central.likeliest"} {
			if got, want := e[panel][i], p.traffic.squaresOf(placed.estimate[ablation], wanted); got != want {
				t.Errorf("placement %d, %s: %g, the ablation has %g", i, panel, got, want)
			}
		}
	}
}
