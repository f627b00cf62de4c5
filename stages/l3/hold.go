package l3

import (
	"github.com/weirswitch/weir/pipeline/packet"
)

// arena holds packets for neighbours that are looked for, outside of the
// frames: a held packet is consumed where it arrived, and comes back as a copy,
// in whichever worker's batch brings the answer. Guarded by Module.mu.
type arena struct {
	slots []heldPacket
	bytes []byte  // slotSize for each slot
	free  []int32 // a stack
}

type heldPacket struct {
	meta packet.Packet
	in   uint16 // the port of the router at which it arrived
	own  bool   // made by the switch: its TTL stays
}

const (
	arenaSlots = 256
	slotSize   = 1792 // a frame of 2048 bytes without its headroom
)

func newArena() arena {
	a := arena{slots: make([]heldPacket, arenaSlots), bytes: make([]byte, arenaSlots*slotSize)}
	for i := range int32(arenaSlots) {
		a.free = append(a.free, arenaSlots-1-i)
	}
	return a
}

func (a *arena) data(slot int32) []byte { return a.bytes[int(slot)*slotSize:][:slotSize] }

// hold keeps a copy of a packet for a neighbour. It reports false if there is
// no room, or the packet is too long.
func (m *Module) hold(b *packet.Batch, p *packet.Packet, in uint16, n *neighbour, own bool) bool {
	a := &m.arena
	if p.Next != 0 || p.Len > slotSize || p.Len != p.WireLen || len(n.held) >= m.config.Hold || len(a.free) == 0 {
		m.counters.holdFull.Add(1)
		return false
	}
	slot := a.free[len(a.free)-1]
	a.free = a.free[:len(a.free)-1]
	copy(a.data(slot), b.Data(p))
	a.slots[slot] = heldPacket{*p, in, own}
	a.slots[slot].meta.InPort = b.ArrivalPort(p)
	n.held = append(n.held, slot)
	m.counters.held.Add(1)
	return true
}

// takeBack appends each packet that waits for a neighbour to the batch, as a
// copy, and calls f for it. Those for which there is no frame or no room are
// counted so.
func (s *stage) takeBack(b *packet.Batch, n *neighbour, f func(p *packet.Packet, in uint16, own bool)) {
	a := &s.module.arena
	for _, slot := range n.held {
		h := &a.slots[slot]
		if p := s.newPacket(b, int(h.meta.Len)); p != nil {
			addr, inPort, inQueue := p.Addr, p.InPort, p.InQueue
			*p = h.meta
			p.Addr = addr
			b.Return(p, h.meta.InPort)
			p.InPort, p.InQueue = inPort, inQueue // where the books of this batch are kept
			p.Flags |= packet.FlagCopy
			copy(b.Data(p), a.data(slot))
			f(p, h.in, h.own)
		}
		a.free = append(a.free, slot)
	}
	n.held = n.held[:0]
}

// newPacket appends an empty packet of n bytes, made by the switch, to the
// batch. It returns nil, and counts why, if that cannot be.
func (s *stage) newPacket(b *packet.Batch, n int) *packet.Packet {
	if len(b.Pkts) == cap(b.Pkts) {
		b.NoRoom++
		return nil
	}
	addr, ok := b.Frames.AllocOne()
	if !ok {
		b.NoFrame++
		return nil
	}
	first := &b.Pkts[0]
	p := b.Append()
	p.Addr = addr + headroom
	p.Len, p.WireLen = uint32(n), uint32(n)
	p.InPort, p.InQueue = first.InPort, first.InQueue
	p.Arrival = b.Now
	p.Flags = packet.FlagCopy
	b.Copied++
	return p
}

// headroom is what stages behind find in front of a packet made here, as in
// front of one that a driver received.
const headroom = 256
