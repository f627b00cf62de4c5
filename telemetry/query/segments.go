package query

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
)

// Segment is a piece of a flow's path: from one switch to the next, or inside a switch.
type Segment struct {
	From string `json:"from"`
	To   string `json:"to"` // the same switch, for what passes inside of it
	// By is the system that measured it: "lds", of the ports at both ends, whose Delay has the difference of the clocks in it; "pint", of
	// the switch's own timestamps in digests; empty: none did, as Why says. Delay is the flow's mean by either, so that segments add up.
	By    string  `json:"by,omitempty"`
	Delay Bounded `json:"delay_ns" unit:"ns"`
	// HasLoss: both ends counted an interval whole. Lost is over these, as in Between.
	HasLoss bool    `json:"has_loss"`
	Lost    float64 `json:"lost" unit:"packets"`
	Why     string  `json:"why,omitempty"`
	// Slowest: more of the delay arises here than in any other segment, by the bounds of all of them.
	Slowest bool `json:"slowest,omitempty"`
}

// The systems that measure a segment.
const (
	byLDS  = "lds"
	byPINT = "pint"
)

// segments divides the answer about one flow along the path that it took last, which digests or the engine's paths give. There are none
// where the path is not known, or the two switches are adjacent on it.
func (e *Engine) segments(b *Between, from, to Place, flow Key) error {
	switches, err := e.lastPath(b, from.Switch, to.Switch, flow)
	if err != nil || len(switches) < 3 {
		return err
	}
	waits := e.hopMeans(b)
	warned := b.Clocks != nil && b.Clocks.Warning != ""
	for i, sw := range switches[1:] {
		link, clocks, err := e.linkSegment(switches[i], sw, flow)
		if err != nil {
			return err
		}
		warned = warned || clocks != nil && clocks.Warning != ""
		b.Segments = append(b.Segments, link)
		if i+2 == len(switches) {
			break // what passes inside of the last switch is behind the point of arrival
		}
		name := e.Store.Name(sw)
		inside := Segment{From: name, To: name, Why: "too few digests of the flow, or none, have the switch's latency: that is a query of hop_latency by quantiles in PINT's plan"}
		if mean, ok := waits[sw]; ok {
			inside.By, inside.Delay, inside.Why = byPINT, mean, ""
		}
		b.Segments = append(b.Segments, inside)
	}
	if !warned {
		b.nameSlowest()
	}
	return nil
}

// lastPath are the switches from one to the other on the flow's last known path; nil: it is not known, or does not lead past both.
func (e *Engine) lastPath(b *Between, from, to uint32, flow Key) ([]uint32, error) {
	paths, err := e.joined(b.Window)
	if err != nil || paths == nil {
		return nil, err
	}
	for _, p := range slices.Backward(paths.Path(flow)) {
		if first := slices.Index(p.Switches, from); first >= 0 {
			if n := slices.Index(p.Switches[first:], to); n >= 0 {
				return p.Switches[first : first+n+1], nil
			}
		}
	}
	return nil, nil
}

// linkSegment compares what leaves a port of one switch with what arrives at a port of the next.
func (e *Engine) linkSegment(from, to uint32, flow Key) (Segment, *Clocks, error) {
	s := Segment{From: e.Store.Name(from), To: e.Store.Name(to)}
	all, _, _, err := e.between(Place{Switch: from, Port: -1, ports: true}, Place{Switch: to, Port: -1, ports: true}, []Key{flow}, true)
	switch {
	case e.stopped() != nil:
		return s, nil, e.stopped()
	case errors.Is(err, ErrNoRecords):
		s.Why = fmt.Sprintf("no points of ports: give %s the stage lds_egress and %s lds_ingress, both with links = true if they have classes", s.From, s.To)
		return s, nil, nil
	case err != nil:
		s.Why = err.Error()
		return s, nil, nil
	}
	l := &all[0]
	s.From, s.To, s.HasLoss, s.Lost = l.From, l.To, l.HasLoss, l.Lost
	if s.Why = "no cell of the flow survived"; l.HasDelay {
		s.By, s.Delay, s.Why = byLDS, l.Delay, ""
	}
	return s, l.Clocks, nil
}

// hopMeans are the means of switches' latencies that the flow's digests give, by the switches' numbers.
func (e *Engine) hopMeans(b *Between) map[uint32]Bounded {
	means, samples := map[uint32]Bounded{}, map[uint32]uint64{}
	// Without an answer there are none: the segments say so.
	q := &Question{Kind: KindLatency, Flow: b.Flow}
	d, err := e.digests(q, "latencies", q.suitsLatency)
	if err != nil {
		return means
	}
	c := codingOf(d)
	if c.Value != pint.HopLatency || c.Aggregation != pint.Quantiles {
		return means
	}
	p, err := d.pool(c, 0)
	if err != nil {
		return means
	}
	for at, t := range p.by {
		// A switch at several hops, as the path changed, has most samples where the flow passed it longest.
		if sw := uint32(at.sw); at.known && t.n > samples[sw] {
			if mean, ok := t.mean(c, 1-b.Confidence); ok {
				means[sw], samples[sw] = mean, t.n
			}
		}
	}
	return means
}

// nameSlowest marks the segment that takes longest, if the bounds of the others, and what is left for those that nothing
// measured, are below its own.
func (b *Between) nameSlowest() {
	best, left, unknown := -1, b.Delay.High, false
	for i := range b.Segments {
		s := &b.Segments[i]
		if s.By == "" {
			unknown = true
			continue
		}
		left -= s.Delay.Low
		if best < 0 || s.Delay.Value > b.Segments[best].Delay.Value {
			best = i
		}
	}
	if best < 0 || unknown && (!b.HasDelay || left >= b.Segments[best].Delay.Low) {
		return
	}
	for i := range b.Segments {
		if s := &b.Segments[i]; i != best && s.By != "" && s.Delay.High >= b.Segments[best].Delay.Low {
			return
		}
	}
	b.Segments[best].Slowest = true
}
