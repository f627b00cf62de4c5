package paper

import (
	"math"

	"github.com/weirswitch/weir/bench"
)

// Options are what the measurements of this package understand.
type Options struct {
	Seed uint64
	// Quick divides the number of runs by 20.
	Quick bool
	// Data is the folder of shared data; empty: netsim.DataDir.
	Data string
	// Packets is the length of synthetic traces; 0: what the measurement chooses.
	Packets int
	// Progress, if set, is called when done of total steps are finished and what
	// comes now.
	Progress func(done, total int, what string)
}

func (o Options) runs(n int) int {
	if o.Quick {
		return max(n/20, 10)
	}
	return n
}

func (o Options) progress(done, total int, what string) {
	if o.Progress != nil {
		o.Progress(done, total, what)
	}
}

// Row is one figure of a result.
type Row = bench.Row

// table collects rows.
type table []Row

func (t *table) add(metric, unit string, value float64, source, better string) {
	*t = append(*t, Row{Metric: metric, Unit: unit, Value: value, Source: source, Better: better})
}

// within is add of a value with an interval, of which metric.ci95 is half; an infinite or unknown one is left out, as JSON has no such number.
func (t *table) within(metric, unit string, value, half float64, source, better string) {
	t.add(metric, unit, value, source, better)
	if !math.IsInf(half, 0) && !math.IsNaN(half) {
		t.add(metric+".ci95", unit, half, "half the 95 % confidence interval", "neither")
	}
}

func (t *table) against(metric, unit string, value, reference float64, source, better string) {
	*t = append(*t, Row{Metric: metric, Unit: unit, Value: value, Reference: &reference, Source: source, Better: better})
}
