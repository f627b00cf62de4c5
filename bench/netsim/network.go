package netsim

import (
	"errors"
	"fmt"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Switch describes a switch of a Network as a configuration file does.
type Switch struct {
	ID     uint32
	Hash   hash.Family
	Ports  []string
	Graph  []string       // the names of its stages, in order
	Stages map[string]any // their configurations, as stages.Build takes them
	// MTU of the ports, in bytes behind the Ethernet header; 0: any packet passes. Stages know of it, the network drops nothing.
	MTU int
	// BitsPerSecond is the ports' speed, as stages know it; 0: it is not known.
	BitsPerSecond uint64
}

// End is a port of a switch of a Network, both by number.
type End struct{ Switch, Port int }

// outside is the switch number of what is none of the network's.
const outside = -1

// Cable joins two ports. Packets take no time on it.
type Cable [2]End

// Network is switches that run the very stages of a live one, and cables
// between them. A packet goes from port to port until it leaves by one without
// a cable, and the switches see the time that it took. It holds the switches'
// batches, so it belongs to one goroutine.
type Network struct {
	nodes []*node
	// Delay is how long a packet stays in a switch, in ns; nil: no time.
	Delay func(sw int) int64
	// Queue, if set, is what a packet meets at a switch in place of Delay: how long it stays there, in ns, and how many packets wait in front
	// of it, which stages see as the depth of all ports' rings.
	Queue func(at End, p *packet.Packet, now int64) (delayNs int64, waiting int)
	// Passed, if set, is called for each packet that a switch sends on: where it came in and went out, as which number of bytes it
	// came, and when. It must keep no pointer.
	Passed func(in, out End, p *packet.Packet, cameBytes uint32, came, now int64)
	// Link is what a packet meets on the cable behind a port that it leaves by at a time: a delay, in ns, or loss; nil: neither.
	Link func(from End, p *packet.Packet, now int64) (delayNs int64, lost bool)
	// Copied, NoFrame and NoRoom are what the batches' fields of these names add
	// up to, until the caller clears them.
	Copied, NoFrame, NoRoom int

	waiting []transfer
	due     []transfer // a heap by time: see CarryInOrder
	number  uint64     // of the next transfer in it
}

// node is a switch at work.
type node struct {
	chain  []pipeline.Named
	graph  *pipeline.Graph
	batch  *packet.Batch
	cables []End    // by port
	depth  []uint32 // by port, of the present packet
}

// transfer is a packet that is about to enter a switch.
type transfer struct {
	at     End
	packet packet.Packet
	now    int64
	hops   int

	arrival int64  // at the network
	number  uint64 // of equal times, the first goes first
}

// reasonHops is the drop reason of packets that pass more switches than a
// Network lets them: they loop.
var reasonHops = packet.Register("netsim_hops", "the packet passed 256 switches of a simulated network")

// reasonLink is that of packets that Network.Link loses.
var reasonLink = packet.Register("netsim_link", "a link of a simulated network lost the packet")

const maxHops = 256

// NewNetwork builds the switches, whose batches take frames from the cache.
// All faults are reported.
func NewNetwork(switches []Switch, cables []Cable, frames *packet.Cache) (*Network, error) {
	n := &Network{}
	var errs []error
	for i, s := range switches {
		v, err := newNode(s, frames)
		if err != nil {
			errs = append(errs, fmt.Errorf("switch %d, id %d: %w", i, s.ID, err))
			v = &node{cables: make([]End, len(s.Ports))}
		}
		n.nodes = append(n.nodes, v)
	}
	for _, c := range cables {
		errs = append(errs, n.plug(c[0], c[1]), n.plug(c[1], c[0]))
	}
	return n, errors.Join(errs...)
}

func newNode(s Switch, frames *packet.Cache) (*node, error) {
	env := pipeline.Env{Name: fmt.Sprintf("s%d", s.ID), ID: s.ID, Workers: 1, Hash: s.Hash}
	v := &node{cables: make([]End, len(s.Ports)), depth: make([]uint32, len(s.Ports)), batch: packet.NewBatch(frames, packet.BatchSize*max(len(s.Ports), 1))}
	for i, name := range s.Ports {
		port := pipeline.Port{Name: name, MTU: s.MTU, BitsPerSecond: s.BitsPerSecond}
		if s.MTU > 0 {
			port.MaxFrame = s.MTU + header.EthernetLen + header.VLANLen
		}
		env.Ports = append(env.Ports, port)
		v.cables[i].Switch = outside
	}
	var err error
	if v.chain, err = stages.Build(s.Graph, s.Stages, env); err != nil {
		return nil, err
	}
	stages.Inline(v.chain)
	v.graph = pipeline.NewGraph(v.chain, 0)
	return v, nil
}

func (n *Network) plug(a, b End) error {
	if a.Switch < 0 || a.Switch >= len(n.nodes) || a.Port < 0 || a.Port >= len(n.nodes[a.Switch].cables) {
		return fmt.Errorf("a cable ends at port %d of switch %d, which does not exist", a.Port, a.Switch)
	}
	at := &n.nodes[a.Switch].cables[a.Port]
	if at.Switch != outside {
		return fmt.Errorf("two cables end at port %d of switch %d", a.Port, a.Switch)
	}
	*at = b
	return nil
}

// Chain returns the modules of a switch, for questions.
func (n *Network) Chain(sw int) []pipeline.Named { return n.nodes[sw].chain }

// Carry takes a packet, which enters at a port at its Arrival, through the
// network, and calls left for it and each copy of it: with the port by which it
// leaves, or with Outside and its Reason where it was dropped. The frames are
// then the caller's again; left keeps no pointer. Packet.Arrival is that of the
// original.
func (n *Network) Carry(enter End, p packet.Packet, left func(at End, p *packet.Packet)) {
	arrival := p.Arrival
	n.waiting = append(n.waiting[:0], transfer{at: enter, packet: p, now: arrival})
	for len(n.waiting) > 0 {
		t := n.waiting[0]
		n.waiting = n.waiting[1:]
		if t.hops == maxHops {
			t.packet.Reason = reasonHops
			t.packet.Arrival = arrival
			left(End{Switch: outside}, &t.packet)
			continue
		}
		n.pass(&t, arrival, left)
	}
}

// CarryInOrder is Carry for many packets, which every switch meets in the order of time, whatever delays they have.
// next returns the packets in the order in which they enter, at their Arrival; false: there are no more. left gets the time too.
func (n *Network) CarryInOrder(next func() (enter End, p packet.Packet, ok bool), left func(at End, p *packet.Packet, now int64)) {
	enter, p, more := next()
	for more || len(n.due) > 0 {
		if more && (len(n.due) == 0 || p.Arrival <= n.due[0].now) {
			n.push(transfer{at: enter, packet: p, now: p.Arrival, arrival: p.Arrival})
			enter, p, more = next()
			continue
		}
		t := n.pop()
		n.waiting = n.waiting[:0]
		if t.hops == maxHops {
			t.packet.Reason = reasonHops
			left(End{Switch: outside}, &t.packet, t.now)
			continue
		}
		n.pass(&t, t.arrival, func(at End, p *packet.Packet) { left(at, p, t.now) })
		for _, w := range n.waiting {
			w.arrival = t.arrival
			n.push(w)
		}
	}
}

func (t *transfer) before(o *transfer) bool {
	return t.now < o.now || t.now == o.now && t.number < o.number
}

func (n *Network) push(t transfer) {
	t.number = n.number
	n.number++
	n.due = append(n.due, t)
	for i := len(n.due) - 1; i > 0 && n.due[i].before(&n.due[(i-1)/2]); i = (i - 1) / 2 {
		n.due[i], n.due[(i-1)/2] = n.due[(i-1)/2], n.due[i]
	}
}

func (n *Network) pop() transfer {
	top, last := n.due[0], len(n.due)-1
	n.due[0] = n.due[last]
	n.due = n.due[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < last && n.due[child+1].before(&n.due[child]) {
			child++
		}
		if child >= last || !n.due[child].before(&n.due[i]) {
			return top
		}
		n.due[i], n.due[child] = n.due[child], n.due[i]
		i = child
	}
}

// pass takes a packet through one switch.
func (n *Network) pass(t *transfer, arrival int64, left func(End, *packet.Packet)) {
	v := n.nodes[t.at.Switch]
	b := v.batch
	b.Reset()
	p := b.Append()
	// Another switch knows nothing but the bytes.
	*p = packet.Packet{
		Addr: t.packet.Addr, Len: t.packet.Len, WireLen: t.packet.WireLen, Next: t.packet.Next, Arrival: t.now,
		InPort: uint16(t.at.Port), OutPort: packet.NoPort, Flags: t.packet.Flags & packet.FlagCopy,
	}
	b.Now = t.now
	switch {
	case n.Queue != nil:
		delay, waiting := n.Queue(t.at, p, t.now)
		b.Now += delay
		b.Depth = v.depth
		for i := range v.depth {
			v.depth[i] = uint32(waiting)
		}
	case n.Delay != nil:
		b.Now += n.Delay(t.at.Switch)
	}
	v.graph.Run(b)
	n.Copied, n.NoFrame, n.NoRoom = n.Copied+b.Copied, n.NoFrame+b.NoFrame, n.NoRoom+b.NoRoom
	for i := range b.Pkts {
		q := &b.Pkts[i]
		q.Arrival = arrival
		if q.Reason == 0 && int(q.OutPort) >= len(v.cables) {
			q.Reason = packet.ReasonNoPort
		}
		if q.Reason != 0 {
			left(End{Switch: outside}, q)
			continue
		}
		if n.Passed != nil {
			n.Passed(t.at, End{t.at.Switch, int(q.OutPort)}, q, t.packet.WireLen, t.now, b.Now)
		}
		if next := v.cables[q.OutPort]; next.Switch != outside {
			delay := int64(0)
			if n.Link != nil {
				lost := false
				if delay, lost = n.Link(End{t.at.Switch, int(q.OutPort)}, q, b.Now); lost {
					q.Reason = reasonLink
					left(End{Switch: outside}, q)
					continue
				}
			}
			n.waiting = append(n.waiting, transfer{at: next, packet: *q, now: b.Now + delay, hops: t.hops + 1})
			continue
		}
		left(End{t.at.Switch, int(q.OutPort)}, q)
	}
}

// OnTick makes a switch call f behind each round of its stages' work by the clock
// (pipeline.Graph.OnTick): who keeps its records collects them there. To be set
// before the first packet.
func (n *Network) OnTick(sw int, f func(now int64)) { n.nodes[sw].graph.OnTick(f) }

// Tick has the stages of all switches do their work by the clock, as before the first packet.
func (n *Network) Tick(now int64) {
	for _, v := range n.nodes {
		v.graph.Tick(now)
	}
}

// Finish ends the switches' measurements, behind the last packet.
func (n *Network) Finish(now int64) {
	for _, v := range n.nodes {
		v.graph.Finish(now)
	}
}
