package bench

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
)

// Runs are a figure's values, one for each repetition that was measured apart.
type Runs struct {
	Metric, Unit, Better string
	Values               []float64
}

// Comparison says how a figure differs between two measurements.
type Comparison struct {
	Metric string  `json:"metric"`
	Unit   string  `json:"unit"`
	Better string  `json:"better"`
	A      float64 `json:"a"` // medians
	B      float64 `json:"b"`
	RunsA  int     `json:"runs_a"`
	RunsB  int     `json:"runs_b"`
	// Ratio is B / A; Low and High hold it with 95 % confidence, both 0 where there are too few runs.
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"ratio_low"`
	High  float64 `json:"ratio_high"`
	// P is the chance that the ranks of runs that do not differ are as far apart (Mann and Whitney), by exchanging runs at
	// random.
	P       float64 `json:"p"`
	Verdict string  `json:"verdict"` // "better", "worse", "differs", "not shown to differ", "too few runs", "no ratio" (A is 0)
}

// LeastRuns is how many runs a comparison needs on each side: the ranks of three and three runs give a P of 0.1 at best.
const LeastRuns = 4

// TooFew is the verdict without so many.
const TooFew = "too few runs"

// Compare compares the figures that both measurements have, in the order of the first one. The intervals are of the
// bootstrap's percentiles, and P of a permutation test, both seeded, so that the same files give the same answer.
func Compare(a, b []Runs) []Comparison {
	var all []Comparison
	for _, x := range a {
		i := slices.IndexFunc(b, func(y Runs) bool { return y.Metric == x.Metric })
		if i < 0 || len(x.Values) == 0 || len(b[i].Values) == 0 {
			continue
		}
		all = append(all, compare(x, b[i]))
	}
	return all
}

func compare(x, y Runs) Comparison {
	c := Comparison{
		Metric: x.Metric, Unit: x.Unit, Better: x.Better, A: Median(x.Values), B: Median(y.Values),
		RunsA: len(x.Values), RunsB: len(y.Values), P: 1, Verdict: TooFew,
	}
	if c.A != 0 {
		c.Ratio = c.B / c.A
	}
	if c.RunsA < LeastRuns || c.RunsB < LeastRuns {
		return c
	}
	if c.A == 0 {
		c.Verdict = "no ratio"
		return c
	}
	const draws = 20_000
	rng := rand.New(rand.NewPCG(uint64(c.RunsA), uint64(c.RunsB)))
	ratios := make([]float64, 0, draws)
	for range draws {
		if base := Median(resample(rng, x.Values)); base != 0 {
			ratios = append(ratios, Median(resample(rng, y.Values))/base)
		}
	}
	slices.Sort(ratios)
	c.Low, c.High = ratios[len(ratios)*25/1000], ratios[len(ratios)*975/1000]
	pool := slices.Concat(x.Values, y.Values)
	apart, as := rankDistance(pool, c.RunsA), 1 // the order that was measured is one of them
	for range draws {
		rng.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
		if rankDistance(pool, c.RunsA) >= apart {
			as++
		}
	}
	c.P = float64(as) / (draws + 1)
	switch {
	case c.P > 0.05 || c.Low <= 1 && c.High >= 1:
		c.Verdict = "not shown to differ"
	case c.Better == Neither:
		c.Verdict = "differs"
	case (c.B > c.A) == (c.Better == Higher):
		c.Verdict = "better"
	default:
		c.Verdict = "worse"
	}
	return c
}

// rankDistance is how far Mann and Whitney's U of the first n values against the others is from its mean: twice as far,
// so that it is whole with ties.
func rankDistance(values []float64, n int) int {
	u := 0
	for _, x := range values[:n] {
		for _, y := range values[n:] {
			switch {
			case x > y:
				u += 2
			case x == y:
				u++
			}
		}
	}
	if u -= n * (len(values) - n); u < 0 {
		u = -u
	}
	return u
}

func resample(rng *rand.Rand, values []float64) []float64 {
	drawn := make([]float64, len(values))
	for i := range drawn {
		drawn[i] = values[rng.IntN(len(values))]
	}
	return drawn
}

// Median of at least one value; of an even number, the middle between the two middle ones.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// RunsOf are the figures of a result, each with the one value that it has.
func (r *Result) RunsOf() []Runs {
	var all []Runs
	for _, row := range r.Rows {
		if row.Invalid == "" {
			all = append(all, Runs{row.Metric, row.Unit, row.Better, []float64{row.Value}})
		}
	}
	return all
}

// WriteComparison writes comparisons for a reader.
func WriteComparison(w io.Writer, all []Comparison) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "metric\tA\tB\tunit\tB / A\t95 % confidence\tp\truns\t  verdict")
	for _, c := range all {
		interval, p := "-", "-"
		if c.High > 0 {
			interval, p = fmt.Sprintf("%.3f to %.3f", c.Low, c.High), fmt.Sprintf("%.4f", c.P)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.3f\t%s\t%s\t%d, %d\t  %s\n", c.Metric, formatNumber(c.A), formatNumber(c.B), c.Unit, c.Ratio, interval, p, c.RunsA, c.RunsB, c.Verdict)
	}
	return t.Flush()
}
