package text

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/internal/plural"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// Write writes the answer to a question of a kind, as query.Engine.Ask and api.Client.Ask return it.
func Write(w io.Writer, of query.Kind, answer any) error {
	switch a := answer.(type) {
	case *query.Volume:
		return printVolume(w, a)
	case *query.Frequency:
		return printFrequency(w, a)
	case *query.HeavyHitters:
		return printHeavyHitters(w, a)
	case *query.Entropy:
		return printEntropy(w, a)
	case *query.Cardinality:
		return printCardinality(w, a)
	case *query.Target:
		return printTarget(w, a)
	case *query.Between:
		if of == query.KindLoss {
			return printLoss(w, a)
		}
		return printDelay(w, a)
	case *query.Network:
		return printNetwork(w, a)
	case *query.PathAnswer:
		return printPath(w, a)
	case *query.LatencyAnswer:
		return printLatency(w, a)
	case *query.CongestionAnswer:
		return printCongestion(w, a)
	case *query.LoopsAnswer:
		return printLoops(w, a)
	case *query.Series:
		return printSeries(w, a)
	}
	return fmt.Errorf("an answer of type %T has no text", answer)
}

// lacks says that records or packets are missing, and not only the beginning or the end of a run.
func lacks(m store.Missing) bool {
	m.Partial, m.Switch, m.Of, m.Instance, m.Point = 0, "", "", 0, ""
	return m != store.Missing{}
}

// within writes a value with its bounds.
func within(b query.Bounded, on *query.Basis) string {
	switch {
	case b.Low == b.High && slices.ContainsFunc(on.Missing, lacks):
		return fmt.Sprintf("%.0f (exact, of what was measured)", b.Value)
	case b.Low == b.High:
		return fmt.Sprintf("%.0f (exact)", b.Value)
	}
	return fmt.Sprintf("%.0f (%.0f to %.0f)", b.Value, b.Low, b.High)
}

// lines writes lines of text, and below them what the answer rests on.
func lines(w io.Writer, b *query.Basis, text ...string) error {
	text = append(text, "", "from "+b.String())
	for _, m := range Missing(b.Missing) {
		text = append(text, "missing: "+m)
	}
	_, err := fmt.Fprintln(w, strings.Join(text, "\n"))
	return err
}

// mostMissing is how many instances of a switch have a line each in Missing.
const mostMissing = 4

// Missing names what is known to be missing, and no more, in a line for each instance, or for all of a switch where these are many, as are
// classes of traffic. Absent slices of fragments are reported by each answer itself.
func Missing(list []store.Missing) (text []string) {
	for len(list) > 0 {
		if why := list[0].Unreached; why != "" {
			where := fmt.Sprintf("%s of partition %d", list[0].Of, list[0].Instance)
			if list[0].Of == store.OfRegion {
				where = "region " + list[0].Region
			}
			text = append(text, where+": "+why)
			list = list[1:]
			continue
		}
		n := slices.IndexFunc(list, func(m store.Missing) bool {
			return m.Switch != list[0].Switch || m.Of != list[0].Of || m.Region != list[0].Region || m.Unreached != ""
		})
		if n < 0 {
			n = len(list)
		}
		same := list[:n]
		list = list[n:]
		if len(same) > mostMissing {
			text = append(text, fmt.Sprintf("switch %s, up to %d instances of %s, each: %s", same[0].Switch, len(same), same[0].Of, missing(same...)))
			continue
		}
		for _, m := range same {
			where := m.Of
			if m.Switch != "" {
				where = fmt.Sprintf("switch %s, %s %d", m.Switch, m.Of, m.Instance)
			}
			if m.Point != "" {
				where = m.Point
			}
			if m.Region != "" {
				where = fmt.Sprintf("region %s, %s", m.Region, where)
			}
			text = append(text, where+": "+missing(m))
		}
	}
	return text
}

// missing writes the range of each count over the instances in which it is not 0.
func missing(list ...store.Missing) string {
	var what []string
	for _, p := range []struct {
		n    func(m *store.Missing) uint64
		text string
	}{
		{func(m *store.Missing) uint64 { return uint64(m.Absent) }, "slices absent"},
		{func(m *store.Missing) uint64 { return uint64(m.Partial) }, "slices in part"},
		{func(m *store.Missing) uint64 { return m.Packets }, "packets not measured"},
		{func(m *store.Missing) uint64 { return m.Lost }, "records lost on their way"},
		{func(m *store.Missing) uint64 { return m.Evicted }, "records that had to make room"},
		{func(m *store.Missing) uint64 { return m.Skewed }, "records left out, as the switch's clock is ahead"},
		{func(m *store.Missing) uint64 { return m.Disputed }, "records left out, as most switches have another shape or hash"},
		{func(m *store.Missing) uint64 { return m.Surplus }, "packets counted that its samples do not account for (identical, repeated, or chosen not to be sampled)"},
		{func(m *store.Missing) uint64 { return m.Excess }, "packets that its samples account for and it did not count (chosen for their ranks, or forged)"},
	} {
		low, high := uint64(math.MaxUint64), uint64(0)
		for i := range list {
			if n := p.n(&list[i]); n > 0 {
				low, high = min(low, n), max(high, n)
			}
		}
		switch {
		case high == 0:
		case low == high:
			what = append(what, fmt.Sprintf("%d %s", high, p.text))
		default:
			what = append(what, fmt.Sprintf("%d to %d %s", low, high, p.text))
		}
	}
	return strings.Join(what, ", ")
}

// Absent writes a line for each fragment of a sketch of which epochs are missing.
func Absent(list []query.Absent) (text []string) {
	epochs := map[string][]string{}
	var order []string
	for _, a := range list {
		if epochs[a.Fragment] == nil {
			order = append(order, a.Fragment)
		}
		epochs[a.Fragment] = append(epochs[a.Fragment], fmt.Sprint(a.Epoch))
	}
	slices.Sort(order)
	for _, fragment := range order {
		what := fragment
		if what == "" {
			what = "the path"
		}
		text = append(text, fmt.Sprintf("missing: %s, whole or in part, of epochs %s", what, strings.Join(epochs[fragment], ", ")))
	}
	return text
}

// WriteCounts writes what happened to records that were read, where some were refused; else nothing.
func WriteCounts(w io.Writer, c store.Counts) error {
	if c.Unreadable+c.Conflicts+c.Duplicates+c.Unkeyed == 0 {
		return nil
	}
	unkeyed := ""
	if c.Unkeyed != 0 {
		unkeyed = fmt.Sprintf(", %d under a network key that is not loaded (--key)", c.Unkeyed)
	}
	_, err := fmt.Fprintf(w, "records: %d taken, %d duplicates, %d in conflict with others, %d unreadable%s\n", c.Records, c.Duplicates, c.Conflicts, c.Unreadable, unkeyed)
	return err
}

func printVolume(w io.Writer, v *query.Volume) error {
	t := NewTable("switch", ">packets", ">bytes (wire)")
	for _, s := range v.PerSwitch {
		t.Row(s.Switch, s.Packets, s.Bytes)
	}
	t.Row("sum over switches", v.NaivePackets, v.NaiveBytes)
	if err := t.Write(w); err != nil {
		return err
	}
	packets, bytes := within(v.Packets, &v.Basis), within(v.Bytes, &v.Basis)
	var text []string
	if v.Flows != "" {
		text = append(text, "", v.Flows+":")
		packets += ", " + ofAll(v.Share.Packets)
		bytes += ", " + ofAll(v.Share.Bytes)
	}
	return lines(w, &v.Basis, append(text, "", "packets, each counted once: "+packets, "bytes, each counted once:   "+bytes)...)
}

// ofAll writes a share with its bounds.
func ofAll(b query.Bounded) string {
	bounds := "exact"
	if b.Low != b.High {
		bounds = fmt.Sprintf("%.3g to %.3g %%", 100*b.Low, 100*b.High)
	}
	return fmt.Sprintf("%.3g %% of all (%s)", 100*b.Value, bounds)
}

func printFrequency(w io.Writer, f *query.Frequency) error {
	fmt.Fprintln(w, f.Flow)
	if s := f.Sample; s != nil {
		if err := lines(w, &s.Basis, "", "by the network-wide sample:", "packets: "+within(s.Packets, &s.Basis), "bytes:   "+within(s.Bytes, &s.Basis)); err != nil {
			return err
		}
	}
	if s := f.Sketch; s != nil {
		text := []string{"", "by the fragments on the path " + strings.Join(s.Path, ", ") + ":",
			s.Unit + ": " + within(s.Bounded, &s.Basis), fmt.Sprintf("covered: %.1f %% of the time", 100*s.Covered)}
		if s.Rounded > 0 {
			text = append(text, fmt.Sprintf("rounded: cells of records are, to keep within the budget, which adds %.4g to the error", s.Rounded))
		}
		if err := lines(w, &s.Basis, append(text, Absent(s.Absent)...)...); err != nil {
			return err
		}
	}
	for _, fault := range f.Faults {
		fmt.Fprintln(w, "\nnot known:", fault)
	}
	return nil
}

func printHeavyHitters(w io.Writer, h *query.HeavyHitters) error {
	columns := []string{"flow", ">" + h.Unit, ">at least", ">at most", ">share"}
	if h.At != "" {
		columns = append(columns, ">trust")
	}
	t := NewTable(columns...)
	for _, f := range h.Flows {
		row := []any{f.Flow, fmt.Sprintf("%.0f", f.Value), fmt.Sprintf("%.0f", f.Low), fmt.Sprintf("%.0f", f.High), fmt.Sprintf("%.2f %%", 100*f.Share)}
		if f.Trust != nil {
			row = append(row, fmt.Sprintf("%.2f", *f.Trust))
		}
		t.Row(row...)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	by := fmt.Sprintf("by the %s: ", h.By)
	if h.At != "" {
		by = fmt.Sprintf("by the %s %s, of %d candidates: ", h.By, h.At, h.Candidates)
	}
	found := len(h.Flows) + h.More
	text := []string{"", by + fmt.Sprintf("%s of at least %.4g %% of %s %s", plural.Counted(found, "flow"), 100*(h.Theta-h.Epsilon/2), within(h.Volume, &h.Basis), h.Unit)}
	if h.Volume.Value == 0 {
		text[1] = by + plural.Counted(found, "flow")
	}
	if h.By != query.BySketch {
		text = append(text, promise(h))
	}
	text = append(text, more(h.More, "flows")...)
	if h.Unlocated > 0 {
		text = append(text, fmt.Sprintf("%d more flows are named, but their paths are not known", h.Unlocated))
	}
	return lines(w, &h.Basis, append(text, Absent(h.Absent)...)...)
}

// promise says what the sample's answer guarantees.
func promise(h *query.HeavyHitters) string {
	here, nothing := "here", fmt.Sprintf("samples as good as %d entries guarantee nothing", h.EffectiveSize)
	if h.At != "" {
		here, nothing = "here if they are candidates", "the point's cells guarantee nothing"
	}
	outer := fmt.Sprintf("all of %.3g %% or more are %s, and none below %.3g %%, except with probability %.3g", 100*h.Theta, here, 100*(h.Theta-h.Epsilon), h.Delta)
	switch {
	case h.At == "" && h.EffectiveSize == 0 && !h.Guaranteed:
		return "switches did not measure all packets, packets came again, or samples and the switches' own counts disagree otherwise: by the estimates, nothing is guaranteed"
	case h.At == "" && h.EffectiveSize == 0:
		return "nothing was left out of the samples, so the answer is exact"
	case h.Guaranteed:
		return outer
	case h.LeastEpsilon != nil:
		return fmt.Sprintf("by the estimates: flows near the limit may be missing, or too many; --epsilon %.3g or more is guaranteed", math.Ceil(*h.LeastEpsilon*1e6)/1e6)
	}
	return fmt.Sprintf("by the estimates: flows near the limit may be missing, or too many; %s for this theta and delta", nothing)
}

func printEntropy(w io.Writer, e *query.Entropy) error {
	text := []string{
		fmt.Sprintf("entropy of %s: %.4f bits (%.4f to %.4f)", e.Unit, e.Bits.Value, e.Bits.Low, e.Bits.High),
		"flows: " + within(e.Flows, &e.Basis),
		"F2:    " + within(e.F2, &e.Basis),
		fmt.Sprintf("candidates: %d flows, %d of them without a known path", e.Candidates, e.Unlocated),
	}
	if u := e.Uncounted; u != nil {
		text = append(text, fmt.Sprintf("not counted: %.0f %s (%.0f to %.0f), for which the bounds allow", u.Value, e.Unit, u.Low, u.High))
	}
	return lines(w, &e.Basis, append(text, Absent(e.Absent)...)...)
}

func printCardinality(w io.Writer, c *query.Cardinality) error {
	return lines(w, &c.Basis, "flows: "+within(c.Flows, &c.Basis))
}

func printTarget(w io.Writer, a *query.Target) error {
	t := NewTable("switch", ">subepochs", ">estimated error")
	for _, f := range a.Fragments {
		t.Row(f.Switch, f.Subepochs, fmt.Sprintf("%.4g", f.Error))
	}
	if err := t.Write(w); err != nil {
		return err
	}
	return lines(w, &a.Basis, append([]string{"", fmt.Sprintf("target of sketch %d: %.4g %s per subepoch, from %d epochs and %d paths; set it as target of that fragment on all switches",
		a.Sketch, a.Rho, a.Unit, a.Epochs, a.Paths)}, more(a.More, "fragments")...)...)
}

// Nanoseconds writes a length of time of ns nanoseconds, to a tenth of a microsecond.
func Nanoseconds(ns float64) string { return time.Duration(ns).Round(100 * time.Nanosecond).String() }

// way names what was compared.
func way(b *query.Between) string {
	flow := b.Flow
	if flow == "" {
		flow = "all flows"
	}
	unlike := ""
	if b.Unlike > 0 {
		unlike = fmt.Sprintf(", %d counted in different rows, so not compared", b.Unlike)
	}
	idle := ""
	if b.Idle > 0 {
		idle = fmt.Sprintf("; nothing passed in %d more", b.Idle)
	}
	return fmt.Sprintf("%s to %s, %s, in %s (%d whole%s%s)", b.From, b.To, flow, plural.Counted(b.Intervals, "interval"), b.Whole, unlike, idle)
}

// delayWithin writes a delay with its bounds, unless these are equal in all digits that are written.
func delayWithin(b query.Bounded) string {
	value, low, high := Nanoseconds(b.Value), Nanoseconds(b.Low), Nanoseconds(b.High)
	if low == high && value == low {
		return value + " (bounds within its last digit)"
	}
	return fmt.Sprintf("%s (%s to %s)", value, low, high)
}

func printDelay(w io.Writer, b *query.Between) error {
	delay := "delay: not known, no cell of the sketch survived"
	if b.HasDelay {
		delay = "mean delay: " + delayWithin(b.Delay)
		if b.Delay.Low == b.Delay.High {
			delay = fmt.Sprintf("mean delay: %s, by %.0f packets that were measured, without bounds for others", Nanoseconds(b.Delay.Value), b.Sampled)
		}
		if b.StdNs > 0 {
			delay += ", single packets vary by " + Nanoseconds(b.StdNs)
		}
		delay += fmt.Sprintf("; trust %.2f", b.Trust)
	}
	text := append([]string{way(b), delay}, named(b, false)...)
	if len(b.Quantiles) > 0 {
		line := fmt.Sprintf("single packets, of %d:", b.Samples)
		for _, q := range b.Quantiles {
			line += fmt.Sprintf(" p%g %s,", 100*q.Rank, delayWithin(q.Bounded))
		}
		text = append(text, strings.TrimSuffix(line, ","))
	}
	text = append(text, ways(b, false)...)
	text = append(text, segments(b, false)...)
	if b.Clocks != nil {
		text = append(text, Clocks(b.Clocks)...)
	}
	text = append(text, fmt.Sprintf("cells refused: %d of %d", b.Refused, b.Cells))
	return lines(w, &b.Basis, append(text, kept(b)...)...)
}

// named are lines of the flows that the question names.
func named(b *query.Between, losses bool) (text []string) {
	for i := range b.Flows {
		f := &b.Flows[i]
		value := "not known: " + cmp.Or(f.Why, "no cell of it survived")
		switch {
		case losses && f.HasLoss:
			value = fmt.Sprintf("%.0f lost of %.0f", f.Lost, f.Packets)
		case losses && f.Why == "":
			value = "not known: no interval was counted whole by both points"
		case !losses && f.HasDelay:
			value = "mean " + delayWithin(f.Delay)
		}
		text = append(text, "  "+f.Flow+": "+value)
	}
	return text
}

// ways are lines of the ways that were compared, if they are several.
func ways(b *query.Between, losses bool) (text []string) {
	if len(b.Ways) < 2 {
		return nil
	}
	for i := range b.Ways {
		w := &b.Ways[i]
		value := "no cell of the sketch survived"
		switch {
		case losses && w.HasLoss:
			value = fmt.Sprintf("%.0f lost of %.0f", w.Lost, w.Packets)
		case losses && w.Why == "":
			value = "not known, and not in the sum: no interval was counted whole by both points"
		case losses:
			value = "not known, and not in the sum: " + w.Why
		case w.HasDelay:
			value = "mean " + Nanoseconds(w.Delay.Value)
		}
		text = append(text, fmt.Sprintf("  by %s to %s: %s", w.From, w.To, value))
	}
	return text
}

// kept says by how much records are shortened.
func kept(b *query.Between) (text []string) {
	if b.Kept < 1 {
		text = append(text, fmt.Sprintf("records are shortened (record_bytes, budget): they have at least %.3g %% of the cells, so flows share more of them, or are left out", 100*b.Kept))
	}
	if b.Unsent > 0 {
		text = append(text, fmt.Sprintf("of the flow they have nothing in %d intervals", b.Unsent))
	}
	return text
}

// segments are lines of the pieces of a flow's path.
func segments(b *query.Between, losses bool) (text []string) {
	sum, all := 0.0, !losses && len(b.Segments) > 0 && b.HasDelay
	for i := range b.Segments {
		s := &b.Segments[i]
		name, value := s.From+" to "+s.To, "not known: "+s.Why
		if s.From == s.To {
			name = "inside " + s.From
			if losses {
				continue // no system counts there
			}
		}
		switch {
		case losses && s.HasLoss:
			value = fmt.Sprintf("%.0f lost", s.Lost)
		case losses && s.Why == "":
			value = "not known: no interval was counted whole by both points"
		case !losses && s.By != "":
			value = "mean " + delayWithin(s.Delay)
			if s.Slowest {
				value += ", the slowest"
			}
		}
		text = append(text, "  "+name+": "+value)
		sum += s.Delay.Value
		all = all && s.By != ""
	}
	if all {
		// Two systems that know nothing of each other: PINT inside of switches, LDS on the links, and LDS over the whole way.
		text = append(text, fmt.Sprintf("  the means together: %s, %+.1f %% of the delay from end to end", Nanoseconds(sum), 100*(sum/b.Delay.Value-1)))
	}
	return text
}

// Clocks says, in lines, how far the receiver's clock is ahead.
func Clocks(c *query.Clocks) (text []string) {
	offset := "clock offset: at most " + Nanoseconds(c.OffsetNs.High) + " (nothing was measured the other way)"
	if c.HasOffset {
		offset = fmt.Sprintf("clock offset: %s (%s to %s, by the smallest delays of both directions)",
			Nanoseconds(c.OffsetNs.Value), Nanoseconds(c.OffsetNs.Low), Nanoseconds(c.OffsetNs.High))
	}
	if text = append(text, offset); c.Warning != "" {
		text = append(text, "warning: "+c.Warning)
	}
	return text
}

func printLoss(w io.Writer, b *query.Between) error {
	loss := "loss: not known, " + cmp.Or(b.Why, "no interval was counted whole by both points")
	if b.HasLoss {
		loss = fmt.Sprintf("packets lost: %.0f", b.Lost)
		switch {
		case b.HasBytes:
			loss += fmt.Sprintf(" of %.0f with %.0f bytes; trust %.2f", b.Packets, b.Bytes, b.CountTrust)
		case b.HasPackets:
			loss += fmt.Sprintf(" of %.0f", b.Packets)
		}
		if b.Whole < b.Intervals {
			// Beside an interval that is left out, packets under way count as lost or as too many.
			loss += fmt.Sprintf("; in %d of the %d intervals with packets, which both points counted whole", b.Whole, b.Intervals)
		}
	}
	text := slices.Concat([]string{way(b), loss}, named(b, true), ways(b, true))
	if b.HasLoss && b.Lost < 0 {
		text = append(text, "  more packets arrived than had left: some fell into another interval on the way, which interval_bit of both stages prevents")
	}
	unnamed := b.Lost
	for _, f := range b.LostFlows {
		text = append(text, fmt.Sprintf("  %d of %s", f.Lost, f.Flow))
		unnamed -= float64(f.Lost)
	}
	text = append(text, more(b.MoreLost, "flows that lost packets")...)
	if b.AllNamed && b.MoreLost == 0 && unnamed > 0 && b.Flow == "" {
		text = append(text, fmt.Sprintf("  %.0f of flows without a name here: of IPv6, or fragments", unnamed))
	}
	if b.MoreUnnamed {
		text = append(text, "  more flows lost packets than lost_flows of the stages has room for, or one lost more than 4,096 in an interval")
		if l := b.Losing; l != nil {
			text = append(text, fmt.Sprintf("  about %.0f flows lost packets (%.0f to %.0f): of one flow of %d, by a hash, all that did are named", l.Value, l.Low, l.High, b.LosingOf))
		}
	}
	return lines(w, &b.Basis, append(text, segments(b, true)...)...)
}
