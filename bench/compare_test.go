package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func runs(better string, values ...float64) []Runs {
	return []Runs{{Metric: "x", Unit: "pps", Better: better, Values: values}}
}

// limited are further runs of a measurement in which the source set the figure.
func limited(all []Runs, values ...float64) []Runs {
	all[0].Limited = values
	return all
}

// invalid are further runs that are no result.
func invalid(all []Runs, n int) []Runs {
	all[0].Invalid = n
	return all
}

// TestCompare: what differs is seen, in the direction that is better; what does not is not; few runs say nothing.
func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		name, verdict string
		a, b          []Runs
	}{
		{"faster", "better", runs(Higher, 100, 101, 99, 102, 100), runs(Higher, 120, 119, 121, 122, 118)},
		{"slower", "worse", runs(Higher, 120, 119, 121, 122, 118), runs(Higher, 100, 101, 99, 102, 100)},
		{"a lower latency", "better", runs(Lower, 120, 119, 121, 122, 118), runs(Lower, 100, 101, 99, 102, 100)},
		{"without a direction", "differs", runs(Neither, 120, 119, 121, 122, 118), runs(Neither, 100, 101, 99, 102, 100)},
		{"noise", "not shown to differ", runs(Higher, 100, 140, 80, 120, 95), runs(Higher, 110, 90, 130, 99, 101)},
		{"the same", "not shown to differ", runs(Higher, 5, 5, 5, 5), runs(Higher, 5, 5, 5, 5)},
		{"few", "too few runs", runs(Higher, 1), runs(Higher, 100)},
		{"fewer than half as many", "worse", runs(Higher, 120, 119, 121, 122, 118), runs(Higher, 50, 51, 49, 52, 50)},
		{"the source was slower in one of seven", "worse", runs(Higher, 120, 119, 121, 122, 118, 120, 121), limited(runs(Higher, 50, 51, 49, 52, 50, 51), 30)},
		{"in three of seven on both sides", "better", limited(runs(Higher, 50, 51, 49, 52), 20, 21, 22), limited(runs(Higher, 120, 119, 121, 122), 30, 40, 60)},
		{"in four of seven", "source-limited", runs(Higher, 120, 119, 121, 122, 118, 120, 121), limited(runs(Higher, 50, 51, 49), 30, 31, 32, 33)},
		{"in all", "source-limited", runs(Higher, 120, 119, 121, 122, 118), limited(runs(Higher), 50, 51, 49, 52, 50)},
		{"a lower bound of the slower one is as high", "source-limited", limited(runs(Higher, 50, 51, 49, 52, 50, 51), 120), runs(Higher, 120, 119, 121, 122, 118)},
		{"a lower bound of the faster one is high", "better", runs(Higher, 50, 51, 49, 52, 50, 51), limited(runs(Higher, 120, 119, 121, 122, 118), 200)},
		{"a latency at another rate is no bound", "better", runs(Lower, 120, 119, 121, 122, 118), limited(runs(Lower, 50, 51, 49, 52, 50), 300)},
		{"few, of a source that was slower", "source-limited", limited(runs(Higher), 50), runs(Higher, 100)},
		{"some are no result", "worse", invalid(runs(Higher, 120, 119, 121, 122), 3), runs(Higher, 100, 101, 99, 102, 100)},
		{"none is a result", "INVALID", runs(Higher, 100, 101, 99, 102, 100), invalid(runs(Higher), 5)},
	} {
		c := Compare(tt.a, tt.b)
		if len(c) != 1 || c[0].Verdict != tt.verdict {
			t.Errorf("%s: %+v, want %s", tt.name, c, tt.verdict)
		}
		var b strings.Builder
		if err := WriteComparison(&b, c, true); err != nil || !strings.Contains(b.String(), tt.verdict) {
			t.Errorf("%s: %v, %s", tt.name, err, &b)
		}
	}
}

// TestCompareLeftOut: the table says how many runs do not count, and why.
func TestCompareLeftOut(t *testing.T) {
	a := invalid(limited(runs(Higher, 50, 51, 49, 52, 50), 30), 1)
	c := Compare(a, limited(runs(Higher, 120, 119, 121, 122, 118), 60, 61))
	var b strings.Builder
	if err := WriteComparison(&b, c, false); err != nil || !strings.Contains(b.String(), "5, 5") || !strings.Contains(b.String(), "1 source-limited of A, 1 INVALID of A, 2 source-limited of B") {
		t.Errorf("%v: %s", err, &b)
	}
	if c[0].A != 50 || c[0].B != 120 {
		t.Errorf("medians with runs that do not count: %+v", c[0])
	}
}

// TestCompareResults: rows of results keep what says that they cannot be judged.
func TestCompareResults(t *testing.T) {
	r := Result{Rows: []Row{
		{Metric: "good", Value: 5, Source: "xsk", Better: Higher},
		{Metric: "limited", Value: 5, Source: "xsk; source-limited", Better: Higher},
		{Metric: "invalid", Value: 5, Invalid: "figures contradict each other", Better: Higher},
	}}
	for i, want := range []string{TooFew, SourceLimited, Invalid} {
		if got := Compare(r.RunsOf(), r.RunsOf()); len(got) != 3 || got[i].Verdict != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// TestCompareFalseAlarms: of pairs that do not differ, about one in twenty at most is said to. With 300 pairs and a chance
// of 0.05 more than 45 have a chance below 1e-6.
func TestCompareFalseAlarms(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	draw := func() []float64 {
		values := make([]float64, 7)
		for i := range values {
			values[i] = 1000 + 50*rng.NormFloat64()
		}
		return values
	}
	alarms := 0
	for range 300 {
		if c := Compare(runs(Higher, draw()...), runs(Higher, draw()...)); c[0].Verdict != "not shown to differ" {
			alarms++
		}
	}
	if alarms > 45 {
		t.Errorf("%d false alarms of 300", alarms)
	}
}

// TestCompareBrief: figures that are not shown to differ have one line together, which has their widest interval; each has one with all asked for.
func TestCompareBrief(t *testing.T) {
	named := func(name string, r []Runs) Runs { r[0].Metric = name; return r[0] }
	same := func() []Runs { return runs(Higher, 100, 101, 99, 102, 100) }
	faster := runs(Higher, 120, 119, 121, 122, 118)
	c := Compare([]Runs{named("one", same()), named("two", same()), named("three", same())}, []Runs{named("one", same()), named("two", faster), named("three", runs(Higher, 90, 101, 99, 110, 100))})
	var brief, all, none strings.Builder
	if err := errors.Join(WriteComparison(&brief, c, true), WriteComparison(&all, c, false), WriteComparison(&none, c[:1], true)); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("not shown to differ: 2 of 3 figures, with B / A from %.3f to %.3f (95 %% confidence), widest of three; --all lists them\n", c[2].Low, c[2].High)
	if got := brief.String(); !strings.HasSuffix(got, want) || !strings.Contains(got, "two") || strings.Contains(got, "one") || strings.Count(got, "three") != 1 || !(c[2].Low < c[0].Low && c[2].High > c[0].High) {
		t.Errorf("want %q at the end of:\n%s", want, got)
	}
	if got := all.String(); strings.Count(got, "not shown to differ") != 2 || strings.Count(got, "\n") != 4 || strings.Contains(got, "--all") {
		t.Errorf("all:\n%s", got)
	}
	if got := none.String(); !strings.HasPrefix(got, "not shown to differ: 1 of 1 figures") || strings.Count(got, "\n") != 1 {
		t.Errorf("none that differs:\n%s", got)
	}
}
