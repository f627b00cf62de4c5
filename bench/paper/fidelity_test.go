package paper

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	resultsDir  = "../results/paper"
	disketchDir = "../results/disketch"
	pageFile    = "../../docs/fidelity.md"
)

// TestFidelity: docs/fidelity.md is what the committed results and the claims make, every
// figure that is measured has a line, and every line a figure or a reason.
func TestFidelity(t *testing.T) {
	results, err := ReadResults(filepath.FromSlash(resultsDir), filepath.FromSlash(disketchDir))
	if err != nil {
		t.Fatal(err)
	}
	page, err := Page(Papers, results)
	if err != nil {
		t.Fatalf("%v: run `weir bench paper NAME --json` for bench/results/paper, or change the claim", err)
	}
	if *update {
		if err := os.WriteFile(pageFile, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page {
		t.Errorf("docs/fidelity.md is not what bench/results/paper and bench/results/disketch give: `go test ./bench/paper -run 'TestFidelity$' -update`")
	}
	if missing := unclaimed(Papers); len(missing) > 0 {
		t.Errorf("figures without a line: %v", missing)
	}
	for _, p := range Papers {
		for _, c := range p.Claims {
			measured := len(c.Method)+len(c.Best) > 0
			if c.Figure == "" && (c.Differs == "" || measured) || c.Beyond != "" && len(c.Best) == 0 || c.Says == "" {
				t.Errorf("%s, %s: a claim that is not measured says why, and only what is at best goes beyond", p.Name, c.Where)
			}
			if c.Figure != "" && !slices.ContainsFunc(Figures, func(f Figure) bool { return f.Name == c.name() }) {
				t.Errorf("%s, %s: there is no figure %s", p.Name, c.Where, c.Figure)
			}
		}
	}
}

// TestFidelityHolds repeats figures with another seed, and compares them with the page. Figures that take
// minutes even when they are quick are left to those who change them.
func TestFidelityHolds(t *testing.T) {
	results, err := ReadResults(filepath.FromSlash(resultsDir), filepath.FromSlash(disketchDir))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"pint-k2", "pint-values"}
	if !testing.Short() {
		names = append(names, "pint-fig5", "lds-sizing", "pint-fig1", "pint-fig2", "lds-fig10", "lds-fig12", "disketch-panels")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Seed: 77, Quick: true, Data: dataDir(t)}
			i := slices.IndexFunc(Figures, func(f Figure) bool { return f.Name == name })
			rows, err := Figures[i].Run(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			rerun := Results{}
			rerun.Add(name, rows)
			for _, d := range Disagreements(Papers, name, results[name], rerun[name]) {
				t.Error(d)
			}
		})
	}
}

// TestDisagreements: a row that is missing, or beyond its spread, is found; one within is not, nor one within three
// confidence intervals.
func TestDisagreements(t *testing.T) {
	papers := []PaperClaims{{Name: "P", Claims: []Claim{
		{Where: "1", Figure: "f", Method: []string{"label: a", "b"}, Best: []string{"c"}},
		{Where: "2", Figure: "f", Method: []string{"d"}, Spread: 0.5},
		{Where: "3", Figure: "f", Method: []string{"rate"}, Spread: 9},
		{Where: "4", Figure: "other", Method: []string{"a"}},
	}}}
	page := map[string]Row{}
	for _, metric := range []string{"a", "b", "c", "d", "rate"} {
		page[metric] = Row{Metric: metric, Value: 100}
	}
	page["c.ci95"] = Row{Metric: "c.ci95", Value: 10}
	rerun := map[string]Row{"a": {Metric: "a", Value: 109}, "c": {Metric: "c", Value: 139}, "d": {Metric: "d", Value: 51}, "rate": {Metric: "rate", Value: 1}}
	got := Disagreements(papers, "f", page, rerun)
	if len(got) != 1 || !strings.HasPrefix(got[0], "1, b:") {
		t.Errorf("%q", got)
	}
	rerun["b"] = Row{Metric: "b", Value: 100}
	for metric, value := range map[string]float64{"a": 111, "c": 141, "d": 49, "b": math.NaN()} {
		before := rerun[metric]
		rerun[metric] = Row{Metric: metric, Value: value}
		if got := Disagreements(papers, "f", page, rerun); len(got) != 1 {
			t.Errorf("%s of %g: %q", metric, value, got)
		}
		rerun[metric] = before
	}
}

func TestFormatValue(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 37.23: "37.2", 98.2835: "98.3", 3177.2: "3177", 0.2931: "0.293", 4.6e-7: "4.6e-07", -0.4675: "-0.468", 1.2e7: "1.2e+07", 0.00176: "0.00176"} {
		if got := formatValue(v); got != want {
			t.Errorf("%g is %q, want %q", v, got, want)
		}
	}
}
