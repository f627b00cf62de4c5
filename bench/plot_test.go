package bench

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

// parseSVG reads the drawing as XML and gives the number of its elements by name, and its texts.
func parseSVG(t *testing.T, svg string) (elements map[string]int, texts []string) {
	t.Helper()
	elements = map[string]int{}
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements, texts
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch x := token.(type) {
		case xml.StartElement:
			elements[x.Name.Local]++
		case xml.CharData:
			if s := strings.TrimSpace(string(x)); s != "" {
				texts = append(texts, s)
			}
		}
	}
}

// Bars for what stands alone, lines for what differs by a number, dashes for references.
func TestPlot(t *testing.T) {
	r := sample()
	r.Add("a<b&c", "pps", 5, "", Higher)
	for k := 5; k <= 25; k += 5 {
		r.AddAgainst(fmt.Sprintf("error.k%d.p50", k), "share", 1/float64(k), 0.1, "", Lower)
	}
	var out strings.Builder
	if err := Plot(&out, r); err != nil {
		t.Fatal(err)
	}
	elements, texts := parseSVG(t, out.String())
	all := strings.Join(texts, "\n")
	for _, text := range []string{"paper/some, seed 7", "patch.64B.mrr", "a<b&c", "error.kN.p50", "931 400", "41", "42"} {
		if !strings.Contains(all, text) {
			t.Errorf("%q is not in the drawing", text)
		}
	}
	// Three values and five points of a line, a reference and a dashed line; a colour of the legend is a thick line.
	for style, want := range map[string]int{
		"fill:#0072B2": 3 + 5, "stroke:#0072B2;stroke-width:2\"": 1, "stroke:#0072B2;stroke-width:2;stroke-dasharray": 1, "stroke:#0072B2;stroke-width:4": 2,
		"stroke:#BBBBBB;stroke-width:4": 1,
	} {
		if got := strings.Count(out.String(), style); got != want {
			t.Errorf("%d elements are %s, want %d", got, style, want)
		}
	}
	if elements["svg"] != 1 {
		t.Errorf("%v", elements)
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
		t.Error("a coordinate is no number")
	}
}

// Values that are zero, negative, equal or many orders apart still have places.
func TestPlotOddValues(t *testing.T) {
	for name, values := range map[string][]float64{
		"none": nil, "zero": {0}, "negative": {-3, 2}, "far": {1e-9, 1e9, 0}, "equal line": {7, 7, 7},
	} {
		r := &Result{Name: name}
		for i, v := range values {
			r.Add(fmt.Sprintf("x.n%d", i), "ns", v, "", Neither)
		}
		if len(values) == 2 {
			r.Rows[1].Metric = "other"
		}
		var out strings.Builder
		if err := Plot(&out, r); err != nil {
			t.Fatal(err)
		}
		parseSVG(t, out.String())
		if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
			t.Errorf("%s: %s", name, &out)
		}
	}
	bad := &Result{Name: "bad"}
	bad.Add("", "ns", 1, "", Lower)
	var out strings.Builder
	if Plot(&out, bad) == nil || out.Len() != 0 {
		t.Error("an invalid result was drawn")
	}
}

// TestPlotGrids: each cell has its text, and a colour by its ratio; what there is no value for has none.
func TestPlotGrids(t *testing.T) {
	r := sample()
	grid := Grid{
		Title: "where", X: "memory", Y: "bursts", Columns: []string{"2 KB", "8 KB"}, Lines: []string{"0 %", "100 %"},
		Ratios: [][]float64{{0.25, 1}, {4, math.NaN()}}, Texts: [][]string{{"n = 4: 0.25", "n = 1: 1"}, {"n = 1: 4", ""}},
	}
	var out strings.Builder
	if err := PlotGrids(&out, r, []Grid{grid}); err != nil {
		t.Fatal(err)
	}
	_, texts := parseSVG(t, out.String())
	for _, text := range []string{"paper/some, seed 7", "where", "memory", "bursts", "2 KB", "100 %", "n = 4: 0.25", "n = 1: 4"} {
		if !strings.Contains(strings.Join(texts, "\n"), text) {
			t.Errorf("%q is not in the drawing", text)
		}
	}
	for colour, want := range map[string]int{"fill:#4095C5": 1, "fill:#FFFFFF": 2, "fill:#ECB740": 1} { // and the background
		if got := strings.Count(out.String(), colour); got < want {
			t.Errorf("%d elements are %s, want %d", got, colour, want)
		}
	}
	if strings.Contains(out.String(), "NaN") {
		t.Error("a coordinate is no number")
	}
	r.Rows[0].Metric = ""
	if PlotGrids(io.Discard, r, nil) == nil {
		t.Error("an invalid result was drawn")
	}
}

func TestSeries(t *testing.T) {
	var rows []Row
	for _, m := range []string{
		"a.k5", "a.k25", "a.k10", // a line
		"b.k5", "b.k6", // too few
		"patch.64B.mrr", "patch.latency_p50_over_bridge", "parse_l2_10k.mpps", // names
		"q.0_5.p", "q.0_25.p", "q.1.p", // decimals, a line
	} {
		rows = append(rows, Row{Metric: m, Unit: "x", Better: Lower})
	}
	lines, rest := series(rows)
	if len(lines) != 2 || len(rest) != 5 {
		t.Fatalf("%+v, rest %+v", lines, rest)
	}
	for i, want := range []string{"a.kN [5 10 25]", "q.N.p [0.25 0.5 1]"} {
		var x []float64
		for _, p := range lines[i].points {
			x = append(x, p.x)
		}
		if got := fmt.Sprintf("%s %v", lines[i].name, x); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
