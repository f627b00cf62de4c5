package text

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/query"
)

// digestLines says which digests an answer rests on: of listed flows alone, where it lists fewer than there are.
func digestLines(d *query.DigestBasis, listed int) []string {
	of := ""
	if listed < d.FlowCount {
		of = fmt.Sprintf("of the %d listed here ", listed)
	}
	text := []string{"", fmt.Sprintf("%s: %d with a digest, %s%d digests of plan %d, %d of use to its query %s", d.Of, d.FlowCount, of, d.Digests, d.Plan, d.Used, d.Query)}
	if d.Share < 1 {
		text = append(text, fmt.Sprintf("a budget left out digests: records have those of %.3g %% of the packets, and what the sinks read", 100*d.Share))
	}
	if d.Counted > 0 {
		text = append(text, fmt.Sprintf("values at hops are of %.3g %% of the packets, as sinks counted them; bounds hold whatever the others met", 100*d.Counted))
	}
	if d.Read < 1 {
		text = append(text, fmt.Sprintf("of packets from edge to edge of one switch, sinks read %.3g %%: their numbers are estimates", 100*d.Read))
	}
	if d.LeftOut > 0 {
		text = append(text, fmt.Sprintf("missing: %d packets of flows that sinks do not list", d.LeftOut))
	}
	if d.OtherPlans > 0 {
		text = append(text, fmt.Sprintf("missing: %d digests of other plans", d.OtherPlans))
	}
	return text
}

// more says what a limit left out.
func more(n int, of string) []string {
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d more %s are left out: see them with --limit", n, of)}
}

// sure says how certain a path is.
func sure(f *query.FlowPath) string {
	switch {
	case f.Certain:
		return fmt.Sprintf("yes (%.2g)", f.Doubt)
	case f.Known:
		return fmt.Sprintf("not yet (%.2g)", f.Doubt)
	}
	return "no"
}

// hops writes a path; a hop of which several switches are left is their number.
func hops(path []query.PathHop) string {
	var names []string
	for _, h := range path {
		switch {
		case h.Switch != "":
			names = append(names, h.Switch)
		case h.Candidates > 0:
			names = append(names, fmt.Sprintf("1 of %d", h.Candidates))
		default:
			names = append(names, "?")
		}
	}
	return strings.Join(names, " > ")
}

func printPath(w io.Writer, a *query.PathAnswer) error {
	t := NewTable("flow", ">packets", "known (doubt)", "path")
	var notes []string
	for i := range a.Flows {
		f := &a.Flows[i]
		t.Row(f.Flow, f.Packets, sure(f), hops(f.Hops))
		if len(f.Passages) > 1 {
			notes = append(notes, f.Flow+" changed its path:")
			for _, p := range f.Passages {
				way := strings.Join(p.Switches, " > ")
				if way == "" {
					way = "not known"
				}
				notes = append(notes, fmt.Sprintf("  for %v: %s", time.Duration(p.ToNs-p.FromNs).Round(time.Microsecond), way))
			}
		}
		if len(f.Parallel) > 1 {
			notes = append(notes, fmt.Sprintf("%s takes %d paths at once:", f.Flow, len(f.Parallel)))
			for _, p := range f.Parallel {
				way, sure := strings.Join(p.Switches, " > "), "not yet"
				if way == "" {
					way = "not known"
				}
				if p.Certain {
					sure = "certain"
				}
				notes = append(notes, fmt.Sprintf("  %d packets, %s: %s", p.Packets, sure, way))
			}
		}
		if f.Strays > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d digests contradict the path", f.Flow, f.Strays))
		}
	}
	if err := t.Write(w); err != nil {
		return err
	}
	text := append(digestLines(&a.DigestBasis, len(a.Flows)), notes...)
	return lines(w, &a.Basis, append(text, more(a.More, "flows")...)...)
}

// measure writes values of a unit.
type measure string

func (m measure) value(x float64) string {
	switch m {
	case "ns":
		return Nanoseconds(x)
	case "share of the link":
		return fmt.Sprintf("%.2f %%", 100*x)
	case "percent":
		return fmt.Sprintf("%.2f %%", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// quantile writes a quantile with its bounds.
func (m measure) quantile(q query.QuantileValue) string {
	high := m.value(q.High)
	if q.Open {
		high = "?"
	}
	return fmt.Sprintf("%s (%s to %s)", m.value(q.Value), m.value(q.Low), high)
}

// ranks titles the columns of quantiles.
func ranks(list []query.QuantileValue) (titles []string) {
	for _, q := range list {
		titles = append(titles, fmt.Sprintf(">p%.4g", 100*q.Rank))
	}
	return titles
}

func (m measure) quantiles(list []query.QuantileValue) (cells []any) {
	for _, q := range list {
		cells = append(cells, m.quantile(q))
	}
	return cells
}

// hopTable lists hops, or switches.
func (m measure) hopTable(list []query.HopStats) *Table {
	titles := []string{"switch", ">flows", ">samples"}
	ofFlow := slices.ContainsFunc(list, func(h query.HopStats) bool { return h.Hop > 0 })
	if ofFlow {
		titles = append([]string{">hop"}, titles...)
	}
	if len(list) > 0 {
		titles = append(titles, ranks(list[0].Quantiles)...)
	}
	if slices.ContainsFunc(list, func(h query.HopStats) bool { return len(h.Frequent) > 0 }) {
		titles = append(titles, "frequent values")
	}
	t := NewTable(titles...)
	for _, h := range list {
		hop, sw := fmt.Sprint(h.Hop), h.Switch
		if h.Hop == 0 {
			hop = ""
		}
		if sw == "" {
			sw = "?"
		}
		row := append([]any{sw, h.Flows, h.Samples}, m.quantiles(h.Quantiles)...)
		if ofFlow {
			row = append([]any{hop}, row...)
		}
		if len(row) < len(titles) {
			row = append(row, m.frequent(h.Frequent))
		}
		t.Row(row...)
	}
	return t
}

// shownFrequent is how many frequent values of a hop are printed.
const shownFrequent = 3

// frequent writes values with the bounds of their shares.
func (m measure) frequent(list []query.FrequentValue) string {
	var cells []string
	for _, f := range list[:min(shownFrequent, len(list))] {
		cells = append(cells, fmt.Sprintf("%s: %.3g %% (%.3g to %.3g)", m.value(f.Value), 100*f.Share.Value, 100*f.Share.Low, 100*f.Share.High))
	}
	return strings.Join(cells, ", ")
}

// packetTable lists what packets tell, of all flows and of each.
func (m measure) packetTable(all *query.ValueStats, flows []query.FlowValues) *Table {
	t := NewTable(append([]string{"flow", ">samples"}, ranks(all.Quantiles)...)...)
	t.Row(append([]any{"all together", all.Samples}, m.quantiles(all.Quantiles)...)...)
	for _, f := range flows {
		t.Row(append([]any{f.Flow, f.Samples}, m.quantiles(f.Quantiles)...)...)
	}
	return t
}

// coded says how exact a code is.
func (m measure) coded(epsilon, delta float64) (text []string) {
	if epsilon > 0 {
		text = append(text, fmt.Sprintf("values by a code of %.3g %% error", 100*epsilon))
	}
	if delta > 0 {
		text = append(text, fmt.Sprintf("values by a code of %s error", m.value(delta)))
	}
	return text
}

func printLatency(w io.Writer, a *query.LatencyAnswer) error {
	unit, of := measure(a.Unit), "hops"
	t := unit.hopTable(a.Hops)
	if a.Packets.Samples > 0 {
		t, of = unit.packetTable(&a.Packets, a.Flows), "flows"
	}
	if err := t.Write(w); err != nil {
		return err
	}
	text := append(digestLines(&a.DigestBasis, a.FlowCount), a.Value+", "+packetsTell(a.Aggregation))
	text = append(text, unit.coded(a.Epsilon, a.Delta)...)
	if a.Unlocated > 0 {
		text = append(text, fmt.Sprintf("%d flows are left out, as their paths are not known", a.Unlocated))
	}
	return lines(w, &a.Basis, append(text, more(a.More, of)...)...)
}

func printCongestion(w io.Writer, a *query.CongestionAnswer) error {
	unit := measure(a.Unit)
	if err := unit.packetTable(&a.Packets, a.Flows).Write(w); err != nil {
		return err
	}
	if len(a.Hops) > 0 {
		fmt.Fprintln(w)
		if err := unit.hopTable(a.Hops).Write(w); err != nil {
			return err
		}
	}
	if len(a.Links) > 0 {
		fmt.Fprintln(w)
		t := NewTable("link", ">flows", ">median at most", "by the flow")
		for _, l := range a.Links {
			most := unit.value(l.AtMost)
			if l.Open {
				most = "?"
			}
			to := l.To
			if to == "" {
				to = "out"
			}
			t.Row(l.From+" > "+to, l.Flows, most, l.Flow)
		}
		if err := t.Write(w); err != nil {
			return err
		}
	}
	text := append(digestLines(&a.DigestBasis, a.FlowCount), a.Value+", "+packetsTell(a.Aggregation))
	text = append(text, unit.coded(a.Epsilon, a.Delta)...)
	return lines(w, &a.Basis, append(text, more(a.More, "flows")...)...)
}

// packetsTell says what a packet's value is.
func packetsTell(aggregation string) string {
	switch aggregation {
	case "quantiles", "frequent":
		return "of one hop of each packet"
	case "slow_hops":
		return "the number of slow hops of each packet"
	}
	return aggregation + " over the hops of each packet"
}

func printLoops(w io.Writer, a *query.LoopsAnswer) error {
	if len(a.Flows) > 0 {
		t := NewTable("flow", ">reported", ">marked", ">packets", ">doubt", "passes twice", "reported by")
		for _, f := range a.Flows {
			t.Row(f.Flow, f.Reported, f.Marked, f.Packets, fmt.Sprintf("%.2g", f.Doubt), strings.Join(f.Repeated, ", "), strings.Join(f.By, ", "))
		}
		if err := t.Write(w); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(w, "no flow is known to loop"); err != nil {
		return err
	}
	text := append(digestLines(&a.DigestBasis, a.FlowCount), fmt.Sprintf("packets that switches found to loop: %d", a.Reported),
		fmt.Sprintf("of %d packets that arrived, %d look so; up to %.4g would without any loop", a.Packets, a.Marked, a.ByChance))
	return lines(w, &a.Basis, append(text, more(a.More, "flows")...)...)
}

// clockTime is a moment of the switches' clock, CLOCK_TAI, in UTC by this machine's offset of the two.
func clockTime(tai int64) time.Time { return time.Unix(0, tai-clock.UTCOffset()).UTC() }

// printSeries writes a line for each piece of time.
func printSeries(w io.Writer, s *query.Series) error {
	titles := []string{"clock (UTC)", ">from"}
	for _, p := range s.Points {
		for _, v := range p.Values {
			titles = append(titles, fmt.Sprintf(">%s (%s)", v.Name, v.Unit), ">at least", ">at most")
		}
		if len(p.Values) > 0 {
			break
		}
	}
	t := NewTable(append(titles, "")...)
	for _, p := range s.Points {
		row := []any{clockTime(p.From).Format("15:04:05.000"), "+" + time.Duration(p.From-s.From).Round(time.Millisecond).String()}
		for _, v := range p.Values {
			row = append(row, fmt.Sprintf("%.6g", v.Value), fmt.Sprintf("%.6g", v.Low), fmt.Sprintf("%.6g", v.High))
		}
		for len(row) < len(titles) {
			row = append(row, "")
		}
		t.Row(append(row[:len(titles)], p.Fault)...)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	text := []string{"", fmt.Sprintf("%s in steps of %v, the first at %s, %d ns of the switches' clock", s.Of, time.Duration(s.StepNs), clockTime(s.From).Format(time.RFC3339Nano), s.From)}
	if s.Of == query.KindVolume || s.Of == query.KindFrequency {
		text = append(text, "packets that are under way from one switch to another where a step ends are in both steps, so that steps add up to more than the whole window has")
	}
	if s.Of == query.KindLoss || s.Of == query.KindDelay {
		text = append(text, "without interval_bit at both points, packets that are under way where a step ends look lost in it, and the next has as many too many (below 0): judge a loss by the whole window, or set interval_bit")
	}
	return lines(w, &s.Basis, text...)
}
