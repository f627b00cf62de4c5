package pint

import (
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Sampler finds out, at the sink, which hop's value a packet carries: each
// hop i overwrites with probability 1/i, so it is the last hop that did, and
// uniform over the hops (section 4.1). It is a value, and safe for concurrent use.
type Sampler struct {
	family hash.Family
	seed   uint64
	turn   int // of the hash, in bits
}

// NewSampler takes the family and the seed of the query's g.
func NewSampler(f hash.Family, seed uint64) Sampler { return Sampler{family: f, seed: seed} }

// Hop returns the hop, in 1..hops, whose value a packet over that many hops
// carries. Hops beyond MaxHops do not write.
func (s Sampler) Hop(id uint64, hops int) int {
	if s.family != hash.XX {
		return s.hopOfOther(id, hops)
	}
	for hop := min(hops, MaxHops); hop > 1; hop-- {
		if bits.RotateLeft64(hash.Uint64x2(s.seed, id, uint64(hop)), s.turn) <= reservoirAccept[hash.XX][hop] {
			return hop
		}
	}
	return 1
}

// hopOfOther is Hop in another family than XXH64.
func (s Sampler) hopOfOther(id uint64, hops int) int {
	for hop := min(hops, MaxHops); hop > 1; hop-- {
		if s.writes(id, hop) {
			return hop
		}
	}
	return 1
}

// writes reports whether a hop, in 1..MaxHops, overwrites the packet's value.
func (s Sampler) writes(id uint64, hop int) bool {
	return bits.RotateLeft64(s.family.Uint64x2(s.seed, id, uint64(hop)), s.turn) <= reservoirAccept[s.family][hop]
}

// windowPanes is how many parts of a sliding window are kept apart: an answer
// speaks of the newest ones, so of 3/4 to all of the window.
const windowPanes = 4

// streamsPlan is the part of HopStreams that all flows of a query share. The
// space of a flow is split evenly over hops and panes, and how many hops
// a flow has is known from its first packet.
type streamsPlan struct {
	codec    *Codec
	frequent bool
	space    int
	paneNs   uint64 // 0: no window
	byHops   [MaxHops + 1]*streamPlan
}

func newStreamsPlan(c *Codec, frequent bool, spaceBytes int, windowNs uint64) *streamsPlan {
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
}

// add takes in a code of a hop. A flow whose number of hops changes starts
// anew: hop i is another switch then.
func (h *hopStreams) add(p *streamsPlan, hop, hops int, code, timeNs uint64) {
	if hops != h.hops {
		*h = hopStreams{streams: make([]stream, hops*p.panes()), hops: hops}
	}
	at := 0
	if p.paneNs > 0 {
		if at = h.pane(timeNs / p.paneNs); at < 0 {
			return // older than the window
		}
	}
	h.streams[at*hops+hop-1].add(p.of(hops), code)
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
		return &h.streams[hop-1]
	}
	sum := new(stream)
	for at, number := range h.numbers {
		if number+windowPanes > h.last {
			sum.merge(p.of(h.hops), &h.streams[at*h.hops+hop-1])
		}
	}
	return sum
}
