package query

import (
	"fmt"

	"github.com/weirswitch/weir/telemetry/lds"
)

// passed is what was measured by one way, of one flow or of all.
type passed struct {
	way     *stretch
	of      Between // what is known of the way's intervals, without values
	sum     flowSum
	overlap lds.Overlap
	why     string // no loss of all flows is known
}

// interval adds an interval of all flows.
func (p *passed) interval(d *lds.Difference) {
	lost, whole := d.Lost()
	switch {
	case d.Sent() == 0 && lost == 0:
		p.of.Idle++
	case whole:
		p.of.Whole++
		fallthrough
	default:
		p.of.Intervals++
	}
	p.of.Refused += d.Refused()
	p.of.Cells += d.Refused() + d.Cells(lds.Usable)
	p.of.Kept = min(p.of.Kept, d.Kept())
	p.sum.whole(d)
	if !p.way.certain {
		p.overlap.Add(d.Overlap())
	}
}

// mostElsewhere is the share of the packets of one end of a way that may be in no cell of the other end, or exceed what the other end has there, for losses
// of all flows to be known, where no link says that these are lost. Packets in flight at the edges of intervals are such, too.
const mostElsewhere = 0.125

// judge decides whether losses of all flows are known: both ends must see the same packets but for those that were lost.
func (p *passed) judge() {
	o := &p.overlap
	switch {
	case !p.sum.hasLoss:
		p.why = "no interval was counted whole by both points"
	case p.way.certain:
	case o.Foreign > mostElsewhere*o.Arrived:
		p.why = fmt.Sprintf("the points do not see the same packets: %.0f %% of what was counted at %s did not pass %s", 100*o.Foreign/o.Arrived, p.way.names[1], p.way.names[0])
	case o.Absent > mostElsewhere*o.Sent:
		p.why = fmt.Sprintf("%.0f %% of the packets that passed %s are of flows of which nothing came to %s: they went elsewhere, or were lost", 100*o.Absent/o.Sent, p.way.names[0], p.way.names[1])
	}
	if p.why != "" {
		p.sum.hasLoss, p.sum.lost = false, 0
	}
}

// took leaves the ways that a flow took; at least one.
func took(parts []passed) []passed {
	best := 0
	for i := range parts {
		a, b := &parts[i].sum, &parts[best].sum
		if a.own() > b.own() || a.own() == b.own() && a.owned > b.owned {
			best = i
		}
	}
	var list []passed
	for i := range parts {
		s := &parts[i].sum
		if i == best || s.own() > 0 && s.own() >= leastOwn*parts[best].sum.own() && s.owned >= s.packets/2 {
			list = append(list, parts[i])
		}
	}
	return list
}

// unknown is why nothing is known of a flow by the ways that it may have taken; nil: something is.
func unknown(b *Between, parts []passed) error {
	var sum flowSum
	certain := false
	for i := range parts {
		sum.join(&parts[i].sum)
		certain = certain || parts[i].way.certain
	}
	switch {
	case sum.unsent > 0 || b.Intervals+b.Idle == b.Unlike || sum.packets > 0 && (certain || sum.arrived > 0):
		return nil
	case sum.packets > 0:
		return fmt.Errorf("%w at %s: its packets passed %s, and none of them arrived: all were lost, or it goes another way, which weir query path says", ErrUnknownFlow, b.To, b.From)
	}
	return fmt.Errorf("%w at %s: no packet of it passed there in the window", ErrUnknownFlow, b.From)
}

// answerOf is one answer of several ways.
func (e *Engine) answerOf(parts []passed, from, to Place) Between {
	b := parts[0].of
	var sum flowSum
	part := 0 // intervals that were not counted whole by some way
	for i := range parts {
		p := &parts[i]
		sum.join(&p.sum)
		part = max(part, p.of.Intervals-p.of.Whole)
		if i > 0 {
			b.Refused, b.Cells, b.Kept = b.Refused+p.of.Refused, b.Cells+p.of.Cells, min(b.Kept, p.of.Kept)
			b.Intervals, b.Idle, b.Unlike = max(b.Intervals, p.of.Intervals), min(b.Idle, p.of.Idle), max(b.Unlike, p.of.Unlike)
		}
		if p.why != "" && b.Why == "" {
			b.Why = p.why
		}
		if p.way.ports[0] == nil {
			continue // classes, of which there may be thousands
		}
		single := Between{Basis: p.of.Basis}
		p.sum.answer(&single)
		b.Ways = append(b.Ways, Way{
			From: p.of.From, To: p.of.To, Packets: single.Packets, HasDelay: single.HasDelay, Delay: single.Delay, HasLoss: single.HasLoss, Lost: single.Lost, Why: p.why,
		})
	}
	b.Whole = b.Intervals - part
	sum.answer(&b)
	if b.HasLoss {
		b.Why = ""
	}
	if len(parts) > 1 {
		b.From, b.To = e.Store.Name(from.Switch)+" out", e.Store.Name(to.Switch)+" in"
		if from.Switch == to.Switch {
			b.From, b.To = e.Store.Name(from.Switch)+" in", e.Store.Name(to.Switch)+" out"
		}
	}
	return b
}
