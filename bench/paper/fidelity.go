package paper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/bench"
)

// Claim is a figure, a table or a numbered claim of a paper, and what became of it here: a line of
// docs/fidelity.md.
type Claim struct {
	// Where it is in the paper, and what the paper says there.
	Where, Says string
	// Figure measures it, with the options of the run that the page shows; empty: it is not measured.
	Figure string
	// Method are rows by the paper's own method, and Best by ours where that differs; "label: metric".
	Method, Best []string
	// Beyond is what Best uses that the paper's method does not.
	Beyond string
	// Differs is where workload, topology, rival or metric are not the paper's; of a claim that is
	// not measured, why.
	Differs string
	// Shown is the command that shows a claim which is kept, and of which there is no figure to measure.
	Shown string
	// Spread is how far, as a share, another run's rows may be from the page's beside their confidence
	// intervals: by the runs' luck, and by a quick run's smaller size. 0: defaultSpread. Above 1:
	// not comparable, for rates of a machine.
	Spread float64
}

const defaultSpread = 0.1

// PaperClaims are the claims of one paper.
type PaperClaims struct {
	Name, Title string
	Claims      []Claim
}

// Results are the rows of measurements, by figure, with its options as ResultName has them, and
// metric.
type Results map[string]map[string]Row

// ResultName names a figure's result, with the options that made it shorter.
func ResultName(figure string, o Options) string {
	name := "paper/" + figure
	if o.Quick {
		name += " --quick"
	}
	if o.Packets > 0 {
		name += fmt.Sprintf(" --packets %d", o.Packets)
	}
	return name
}

// Add takes in a result. Rows of oblivious-network are those of the figures that they
// name, and do not replace a figure's own result.
func (r Results) Add(figure string, rows []Row) {
	for _, row := range rows {
		to, metric := figure, row.Metric
		if figure == "oblivious-network" {
			name, rest, _ := strings.Cut(row.Metric, ".")
			if to, metric = "oblivious-"+name, rest; r[to] != nil && r[to][""].Source != figure {
				continue
			}
		}
		if r[to] == nil {
			r[to] = map[string]Row{"": {Source: figure}} // where its rows are from
		}
		r[to][metric] = row
	}
}

// ReadResults reads the results of some folders' files *.json, as `weir bench paper NAME --json` and
// `weir bench paper --all --json` print them, one or several in a file.
func ReadResults(dirs ...string) (Results, error) {
	var files []string
	for _, dir := range dirs {
		some, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil {
			return nil, fmt.Errorf("results of %s: %w", dir, err)
		}
		files = append(files, some...)
	}
	out, network := Results{}, []Row(nil)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
		for decoder := json.NewDecoder(bytes.NewReader(text)); decoder.More(); {
			var result bench.Result
			if err := decoder.Decode(&result); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			figure, ours := strings.CutPrefix(result.Name, "paper/")
			switch {
			case !ours:
			case figure == "oblivious-network":
				network = result.Rows
			default:
				out.Add(figure, result.Rows)
			}
		}
	}
	out.Add("oblivious-network", network)
	return out, nil
}

// Page is docs/fidelity.md. It fails if a claim names rows that the results do not have.
func Page(papers []PaperClaims, results Results) (string, error) {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, p := range papers {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", p.Name, p.Title)
		b.WriteString("| where | the paper | here, by the paper's method | here, at best | what differs | command |\n|---|---|---|---|---|---|\n")
		for i := range p.Claims {
			c := &p.Claims[i]
			if c.Figure == "" {
				state, shown := "not done", ""
				if c.Shown != "" {
					state, shown = "done, without a figure", "`"+c.Shown+"`"
				}
				fmt.Fprintf(&b, "| %s | %s | %s | | %s | %s |\n", c.Where, c.Says, state, c.Differs, shown)
				continue
			}
			method, err := c.cells(c.Method, results)
			if err != nil {
				return "", err
			}
			best, err := c.cells(c.Best, results)
			if err != nil {
				return "", err
			}
			if c.Beyond != "" {
				best += "; uses " + c.Beyond
			}
			if method == "" && !strings.Contains(c.Says, "no figure of the paper") {
				method = "no row"
			}
			judged := ""
			if c.Spread > 1 {
				judged = ", not judged"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | `%s`%s |\n", c.Where, c.Says, method, best, c.Differs, c.Figure, judged)
		}
	}
	return b.String(), nil
}

const pageHead = `# Every figure of the four papers

Each line is a figure, a table or a numbered claim of a paper: what the paper says, what Weir gives by the paper's own method, and at
its best where that uses more than the paper does; and where workload, topology, rival or metric are not the paper's. The last column
is the NAME of ` + "`weir bench paper NAME`" + `, which repeats it; its documentation is at the figure's function in bench/paper.

The papers' traces (CAIDA, a university's and a data centre's) are not public or not in this tree. Synthetic traces of their flow
counts and sizes are used for them, beside a mix of real packets ("realmix"). Figures that a paper prints as a curve only are compared in words.

A whole run may take half an hour of a core and more, as those of ` + "`oblivious-fig2` to `-fig8`" + ` do (20 million packets); with ` + "`--quick`" + ` any figure is smaller and ends within minutes. These rows depend on its size and differ then: the records of ` + "`lds-fig9`" + `, F1 of the simple merge at 10³ entries in ` + "`oblivious-fig8`" + ` (0.2, by two seeds), and the largest row of ` + "`oblivious-bounds`" + ` (of 100 runs, not 2,000). Runs with another
seed are compared with this page in bench/results/paper/ten-rows-*.txt. The default seed is 1; the rows of DiSketch's Fig. 12 to 16, its map and its fragments need ` + "`--seed 7`" + `.

Do not edit this page: ` + "`go test ./bench/paper -run TestFidelity -update`" + ` makes it from bench/results/paper and bench/results/disketch, where the machine of each result
is. ` + "`TestFidelityHolds`" + ` repeats nine figures with another seed (pint-k2, -values, -fig1, -fig2, -fig5, lds-sizing, -fig10, -fig12, disketch-panels), and fails where a row and this page differ by more than their spread
(beside the claims in bench/paper/fidelity_claims.go) and three confidence intervals. Lines that are "not judged" have a spread above 1: rates of a machine, or values that vary too much with the seed.
± is half of the 95 % confidence interval: of runs, of placements of the memory (DiSketch's Fig. 12, 13, 14 and 16, where it may be as large as the value) or of counts. Those of placements are of the logarithm, so they reach further up than down: 4.3 ± 3.7 is 1.95 to 9.4; only ratios of memory have a symmetric one, by the jackknife. Rows without it have none: most are of one seed, also where memories or flows are placed at random, as in the whole trace's rows of DiSketch's Fig. 12.
"no row": the results have none by the paper's own method.

Errors are relative unless a unit is named; a label holds for the values behind it up to the next one. Packets of PINT's Fig. 5 are medians, of Fig. 10 means. Of DiSketch, *medians of rows* is the paper's composition of records, for which the target, whose search the paper leaves open, is searched for by the default composition (in disketch-panels by itself),
*likeliest* and *Checked* are ours; *autonomous*: each switch chooses its n; *renewed*: new hash functions in each epoch. Of sampling, *simple* and *improved* are the paper's merges, and *union* takes each entry by its own threshold. Of LDS, *alpha* is the paper's choice
of a flow's cells, and *Balanced* ours.
`

// name is the figure's without options.
func (c *Claim) name() string {
	name, _, _ := strings.Cut(c.Figure, " ")
	return name
}

// cells formats rows.
func (c *Claim) cells(rows []string, results Results) (string, error) {
	var out []string
	for _, text := range rows {
		label, metric := cutLabel(text)
		row, ok := results[c.Figure][metric]
		if !ok {
			return "", fmt.Errorf("%s: %s has no row %q", c.Where, c.Figure, metric)
		}
		value := strings.TrimSpace(label + " " + formatValue(row.Value))
		if half, ok := results[c.Figure][metric+".ci95"]; ok {
			value += " ± " + formatValue(half.Value)
		}
		out = append(out, value)
	}
	return strings.Join(out, "; "), nil
}

func cutLabel(text string) (label, metric string) {
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[:i], text[i+2:]
	}
	return "", text
}

// formatValue has three digits, without an exponent where that is short.
func formatValue(v float64) string {
	if a := math.Abs(v); v != 0 && (a < 1e-4 || a >= 1e7) {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := 3
	if v != 0 {
		digits = max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// Disagreements compares another run of a figure with the page's rows.
func Disagreements(papers []PaperClaims, figure string, page, rerun map[string]Row) []string {
	var out []string
	for _, p := range papers {
		for i := range p.Claims {
			c := &p.Claims[i]
			if c.Figure != figure || c.Spread > 1 {
				continue
			}
			for _, text := range slices.Concat(c.Method, c.Best) {
				_, metric := cutLabel(text)
				before, after, ok := page[metric].Value, rerun[metric].Value, rerun[metric].Metric != ""
				spread := c.Spread
				if spread == 0 {
					spread = defaultSpread
				}
				allowed := spread*math.Abs(before) + 3*(page[metric+".ci95"].Value+rerun[metric+".ci95"].Value)
				if !ok || !(math.Abs(after-before) <= allowed) {
					out = append(out, fmt.Sprintf("%s, %s: the page has %s, this run %s; %s apart are allowed", c.Where, metric, formatValue(before), formatValue(after), formatValue(allowed)))
				}
			}
		}
	}
	return out
}

// unclaimed are the figures of this package that no claim names.
func unclaimed(papers []PaperClaims) []string {
	names := map[string]bool{}
	for _, f := range Figures {
		names[f.Name] = true
	}
	delete(names, "oblivious-network") // figures 2 to 8
	// Of later work, see docs/decisions/0026-later-ideas.md.
	maps.DeleteFunc(names, func(name string, _ bool) bool { return strings.HasPrefix(name, "later-") })
	for _, p := range papers {
		for _, c := range p.Claims {
			delete(names, c.name())
		}
	}
	return slices.Sorted(maps.Keys(names))
}
