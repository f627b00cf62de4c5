package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// printAnswer makes a printer of answers of one type a printer of any.
func printAnswer[A any](print func(io.Writer, *A) error) func(io.Writer, any) error {
	return func(w io.Writer, answer any) error { return print(w, answer.(*A)) }
}

// within writes a value with its bounds.
func within(b query.Bounded) string {
	if b.Low == b.High {
		return fmt.Sprintf("%.0f (exact)", b.Value)
	}
	return fmt.Sprintf("%.0f (%.0f to %.0f)", b.Value, b.Low, b.High)
}

// lines writes lines of text, and below them what the answer rests on.
func lines(w io.Writer, b *query.Basis, text ...string) error {
	text = append(text, "", "from "+b.String())
	for _, m := range b.Missing {
		text = append(text, "missing: "+missing(m))
	}
	_, err := fmt.Fprintln(w, strings.Join(text, "\n"))
	return err
}

func missing(m store.Missing) string {
	return fmt.Sprintf("switch %s, %s %d: %d slices absent, %d in part, %d packets not measured", m.Switch, m.Of, m.Instance, m.Absent, m.Partial, m.Packets)
}

// absent writes a line for each fragment.
func absent(list []query.Absent) (text []string) {
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

func printCounts(w io.Writer, c store.Counts) error {
	if c.Unreadable+c.Conflicts+c.Duplicates == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "records: %d taken, %d duplicates, %d in conflict with others, %d unreadable\n", c.Records, c.Duplicates, c.Conflicts, c.Unreadable)
	return err
}

func printVolume(w io.Writer, v *query.Volume) error {
	t := newTable("switch", ">packets", ">bytes")
	for _, s := range v.PerSwitch {
		t.row(s.Switch, s.Packets, s.Bytes)
	}
	t.row("sum over switches", v.NaivePackets, v.NaiveBytes)
	if err := t.write(w); err != nil {
		return err
	}
	return lines(w, &v.Basis, "",
		"packets, each counted once: "+within(v.Packets),
		"bytes, each counted once:   "+within(v.Bytes))
}

func printFrequency(w io.Writer, f *query.Frequency) error {
	fmt.Fprintln(w, f.Flow)
	if s := f.Sample; s != nil {
		if err := lines(w, &s.Basis, "", "by the network-wide sample:", "packets: "+within(s.Packets), "bytes:   "+within(s.Bytes)); err != nil {
			return err
		}
	}
	if s := f.Sketch; s != nil {
		text := []string{"", "by the fragments on the path " + strings.Join(s.Path, ", ") + ":",
			s.Unit + ": " + within(s.Bounded), fmt.Sprintf("covered: %.1f %% of the time", 100*s.Covered)}
		if err := lines(w, &s.Basis, append(text, absent(s.Absent)...)...); err != nil {
			return err
		}
	}
	for _, fault := range f.Faults {
		fmt.Fprintln(w, "\nnot known:", fault)
	}
	return nil
}

func printHeavyHitters(w io.Writer, h *query.HeavyHitters) error {
	t := newTable("flow", ">"+h.Unit, ">at least", ">at most", ">share")
	for _, f := range h.Flows {
		t.row(f.Flow, fmt.Sprintf("%.0f", f.Value), fmt.Sprintf("%.0f", f.Low), fmt.Sprintf("%.0f", f.High), fmt.Sprintf("%.2f %%", 100*f.Share))
	}
	if err := t.write(w); err != nil {
		return err
	}
	text := []string{"", fmt.Sprintf("by the %s: %d flows of at least %g %% of %s %s", h.By, len(h.Flows), 100*h.Theta, within(h.Volume), h.Unit)}
	if h.Volume.Value == 0 {
		text[1] = fmt.Sprintf("by the %s: %d flows", h.By, len(h.Flows))
	}
	if h.Unlocated > 0 {
		text = append(text, fmt.Sprintf("%d more flows are named, but their paths are not known", h.Unlocated))
	}
	return lines(w, &h.Basis, append(text, absent(h.Absent)...)...)
}

func printEntropy(w io.Writer, e *query.Entropy) error {
	text := []string{
		fmt.Sprintf("entropy of %s: %.4f bits (%.4f to %.4f)", e.Unit, e.Bits.Value, e.Bits.Low, e.Bits.High),
		"flows: " + within(e.Flows),
		"F2:    " + within(e.F2),
		fmt.Sprintf("candidates: %d flows, %d of them without a known path", e.Candidates, e.Unlocated),
	}
	return lines(w, &e.Basis, append(text, absent(e.Absent)...)...)
}

func printCardinality(w io.Writer, c *query.Cardinality) error {
	return lines(w, &c.Basis, "flows: "+within(c.Flows))
}

func printTarget(w io.Writer, a *query.Target) error {
	t := newTable("switch", ">subepochs", ">estimated error")
	for _, f := range a.Fragments {
		t.row(f.Switch, f.Subepochs, fmt.Sprintf("%.4g", f.Error))
	}
	if err := t.write(w); err != nil {
		return err
	}
	return lines(w, &a.Basis, "", fmt.Sprintf("target of sketch %d: %.4g %s per subepoch, from %d epochs and %d paths; set it as target of that fragment on all switches",
		a.Sketch, a.Rho, a.Unit, a.Epochs, a.Paths))
}

// nanoseconds writes a time of ns.
func nanoseconds(ns float64) string { return time.Duration(ns).Round(100 * time.Nanosecond).String() }

// way names what was compared.
func way(b *query.Between) string {
	flow := b.Flow
	if flow == "" {
		flow = "all flows"
	}
	return fmt.Sprintf("%s to %s, %s, in %d intervals (%d whole)", b.From, b.To, flow, b.Intervals, b.Whole)
}

func printDelay(w io.Writer, b *query.Between) error {
	delay := "delay: not known, no cell of the sketch survived"
	if b.HasDelay {
		delay = fmt.Sprintf("mean delay: %s (%s to %s)", nanoseconds(b.Delay.Value), nanoseconds(b.Delay.Low), nanoseconds(b.Delay.High))
		if b.StdNs > 0 {
			delay += ", single packets vary by " + nanoseconds(b.StdNs)
		}
		delay += fmt.Sprintf("; trust %.2f", b.Trust)
	}
	return lines(w, &b.Basis, way(b), delay, fmt.Sprintf("cells refused: %d of %d", b.Refused, b.Cells))
}

func printLoss(w io.Writer, b *query.Between) error {
	loss := "loss: not known, no interval was seen whole by both points"
	if b.HasLoss {
		loss = fmt.Sprintf("packets lost: %.0f", b.Lost)
		if b.Flow != "" {
			loss += fmt.Sprintf(" of %.0f", b.Packets)
		}
	}
	return lines(w, &b.Basis, way(b), loss)
}
