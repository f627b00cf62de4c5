package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Result is what one measurement found. Its JSON form is fixed; new facts are new rows.
type Result struct {
	// Name of the measurement, as "weir bench list" has it: "forward", "paper/pint-fig5"; with options that
	// made it shorter.
	Name string `json:"name"`
	// Seed of all that was random.
	Seed    uint64  `json:"seed"`
	Machine Machine `json:"machine"`
	Rows    []Row   `json:"rows"`
}

// Row is one figure of a result.
type Row struct {
	// Metric names the figure, unique in its result: words of a to z, digits, _ and
	// capital units, joined by dots, from the general to the particular.
	Metric string `json:"metric"`
	// Unit of Value and Reference: "pps", "ns", "ratio", "packets".
	Unit string `json:"unit"`
	// Value is ours, measured in this run.
	Value float64 `json:"value"`
	// Reference is the paper's or the peer's figure; nil where there is none.
	Reference *float64 `json:"reference"`
	// Source says where the reference is from, or else under which conditions the value
	// was measured.
	Source string `json:"source"`
	// Better is Higher, Lower or Neither.
	Better string `json:"better"`
	// Invalid says why the value is no result; empty: it is one.
	Invalid string `json:"invalid,omitempty"`
}

// What is better for a row.
const (
	Higher  = "higher"
	Lower   = "lower"
	Neither = "neither" // the row is there to explain others
)

// Add appends a row without a reference.
func (r *Result) Add(metric, unit string, value float64, source, better string) {
	r.Rows = append(r.Rows, Row{Metric: metric, Unit: unit, Value: value, Source: source, Better: better})
}

// AddAgainst appends a row with a reference.
func (r *Result) AddAgainst(metric, unit string, value, reference float64, source, better string) {
	r.Rows = append(r.Rows, Row{Metric: metric, Unit: unit, Value: value, Reference: &reference, Source: source, Better: better})
}

// Row finds a row by its metric.
func (r *Result) Row(metric string) (Row, bool) {
	for _, row := range r.Rows {
		if row.Metric == metric {
			return row, true
		}
	}
	return Row{}, false
}

// Validate reports what a reader of the JSON form could not rely on, all at once: a row
// without a finite value, a metric that occurs twice, a word for Better that is unknown.
func (r *Result) Validate() error {
	var faults []error
	seen := map[string]bool{}
	for _, row := range r.Rows {
		if row.Metric == "" || seen[row.Metric] {
			faults = append(faults, fmt.Errorf("metric %q is empty or not unique", row.Metric))
		}
		seen[row.Metric] = true
		if !finite(row.Value) || row.Reference != nil && !finite(*row.Reference) {
			faults = append(faults, fmt.Errorf("metric %s has no finite value", row.Metric))
		}
		if row.Better != Higher && row.Better != Lower && row.Better != Neither {
			faults = append(faults, fmt.Errorf("metric %s: %q is not a direction", row.Metric, row.Better))
		}
	}
	return errors.Join(faults...)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// WriteJSON writes the result as one indented JSON object. It writes nothing if the result
// is not valid.
func (r *Result) WriteJSON(w io.Writer) error {
	if err := r.Validate(); err != nil {
		return fmt.Errorf("result %s: %w", r.Name, err)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the result for a reader.
func (r *Result) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s, seed %d, on %s, Linux %s, %s\n\n", r.Name, r.Seed, r.Machine.CPU, r.Machine.Kernel, r.Machine.Go)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "metric\tvalue\treference\tunit\tbetter\t  source")
	for _, row := range r.Rows {
		reference := ""
		if row.Reference != nil {
			reference = formatNumber(*row.Reference)
		}
		better := row.Better
		if better == Neither {
			better = ""
		}
		source := row.Source
		if row.Invalid != "" {
			source = "INVALID: " + row.Invalid
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t  %s\n", row.Metric, formatNumber(row.Value), reference, row.Unit, better, source)
	}
	return t.Flush()
}

// formatNumber writes four significant digits, and groups of thousands.
func formatNumber(x float64) string {
	if x == 0 || !finite(x) {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	decimals := 3 - int(math.Floor(math.Log10(math.Abs(x))))
	if decimals < 0 {
		scale := math.Pow10(-decimals)
		x, decimals = math.Round(x/scale)*scale, 0
	}
	text := strconv.FormatFloat(x, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + " " + whole[i:]
	}
	if fraction != "" {
		return whole + "." + fraction
	}
	return whole
}
