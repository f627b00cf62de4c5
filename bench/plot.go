package bench

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Sizes of a plot, in pixels.
const (
	plotWidth  = 860
	plotMargin = 14
	labelWidth = 300 // of the names of bars
	valueWidth = 130 // of the figures behind bars
	barHeight  = 11
	barGap     = 8
	lineHeight = 240 // of a diagram of lines
	axisWidth  = 70  // of the figures beside it
	textSize   = 12
	maxSeries  = 8 // in one diagram of lines
)

// The colours of ours and of the reference, and of lines (Okabe and Ito's, which the colour-blind tell apart).
var (
	ourColour       = "#0072b2"
	referenceColour = "#bbbbbb"
	lineColours     = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"}
)

// Plot draws a result as SVG. Rows of one unit are one panel of bars, the value beside its reference. Rows
// whose metrics differ by a number at the end of a word, such as "error.k5" and "error.k25", become a line
// over that number, the reference dashed, if there are three or more of them.
func Plot(w io.Writer, r *Result) error {
	if err := r.Validate(); err != nil {
		return fmt.Errorf("result %s: %w", r.Name, err)
	}
	d := &drawing{y: plotMargin + textSize}
	d.text(plotMargin, d.y, "start", "bold", fmt.Sprintf("%s, seed %d", r.Name, r.Seed))
	d.y += textSize + 4
	d.text(plotMargin, d.y, "start", "normal", fmt.Sprintf("%s, Linux %s, %s", r.Machine.CPU, r.Machine.Kernel, r.Machine.Go))
	d.y += 2 * textSize
	d.legend()
	lines, rest := series(r.Rows)
	for _, unit := range units(r.Rows) {
		var some []line
		for _, l := range lines {
			if l.unit == unit {
				some = append(some, l)
			}
		}
		for group := range slices.Chunk(some, maxSeries) {
			d.lines(unit, group)
		}
		var bars []Row
		for _, row := range rest {
			if row.Unit == unit {
				bars = append(bars, row)
			}
		}
		d.bars(unit, bars)
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" viewBox="0 0 %d %.0f" font-family="sans-serif" font-size="%d">
<rect width="100%%" height="100%%" fill="white"/>
%s</svg>
`, plotWidth, d.y, plotWidth, d.y, textSize, d.out.String())
	return err
}

// units in the order of their first rows.
func units(rows []Row) (list []string) {
	for _, row := range rows {
		if !slices.Contains(list, row.Unit) {
			list = append(list, row.Unit)
		}
	}
	return list
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

// numbered is a number at the end of a word of a metric; letters may stand before it, and 0_5 is 0.5. A size
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

// drawing grows downwards.
type drawing struct {
	out strings.Builder
	y   float64
}

func (d *drawing) text(x, y float64, anchor, weight, text string) {
	fmt.Fprintf(&d.out, `<text x="%.1f" y="%.1f" text-anchor="%s" font-weight="%s">%s</text>`+"\n", x, y, anchor, weight, html.EscapeString(text))
}

func (d *drawing) rect(x, y, width, height float64, colour string) {
	fmt.Fprintf(&d.out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, width, height, colour)
}

func (d *drawing) legend() {
	d.rect(plotMargin, d.y-barHeight+1, 16, barHeight, ourColour)
	d.text(plotMargin+22, d.y, "start", "normal", "value of this run")
	d.rect(plotMargin+160, d.y-barHeight+1, 16, barHeight, referenceColour)
	d.text(plotMargin+182, d.y, "start", "normal", "reference (dashed in lines)")
	d.y += 2 * textSize
}

// bars draws rows of one unit. All have one scale, from zero, which is logarithmic where values of more
// than three orders of magnitude would leave most bars invisible.
func (d *drawing) bars(unit string, rows []Row) {
	if len(rows) == 0 {
		return
	}
	low, high := math.Inf(1), 0.0
	note := func(x float64) {
		if x = math.Abs(x); x > 0 {
			low, high = min(low, x), max(high, x)
		}
	}
	for _, row := range rows {
		note(row.Value)
		if row.Reference != nil {
			note(*row.Reference)
		}
	}
	logarithmic := high > 1000*low
	title := unit
	if logarithmic {
		title += ", logarithmic"
	}
	d.y += textSize
	d.text(plotMargin, d.y, "start", "bold", title)
	d.y += barGap
	const room = plotWidth - labelWidth - valueWidth - 2*plotMargin
	width := func(x float64) float64 {
		x = math.Abs(x)
		switch {
		case x == 0 || high == 0:
			return 0
		case logarithmic:
			return room * math.Log(2*x/low) / math.Log(2*high/low)
		}
		return room * x / high
	}
	for _, row := range rows {
		d.text(labelWidth+plotMargin-6, d.y+barHeight, "end", "normal", row.Metric)
		d.bar(width(row.Value), row.Value, ourColour)
		if row.Reference != nil {
			d.bar(width(*row.Reference), *row.Reference, referenceColour)
		}
		d.y += barGap
	}
}

func (d *drawing) bar(width, value float64, colour string) {
	d.rect(labelWidth+plotMargin, d.y+2, width, barHeight, colour)
	d.text(labelWidth+plotMargin+width+5, d.y+barHeight+1, "start", "normal", formatNumber(value))
	d.y += barHeight + 1
}

// lines draws series of one unit in one diagram.
func (d *drawing) lines(unit string, group []line) {
	left, right := math.Inf(1), math.Inf(-1)
	bottom, top := 0.0, math.Inf(-1)
	for _, l := range group {
		for _, p := range l.points {
			left, right = min(left, p.x), max(right, p.x)
			bottom, top = min(bottom, p.y), max(top, p.y)
			if p.reference != nil {
				bottom, top = min(bottom, *p.reference), max(top, *p.reference)
			}
		}
	}
	if right == left {
		right = left + 1
	}
	if top <= bottom {
		top = bottom + 1
	}
	d.y += textSize
	d.text(plotMargin, d.y, "start", "bold", unit)
	d.y += barGap
	const width = plotWidth - axisWidth - 2*plotMargin
	x := func(v float64) float64 { return plotMargin + axisWidth + width*(v-left)/(right-left) }
	y := func(v float64) float64 { return d.y + lineHeight*(top-v)/(top-bottom) }
	d.axes(left, right, bottom, top, x, y)
	for i, l := range group {
		colour := lineColours[i%len(lineColours)]
		var ours, theirs []string
		for _, p := range l.points {
			ours = append(ours, fmt.Sprintf("%.1f,%.1f", x(p.x), y(p.y)))
			fmt.Fprintf(&d.out, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(p.x), y(p.y), colour)
			if p.reference != nil {
				theirs = append(theirs, fmt.Sprintf("%.1f,%.1f", x(p.x), y(*p.reference)))
			}
		}
		d.polyline(ours, colour, "")
		d.polyline(theirs, colour, ` stroke-dasharray="5 4"`)
	}
	d.y += lineHeight + 2*textSize
	for i, l := range group {
		d.rect(plotMargin+axisWidth, d.y-8, 16, 4, lineColours[i%len(lineColours)])
		d.text(plotMargin+axisWidth+22, d.y, "start", "normal", l.name)
		d.y += textSize + 4
	}
}

func (d *drawing) polyline(points []string, colour, style string) {
	if len(points) > 1 {
		fmt.Fprintf(&d.out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n", strings.Join(points, " "), colour, style)
	}
}

// axes draws five lines across, and the numbers at both axes.
func (d *drawing) axes(left, right, bottom, top float64, x, y func(float64) float64) {
	const steps = 4
	for i := range steps + 1 {
		v := bottom + (top-bottom)*float64(i)/steps
		fmt.Fprintf(&d.out, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#dddddd"/>`+"\n", x(left), x(right), y(v), y(v))
		d.text(x(left)-6, y(v)+4, "end", "normal", formatNumber(v))
		h := left + (right-left)*float64(i)/steps
		d.text(x(h), y(bottom)+textSize+4, "middle", "normal", formatNumber(h))
	}
}
