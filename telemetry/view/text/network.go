package text

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/telemetry/query"
)

func printNetwork(w io.Writer, n *query.Network) error {
	t := NewTable("switch", "health", ">heard", ">epochs", ">overruns", ">missed", ">spool", "clock")
	var notes []string
	for i := range n.Switches {
		s := &n.Switches[i]
		heard := "never"
		if s.LastHeardNs != 0 {
			heard = time.Duration(s.AgeNs).Round(time.Millisecond).String() + " ago"
		}
		t.Row(s.Name, s.Health, heard, s.Epochs, s.Overruns, s.Missed, byteCount(s.Spool.Bytes), clockText(&s.Clock, s.HasStatus))
		for _, fault := range s.Faults {
			notes = append(notes, s.Name+": "+fault)
		}
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if err := printNetworkPorts(w, n.Switches); err != nil {
		return err
	}
	if err := printNetworkLinks(w, n.Links); err != nil {
		return err
	}
	notes = append(notes, unknownDelays(n.Links)...)
	b := n.Basis
	b.Switches = len(n.Switches) + n.More // the list hides the count in JSON
	if notes != nil {
		notes = append([]string{""}, notes...)
	}
	notes = append(append(notes, more(n.More, "switches")...), more(n.MoreLinks, "links")...)
	return lines(w, &b, notes...)
}

func printNetworkPorts(w io.Writer, switches []query.NetworkSwitch) error {
	t := NewTable("port", "state", ">in", ">in use", ">out", ">out use", ">queue", ">drops/s", "drops")
	for i := range switches {
		s := &switches[i]
		for j := range s.Ports {
			p := &s.Ports[j]
			state := "down"
			if p.Up {
				state = "up"
			}
			t.Row(fmt.Sprintf("%s:%d %s", s.Name, p.Number, p.Name), state, bitRate(p.HasRates, &p.Received), inUse(p.HasRates, p.Speed, &p.Received),
				bitRate(p.HasRates, &p.Sent), inUse(p.HasRates, p.Speed, &p.Sent), p.Backlog, fmt.Sprintf("%.4g", p.DropsPS), drops(p))
		}
	}
	return writeBelow(w, t)
}

func printNetworkLinks(w io.Writer, links []query.NetworkLink) error {
	titles := []string{"link", "state", ">speed", ">there", ">use", ">back", ">use", ">queues"}
	measured := slices.ContainsFunc(links, func(l query.NetworkLink) bool { return l.Delays != [2]query.LinkDelay{} })
	if measured {
		titles = append(titles, ">delay there", ">back", ">lost there", ">back")
	}
	t := NewTable(titles...)
	for i := range links {
		l := &links[i]
		state, speed := "down", "?"
		if l.Up {
			state = "up"
		}
		if l.Speed > 0 {
			speed = bits(float64(l.Speed))
		}
		row := []any{endName(&l.Ends[0]) + " - " + endName(&l.Ends[1]), state, speed, bitRate(l.HasRates, &l.Rates[0]), inUse(l.HasRates, l.Speed, &l.Rates[0]),
			bitRate(l.HasRates, &l.Rates[1]), inUse(l.HasRates, l.Speed, &l.Rates[1]), fmt.Sprintf("%d, %d", l.Backlogs[0], l.Backlogs[1])}
		if measured {
			row = append(row, linkDelay(&l.Delays[0]), linkDelay(&l.Delays[1]), linkLoss(&l.Delays[0]), linkLoss(&l.Delays[1]))
		}
		t.Row(row...)
	}
	return writeBelow(w, t)
}

// unknownDelays says why delays or losses of links are not known, in a line for each reason.
func unknownDelays(links []query.NetworkLink) (text []string) {
	of := map[string][]string{}
	var reasons []string
	for i := range links {
		for way := range links[i].Delays {
			if why := links[i].Delays[way].Why; why != "" {
				if of[why] == nil {
					reasons = append(reasons, why)
				}
				of[why] = append(of[why], endName(&links[i].Ends[way])+" to "+endName(&links[i].Ends[1-way]))
			}
		}
	}
	if some := func(l query.NetworkLink) bool { return l.Delays != [2]query.LinkDelay{} }; slices.ContainsFunc(links, some) &&
		slices.ContainsFunc(links, func(l query.NetworkLink) bool { return slices.Contains(l.Delays[:], query.LinkDelay{}) }) {
		text = append(text, "-: no delay and loss are measured there, which lds_egress at the sender and lds_ingress at the receiver do")
	}
	for _, why := range reasons {
		names := of[why]
		line := strings.Join(names[:min(len(names), mostNamed)], ", ")
		if n := len(names) - mostNamed; n > 0 {
			line += fmt.Sprintf(" and %d more", n)
		}
		text = append(text, "?: "+line+": "+why)
	}
	return text
}

// mostNamed is how many links a line names.
const mostNamed = 4

func linkDelay(d *query.LinkDelay) string {
	switch {
	case *d == (query.LinkDelay{}):
		return "-" // nothing measures it
	case !d.HasDelay:
		return "?"
	}
	return Nanoseconds(d.Delay.Value)
}

func linkLoss(d *query.LinkDelay) string {
	switch {
	case *d == (query.LinkDelay{}):
		return "-"
	case !d.HasLoss:
		return "?"
	}
	return fmt.Sprintf("%.0f", d.Lost)
}

// writeBelow writes a table that has rows behind an empty line.
func writeBelow(w io.Writer, t *Table) error {
	if t.Empty() {
		return nil
	}
	fmt.Fprintln(w)
	return t.Write(w)
}

func endName(e *query.NetworkEnd) string {
	if e.Port == "" {
		return e.Name
	}
	return e.Name + ":" + e.Port
}

func clockText(c *query.NetworkClock, known bool) string {
	if !known {
		return "?"
	}
	text := []string{"not synchronised"}
	if c.Synchronised {
		text[0] = "synchronised"
	}
	for _, o := range c.Offsets {
		if o.HasOffset {
			text = append(text, fmt.Sprintf("%s ahead of %s", Nanoseconds(o.OffsetNs.Value), o.Neighbour))
		}
	}
	return strings.Join(text, ", ")
}

// drops lists reasons with their packets.
func drops(p *query.NetworkPort) string {
	var text []string
	for _, d := range p.Drops {
		text = append(text, fmt.Sprintf("%s %d", d.Reason, d.Packets))
	}
	return strings.Join(text, ", ")
}

func bitRate(known bool, r *query.Rate) string {
	if !known {
		return "?"
	}
	return bits(r.BitsPS)
}

func inUse(known bool, speed uint64, r *query.Rate) string {
	if !known || speed == 0 {
		return "?"
	}
	return fmt.Sprintf("%.1f %%", 100*r.Utilisation)
}

// bits writes bits per second.
func bits(n float64) string { return scaled(n, 1000, "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s") }

// byteCount writes bytes.
func byteCount(n uint64) string { return scaled(float64(n), 1024, "B", "KiB", "MiB", "GiB", "TiB") }

func scaled(n, base float64, units ...string) string {
	i := 0
	for n >= base && i < len(units)-1 {
		n, i = n/base, i+1
	}
	return fmt.Sprintf("%.4g %s", n, units[i])
}
