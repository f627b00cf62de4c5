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
	// Limited are the values of the repetitions in which the source, not what is measured, set the figure; Values has the others. Invalid is how
	// many repetitions are no result and so have no value.
	Limited []float64
	Invalid int
}

// Add adds a repetition.
func (r *Runs) Add(value float64, limited, invalid bool) {
	switch {
	case invalid:
		r.Invalid++
	case limited:
		r.Limited = append(r.Limited, value)
	default:
		r.Values = append(r.Values, value)
	}
}

// made is how many repetitions there were.
func (r *Runs) made() int { return len(r.Values) + len(r.Limited) + r.Invalid }

// Comparison says how a figure differs between two measurements.
type Comparison struct {
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	Better string `json:"better"`
	// A and B are the medians of the runs that count, or if none does, of those in which the source set the figure; 0 without any.
	A     float64 `json:"a"`
	B     float64 `json:"b"`
	RunsA int     `json:"runs_a"` // that count
	RunsB int     `json:"runs_b"`
	// Left out are LimitedA and LimitedB runs in which the source set the figure, and InvalidA and InvalidB that are no result.
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
	Verdict string  `json:"verdict"` // "better", "worse", "differs", "no ratio" (A is 0), or one of those below
}

// LeastRuns is how many runs a comparison needs on each side: the ranks of three and three runs give a P of 0.1 at best.
const LeastRuns = 4

// EnoughRuns is how many to measure: some may be no result, and of differences by twice the standard deviation LeastRuns on each side show about
// half, EnoughRuns four of five.
const EnoughRuns = 7

// NotShown is the verdict of figures of which the runs show no difference.
const NotShown = "not shown to differ"

// The verdicts of figures that cannot be judged.
const (
	TooFew        = "too few runs"   // fewer than LeastRuns on a side
	SourceLimited = "source-limited" // too few runs are left without those in which the source, not what is measured, set the figure
	Invalid       = "INVALID"        // no run of a side is a result
)

// Compare compares the figures that both measurements have, in the order of the first one. The intervals are of the
// bootstrap's percentiles, and P of a permutation test, both seeded, so that the same files give the same answer.
func Compare(a, b []Runs) []Comparison {
	var all []Comparison
	for _, x := range a {
		i := slices.IndexFunc(b, func(y Runs) bool { return y.Metric == x.Metric })
		if i < 0 || x.made() == 0 || b[i].made() == 0 {
			continue
		}
		all = append(all, compare(x, b[i]))
	}
	return all
}

func compare(x, y Runs) Comparison {
	c := Comparison{
		Metric: x.Metric, Unit: x.Unit, Better: x.Better,
		A: x.median(), B: y.median(), RunsA: len(x.Values), RunsB: len(y.Values),
		LimitedA: len(x.Limited), LimitedB: len(y.Limited), InvalidA: x.Invalid, InvalidB: y.Invalid,
		P: 1, Verdict: TooFew,
	}
	if c.A != 0 {
		c.Ratio = c.B / c.A
	}
	switch {
	case c.RunsA+c.LimitedA == 0 || c.RunsB+c.LimitedB == 0:
		c.Verdict, c.Ratio = Invalid, 0
		return c
	case c.RunsA < LeastRuns && c.LimitedA > 0 || c.RunsB < LeastRuns && c.LimitedB > 0:
		c.Verdict = SourceLimited
		return c
	case c.RunsA < LeastRuns || c.RunsB < LeastRuns:
		return c
	case c.A == 0:
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
		c.Verdict = NotShown
	case c.Better == Neither:
		c.Verdict = "differs"
	case (c.B > c.A) == (c.Better == Higher):
		c.Verdict = "better"
	default:
		c.Verdict = "worse"
	}
	if c.contradicted(x, y) {
		c.Verdict = SourceLimited
	}
	return c
}

// contradicted reports that a run that was left out takes the verdict away. What the source limits is a lower bound of a figure of which more is
// better: where that of the lower side reaches the other side's median, the lower side may be no lower. A latency at another rate is no bound.
func (c *Comparison) contradicted(x, y Runs) bool {
	if c.Verdict != "better" && c.Verdict != "worse" || c.Better != Higher {
		return false
	}
	bounds, median := x.Limited, c.B
	if c.B < c.A {
		bounds, median = y.Limited, c.A
	}
	return len(bounds) > 0 && slices.Max(bounds) >= median
}

// median is that of the runs that count, or if there are none, of those in which the source set the figure; 0 without any.
func (r *Runs) median() float64 {
	switch {
	case len(r.Values) > 0:
		return Median(r.Values)
	case len(r.Limited) > 0:
		return Median(r.Limited)
	}
	return 0
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
		runs.Add(row.Value, strings.Contains(row.Source, SourceLimited), row.Invalid != "")
		all = append(all, runs)
	}
	return all
}

// leftOut says how many runs do not count, and why; empty: all count.
func (c *Comparison) leftOut() string {
	var all []string
	for _, n := range []struct {
		runs      int
		side, why string
	}{{c.LimitedA, "A", SourceLimited}, {c.InvalidA, "A", Invalid}, {c.LimitedB, "B", SourceLimited}, {c.InvalidB, "B", Invalid}} {
		if n.runs > 0 {
			all = append(all, fmt.Sprintf("%d %s of %s", n.runs, n.why, n.side))
		}
	}
	return strings.Join(all, ", ")
}

// WriteComparison writes comparisons for a reader: a line for each figure, or with brief one for all that are not shown to differ.
func WriteComparison(w io.Writer, all []Comparison, brief bool) error {
	var listed, same []Comparison
	for _, c := range all {
		if brief && c.Verdict == NotShown {
			same = append(same, c)
		} else {
			listed = append(listed, c)
		}
	}
	if len(listed) > 0 {
		if err := writeRows(w, listed); err != nil {
			return err
		}
	}
	if len(same) > 0 {
		return writeSame(w, same, len(all))
	}
	return nil
}

func writeRows(w io.Writer, all []Comparison) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "metric\tA\tB\tunit\tB / A\t95 % confidence\tp\truns\t  verdict\t  left out")
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d, %d\t  %s\t  %s\n", c.Metric, number(c.RunsA+c.LimitedA, c.A), number(c.RunsB+c.LimitedB, c.B), c.Unit, ratio, interval, p, c.RunsA, c.RunsB, c.Verdict, c.leftOut())
	}
	return t.Flush()
}

// writeSame sums up figures that are not shown to differ, of so many.
func writeSame(w io.Writer, same []Comparison, figures int) error {
	low, high, widest := same[0].Low, same[0].High, &same[0]
	for i := range same {
		c := &same[i]
		low, high = min(low, c.Low), max(high, c.High)
		if c.High*widest.Low > widest.High*c.Low {
			widest = c
		}
	}
	_, err := fmt.Fprintf(w, "%s: %d of %d figures, with B / A from %.3f to %.3f (95 %% confidence), widest of %s; --all lists them\n", NotShown, len(same), figures, low, high, widest.Metric)
	return err
}
