package query

import (
	"fmt"
	"math"
	"time"

	"github.com/weirswitch/weir/telemetry/lds"
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

// offset joins the smallest delay forth, of a class unless that is zero, with that of the way back; nil: nothing is
// known, or there is one clock.
func (e *Engine) offset(forth float64, from, to Place, class *lds.Class) *lds.Offset {
	if from.Switch == to.Switch || math.IsInf(forth, 1) {
		return nil
	}
	back, reverse := math.Inf(1), ""
	if !class.IsZero() {
		reverse = class.To.String() + " > " + class.From.String()
	}
	// Without records of the way back one bound is all there is.
	there, here := Place{to.Switch, to.Port, reverse, to.ports}, Place{from.Switch, from.Port, reverse, from.ports}
	if ways, err := e.stretches(&Basis{Window: e.window()}, there, here, nil); err == nil {
		for _, w := range ways {
			for d := range e.differences(some(w.intervals, offsetIntervals)) {
				if ns, ok := d.LeastNs(); ok {
					back = min(back, ns)
				}
			}
		}
	}
	o := lds.OffsetBetween(forth, back, !math.IsInf(back, 1))
	return &o
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
