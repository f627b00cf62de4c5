package bench

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes of a plot.
const (
	plotWidth  = vg.Length(720)
	plotMargin = vg.Length(90) // at the right of bars, for their values
	leftMargin = vg.Length(14)
	// slack is between a text and what is to its right: a viewer's font may be wider than the library's.
	slack      = vg.Length(20)
	barWidth   = vg.Length(10)
	lineHeight = vg.Length(240) // of a diagram of lines
	axisHeight = vg.Length(70)  // of titles and of the axis below
	textSize   = vg.Length(10)
	legendLine = vg.Length(14)
	maxSeries  = 8 // in one diagram of lines
)

// The colours of our bars and of the reference, and of lines (Okabe and Ito's, which the colour-blind can distinguish).
var (
	ourColour       = rgb(0x0072b2)
	referenceColour = rgb(0xbbbbbb)
	lineColours     = []color.Color{rgb(0x0072b2), rgb(0xd55e00), rgb(0x009e73), rgb(0xcc79a7), rgb(0xe69f00), rgb(0x56b4e9), rgb(0), rgb(0x999999)}
)

func rgb(hex uint32) color.Color {
	return color.RGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 0xff}
}

// panel is one diagram of a drawing.
type panel struct {
	*plot.Plot
	height, right vg.Length
	legend        plot.Legend // below the diagram
	legendHeight  vg.Length
}

// Plot draws a result as SVG. Rows of one unit are one panel of bars, the value beside its reference. Rows
// whose metrics differ by a number at the end of a word, such as "error.k5" and "error.k25", become a line
// over that number, the reference dashed, if there are three or more of them.
func Plot(w io.Writer, r *Result) error {
	if err := r.Validate(); err != nil {
		return fmt.Errorf("result %s: %w", r.Name, err)
	}
	title := titlePanel(r)
	title.addLegend("value of this run", ourColour)
	title.addLegend("reference (dashed in lines)", referenceColour)
	panels := []*panel{title}
	lines, rest := series(r.Rows)
	var units []string
	for _, row := range r.Rows {
		if slices.Contains(units, row.Unit) {
			continue
		}
		units = append(units, row.Unit)
		some := slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return l.unit != row.Unit })
		for group := range slices.Chunk(some, maxSeries) {
			panels = append(panels, linePanel(row.Unit, group))
		}
		if bars := slices.DeleteFunc(slices.Clone(rest), func(other Row) bool { return other.Unit != row.Unit }); len(bars) > 0 {
			panels = append(panels, barPanel(row.Unit, bars))
		}
	}
	return drawPanels(w, panels)
}

// titlePanel says what a result is of.
func titlePanel(r *Result) *panel {
	p := newPanel(fmt.Sprintf("%s, seed %d\n%s, Linux %s, %s", r.Name, r.Seed, r.Machine.CPU, r.Machine.Kernel, r.Machine.Go), 3*textSize)
	p.HideAxes()
	return p
}

// drawPanels draws diagrams below each other.
func drawPanels(w io.Writer, panels []*panel) error {
	var height vg.Length
	for _, p := range panels {
		height += p.height + p.legendHeight
	}
	canvas := vgsvg.New(plotWidth, height)
	top := height
	for _, p := range panels {
		bottom := top - p.height
		p.Draw(draw.Crop(draw.New(canvas), leftMargin, -p.right, bottom, top-height))
		p.legend.Draw(draw.Crop(draw.New(canvas), leftMargin, 0, bottom-p.legendHeight, bottom-height))
		top = bottom - p.legendHeight
	}
	_, err := canvas.WriteTo(w)
	return err
}

func newPanel(title string, height vg.Length) *panel {
	p := &panel{Plot: plot.New(), height: height, legend: plot.NewLegend()}
	p.Title.Text = title
	p.legend.Left, p.legend.Top, p.legend.Padding = true, true, legendLine-textSize
	for _, f := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.legend.TextStyle.Font,
	} {
		f.Size, f.Variant = textSize, "Sans"
	}
	return p
}

// addLegend names a colour.
func (p *panel) addLegend(name string, colour color.Color) {
	p.legend.Add(name, &plotter.Line{LineStyle: draw.LineStyle{Color: colour, Width: 4}})
	p.legendHeight += legendLine
}

// line is a series of rows over a number in their metrics.
type line struct {
	name, unit string
	points     []point
}

type point struct {
	x, y      float64
	reference *float64
}

// numbered is a number at the end of a word of a metric; letters may come before it, and 0_5 is 0.5. A size
// such as 64B is a name and no number.
var numbered = regexp.MustCompile(`\.[a-z_]*?(\d+(?:_\d+)?)(?:\.|$)`)

// lineKey is what the rows of a line have in common.
type lineKey struct{ name, unit string }

// candidates are the lines that a row may belong to, one for each number in its metric.
func candidates(row Row) (keys []lineKey, numbers []float64) {
	for at := 0; ; {
		m := numbered.FindStringSubmatchIndex(row.Metric[at:])
		if m == nil {
			return keys, numbers
		}
		from, to := at+m[2], at+m[3]
		x, _ := strconv.ParseFloat(strings.ReplaceAll(row.Metric[from:to], "_", "."), 64) // digits by the expression
		keys = append(keys, lineKey{row.Metric[:from] + "N" + row.Metric[to:], row.Unit})
		numbers = append(numbers, x)
		at = to
	}
}

// series finds lines among rows; rest are the rows in no line. Where a metric has several numbers, the
// one with the most values makes the line.
func series(rows []Row) (lines []line, rest []Row) {
	size := map[lineKey]int{}
	for _, row := range rows {
		keys, _ := candidates(row)
		for _, key := range keys {
			size[key]++
		}
	}
	points := map[lineKey][]point{}
	var order []lineKey
	for _, row := range rows {
		best := -1
		keys, numbers := candidates(row)
		for i, key := range keys {
			if size[key] >= 3 && (best < 0 || size[key] > size[keys[best]]) {
				best = i
			}
		}
		if best < 0 {
			rest = append(rest, row)
			continue
		}
		key := keys[best]
		if points[key] == nil {
			order = append(order, key)
		}
		points[key] = append(points[key], point{numbers[best], row.Value, row.Reference})
	}
	for _, key := range order {
		p := points[key]
		slices.SortStableFunc(p, func(a, b point) int { return cmp.Compare(a.x, b.x) })
		lines = append(lines, line{key.name, key.unit, p})
	}
	return lines, rest
}

// barPanel draws rows of one unit. All have one scale, from zero, which is logarithmic where values of more
// than three orders of magnitude would leave most bars invisible.
func barPanel(unit string, rows []Row) *panel {
	var names []string
	low, high := math.Inf(1), 0.0
	ours, theirs := make(plotter.Values, len(rows)), make(plotter.Values, len(rows))
	var labels [2]plotter.XYLabels
	for i := range rows {
		row := rows[len(rows)-1-i] // the axis points upwards
		names = append(names, row.Metric)
		for j, v := range []*float64{&row.Value, row.Reference} {
			if v == nil {
				continue
			}
			size := math.Abs(*v)
			[]plotter.Values{ours, theirs}[j][i] = size
			labels[j].XYs = append(labels[j].XYs, plotter.XY{X: size, Y: float64(i)})
			labels[j].Labels = append(labels[j].Labels, formatNumber(*v))
			if size > 0 {
				low, high = min(low, size), max(high, size)
			}
		}
	}
	p := newPanel(unit, axisHeight+vg.Length(len(rows))*(2*barWidth+8))
	p.right = plotMargin
	p.NominalY(names...)
	p.Y.Padding, p.Y.LineStyle.Width = slack, 0
	for j, values := range []plotter.Values{ours, theirs} {
		offset := barWidth * vg.Length(1-2*j) / 2
		p.Add(&plotter.BarChart{Values: values, Width: barWidth, Offset: offset, Horizontal: true, Color: []color.Color{ourColour, referenceColour}[j]})
		text, err := plotter.NewLabels(labels[j])
		if err != nil || len(labels[j].XYs) == 0 {
			continue // no value is NaN, by Validate
		}
		for k := range text.TextStyle {
			text.TextStyle[k].Font.Size, text.TextStyle[k].Font.Variant = textSize, "Sans"
		}
		text.Offset = vg.Point{X: 4, Y: offset - textSize/3}
		p.Add(text)
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, cmp.Or(high, 1), -0.6, float64(len(rows))-0.4
	p.X.Tick.Marker = plot.TickerFunc(numberTicks)
	if high > 1000*low {
		p.Title.Text += ", logarithmic"
		p.X.Min, p.X.Scale, p.X.Tick.Marker = low/2, logBars{}, plot.LogTicks{Prec: -1}
	}
	return p
}

// logBars is a logarithmic scale on which a bar may begin at zero.
type logBars struct{}

// Normalize implements plot.Normalizer.
func (logBars) Normalize(least, most, x float64) float64 {
	return math.Log(max(x, least)/least) / math.Log(most/least)
}

// linePanel draws series of one unit in one diagram.
func linePanel(unit string, group []line) *panel {
	p := newPanel(unit, axisHeight+lineHeight)
	p.Add(plotter.NewGrid())
	p.Y.Min = 0
	for i, l := range group {
		colour := lineColours[i%len(lineColours)]
		var ours, theirs plotter.XYs
		for _, point := range l.points {
			ours = append(ours, plotter.XY{X: point.x, Y: point.y})
			if point.reference != nil {
				theirs = append(theirs, plotter.XY{X: point.x, Y: *point.reference})
			}
		}
		p.Add(&plotter.Line{XYs: ours, LineStyle: draw.LineStyle{Color: colour, Width: 2}},
			&plotter.Line{XYs: theirs, LineStyle: draw.LineStyle{Color: colour, Width: 2, Dashes: []vg.Length{5, 4}}},
			&plotter.Scatter{XYs: ours, GlyphStyle: draw.GlyphStyle{Color: colour, Radius: 3, Shape: draw.CircleGlyph{}}})
		p.addLegend(l.name, colour)
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(numberTicks), plot.TickerFunc(numberTicks)
	return p
}

// numberTicks are the library's, with numbers as in the report.
func numberTicks(least, most float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(least, most)
	for i := range ticks {
		if !ticks[i].IsMinor() {
			ticks[i].Label = formatNumber(ticks[i].Value)
		}
	}
	return ticks
}
