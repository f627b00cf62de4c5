package pipeline

import "github.com/weirswitch/weir/pipeline/packet"

// Edge is a side of a stage at which packets can be watched.
type Edge int

// The edges.
const (
	EdgeBefore  Edge = iota // living packets that are about to enter the stage
	EdgeAfter               // living packets that have passed it
	EdgeDropped             // packets that the stage dropped
)

// Tap watches the packets at one stage's edge, for a capture. It takes the
// tracer's position (NewTap), so a graph without either pays one pointer load per batch;
// with one, batches are not timed.
type Tap struct {
	Stage string // its name; empty: the graph's first
	Edge  Edge
	// Take is called on the workers for each packet at the edge. It may copy what it
	// wants, and must neither wait nor allocate.
	Take func(b *packet.Batch, p *packet.Packet)
}

// NewTap returns a tracer that watches an edge, until another one is set, and
// collects no words.
func NewTap(t Tap) *Tracer {
	tracer := &Tracer{tap: &t}
	tracer.left.Store(1) // and it stays there: a tap is never done
	return tracer
}

// runTapped is Run with a tap.
func (g *Graph) runTapped(b *packet.Batch, t *Tap, first, last int) {
	for i := first; i < last; i++ {
		living, dropped, copied := len(b.Pkts)-b.Dropped, b.Dropped, b.Copied
		watched := g.counters[i].Name == t.Stage || i == 0 && t.Stage == ""
		if watched && t.Edge != EdgeAfter {
			t.before(b)
		}
		g.stages[i].Process(b)
		if watched && t.Edge != EdgeBefore {
			t.after(b)
		}
		g.count(i, b, living, dropped, copied)
	}
}

// before takes what lives, or marks what is dropped already: a stage gives a
// packet's reason once, so those that had one before are not its own.
func (t *Tap) before(b *packet.Batch) {
	for i := range b.Pkts {
		p := &b.Pkts[i]
		switch {
		case t.Edge == EdgeBefore && p.Reason == 0:
			t.Take(b, p)
		case t.Edge == EdgeDropped && p.Reason != 0:
			p.Reason |= dead
		}
	}
}

// dead marks packets that earlier stages dropped, while the watched stage runs.
// Stages look at whether there is a reason, not at which.
const dead packet.Reason = packet.MaxReasons

func (t *Tap) after(b *packet.Batch) {
	for i := range b.Pkts {
		p := &b.Pkts[i]
		switch {
		case p.Reason&dead != 0:
			p.Reason &^= dead
		case t.Edge == EdgeAfter && p.Reason == 0, t.Edge == EdgeDropped && p.Reason != 0:
			t.Take(b, p)
		}
	}
}
