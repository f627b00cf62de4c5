package l3

import (
	"net/netip"

	"github.com/weirswitch/weir/pipeline/packet"
)

// await deals with a packet whose next hop's MAC address is not known: it waits
// while the neighbour is asked for. n is nil for a destination on the port's own
// link of which nothing is known yet.
func (s *stage) await(b *packet.Batch, p *packet.Packet, in uint16, n *neighbour, k neighbourKey, own bool) {
	m := s.module
	if !m.lock() {
		b.Drop(p, reasonPending)
		return
	}
	defer m.mu.Unlock()
	if n == nil || m.known[n.neighbourKey] != n { // unknown, or forgotten since the batch began
		if n = m.find(k); n == nil {
			b.Drop(p, reasonPending)
			return
		}
	}
	if v := n.link.Load(); v != 0 { // another worker was faster
		s.send(b, p, n.port, v, own)
		return
	}
	if n.probes.Load() >= maxProbes && since(n.asked.Load(), b.Now) >= askEvery {
		s.giveUp(b, n) // and a new turn begins with this packet
	}
	if m.hold(b, p, in, n, own) {
		b.Drop(p, packet.Consumed)
	} else {
		b.Drop(p, reasonPending)
	}
	if n.due(b.Now) {
		s.request(b, n, 0)
	}
}

// giveUp ends the search for a neighbour: the senders of waiting packets are notified.
// The caller has the lock.
func (s *stage) giveUp(b *packet.Batch, n *neighbour) {
	n.probes.Store(0)
	s.takeBack(b, n, func(p *packet.Packet, in uint16, own bool) {
		b.Drop(p, reasonUnreachable)
		if !own {
			s.sendError(b, p, in, hostUnreachable, 0)
		}
	})
}

// stale handles a packet to a neighbour that was not confirmed for long: it is
// asked, by unicast, while packets go on. It reports false if the neighbour has
// to be looked for anew.
func (s *stage) stale(b *packet.Batch, n *neighbour, v uint64) bool {
	if n.probes.Load() >= maxProbes && since(n.asked.Load(), b.Now) >= askEvery {
		if n.link.CompareAndSwap(v, 0) {
			n.probes.Store(0)
			n.asked.Store(0)
		}
		return false
	}
	if n.due(b.Now) {
		s.request(b, n, v&macMask)
	}
	return true
}

// finding is a neighbour that was confirmed in this batch.
type finding struct {
	neighbourKey
	mac    uint64
	create bool // it spoke to us, so we shall speak to it
}

// confirm notes a neighbour's address. It takes effect at the batch's end, so that
// packets that wait leave in front of those that would not have to.
func (s *stage) confirm(b *packet.Batch, addr netip.Addr, port uint16, mac uint64, create bool) {
	if mac&macGroup != 0 || mac == 0 {
		return
	}
	if len(s.findings) == cap(s.findings) {
		s.learn(b)
	}
	if len(s.findings) < cap(s.findings) {
		s.findings = append(s.findings, finding{neighbourKey{addr, port}, mac, create})
	}
}

// learn applies the findings. Should the lock be busy, they stay for the next
// batch.
func (s *stage) learn(b *packet.Batch) {
	m := s.module
	if !m.lock() {
		return
	}
	defer m.mu.Unlock()
	for _, f := range s.findings {
		n := m.known[f.neighbourKey]
		if n == nil && f.create && m.mayCreate(f.port, b.Now) {
			n = m.find(f.neighbourKey)
		}
		if n == nil || n.static {
			continue
		}
		v := f.mac | linkKnown
		n.confirmed = b.Now
		n.probes.Store(0)
		n.asked.Store(0)
		n.link.Store(v)
		s.takeBack(b, n, func(p *packet.Packet, _ uint16, own bool) { s.send(b, p, n.port, v, own) })
	}
	s.findings = s.findings[:0]
}

// budget is how many neighbours of a port were made lately because they spoke first.
type budget struct {
	period int64
	used   int
}

// spokenPerPeriod bounds the neighbours of a port that are made in 2^27 ns, about an eighth of a second, because they spoke first: each
// changes the table, and addresses are easily forged. Those beyond are looked for when there is a packet for them.
const spokenPerPeriod, spokenShift = 128, 27

// mayCreate reports whether another neighbour of a port may be made because it spoke first.
func (m *Module) mayCreate(port uint16, now int64) bool {
	for int(port) >= len(m.spoken) {
		m.spoken = append(m.spoken, budget{})
	}
	s := &m.spoken[port]
	if period := now >> spokenShift; s.period != period {
		*s = budget{period: period}
	}
	s.used++
	return s.used <= spokenPerPeriod
}
