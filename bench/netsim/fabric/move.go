package fabric

import (
	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/intmd"
)

// The functions of this file are in the order in which a packet meets them:
// Send, transmit, arrive, enqueue, transmit, and at the end Delivered to the caller.

// What is why Next returned.
type What uint8

// The reasons for which Next returns.
const (
	// Delivered: Packet arrived at Host. It is the caller's, to Free or to Send.
	Delivered What = iota
	// Ready: Host's link is free and not paused, for the next packet.
	Ready
	// Timer: the timer Packet, as set by SetTimer, ended.
	Timer
	// Until: nothing more happens before the time given.
	Until
)

// Happening is what concerns a host.
type Happening struct {
	What   What
	Host   int
	Packet uint32
}

// Next runs the network up to the next thing that concerns a host, or to the given time.
func (n *Network) Next(until event.Time) Happening {
	links := uint32(len(n.links))
	for n.queue.Next() <= until {
		at, id := n.queue.Pop()
		n.now = at
		n.counts.Events++
		switch {
		case id < links:
			if h := n.landed(id); h.What != Until {
				return h
			}
		case id < 2*links:
			if n.free(id - links) {
				return Happening{What: Ready, Host: int(id-links) / 2}
			}
		default:
			return Happening{What: Timer, Packet: id - 2*links}
		}
	}
	n.now = max(n.now, until)
	return Happening{What: Until}
}

// SetTimer has Next return the timer at the given time, or now if that is past. Timers
// cannot be taken back; number counts from 0, up to MaxTimer.
func (n *Network) SetTimer(at event.Time, number uint32) {
	n.queue.Push(max(at, n.now), number+2*uint32(len(n.links)))
}

// MaxTimer is the largest number of a timer.
func (n *Network) MaxTimer() uint32 { return event.MaxID - 2*uint32(len(n.links)) }

// New returns a packet to be filled in, sent and freed.
func (n *Network) New() uint32 {
	i := n.take()
	n.packets[i] = Packet{}
	return i
}

// At is the packet with a number, until the next call of New or Next.
func (n *Network) At(packet uint32) *Packet { return &n.packets[packet] }

// HopRecords are what INT wrote into a packet, the first switch's first. They stay with the
// packet when it is sent back as an acknowledgement.
func (n *Network) HopRecords(packet uint32) []HopRecord {
	return n.hops[packet][:min(int(n.packets[packet].Hops), MaxRoute)]
}

// Free gives up a packet.
func (n *Network) Free(packet uint32) { n.give(packet) }

// Idle reports whether a host can send now.
func (n *Network) Idle(host int) bool {
	l := &n.links[2*host]
	return !l.paused && !l.waiting && n.now >= l.freeAt
}

// Send puts a packet on the link of its route's host, which must be Idle. Ready follows when
// the link is free again.
func (n *Network) Send(packet uint32) {
	p := &n.packets[packet]
	p.hop = 0
	at := n.routes[p.Route].links[0]
	n.counts.Injected++
	n.counts.InjectedBytes += uint64(p.Bytes)
	n.transmit(at, packet)
	l := &n.links[at]
	l.waiting = true
	n.queue.Push(l.freeAt, at+uint32(len(n.links)))
}

// transmit puts a packet on a link that is free.
func (n *Network) transmit(at, packet uint32) {
	l, p := &n.links[at], &n.packets[packet]
	l.sent += uint64(p.Bytes)
	if !n.isHost(l.from) {
		n.leaveBuffer(l.from, p)
		n.stamp(at, packet)
	}
	n.launch(at, max(n.now, l.freeAt), packet)
}

// launch has a packet arrive at the far end of a link, which begins to send it at the given time.
func (n *Network) launch(at uint32, begin event.Time, packet uint32) {
	l, p := &n.links[at], &n.packets[packet]
	l.freeAt = begin + l.perByte*event.Time(p.Bytes)
	p.at = l.freeAt + l.delay
	if l.flying.empty() {
		n.queue.Push(p.at, at)
	}
	l.flying.push(n.packets, packet)
}

// stamp is what a switch does to a packet's telemetry.
func (n *Network) stamp(at, packet uint32) {
	l, p := &n.links[at], &n.packets[packet]
	if n.meters != nil {
		n.measure(at, packet)
	}
	if n.config.Telemetry.INT && p.Kind == Data {
		n.hops[packet][p.Hops&(MaxRoute-1)] = HopRecord{At: n.now, Sent: l.sent, Queue: uint32(l.queued), Link: at}
		p.Hops++
	}
}

// measure updates the use of a link, and writes a digest or into a stack.
func (n *Network) measure(at, packet uint32) {
	l, p, m, t := &n.links[at], &n.packets[packet], &n.meters[at], &n.config.Telemetry
	arrived := p.Bytes
	if t.INTMD != nil && p.Kind == Data {
		more := uint32(t.INTMD.HopLen())
		if p.grown == 0 {
			more += intmd.FixedLen
		}
		p.Bytes, p.grown, l.sent = p.Bytes+more, p.grown+more, l.sent+uint64(more)
	}
	m.depart(n.now, l.queued, p.Bytes)
	if p.Kind != Data {
		return
	}
	p.Hops++
	came := n.came(p, arrived, at)
	m.observe(came, n.now)
	if t.PINT != nil {
		p.Digest = m.digest(t.PINT, p.ID, int(p.Hops), p.Digest)
	}
	if t.INTMD != nil {
		h := m.hop(l.queued, came, n.now)
		before := int(p.grown) - t.INTMD.HopLen()
		s := n.stack(packet, before)
		if before == intmd.FixedLen {
			s = intmd.NewStack(s, t.INTMD)
		}
		if _, outcome := s.Push(&h); outcome != intmd.Done {
			panic("fabric: a stack has no room for its route") // MaxRoute bounds it, and the configuration the hops
		}
	}
	if t.Observed != nil {
		t.Observed(p, &m.seen)
	}
}

// came is when a packet came to the switch that sends it on a link now: its last bit did, less the
// time that its bits take on the link by which it came and will take on this one.
// It came as so many bytes.
func (n *Network) came(p *Packet, arrived, at uint32) event.Time {
	return p.at - n.links[p.in].perByte*event.Time(arrived) - n.links[at].perByte*event.Time(p.Bytes)
}

// Stack is what INT-MD wrote into a packet, with no more hops than the route has; a host has taken it out. It stays with the packet when it is sent
// back as an acknowledgement.
func (n *Network) Stack(packet uint32) intmd.Stack {
	data := n.stack(packet, n.stackLen)
	return intmd.StackAt(data)
}

// landed takes the first packet off a link.
func (n *Network) landed(at uint32) Happening {
	l := &n.links[at]
	packet := l.flying.pop(n.packets)
	if !l.flying.empty() {
		n.queue.Push(n.packets[l.flying.head].at, at)
	}
	p := &n.packets[packet]
	switch p.Kind {
	case pause, resume:
		paused := p.Kind == pause
		n.give(packet)
		return n.setPaused(l.reverse, paused)
	}
	if n.isHost(l.to) {
		p.Bytes, p.grown = p.Bytes-p.grown, 0
		n.counts.Delivered++
		n.counts.DeliveredBytes += uint64(p.Bytes)
		return Happening{What: Delivered, Host: int(l.to) - len(n.switches), Packet: packet}
	}
	n.arrive(at, packet)
	return Happening{What: Until}
}

// arrive takes a packet into a switch's buffer, or drops it.
func (n *Network) arrive(at, packet uint32) {
	l, p := &n.links[at], &n.packets[packet]
	p.hop++
	out := n.routes[p.Route].links[p.hop&(MaxRoute-1)]
	s, o := &n.switches[l.to], &n.links[out]
	if s.used+int64(p.Bytes) > n.config.Buffer || n.config.QueueLimit > 0 && o.queued+int64(p.Bytes) > n.config.QueueLimit {
		n.counts.Dropped++
		n.counts.DroppedBytes += uint64(p.Bytes - p.grown)
		n.give(packet)
		return
	}
	s.used += int64(p.Bytes)
	l.held += int64(p.Bytes)
	n.counts.LargestBuffer = max(n.counts.LargestBuffer, s.used)
	p.in = at
	if n.config.PFC && !l.pausing && l.held > n.threshold(s) {
		l.pausing = true
		n.counts.Pauses++
		n.control(l.reverse, pause)
	}
	if !o.waiting && !o.paused && n.now >= o.freeAt {
		n.transmit(out, packet)
		return
	}
	n.enqueue(out, packet)
}

func (n *Network) enqueue(at, packet uint32) {
	l := &n.links[at]
	l.queue.push(n.packets, packet)
	l.queued += int64(n.packets[packet].Bytes)
	n.counts.LargestQueue = max(n.counts.LargestQueue, l.queued)
	n.await(at)
}

// await has free called when a link that has something to send is free.
func (n *Network) await(at uint32) {
	l := &n.links[at]
	if !l.waiting && !l.paused {
		l.waiting = true
		n.queue.Push(max(n.now, l.freeAt), at+uint32(len(n.links)))
	}
}

// free sends what waits for a link. It reports whether the link is a host's that can send.
func (n *Network) free(at uint32) (ready bool) {
	l := &n.links[at]
	l.waiting = false
	switch {
	case l.paused: // setPaused will await
		return false
	case n.now < l.freeAt: // a frame of PFC went first
		n.await(at)
		return false
	case n.isHost(l.from):
		return true
	case l.queue.empty():
		return false
	}
	packet := l.queue.pop(n.packets)
	l.queued -= int64(n.packets[packet].Bytes)
	n.transmit(at, packet)
	if !l.queue.empty() {
		n.await(at)
	}
	return false
}
