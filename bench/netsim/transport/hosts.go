package transport

import (
	"math/bits"
	"slices"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// list is packets that wait at a host, first in, first out.
type list struct {
	packets []uint32
	from    int
}

func (l *list) clear() { l.packets, l.from = l.packets[:0], 0 }

func (l *list) push(packet uint32) {
	if len(l.packets) == cap(l.packets) && l.from > len(l.packets)/2 {
		// Room that was taken out of serves again before more is asked for.
		l.packets = l.packets[:copy(l.packets, l.packets[l.from:])]
		l.from = 0
	}
	l.packets = append(l.packets, packet)
}

func (l *list) pop() (packet uint32, ok bool) {
	if l.from == len(l.packets) {
		return 0, false
	}
	packet = l.packets[l.from]
	if l.from++; l.from == len(l.packets) {
		l.clear()
	}
	return packet, true
}

// send puts the host's next packet on its link, if that is free: acknowledgements first, then
// flows in turn.
func (s *Simulation) send(host int) {
	if !s.net.Idle(host) {
		return
	}
	h := &s.hosts[host]
	if packet, ok := h.acks.pop(); ok {
		s.net.Send(packet)
		return
	}
	now, earliest := s.net.Now(), event.Never
	for n := len(h.active); n > 0; n-- {
		if h.turn >= len(h.active) {
			h.turn = 0
		}
		i := h.active[h.turn]
		h.turn++
		f := &s.flows[i]
		if !f.mayAsk() {
			continue
		}
		if f.sendAt > now {
			earliest = min(earliest, f.sendAt)
			continue
		}
		s.sendSegment(i)
		return
	}
	if earliest != event.Never && (h.timer == 0 || earliest < h.timer) {
		h.timer = earliest
		s.net.SetTimer(earliest, hostTimer(host))
	}
}

// mayAsk reports whether a flow has a packet to send within its window.
func (f *flow) mayAsk() bool {
	if f.reno != nil && f.reno.lost {
		return true
	}
	return f.nxt < f.Bytes && float64(f.nxt-f.una) < f.window
}

// sendSegment sends a flow's next packet, or again the first that is missing.
func (s *Simulation) sendSegment(i uint32) {
	f, now := &s.flows[i], s.net.Now()
	seq := f.nxt
	again := f.reno != nil && f.reno.lost
	if again {
		seq, f.reno.lost = f.una, false
	}
	payload := min(f.Bytes-seq, int64(s.config.Payload))
	packet := s.net.New()
	p := s.net.At(packet)
	*p = fabric.Packet{
		ID: hash.Uint64x2(s.config.Seed, uint64(i), uint64(seq)), Seq: seq, Sent: now, Route: f.route, Flow: i,
		Bytes: uint32(payload) + uint32(s.config.HeaderBytes+s.config.TelemetryBytes),
	}
	if again {
		s.retries++
	} else {
		f.nxt += payload
	}
	if f.hpcc != nil {
		f.sendAt = now + event.Time(float64(p.Bytes)*f.perByte)
	} else {
		s.arm(i)
	}
	s.net.Send(packet)
}

// deliver is a packet's arrival at a host.
func (s *Simulation) deliver(host int, packet uint32) {
	p := s.net.At(packet)
	if p.Kind == fabric.Ack {
		s.acknowledged(packet)
		return
	}
	f := &s.flows[p.Flow]
	if s.config.Arrived != nil {
		s.config.Arrived(int(p.Flow), s.net.Now(), p)
	}
	if s.config.Fabric.Telemetry.INTMD != nil {
		p.Digest = s.largestUse(packet)
	}
	s.receive(f, p.Seq)
	p.Kind, p.Acked, p.Route = fabric.Ack, f.expected, f.back
	p.Bytes = uint32(s.config.AckBytes + s.config.TelemetryBytes)
	s.hosts[host].acks.push(packet)
	s.send(host)
}

// largestUse is that of the links that a packet's stack names.
func (s *Simulation) largestUse(packet uint32) (use uint64) {
	p, stack := s.net.At(packet), s.net.Stack(packet)
	if s.config.Stacks != nil {
		s.config.Stacks(int(p.Flow), p, stack)
	}
	s.stackHops, _ = stack.Hops(s.stackHops[:0], 0)
	for i := range s.stackHops {
		use = max(use, uint64(s.stackHops[i].Utilisation))
	}
	return use
}

// receive notes the segment at seq.
func (s *Simulation) receive(f *flow, seq int64) {
	size := int64(s.config.Payload)
	if seq > f.expected {
		if f.early == nil {
			f.early = make([]uint64, (f.Bytes/size)/64+1)
		}
		f.early[seq/size/64] |= 1 << (seq / size % 64)
		return
	}
	if seq < f.expected {
		return
	}
	f.expected = min(seq+size, f.Bytes)
	if f.early == nil {
		return
	}
	for f.expected < f.Bytes {
		// A run of segments that are there, within a word.
		at := f.expected / size
		run := int64(bits.TrailingZeros64(^(f.early[at/64] >> (at % 64))))
		run = min(run, 64-at%64)
		f.expected = min((at+run)*size, f.Bytes)
		if run < 64-at%64 {
			return
		}
	}
}

// acknowledged is an acknowledgement's arrival at the sender.
func (s *Simulation) acknowledged(packet uint32) {
	p := s.net.At(packet)
	i := p.Flow
	f := &s.flows[i]
	before := f.una
	f.una = max(f.una, p.Acked)
	f.nxt = max(f.nxt, f.una)
	if s.done[i] == 0 {
		if f.hpcc != nil {
			s.reactHPCC(f, packet)
		} else {
			s.reactReno(i, p, before)
		}
		if f.una == f.Bytes {
			s.end(i)
		}
	}
	s.net.Free(packet)
	s.send(f.From)
}

func (s *Simulation) end(i uint32) {
	f := &s.flows[i]
	s.done[i] = s.net.Now() - f.Start
	s.ended++
	h := &s.hosts[f.From]
	at := slices.Index(h.active, i)
	h.active = slices.Delete(h.active, at, at+1)
	if h.turn > at {
		h.turn--
	}
	f.hpcc, f.reno, f.early = nil, nil, nil
}

// reactHPCC is NewAck of Algorithm 1.
func (s *Simulation) reactHPCC(f *flow, packet uint32) {
	p, h := s.net.At(packet), f.hpcc
	roundTrip := s.config.RoundTrip
	switch {
	case s.config.Fabric.Telemetry.INTMD != nil:
		h.use = float64(p.Digest) / pint.UtilisationOne
	case s.config.Feedback == nil:
		if !h.measure(s.net, s.net.HopRecords(packet), roundTrip.Seconds()) {
			return
		}
	default:
		use, ok := s.config.Feedback.Read(p.ID, p.Digest)
		if !ok {
			return
		}
		h.use = use / pint.UtilisationOne
	}
	s.feedbacks++
	line := float64(roundTrip) / float64(s.net.PerByte(f.route))
	f.window = h.window(s.config.HPCC, p.Acked, f.nxt, leastWindow*line, line)
	f.perByte = float64(roundTrip) / f.window
}

// leastWindow is the smallest window, of the one at full rate: HPCC's smallest rate, 100 Mbit/s of 100 Gbit/s.
const leastWindow = 1e-3

// reactReno is what TCP does for an acknowledgement.
func (s *Simulation) reactReno(i uint32, p *fabric.Packet, before int64) {
	f, segment := &s.flows[i], float64(s.config.Payload)
	t := f.reno
	if f.una == before {
		if f.nxt > f.una {
			f.window = t.duplicate(f.window, segment, f.una, f.nxt)
		}
		return
	}
	t.measured(s.net.Now()-p.Sent, s.config.Reno.MinRTO)
	f.window = t.acked(f.window, segment, before, f.una)
	t.deadline = 0
	if f.nxt > f.una {
		s.arm(i)
	}
}

// arm sets a flow's retransmission timer, if none runs. A timer is not taken back when its deadline
// moves on: it looks at the deadline when it ends.
func (s *Simulation) arm(i uint32) {
	t := s.flows[i].reno
	if t.deadline == 0 {
		t.deadline = s.net.Now() + t.timeout
	}
	if t.timer == 0 || t.deadline < t.timer {
		t.timer = t.deadline
		s.net.SetTimer(t.timer, s.flowTimer(i))
	}
}

// expired is the end of a flow's retransmission timer.
func (s *Simulation) expired(i uint32) {
	f := &s.flows[i]
	t := f.reno
	if t == nil || t.timer != s.net.Now() {
		return // the flow has ended, or an earlier timer replaced this one
	}
	t.timer = 0
	switch {
	case t.deadline == 0:
		return
	case t.deadline > s.net.Now():
		s.arm(i)
		return
	}
	f.window = t.expired(float64(s.config.Payload), f.una, f.nxt)
	s.retries += uint64((f.nxt - f.una + int64(s.config.Payload) - 1) / int64(s.config.Payload))
	f.nxt = f.una
	t.deadline = 0
	s.send(f.From)
}
