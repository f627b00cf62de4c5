package bench

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"text/tabwriter"
)

// Runs are a figure's values, one for each repetition that was measured apart.
type Runs struct {
	Metric, Unit, Better string
	Values               []float64
	// Limited is in how many of Values the source, not what is measured, set the figure. Invalid is how many repetitions are no result and so
	// have no value.
	Limited, Invalid int
}

// Add adds a repetition.
func (r *Runs) Add(value float64, limited, invalid bool) {
	if invalid {
		r.Invalid++
		return
	}
	r.Values = append(r.Values, value)
	if limited {
		r.Limited++
	}
}

// Comparison says how a figure differs between two measurements.
type Comparison struct {
	Metric string  `json:"metric"`
	Unit   string  `json:"unit"`
	Better string  `json:"better"`
	A      float64 `json:"a"` // medians; 0 without runs
	B      float64 `json:"b"`
	RunsA  int     `json:"runs_a"` // that are a result
	RunsB  int     `json:"runs_b"`
	// LimitedA and LimitedB are in how many of these runs the source set the figure, InvalidA and InvalidB how many more runs are no result.
	LimitedA int `json:"source_limited_a,omitempty"`
	LimitedB int `json:"source_limited_b,omitempty"`
	InvalidA int `json:"invalid_a,omitempty"`
	InvalidB int `json:"invalid_b,omitempty"`
	// Ratio is B / A; Low and High hold it with 95 % confidence, both 0 where there are too few runs.
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"ratio_low"`
	High  float64 `json:"ratio_high"`
	// P is the chance that the ranks of runs that do not differ are as far apart (Mann and Whitney), by exchanging runs at
	// random.
	P       float64 `json:"p"`
	Verdict string  `json:"verdict"` // "better", "worse", "differs", "not shown to differ", "no ratio" (A is 0), or one of those below
}

// LeastRuns is how many runs a comparison needs on each side: the ranks of three and three runs give a P of 0.1 at best.
const LeastRuns = 4

// EnoughRuns is how many to measure: some may be no result, and of differences by twice the standard deviation LeastRuns on each side show about
// half, EnoughRuns four of five.
const EnoughRuns = 7

// The verdicts of figures that cannot be judged.
const (
	TooFew        = "too few runs"   // fewer than LeastRuns on a side
	SourceLimited = "source-limited" // in some run the source, not what is measured, set the figure
	Invalid       = "INVALID"        // no run of a side is a result
)

// Compare compares the figures that both measurements have, in the order of the first one. The intervals are of the
// bootstrap's percentiles, and P of a permutation test, both seeded, so that the same files give the same answer.
func Compare(a, b []Runs) []Comparison {
	var all []Comparison
	for _, x := range a {
		i := slices.IndexFunc(b, func(y Runs) bool { return y.Metric == x.Metric })
		if i < 0 || len(x.Values)+x.Invalid == 0 || len(b[i].Values)+b[i].Invalid == 0 {
			continue
		}
		all = append(all, compare(x, b[i]))
	}
	return all
}

func compare(x, y Runs) Comparison {
	c := Comparison{
		Metric: x.Metric, Unit: x.Unit, Better: x.Better,
		RunsA: len(x.Values), RunsB: len(y.Values), LimitedA: x.Limited, LimitedB: y.Limited, InvalidA: x.Invalid, InvalidB: y.Invalid,
		P: 1, Verdict: TooFew,
	}
	if c.RunsA > 0 {
		c.A = Median(x.Values)
	}
	if c.RunsB > 0 {
		c.B = Median(y.Values)
	}
	if c.RunsA == 0 || c.RunsB == 0 {
		c.Verdict = Invalid
		return c
	}
	if c.A != 0 {
		c.Ratio = c.B / c.A
	}
	if c.LimitedA+c.LimitedB > 0 {
		c.Verdict = SourceLimited
		return c
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
		runs := Runs{Metric: row.Metric, Unit: row.Unit, Better: row.Better}
		if row.Invalid != "" {
			runs.Invalid = 1
		} else {
			runs.Values = []float64{row.Value}
			if strings.Contains(row.Source, SourceLimited) {
				runs.Limited = 1
			}
		}
		all = append(all, runs)
	}
	return all
}

// WriteComparison writes comparisons for a reader.
func WriteComparison(w io.Writer, all []Comparison) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "metric\tA\tB\tunit\tB / A\t95 % confidence\tp\truns\t  verdict")
	number := func(runs int, x float64) string {
		if runs == 0 {
			return "-"
		}
		return formatNumber(x)
	}
	for _, c := range all {
		ratio, interval, p := "-", "-", "-"
		if c.Ratio != 0 {
			ratio = fmt.Sprintf("%.3f", c.Ratio)
		}
		if c.High > 0 {
			interval, p = fmt.Sprintf("%.3f to %.3f", c.Low, c.High), fmt.Sprintf("%.4f", c.P)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d, %d\t  %s\n", c.Metric, number(c.RunsA, c.A), number(c.RunsB, c.B), c.Unit, ratio, interval, p, c.RunsA, c.RunsB, c.Verdict)
	}
	return t.Flush()
}
