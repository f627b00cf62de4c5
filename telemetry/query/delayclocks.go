package query

import (
	"fmt"
	"math"
	"time"

	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/store"
)

// Clocks is how far the clock at the arrival's end is ahead of the one at the
// sender's end, as far as the smallest delays of both directions bound it. Delays are
// measured with it in them.
type Clocks struct {
	// HasOffset: both directions were measured. OffsetNs is right if the
	// fastest packets of both took equally long; its bounds hold whatever they took,
	// as no packet arrives before it leaves. Without HasOffset only High is known.
	HasOffset bool    `json:"has_offset"`
	OffsetNs  Bounded `json:"offset_ns"`
	// Warning says that the offset may be as large as what was measured; empty: it is
	// not.
	Warning string `json:"warning,omitempty"`
}

// offsetIntervals is of how many intervals of the way back the smallest delay is taken.
const offsetIntervals = 64

// offset joins the smallest delay forth, of a class unless that is zero, with that of the way back, which is the same link the other way; nil: nothing is
// known, or there is one clock.
func (e *Engine) offset(forth float64, from, to Place, class *lds.Class, ways []*stretch) *lds.Offset {
	if from.Switch == to.Switch || math.IsInf(forth, 1) {
		return nil
	}
	back, w := math.Inf(1), e.window()
	// Without records of the way back one bound is all there is.
	for _, list := range e.back(w, from, to, class, ways) {
		for d := range e.differences(some(list, offsetIntervals)) {
			if ns, ok := d.LeastNs(); ok {
				back = min(back, ns)
			}
		}
	}
	o := lds.OffsetBetween(forth, back, !math.IsInf(back, 1))
	return &o
}

// back are the intervals of points that see what goes the other way: of ports, of the same ones.
func (e *Engine) back(w store.Window, from, to Place, class *lds.Class, ways []*stretch) (lists [][]interval) {
	if ways[0].ports[0] == nil {
		reverse := ""
		if !class.IsZero() {
			reverse = class.To.String() + " > " + class.From.String()
		}
		back := match(e.points(w, Place{Switch: to.Switch, Port: to.Port, Class: reverse}, true), e.points(w, Place{Switch: from.Switch, Port: from.Port, Class: reverse}, false))
		for p, list := range back {
			if !p.class.IsZero() {
				lists = append(lists, list)
			}
		}
		return lists
	}
	for _, way := range ways {
		for _, far := range way.ports[1] {
			for _, near := range way.ports[0] {
				for _, list := range match(e.points(w, Place{Switch: to.Switch, Port: far, ports: true}, true), e.points(w, Place{Switch: from.Switch, Port: near, ports: true}, false)) {
					lists = append(lists, list)
				}
			}
		}
	}
	return lists
}

// tellClocks adds what is known of the clocks, and a warning if that is called for.
func (b *Between) tellClocks(o *lds.Offset) {
	if o == nil {
		return
	}
	c := &Clocks{HasOffset: o.HasValue, OffsetNs: Bounded{o.Value, min(o.Low, o.High), max(o.Low, o.High)}}
	if !o.HasValue {
		c.OffsetNs = Bounded{o.High, o.High, o.High}
	}
	b.Clocks = c
	by, known := o.Differ()
	switch {
	case o.Moved:
		c.Warning = "the clocks moved against each other in the window, as no offset fits the delays of both directions: ask about a shorter one with --last"
	case known:
		c.Warning = fmt.Sprintf("the clocks differ by %v or more, as packets arrive before they leave: synchronise them", time.Duration(by).Round(time.Nanosecond))
	case b.HasDelay && o.Drowns(b.Delay.Value):
		c.Warning = fmt.Sprintf("the clocks may differ by %v of the delay's %v, unless the way back is that much faster: only the sum of both directions is certain",
			time.Duration(o.Value).Round(time.Nanosecond), time.Duration(b.Delay.Value).Round(time.Nanosecond))
	}
}
