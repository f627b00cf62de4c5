package lab

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteText writes an outcome for people.
func (o *Outcome) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintln(b, "What crossed:")
	shown := false // who reaches whom
	for i := range o.Traffic {
		ok := o.Traffic[i].okIn(o.config)
		if o.Traffic[i].Interrupted {
			fmt.Fprintf(b, "  -     %s\n", o.Traffic[i].sentence())
			continue
		}
		fmt.Fprintf(b, "  %s  %s%s\n", mark(ok), o.Traffic[i].sentence(), o.where(ok, i))
		if o.Traffic[i].Reach != nil && (!ok || !shown) {
			shown = true
			b.WriteString(o.Traffic[i].Reach.matrix())
		}
	}
	if len(o.Traffic) == 0 {
		fmt.Fprintln(b, "  nothing: the file has no [[traffic]]")
	}
	if len(o.Switches) > 0 {
		fmt.Fprintln(b, "\nSwitches:")
		o.writeSwitches(b)
		fmt.Fprintln(b, "\nCost of each stage (ns per packet, sampled):")
		o.writeStages(b)
	}
	fmt.Fprintln(b, "\nCounters:")
	o.Account.write(b)
	if o.Answers != nil {
		if o.Page != "" {
			fmt.Fprintln(b, "\nAnswers of the collector, next to the truth:")
		} else {
			fmt.Fprintln(b, "\nAnswers from the records, next to the truth:")
		}
		if err := o.Answers.WriteText(b); err != nil {
			return err
		}
	}
	verdict := "everything that was sent has arrived, and every counter adds up"
	if o.config != nil {
		if _, drops := o.config.relaysChange(); drops {
			verdict = "everything has arrived but what relays dropped, and every counter adds up"
		}
		if slices.ContainsFunc(o.config.Traffic, func(t Traffic) bool { return t.Kind == KindReach || t.Kind == KindForged || t.Cut != "" }) {
			verdict = "what was to arrive has arrived, nothing else has, and every counter adds up"
		}
	}
	switch {
	case o.Interrupted:
		verdict = "INTERRUPTED: this is what was known by then"
		if failed := failures(b.String()); failed != "" {
			verdict += ", with these faults:\n" + failed
		}
	case !o.OK:
		verdict = "FAILED, for these reasons:\n" + cmp.Or(failures(b.String()), "  the lab itself did not work, see the error")
	}
	fmt.Fprintf(b, "\n%s: %s (%.1f s)\n", o.Name, verdict, o.Seconds)
	if o.Page != "" && !o.Lingers {
		fmt.Fprintf(b, "The page with all this was at %s: \"weir lab run --linger\" keeps it, and \"weir lab up\" the whole lab.\n", o.Page)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// failed says in a few words what failed.
func (o *Outcome) failed() string {
	var parts []string
	add := func(failed bool, what string) {
		if failed {
			parts = append(parts, what)
		}
	}
	lost, crossed := len(o.Account.Lost) > 0, false
	for i := range o.Traffic {
		r := &o.Traffic[i]
		apart := r.Kind == KindReach || r.Kind == KindForged
		lost = lost || !apart && !r.okIn(o.config)
		crossed = crossed || apart && !r.OK()
	}
	add(crossed, "hosts reached whom they must not, or did not reach whom they shall")
	add(lost, "packets were lost or wrong")
	add(slices.ContainsFunc(o.Account.Checks, func(c Check) bool { return !c.OK }), "counters do not add up")
	add(len(o.Account.Faults) > 0, "switches did not work as they should")
	add(o.Answers != nil && !o.Answers.OK(), "answers differ from the truth, or failed")
	return cmp.Or(strings.Join(parts, "; "), "it did not work") + "; the lines with FAIL say which"
}

// where names the line of the file that has a load which failed. Results are in the order of the file.
func (o *Outcome) where(ok bool, load int) string {
	if ok || o.config == nil || load >= len(o.config.Traffic) {
		return ""
	}
	return InFile(o.config.Traffic[load].line)
}

// failures repeats the lines of a report that begin with FAIL; empty: there are none.
func failures(report string) string {
	var b strings.Builder
	for line := range strings.Lines(report) {
		if strings.HasPrefix(strings.TrimSpace(line), "FAIL ") {
			b.WriteString(line)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func mark(ok bool) string {
	if ok {
		return "ok  "
	}
	return "FAIL"
}

// sentence is a result in one line.
func (r *Result) sentence() string {
	direction := fmt.Sprintf("%-5s %s -> %s", r.Kind, r.From, r.To)
	var s string
	switch r.Kind {
	case KindReach:
		s = r.Reach.sentence()
	case KindForged:
		s = r.forgedSentence()
	case KindTCP:
		s = fmt.Sprintf("%s  IPv%d: %d of %d bytes in %d streams, %.2f Gbit/s, %d segments retransmitted, %s",
			direction, r.Family, r.Received, r.Sent, r.Flows, r.GbitPerSec, r.Retransmitted, r.digestWord())
	case KindPing:
		s = fmt.Sprintf("%s  IPv%d: %d of %d answered, round trip %.0f us median, %.0f us at most",
			direction, r.Family, r.Received, r.Sent, r.RTTMedianUs, r.RTTMaxUs)
	case KindFlows:
		s = fmt.Sprintf("%s  %d of %d packets of %d flows at %.0f packets/s", direction, r.Received, r.Sent, r.Flows, r.PacketsPerSec)
	default:
		s = fmt.Sprintf("%s  IPv%d: %d of %d packets at %.0f packets/s", direction, r.Family, r.Received, r.Sent, r.PacketsPerSec)
	}
	if r.Kind != KindTCP && r.Kind != KindReach && r.Kind != KindForged {
		s += fmt.Sprintf("; lost %d, duplicated %d, reordered %d, wrong %d", r.Lost, r.Duplicated, r.Reordered, r.Wrong)
	}
	if r.Cut != "" {
		s += fmt.Sprintf("; %s was cut", r.Cut)
		if r.Kind != KindTCP {
			s += fmt.Sprintf(", with %d packets on their way at most", r.InFlight)
		}
	}
	if r.Overflow != 0 {
		s += fmt.Sprintf("; %d found the receiver's own buffer full", r.Overflow)
	}
	if r.Fault != "" {
		s += "; " + r.Fault
	}
	if r.Interrupted {
		s += "; interrupted"
	}
	return s
}

func (r *Result) digestWord() string {
	if r.Wrong == 0 {
		return "SHA-256 equal"
	}
	return fmt.Sprintf("SHA-256 of %d streams DIFFERENT", r.Wrong)
}

func (o *Outcome) writeSwitches(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  switch\tport\tdriver\tmode granted\treceived\ttransmitted")
	for _, e := range o.Switches {
		if e.Report == nil {
			fmt.Fprintf(t, "  %s\t%s\n", e.Name, e.Fault)
			continue
		}
		for _, p := range e.Report.Ports {
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%d\t%d\n", e.Name, p.Name, p.Driver, p.Mode, p.Received, p.Transmitted)
		}
	}
	t.Flush()
}

// writeStages makes one column per switch, as the same stages run in most of them.
func (o *Outcome) writeStages(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	var stages []string
	header := "  stage\t"
	for _, e := range o.Switches {
		header += e.Name + "\t"
		if e.Report == nil {
			continue
		}
		for _, s := range e.Report.Stages {
			if !slices.Contains(stages, s.Name) {
				stages = append(stages, s.Name)
			}
		}
	}
	fmt.Fprintln(t, header)
	for _, name := range stages {
		line := "  " + name + "\t"
		for _, e := range o.Switches {
			line += stageCost(e.Report, name) + "\t"
		}
		fmt.Fprintln(t, line)
	}
	t.Flush()
}

func stageCost(r *SwitchReport, name string) string {
	if r == nil {
		return "-"
	}
	i := slices.IndexFunc(r.Stages, func(s StageReport) bool { return s.Name == name })
	if i < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", r.Stages[i].NsPerPacket)
}

func (a *Account) write(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, c := range a.Checks {
		sign := map[bool]map[bool]string{false: {true: "=", false: "!="}, true: {true: "<=", false: ">"}}[c.AtMost][c.OK]
		line := ""
		if !c.OK {
			line = InFile(c.Line)
		}
		fmt.Fprintf(t, "  %s  %s\t%d %s %s%s\n", mark(c.OK), c.What, c.Left, sign, c.Terms, line)
	}
	t.Flush()
	lost := make([]string, 0, len(a.Lost))
	for what, n := range a.Lost {
		name, _, _ := strings.Cut(strings.ReplaceAll(what, ":", " "), " ")
		lost = append(lost, fmt.Sprintf("%s  lost at %s: %d%s", mark(false), what, n, InFile(a.lines[name])))
	}
	slices.Sort(lost)
	for _, line := range lost {
		fmt.Fprintf(b, "  %s\n", line)
	}
	if slices.ContainsFunc(lost, func(line string) bool { return strings.Contains(line, rxRingFull) || strings.Contains(line, rxNoFrame) }) {
		fmt.Fprintf(b, "        packets came while that switch waited for a processor: give the load a smaller window or rate\n")
	}
	for _, fault := range a.Faults {
		fmt.Fprintf(b, "  %s  %s\n", mark(false), fault)
	}
}

// WriteText writes a status for people.
func (s *Status) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	word := "up"
	switch {
	case !s.Up && s.Creator != 0:
		word = fmt.Sprintf("being made by process %d", s.Creator)
	case !s.Up:
		word = "left behind by a crash while it was made: take it down"
	case !s.Healthy:
		word = "up, but not whole"
	case s.Ended:
		word = "its run is over, and the switches have ended"
	}
	fmt.Fprintf(b, "lab %s (%s), begun %s: %s\n", s.Name, s.File, s.Began.Format("2006-01-02 15:04:05"), word)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  node\tkind\tnamespace\tstate\tinterface: received, sent")
	for _, n := range s.Nodes {
		state := "there"
		switch {
		case !n.Exists:
			state = "MISSING"
		case n.PID != 0 && n.Running:
			state = fmt.Sprintf("runs as %d", n.PID)
		case n.Ended:
			state = "ended, see " + n.Log
		case n.Log != "":
			state = "DEAD, see " + n.Log
		}
		var counters []string
		for name, c := range n.Counters {
			counters = append(counters, fmt.Sprintf("%s: %d, %d", name, c.RxPackets, c.TxPackets))
		}
		slices.Sort(counters)
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", n.Name, n.Kind, n.Namespace, state, strings.Join(counters, "; "))
	}
	t.Flush()
	if s.Page != "" {
		fmt.Fprintf(b, "  page %s%s\n", s.Page, asked(s.Page))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// asked says how questions reach a collector whose page is not where weir query looks for it; empty: it is.
func asked(page string) string {
	if page == "http://"+collectorPage+"/" {
		return ""
	}
	return "; weir query has --collector " + strings.TrimSuffix(page, "/") + " for it"
}

// writeEnds writes how switches ended, one line each.
func writeEnds(w io.Writer, ends []SwitchEnd) {
	for _, e := range ends {
		how := "ended at SIGTERM"
		switch {
		case e.Exit.Killed:
			how = "did not end at SIGTERM and was killed"
		case !e.Exit.Clean:
			how = e.Exit.Status
		}
		if e.Report != nil {
			how += fmt.Sprintf("; received %d, forwarded %d, consumed %d, dropped %d",
				e.Report.Received, e.Report.Forwarded, e.Report.Consumed, e.Report.droppedTotal())
		} else {
			how += "; " + e.Fault
		}
		if e.Log != "" {
			how += "; its log ends: " + e.Log
		}
		fmt.Fprintf(w, "  switch %s %s\n", e.Name, how)
	}
}
