package sink

import (
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// windowPanes is how many parts of a sliding window are kept apart: an answer
// speaks of the newest ones, so of 3/4 to all of the window.
const windowPanes = 4

// streamsPlan is the part of HopStreams that all flows of a query share. The
// space of a flow is split evenly over hops and panes, and how many hops
// a flow has is known from its first packet.
type streamsPlan struct {
	codec    *encode.Codec
	frequent bool
	byOrder  bool // RecorderConfig.ByOrder
	space    int
	paneNs   uint64 // 0: no window
	byHops   [pint.MaxHops + 1]*streamPlan
}

func newStreamsPlan(c *encode.Codec, frequent bool, spaceBytes int, windowNs uint64) *streamsPlan {
	p := &streamsPlan{codec: c, frequent: frequent, space: spaceBytes}
	if windowNs > 0 {
		p.paneNs = max(1, windowNs/windowPanes)
	}
	return p
}

func (p *streamsPlan) panes() int {
	if p.paneNs > 0 {
		return windowPanes
	}
	return 1
}

// of plans the streams of a flow of that many hops.
func (p *streamsPlan) of(hops int) *streamPlan {
	if p.byHops[hops] == nil {
		s := planStream(p.codec, p.frequent, p.space/(hops*p.panes()))
		if p.space > 0 && p.space < hops*p.panes() {
			s = planStream(p.codec, p.frequent, 1)
		}
		if p.byOrder && !p.frequent && p.paneNs == 0 {
			s.weighed = s.exact && p.space == 0
			if !s.exact {
				s.unit = uint64(hops)
			}
		}
		p.byHops[hops] = &s
	}
	return p.byHops[hops]
}

// hopStreams are a flow's sampled codes, hop by hop.
type hopStreams struct {
	streams []stream            // by pane and hop
	numbers [windowPanes]uint64 // of the panes, which are by number modulo their count
	hops    int
	last    uint64 // number of the newest pane
	samples uint64 // of all hops
}

// add takes in a code of a hop. A flow whose number of hops changes starts
// anew: hop i is another switch then.
func (h *hopStreams) add(p *streamsPlan, hop, hops int, code, rounding, timeNs uint64) {
	if hops != h.hops {
		*h = hopStreams{streams: make([]stream, hops*p.panes()), hops: hops}
	}
	at := 0
	if p.paneNs > 0 {
		if at = h.pane(timeNs / p.paneNs); at < 0 {
			return // older than the window
		}
	}
	h.samples++
	h.streams[at*hops+hop-1].add(p.of(hops), code, rounding, h.samples)
}

// pane returns the place of the pane with the number, emptied if it was of an older one;
// -1 if the number is older than the window.
func (h *hopStreams) pane(number uint64) int {
	h.last = max(h.last, number)
	if number+windowPanes <= h.last {
		return -1
	}
	at := int(number % windowPanes)
	if h.numbers[at] != number {
		h.numbers[at] = number
		clear(h.streams[at*h.hops:][:h.hops])
	}
	return at
}

// guess returns the hop's stream of the first pane, nil if there is none.
func (h *hopStreams) guess(hop int) *stream {
	if hop > len(h.streams) {
		return nil
	}
	return &h.streams[hop-1]
}

// stream joins the panes of a hop that are in the window.
func (h *hopStreams) stream(p *streamsPlan, hop int) *stream {
	if hop < 1 || hop > h.hops {
		return new(stream)
	}
	if p.panes() == 1 {
		s := &h.streams[hop-1]
		s.until = h.samples
		return s
	}
	sum := new(stream)
	for at, number := range h.numbers {
		if number+windowPanes > h.last {
			sum.merge(p.of(h.hops), &h.streams[at*h.hops+hop-1])
		}
	}
	return sum
}
