package paper

import (
	"context"
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// sampleSizes are chi in figures 2 to 8, by their names in rows.
var sampleSizes = []struct {
	name string
	size int
}{{"chi1e2", 100}, {"chi1e3", 1000}, {"chi1e4", 10_000}, {"chi1e5", 100_000}}

// outcome is a measure of one run.
type outcome struct {
	name  string // as in rows, without the size
	value float64
}

// netRun is one run of the network: what the switches sampled.
type netRun struct {
	trace   *obliviousTrace
	kind    oblivious.Kind
	unit    oblivious.Unit
	samples []*oblivious.Sample
	// simple, improved and union are the merged samples.
	simple, improved, union *oblivious.Sample
}

// measures are the outcomes of all runs, by row.
type measures map[string][]float64

// add notes an outcome of a run; runs may end in any order.
func (m measures) add(row string, run, runs int, value float64) {
	if m[row] == nil {
		m[row] = make([]float64, runs)
	}
	m[row][run] = value
}

// interval is a mean and half of its 95 % confidence interval, by Student's t.
func interval(runs []float64) (mean, half float64) {
	mean, deviation := stat.MeanStdDev(runs, nil)
	if len(runs) < 2 {
		return mean, 0
	}
	n := float64(len(runs))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}
	return mean, t.Quantile(0.975) * deviation / math.Sqrt(n)
}

// netFigure is a figure measured on the samples of a network.
type netFigure struct {
	name    string // in rows of ObliviousNetwork
	unit    oblivious.Unit
	measure func(*netRun) ([]outcome, error)
	// rival, if set, adds measures that need no network.
	rival func(context.Context, Options, measures, []*obliviousTrace) error
	rows  func(measures, *table, []*obliviousTrace)
}

// run measures one figure.
func (f netFigure) run(ctx context.Context, o Options) ([]Row, error) {
	traces, err := obliviousTraces(o)
	if err != nil {
		return nil, err
	}
	m, err := sweep(ctx, o, traces, f.unit, []netFigure{f})
	if err != nil {
		return nil, err
	}
	var t table
	f.rows(m, &t, traces)
	return t, nil
}

// obliviousRuns is the number of runs of a size: 10, of which means of errors need as many. A quick measurement
// leaves out the largest size, whose runs take a gigabyte each and as long as those of all other sizes.
func obliviousRuns(o Options, size int) int {
	if o.Quick && size == len(sampleSizes)-1 {
		return 0
	}
	return 10
}

// sweep measures figures of one unit by runs for each trace, kind and size. Each
// run has other ranks and other paths.
func sweep(ctx context.Context, o Options, traces []*obliviousTrace, unit oblivious.Unit, figures []netFigure) (measures, error) {
	tree, err := newFatTree()
	if err != nil {
		return nil, err
	}
	type job struct {
		trace *obliviousTrace
		run   int
		size  int
		kind  oblivious.Kind
	}
	var jobs []job
	for size := range sampleSizes {
		for run := range obliviousRuns(o, size) {
			for _, t := range traces {
				for _, k := range byKinds {
					jobs = append(jobs, job{t, run, size, k})
				}
			}
		}
	}
	out := measures{}
	var mu sync.Mutex
	done := 0
	err = parallel(ctx, len(jobs), func(i int) error {
		j := jobs[i]
		size := sampleSizes[j.size]
		mu.Lock()
		o.progress(done, len(jobs), fmt.Sprintf("%s%v of %v, %s", j.trace.prefix, j.kind, unit, size.name))
		mu.Unlock()
		c := oblivious.Config{Kind: j.kind, Unit: unit, Size: size.size, Seed: hash.Uint64x2(o.Seed, uint64(j.kind), uint64(j.run))}
		r, err := tree.run(ctx, j.trace, c, hash.Uint64x2(o.Seed, 'P', uint64(j.run)))
		if err != nil {
			return err
		}
		for _, f := range figures {
			outcomes, err := f.measure(r)
			if err != nil {
				return err
			}
			mu.Lock()
			for _, x := range outcomes {
				out.add(j.trace.prefix+x.name+"."+size.name, j.run, obliviousRuns(o, j.size), x.value)
			}
			mu.Unlock()
		}
		mu.Lock()
		done++
		mu.Unlock()
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, f := range figures {
		if f.rival == nil {
			continue
		}
		if err := f.rival(ctx, o, out, traces); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// obliviousNetwork measures figures 2 to 8 on the same runs, which is quicker
// than one after another. Rows have the figure's name in front.
func obliviousNetwork(ctx context.Context, o Options) ([]Row, error) {
	traces, err := obliviousTraces(o)
	if err != nil {
		return nil, err
	}
	var t table
	for _, unit := range []oblivious.Unit{oblivious.Packets, oblivious.Bytes} {
		var figures []netFigure
		for _, f := range netFigures {
			if f.unit == unit {
				figures = append(figures, f)
			}
		}
		m, err := sweep(ctx, o, traces, unit, figures)
		if err != nil {
			return nil, err
		}
		for _, f := range figures {
			var rows table
			f.rows(m, &rows, traces)
			for _, r := range rows {
				r.Metric = f.name + "." + r.Metric
				t = append(t, r)
			}
		}
	}
	return t, nil
}

// netFigures are figures 2 to 8.
var netFigures = []netFigure{obliviousFig2, obliviousFig3, obliviousFig4, obliviousFig5, obliviousFig6, obliviousFig7, obliviousFig8}

// run passes a trace through the network and merges the samples.
func (f *fatTree) run(ctx context.Context, t *obliviousTrace, c oblivious.Config, pathSeed uint64) (*netRun, error) {
	paths, err := t.paths(f, pathSeed)
	if err != nil {
		return nil, err
	}
	samplers, err := f.newSamplers(c)
	if err != nil {
		return nil, err
	}
	if err := t.observe(ctx, paths, samplers, nil); err != nil {
		return nil, err
	}
	r := &netRun{trace: t, kind: c.Kind, unit: c.Unit, samples: make([]*oblivious.Sample, len(samplers))}
	for i, s := range samplers {
		r.samples[i] = s.Sample()
		samplers[i] = nil // to be collected
	}
	return r, r.merge()
}

func (r *netRun) merge() (err error) {
	if r.simple, err = oblivious.Simple(r.samples...); err != nil {
		return err
	}
	if r.improved, err = oblivious.Improved(r.samples...); err != nil {
		return err
	}
	r.union, err = oblivious.Union(r.samples...)
	return err
}

// merged lists the merged samples with their rows' names: the paper's way
// without a mark.
func (r *netRun) merged() []struct {
	name   string
	sample *oblivious.Sample
} {
	return []struct {
		name   string
		sample *oblivious.Sample
	}{
		{r.kind.String() + "_simple", r.simple},
		{r.kind.String(), r.improved},
		{r.kind.String() + "_union", r.union},
	}
}

// rows appends the mean of each row that names lists, for each trace and size,
// with its confidence interval.
func (m measures) rows(t *table, traces []*obliviousTrace, names []string, unit, source, better string) {
	for _, trace := range traces {
		for _, name := range names {
			for _, size := range sampleSizes {
				row := trace.prefix + name + "." + size.name
				runs, ok := m[row]
				if !ok {
					continue
				}
				mean, half := interval(runs)
				t.add(row, unit, mean, source, better)
				t.add(row+".ci95", unit, half, "half the 95 % confidence interval of the mean, "+fmt.Sprint(len(runs))+" runs", "neither")
			}
		}
	}
}

// ratio appends, for each trace and size, the mean of the rows named by numerators
// over the mean of those by denominators.
func (m measures) ratio(t *table, traces []*obliviousTrace, name string, numerators, denominators []string, reference float64, source, better string) {
	for _, trace := range traces {
		for _, size := range sampleSizes {
			mean := func(names []string) float64 {
				sum := 0.0
				for _, n := range names {
					mean, _ := interval(m[trace.prefix+n+"."+size.name])
					sum += mean
				}
				return sum / float64(len(names))
			}
			if n, d := mean(numerators), mean(denominators); d > 0 && !math.IsNaN(n) { // a quick run has no samples of the largest size
				t.against(trace.prefix+name+"."+size.name, "ratio", n/d, reference, source, better)
			}
		}
	}
}
