package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/telemetry/store"
)

// offsetWindow is of which newest part of what measurement points have in the window clocks are compared, and links have delays: clocks
// drift, and the cells of a longer time take long to read. Points whose intervals are longer have their last one.
const offsetWindow = 3 * time.Second

// links reports the configured links, with delays and losses where both ends measure them, and of the clocks at their ends.
func (n *networkSearch) links() {
	newest := n.answer.From
	for i := range n.e.Store.Points {
		if p := n.e.Store.Points[i]; p.Overlaps(n.answer.Window) {
			newest = max(newest, min(p.To, n.answer.To))
		}
	}
	for _, l := range n.e.Links {
		at := NetworkLink{Speed: l.Speed, Up: true}
		var ports [2]*NetworkPort
		for i, text := range l.Ends {
			at.Ends[i], ports[i] = n.end(text)
			if p := ports[i]; p != nil {
				at.Up = at.Up && p.Up
				at.Backlogs[i] = p.Backlog
				if l.Speed == 0 && p.Speed != 0 && (at.Speed == 0 || p.Speed < at.Speed) {
					at.Speed = p.Speed
				}
			} else if at.Ends[i].Port != "" {
				at.Up = false // unknown
			}
		}
		for i := range ports {
			if rate := leaves(ports[i], ports[1-i]); rate != nil {
				at.HasRates = true
				at.Rates[i] = *rate
				at.Rates[i].setSpeed(at.Speed)
			}
			if p := ports[i]; p != nil {
				p.Speed = at.Speed
				p.Received.setSpeed(at.Speed)
				p.Sent.setSpeed(at.Speed)
			}
		}
		n.measure(&at, newest)
		n.answer.Links = append(n.answer.Links, at)
	}
}

// leaves is the rate of what leaves a port, as it counts itself, else as the far end does.
func leaves(port, far *NetworkPort) *Rate {
	switch {
	case port != nil && port.HasRates:
		return &port.Sent
	case far != nil && far.HasRates:
		return &far.Received
	}
	return nil
}

// end finds the port that an end of a link names; nil: it is a host's, or nothing
// was heard of it.
func (n *networkSearch) end(text string) (NetworkEnd, *NetworkPort) {
	name, port, _ := strings.Cut(text, ":")
	end := NetworkEnd{Name: name, Port: port, Number: -1}
	if port == "" {
		return end, nil
	}
	id, known := n.e.Store.Switch(name)
	s := n.all[id]
	if !known || s == nil {
		return end, nil
	}
	end.Name, end.HasSwitch, end.Switch = s.Name, true, id
	i := slices.IndexFunc(s.Ports, func(p NetworkPort) bool { return p.Name == port })
	if i < 0 {
		return end, nil
	}
	end.Number = int(s.Ports[i].Number)
	return end, &s.Ports[i]
}

// measure takes delay and loss of both directions of a link from the measurement points at its ends, if both have them; the newest
// record of a point ends at newest.
func (n *networkSearch) measure(l *NetworkLink, newest int64) {
	a, b := &l.Ends[0], &l.Ends[1]
	if a.Number < 0 || b.Number < 0 || a.Switch == b.Switch {
		return
	}
	own := *n.e
	own.Window = store.Window{From: max(n.answer.From, newest-int64(offsetWindow)), To: n.answer.To}
	places := [2]Place{{Switch: a.Switch, Port: a.Number}, {Switch: b.Switch, Port: b.Number}}
	var clocks *Clocks
	for i := range l.Delays {
		between, err := own.Between(places[i], places[1-i], nil)
		if err != nil {
			continue // not both ends have points, or none of the newest intervals is of both
		}
		l.Delays[i] = linkDelay(between)
		if i == 0 {
			clocks = between.Clocks
		}
	}
	n.compareClocks(a, b, clocks)
}

// compareClocks notes how far the clocks of a link's two switches are apart, by the delays from a to b.
func (n *networkSearch) compareClocks(a, b *NetworkEnd, c *Clocks) {
	if c == nil {
		return // nothing passed
	}
	ahead := *c
	n.offset(b, a, ahead)
	if !ahead.HasOffset {
		return // a bound from above only
	}
	behind := ahead
	o := ahead.OffsetNs
	behind.OffsetNs = Bounded{Value: 0 - o.Value, Low: 0 - o.High, High: 0 - o.Low}
	n.offset(a, b, behind)
}

// offset notes how far the clock at one end is ahead of that at the other.
func (n *networkSearch) offset(of, other *NetworkEnd, c Clocks) {
	s := n.all[of.Switch]
	s.Clock.Offsets = append(s.Clock.Offsets, NetworkOffset{Neighbour: other.Name, Clocks: c})
	if c.Warning != "" {
		s.fault("to %s: %s", other.Name, c.Warning)
	}
}

// linkDelay is what two points say of a link. More packets that arrived than had left say no loss: some fell into another interval on the
// way, which only an interval bit prevents.
func linkDelay(b *Between) LinkDelay {
	d := LinkDelay{HasDelay: b.HasDelay, Delay: b.Delay}
	if b.HasLoss && b.Lost >= 0 {
		d.HasLoss, d.Lost = true, b.Lost
	}
	switch {
	case !d.HasDelay && b.Cells == 0:
		d.Why = fmt.Sprintf("no packet passed in the newest %v", offsetWindow)
	case !d.HasDelay:
		d.Why = fmt.Sprintf("none of %d cells can be used: packets were lost, or fell into different intervals at both ends, as they do where clocks are not synchronised and there is no interval_bit", b.Cells)
	case b.HasLoss && !d.HasLoss:
		d.Why = "more packets arrived than had left: some fell into different intervals at both ends"
	case !b.HasLoss:
		d.Why = "no interval was counted whole by both ends"
	}
	return d
}
