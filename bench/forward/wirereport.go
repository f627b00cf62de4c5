package forward

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/weirswitch/weir/bench"
)

// WriteText writes the report for a terminal.
func (r *WireReport) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s, link %s, trials of %g s, %d flows, on %s, Linux %s\n%v\n\n", r.Title(), r.speed(), r.Trial, r.Flows, r.Machine.CPU, r.Machine.Kernel, &r.Activity)
	if r.Incomplete != "" {
		fmt.Fprintf(w, "INCOMPLETE: %s\n\n", r.Incomplete)
	}
	if text := r.Departure(); text != "" {
		fmt.Fprintf(w, "%s\n\n", text)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "frame B\tthroughput fps\tof the line\tmost that arrives\tp50 us at 50 %\tp99.9 us\tburst frames\tbuffer us\t  mark")
	bounds, again := false, false
	for i := range r.Sizes {
		s := &r.Sizes[i]
		l := s.at(0.5)
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", s.Size, s.Carries(), s.OfLine(), s.Most(), micro(l.P50), micro(l.P999), s.Longest(), micro(s.BufferNs), s.Marks())
		bounds = bounds || s.Limited || s.mrrLimited() || s.BurstLimited
		again = again || s.Unconfirmed()
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var below strings.Builder
	if bounds {
		fmt.Fprintf(&below, "%s: %s\n", atLeast, boundMeans)
	}
	if again {
		fmt.Fprintf(&below, "%s: %s\n", unconfirmed, unconfirmedMeans)
	}
	for i := range r.Sizes {
		for _, text := range r.Sizes[i].Remarks() {
			fmt.Fprintf(&below, "%d B: %s\n", r.Sizes[i].Size, text)
		}
	}
	if below.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(w, "\n"+below.String())
	return err
}

// unconfirmed is the mark of a throughput at which frames were lost again.
const (
	unconfirmed      = "unconfirmed"
	unconfirmedMeans = "frames were lost again at this throughput or below it, when latency was measured: the device loses none at a somewhat lower rate, or the machine was busy for a moment"
)

// Unconfirmed reports that a trial of latency lost frames at a rate at which the search for the throughput lost none. What is lost beyond
// a bound makes the figures INVALID.
func (s *WireSize) Unconfirmed() bool {
	return s.Invalid == "" && slices.ContainsFunc(s.Latency, func(l WireLatency) bool { return l.Loss > 0 })
}

// Marks are what the throughput is to be read with, in words; empty: nothing.
func (s *WireSize) Marks() string { return s.andBusy(s.throughputMark()) }

func (s *WireSize) throughputMark() string {
	m := s.mark(s.Limited)
	if m == "" && s.Unconfirmed() {
		return unconfirmed
	}
	return m
}

// andBusy adds to a mark that others took much of the machine.
func (s *WireSize) andBusy(mark string) string {
	if !s.Activity.Busy() {
		return mark
	}
	return strings.TrimPrefix(mark+" busy", " ")
}

// atLeast is written before a lower bound.
const (
	atLeast    = "≥"
	boundMeans = "a lower bound, set by the source; the device may do more"
)

// Departure says where the trials fall short of RFC 2544; empty: nowhere.
func (r *WireReport) Departure() string {
	if len(r.Departures) == 0 {
		return ""
	}
	return "NO TRIAL OF RFC 2544: " + strings.Join(r.Departures, "; ") + "."
}

// Carries is the throughput, marked where it is a lower bound, Most what arrives of a full load, and Longest the longest burst.
func (s *WireSize) Carries() string { return whole(s.Throughput, s.Limited) }
func (s *WireSize) Most() string    { return whole(s.MRR, s.mrrLimited()) }
func (s *WireSize) Longest() string { return whole(s.Burst, s.BurstLimited) }

// whole writes a figure, marked where it is a lower bound.
func whole(v float64, bound bool) string {
	if bound {
		return fmt.Sprintf("%s %.0f", atLeast, v)
	}
	return fmt.Sprintf("%.0f", v)
}

// Title names the device, or else the interfaces that it joins.
func (r *WireReport) Title() string {
	ends := r.TX + " to " + r.RX
	if r.Device != "" {
		return r.Device + ", " + ends
	}
	return ends
}

// Differences names the settings in which two reports were not measured alike, each with both values; empty: in none.
func (r *WireReport) Differences(other *WireReport) []string {
	sizes := func(r *WireReport) string {
		var all []string
		for i := range r.Sizes {
			all = append(all, strconv.Itoa(r.Sizes[i].Size))
		}
		return strings.Join(all, ",")
	}
	var all []string
	for _, f := range []struct {
		name, unit  string
		left, right any
	}{
		{"length of trials (--duration)", " s", r.Trial, other.Trial},
		{"trials at a rate (--trials)", "", r.Trials, other.Trials},
		{"resolution of the search (--precision)", "", r.Precision, other.Precision},
		{"frame sizes (--size)", "", sizes(r), sizes(other)},
		{"flows (--flows)", "", r.Flows, other.Flows},
		{"speed of the link (--speed)", " bit/s", r.Speed, other.Speed},
	} {
		if f.left != f.right {
			all = append(all, fmt.Sprintf("%s, %v%s and %v%s", f.name, f.left, f.unit, f.right, f.unit))
		}
	}
	return all
}

// what describes an interface.
func (i WireInterface) what() string {
	all := []string{"driver " + cmp.Or(i.Driver, "unknown")}
	for _, f := range []struct{ name, value string }{{"version", i.Version}, {"firmware", i.Firmware}, {"bus", i.Bus}, {"namespace", i.Namespace}} {
		if f.value != "" {
			all = append(all, f.name+" "+f.value)
		}
	}
	return strings.Join(append(all, fmt.Sprintf("MTU %d", i.MTU)), ", ")
}

// fact is a row of the page's first table.
type fact struct{ Name, Value string }

// facts are what the figures hold for.
func (r *WireReport) facts() []fact {
	var all []fact
	add := func(name, value string) {
		if value != "" {
			all = append(all, fact{name, value})
		}
	}
	add("device under test", r.Device)
	for n, i := range r.Interfaces {
		add([]string{"sends", "receives"}[n%2], i.Name+": "+i.what())
	}
	add("link", r.speed())
	add("measured", fmt.Sprintf("%s, in %.0f s", r.Began.Format("2006-01-02 15:04:05 UTC"), r.Seconds))
	add("trials", fmt.Sprintf("of %g s, at most %d at a rate, %d flows", r.Trial, r.Trials, r.Flows))
	add("by", r.Weir)
	add("command", r.Command)
	add("processor", r.Machine.CPU)
	add("kernel", "Linux "+r.Machine.Kernel)
	add("machine", r.Activity.String())
	return all
}

func (r *WireReport) speed() string {
	if r.Speed == 0 {
		return "of unknown speed"
	}
	return fmt.Sprintf("%g Gbit/s", float64(r.Speed)/1e9)
}

// micro writes ns in us; "-" for 0: it was not measured.
func micro(ns float64) string {
	if ns == 0 {
		return "-"
	}
	return strconv.FormatFloat(ns/1e3, 'f', 1, 64)
}

// percent writes a share with two digits at least, so that a small one is not 0 %.
func percent(share float64) string {
	if p := 100 * share; p < 1 {
		return fmt.Sprintf("%.2g %%", p)
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// at is the latency at a share of the throughput.
func (s *WireSize) at(share float64) WireLatency {
	for _, l := range s.Latency {
		if l.Share == share {
			return l
		}
	}
	return WireLatency{}
}

// OfLine is the throughput as a share of the line's rate.
func (s *WireSize) OfLine() string {
	if s.Line == 0 {
		return "-"
	}
	share := fmt.Sprintf("%.1f %%", 100*s.Throughput/s.Line)
	if s.Limited {
		return atLeast + " " + share
	}
	return share
}

// Remarks are what a reader must know of the figures, the worst first.
func (s *WireSize) Remarks() (all []string) {
	if s.Invalid != "" {
		all = append(all, "INVALID: "+s.Invalid)
	}
	if s.Activity.Busy() {
		text := "busy: other processes took " + percent(s.Activity.Others) + " of the cores"
		if s.Activity.Stolen > stolenMost {
			text += ", a hypervisor " + percent(s.Activity.Stolen)
		}
		all = append(all, text+", so the figures may be too low")
	}
	switch {
	case s.Rounds == 1:
		all = append(all, "the only round that is a result")
	case s.Rounds > 1:
		all = append(all, fmt.Sprintf("median of %d rounds, %.0f to %.0f", s.Rounds, s.Low, s.High))
	}
	if s.Limited {
		all = append(all, "source-limited: the device may carry more")
	}
	if s.Source != "" && s.Source != "live-frames" {
		all = append(all, "sent by "+s.Source)
	}
	for _, l := range s.Latency {
		if l.Loss > 0 && s.Invalid == "" {
			all = append(all, fmt.Sprintf("%s: %s lost again at %.0f %% of the throughput, where latency was measured", unconfirmed, percent(l.Loss), 100*l.Share))
		}
		if asked := l.Share * s.Throughput; l.Rate < leastReached*asked {
			all = append(all, fmt.Sprintf("latency at %.0f %% was measured at %.0f fps, %.0f %% of the throughput, as the source sent no more", 100*l.Share, l.Rate, 100*l.Rate/s.Throughput))
		}
	}
	if s.BurstLimited {
		all = append(all, "no burst was too long")
	} else if s.BurstLeast < burstSpread*s.BurstMost {
		all = append(all, fmt.Sprintf("the longest bursts of %d searches were %.0f to %.0f frames: the machine was busy for a moment, or the device recovers slowly", s.BurstTrials, s.BurstLeast, s.BurstMost))
	}
	switch {
	case s.BurstRate == 0: // not measured
	case s.BufferNs == 0 && !s.BurstLimited:
		all = append(all, fmt.Sprintf("the buffer is unknown: the source sent bursts at %.0f fps, no faster than the device forwards", s.BurstRate))
	case s.BurstRate < limitedBelow*s.Line:
		all = append(all, fmt.Sprintf("bursts were sent at %.0f fps, %.3g %% of the line", s.BurstRate, 100*s.BurstRate/s.Line))
	}
	if s.Duplicated > 0 || s.Reordered > 0 {
		all = append(all, fmt.Sprintf("%d duplicated, %d reordered", s.Duplicated, s.Reordered))
	}
	return all
}

// leastReached is how much of the rate that was asked for a source must have sent for a figure to be called by that rate.
const leastReached = 0.95

// WriteCSV writes a line for each figure: size, figure, at, value, unit, mark. The mark is INVALID where the size's figures are no result,
// source-limited where the source, not the device, set the figure, unconfirmed at a throughput that lost frames again, or empty; "busy" follows it where others took much of the machine.
func (r *WireReport) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"frame_bytes", "figure", "at", "value", "unit", "mark"}) // Flush has the error
	for i := range r.Sizes {
		s := &r.Sizes[i]
		write := func(figure, at, value, unit string, limited bool) {
			mark := s.mark(limited)
			if s.Activity.Busy() {
				mark = strings.TrimSpace(mark + " busy")
			}
			_ = c.Write([]string{strconv.Itoa(s.Size), figure, at, value, unit, mark})
		}
		line := func(figure, at string, value float64, unit string, limited bool) {
			write(figure, at, strconv.FormatFloat(value, 'f', -1, 64), unit, limited)
		}
		write("source", s.Source, "", "", false)
		_ = c.Write([]string{strconv.Itoa(s.Size), "throughput", "", strconv.FormatFloat(s.Throughput, 'f', -1, 64), "fps", s.Marks()})
		line("line", "", s.Line, "fps", false)
		line("mrr", "", s.MRR, "fps", s.mrrLimited())
		line("burst", "", s.Burst, "frames", s.BurstLimited)
		line("burst_rate", "", s.BurstRate, "fps", false)
		if s.BufferNs > 0 {
			line("buffer_frames", "", s.BufferFrames, "frames", false)
			line("buffer", "", s.BufferNs, "ns", false)
		} else {
			write("buffer_frames", "", "", "frames", s.BurstLimited)
			write("buffer", "", "", "ns", s.BurstLimited)
		}
		for _, p := range s.Loss {
			line("loss", strconv.FormatFloat(p.Rate, 'f', 0, 64)+" fps", p.Loss, "share", false)
		}
		for j := range s.Latency {
			l := &s.Latency[j]
			at, limited := fmt.Sprintf("%.0f %% of throughput", 100*l.Share), s.latencyLimited(l)
			line("latency_rate", at, l.Rate, "fps", limited)
			line("latency_loss", at, l.Loss, "share", limited)
			for _, f := range []struct {
				name  string
				value float64
			}{{"min", l.Least}, {"p50", l.P50}, {"p99", l.P99}, {"p999", l.P999}, {"max", l.Most}, {"pdv", l.PDV}} {
				if !l.measured() {
					write("latency_"+f.name, at, "", "ns", limited)
					continue
				}
				line("latency_"+f.name, at, f.value, "ns", limited)
			}
		}
		line("others_share", "", s.Activity.Others, "share", false)
		line("stolen_share", "", s.Activity.Stolen, "share", false)
		if s.Invalid != "" {
			write("invalid", s.Invalid, "", "", false)
		}
	}
	for _, f := range []struct {
		figure, unit string
		value        float64
	}{
		{"load_average_start", "", r.Activity.LoadStart}, {"load_average_end", "", r.Activity.LoadEnd},
		{"others_share", "share", r.Activity.Others}, {"stolen_share", "share", r.Activity.Stolen},
	} {
		_ = c.Write([]string{"", f.figure, "", strconv.FormatFloat(f.value, 'f', -1, 64), f.unit, ""})
	}
	for _, text := range r.Departures {
		_ = c.Write([]string{"", "departs_from_rfc2544", text, "", "", ""})
	}
	if r.Incomplete != "" {
		_ = c.Write([]string{"", "incomplete", r.Incomplete, "", "", "INCOMPLETE"})
	}
	c.Flush()
	return c.Error()
}

// mark is what a figure is to be read with.
func (s *WireSize) mark(limited bool) string {
	switch {
	case s.Invalid != "":
		return bench.Invalid
	case limited:
		return bench.SourceLimited
	}
	return ""
}

func (s *WireSize) latencyMark(l *WireLatency) string { return s.mark(s.latencyLimited(l)) }

// LatencyMarks are what a latency is to be read with, in words; empty: nothing.
func (s *WireSize) LatencyMarks(l WireLatency) string { return s.andBusy(s.latencyMark(&l)) }

// diagram is a picture of the page: lines and ticks in a box of 640 by 240.
type diagram struct {
	Title, X, Y string
	Lines       []diagramLine
	XTicks      []tick
	YTicks      []tick
	Legend      string // of its marks; empty: all points are results
}

// diagramLine has a mark for each point: a disc for a result, a hollow triangle for a lower bound that the source sets, a hollow disc for a
// throughput that lost frames again, a cross where the figures are INVALID.
type diagramLine struct {
	Name, Colour, Points string
	Marks                []diagramMark
}

type diagramMark struct {
	X, Y float64
	Kind string // "", bench.SourceLimited, unconfirmed or bench.Invalid
	What string // shown while the pointer is on it
}

// tick is a value that an axis names, at so many pixels from the left or the top.
type tick struct {
	At    float64
	Label string
}

var wireColours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// curve is one line before it is scaled.
type curve struct {
	name  string
	x, y  []float64
	bound string   // what is written before a value that the source limits
	marks []string // of each point; nil: none has a mark, as a line that was not measured
}

// axis has the values from low to high, linear or logarithmic, with its ticks.
type axis struct {
	low, high   float64
	logarithmic bool
	ticks       []float64
}

// linearAxis begins at 0 and has some round ticks.
func linearAxis(most float64) axis {
	if most <= 0 {
		most = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	switch {
	case most/step < 2:
		step /= 5
	case most/step < 4:
		step /= 2
	}
	a := axis{high: most}
	for v := 0.0; v <= most*1.0001; v += step {
		a.ticks = append(a.ticks, v)
	}
	return a
}

// logAxis has the ticks 1, 2 and 5 of each power of ten, or where these are many the powers alone.
func logAxis(least, most float64) axis {
	if least <= 0 || most < least {
		return linearAxis(most)
	}
	a := axis{low: math.Pow(10, math.Floor(math.Log10(least))), high: most * 1.1, logarithmic: true}
	digits := []float64{1, 2, 5}
	if a.high/a.low > 1e3 {
		digits = digits[:1]
	}
	for power := a.low; power <= a.high; power *= 10 {
		for _, d := range digits {
			if power*d <= a.high {
				a.ticks = append(a.ticks, power*d)
			}
		}
	}
	return a
}

// at is where a value is, from 0 to 1.
func (a axis) at(v float64) float64 {
	if !a.logarithmic {
		return v / a.high
	}
	return math.Log(max(v, a.low)/a.low) / math.Log(a.high/a.low)
}

func newDiagram(title, x, y string, formatX, formatY func(float64) string, logY bool, curves []curve) diagram {
	d := diagram{Title: title, X: x, Y: y}
	mostX, leastY, mostY := 0.0, math.Inf(1), 0.0
	for _, c := range curves {
		for i := range c.x {
			mostX, mostY = max(mostX, c.x[i]), max(mostY, c.y[i])
			if c.y[i] > 0 {
				leastY = min(leastY, c.y[i])
			}
		}
	}
	across, up := linearAxis(mostX), linearAxis(mostY)
	if logY {
		up = logAxis(leastY, mostY)
	}
	for _, v := range across.ticks {
		d.XTicks = append(d.XTicks, tick{640 * across.at(v), formatX(v)})
	}
	for _, v := range up.ticks {
		d.YTicks = append(d.YTicks, tick{240 - 240*up.at(v), formatY(v)})
	}
	for i, c := range curves {
		var points strings.Builder
		for j := range c.x {
			fmt.Fprintf(&points, "%.1f,%.1f ", 640*across.at(c.x[j]), 240-240*up.at(c.y[j]))
		}
		line := diagramLine{Name: c.name, Colour: wireColours[i%len(wireColours)], Points: points.String()}
		for j, kind := range c.marks {
			what := formatX(c.x[j]) + ": " + formatY(c.y[j])
			switch kind {
			case bench.SourceLimited:
				what = formatX(c.x[j]) + ": " + c.bound + formatY(c.y[j]) + ", " + kind
			case bench.Invalid, unconfirmed:
				what += ", " + kind
			}
			line.Marks = append(line.Marks, diagramMark{640 * across.at(c.x[j]), 240 - 240*up.at(c.y[j]), kind, what})
		}
		d.Lines = append(d.Lines, line)
	}
	return d
}

// diagrams are throughput by size, loss by rate and latency by load.
func (r *WireReport) diagrams() []diagram {
	fps := func(v float64) string {
		if v < 1e6 {
			return fmt.Sprintf("%.3g kfps", v/1e3)
		}
		return fmt.Sprintf("%.3g Mfps", v/1e6)
	}
	bytes := func(v float64) string { return fmt.Sprintf("%.0f B", v) }
	us := func(v float64) string {
		if v < 1e6 {
			return fmt.Sprintf("%g us", v/1e3)
		}
		return fmt.Sprintf("%g ms", v/1e6)
	}
	share := func(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }
	through, line := curve{name: "throughput", bound: atLeast + " "}, curve{name: "line rate"}
	var loss, delay []curve
	for i := range r.Sizes {
		s := &r.Sizes[i]
		through.x, through.y = append(through.x, float64(s.Size)), append(through.y, s.Throughput)
		through.marks = append(through.marks, s.throughputMark())
		if s.Line > 0 {
			line.x, line.y = append(line.x, float64(s.Size)), append(line.y, s.Line)
		}
		l, d := curve{name: bytes(float64(s.Size))}, curve{name: bytes(float64(s.Size))}
		// By the rate that was sent: a source that was held up sent less than the step before.
		byRate := slices.SortedFunc(slices.Values(s.Loss), func(a, b LossPoint) int { return cmp.Compare(a.Rate, b.Rate) })
		for _, p := range byRate {
			l.x, l.y = append(l.x, p.Rate), append(l.y, p.Loss)
			l.marks = append(l.marks, s.mark(false))
		}
		for _, p := range s.Latency {
			if !p.measured() {
				continue
			}
			d.x, d.y = append(d.x, p.Share), append(d.y, p.P99)
			d.marks = append(d.marks, s.latencyMark(&p))
		}
		loss, delay = append(loss, l), append(delay, d)
	}
	all := []diagram{
		newDiagram("Throughput by frame size (RFC 2544, 26.1)", "frame size", "frames per second", bytes, fps, true, []curve{through, line}),
		newDiagram("Frame loss by offered rate (26.3)", "offered", "lost", fps, share, false, loss),
		newDiagram("Latency under load, 99th percentile (26.2, RFC 8219)", "share of throughput", "latency", share, us, true, delay),
	}
	all[0].Legend = legend("△ ("+atLeast+") "+boundMeans+".", through)
	all[1].Legend = legend("", loss...)
	all[2].Legend = legend("△ source-limited: at a share of a throughput that is a lower bound, or at less than that share, as the source sent no more.", delay...)
	return all
}

// legend explains the marks of a diagram that are not those of results.
func legend(limited string, curves ...curve) string {
	var all []string
	for _, m := range []struct{ kind, text string }{{"", "● a result."}, {bench.SourceLimited, limited}, {unconfirmed, "○ " + unconfirmed + ": " + unconfirmedMeans + "."}, {bench.Invalid, "✕ INVALID: no result, see the remarks."}} {
		if slices.ContainsFunc(curves, func(c curve) bool { return slices.Contains(c.marks, m.kind) }) {
			all = append(all, m.text)
		}
	}
	if len(all) == 1 && strings.HasPrefix(all[0], "●") {
		return ""
	}
	return strings.Join(all, " ")
}

// WriteHTML writes the report as one page without anything from elsewhere.
func (r *WireReport) WriteHTML(w io.Writer) error {
	return wirePage.Execute(w, map[string]any{"Report": r, "Facts": r.facts(), "Diagrams": r.diagrams()})
}

var wirePage = template.Must(template.New("wire").Funcs(template.FuncMap{
	"us":   micro,
	"n":    func(v float64) string { return fmt.Sprintf("%.0f", v) },
	"loss": func(v float64) string { return fmt.Sprintf("%.4f %%", 100*v) },
	"pc":   func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) },
}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>RFC 2544: {{.Report.Title}}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #1a1a1a; background: #fff }
table { border-collapse: collapse; margin: 1em 0 } th, td { padding: .2em .8em; border-bottom: 1px solid #ccc; text-align: right }
td:last-child, th:last-child, .facts th { text-align: left } td { white-space: nowrap } .facts td { white-space: normal }
.remarks dt { font-weight: bold } .remarks dd { margin: 0 } .remarks ul { margin: .2em 0 .8em; padding-left: 1.5em } .invalid { color: #b00020; font-weight: bold }
svg { max-width: 100%; height: auto } text { font: 12px system-ui, sans-serif }
</style></head><body>
<h1>{{.Report.Title}}</h1>
{{with .Report.Incomplete}}<p class="invalid">INCOMPLETE: {{.}}</p>
{{end}}{{with .Report.Departure}}<p class="departs"><strong>{{.}}</strong></p>
{{end}}<table class="facts"><tbody>
{{range .Facts}}<tr><th scope="row">{{.Name}}</th><td>{{.Value}}</td></tr>
{{end}}</tbody></table>
<table><thead><tr><th>frame B</th><th>throughput fps</th><th>of the line</th><th>most that arrives fps</th><th>burst frames</th><th>bursts at fps</th><th>buffer frames</th><th>buffer us</th><th>mark</th></tr></thead><tbody>
{{range .Report.Sizes}}<tr><td>{{.Size}}</td><td>{{.Carries}}</td><td>{{.OfLine}}</td><td>{{.Most}}</td><td>{{.Longest}}</td><td>{{n .BurstRate}}</td><td>{{if .BufferNs}}{{n .BufferFrames}}{{else}}-{{end}}</td><td>{{us .BufferNs}}</td><td{{if .Invalid}} class="invalid"{{end}}>{{.Marks}}</td></tr>
{{end}}</tbody></table>
<dl class="remarks">
{{range .Report.Sizes}}{{$size := .}}{{with .Remarks}}<dt>{{$size.Size}} B</dt><dd{{if $size.Invalid}} class="invalid"{{end}}><ul>{{range .}}<li>{{.}}</li>{{end}}</ul></dd>
{{end}}{{end}}</dl>
{{range .Diagrams}}<h2>{{.Title}}</h2>
<svg viewBox="-80 -20 870 310" role="img" aria-label="{{.Title}}"><rect width="640" height="240" fill="none" stroke="#999"/>
{{range .XTicks}}<path d="M{{.At}} 0V240" stroke="#e5e5e5"/><text x="{{.At}}" y="256" text-anchor="middle">{{.Label}}</text>{{end}}
{{range .YTicks}}<path d="M0 {{.At}}H640" stroke="#e5e5e5"/><text x="-8" y="{{.At}}" dy="4" text-anchor="end">{{.Label}}</text>{{end}}
<text x="320" y="278" text-anchor="middle">{{.X}}</text><text x="0" y="-8">{{.Y}}</text>
{{range $i, $l := .Lines}}<polyline points="{{$l.Points}}" fill="none" stroke="{{$l.Colour}}" stroke-width="2"/><text x="655" y="0" dy="{{$i}}.2em" style="font-size:14px" fill="{{$l.Colour}}">{{$l.Name}}</text>
{{range .Marks}}<g stroke="{{$l.Colour}}" stroke-width="2" fill="{{if .Kind}}#fff{{else}}{{$l.Colour}}{{end}}">{{if eq .Kind "source-limited"}}<path class="bound" d="M{{.X}} {{.Y}}m0 -6l6 10h-12z"/>{{else if eq .Kind "INVALID"}}<path class="none" d="M{{.X}} {{.Y}}m-5 -5l10 10m0 -10l-10 10"/>{{else if .Kind}}<circle class="again" cx="{{.X}}" cy="{{.Y}}" r="4"/>{{else}}<circle cx="{{.X}}" cy="{{.Y}}" r="3"/>{{end}}<title>{{.What}}</title></g>
{{end}}{{end}}</svg>
{{with .Legend}}<p class="legend">{{.}}</p>
{{end}}{{end}}<h2>Latency</h2>
<table><thead><tr><th>frame B</th><th>load</th><th>fps</th><th>lost</th><th>min us</th><th>p50</th><th>p99</th><th>p99.9</th><th>max</th><th>variation us</th><th>mark</th></tr></thead><tbody>
{{range .Report.Sizes}}{{$size := .}}{{range .Latency}}<tr><td>{{$size.Size}}</td><td>{{pc .Share}}</td><td>{{n .Rate}}</td><td>{{loss .Loss}}</td><td>{{us .Least}}</td><td>{{us .P50}}</td><td>{{us .P99}}</td><td>{{us .P999}}</td><td>{{us .Most}}</td><td>{{us .PDV}}</td><td{{if $size.Invalid}} class="invalid"{{end}}>{{$size.LatencyMarks .}}</td></tr>
{{end}}{{end}}</tbody></table>
<p>Latency is of every frame, from the source's clock reading before it is sent to the sink's program at reception, so it has the machine's own share. The variation is the 99.9th percentile less the least (RFC 8219, 7.3.1).
≥ is before a lower bound: the source, not the device, set it.
The buffer in frames is the longest burst without loss, less what the device forwards meanwhile at its throughput; its time is how long such a burst takes to fill it. RFC 9004, 6.4, takes bursts at the line's rate for granted; here the
rate is the one at which the source hands frames to the interface, as a source in software sends bursts more slowly; a burst of one batch counts as sent at the line's rate.</p>
</body></html>
`))
