package parse

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// derive computes what the graph needs beyond the headers, in a pass over the packets, whose bytes are still in
// the first-level cache: words to hash of plain packets, which are most, are gathered, and hashed side by side.
func (s *stage) derive(b *packet.Batch) {
	switch {
	case s.needs&packet.NeedID != 0:
		s.ids(b)
		return
	case s.needs&packet.NeedFlowHash != 0:
		s.flowHashes(b)
	}
	if s.needs&packet.NeedArrival != 0 {
		arrivals(b)
	}
}

// arrivals fills in the batch's clock where the driver gave no time.
func arrivals(b *packet.Batch) {
	for i := range b.Pkts {
		if p := &b.Pkts[i]; p.Arrival == 0 {
			p.Arrival = b.Now
		}
	}
}

// flowHashes computes the flow hashes where no stage needs the packet ids, of IPv4 side by side.
func (s *stage) flowHashes(b *packet.Batch) {
	pkts, q, n := b.Pkts, &s.blocks, 0
	for i := range pkts {
		p := &pkts[i]
		if p.Reason != 0 {
			continue
		}
		data := b.Data(p)
		if !p.Flags.Has(packet.FlagIPv4) {
			p.FlowHash = s.flowHash(p, data)
			continue
		}
		if n == packet.BatchSize {
			q.hashFlows(pkts, &s.member, n)
			n = 0
		}
		k := n & (packet.BatchSize - 1) // BCE
		n++
		q.at[k] = int32(i)
		q.a[k], q.key[k] = p.KeyWords4(data)
	}
	if n > 0 {
		q.hashFlows(pkts, &s.member, n)
	}
}

// flowHash computes the flow hash of any packet.
func (s *stage) flowHash(p *packet.Packet, data []byte) uint32 {
	switch {
	case p.Flags.Has(packet.FlagIPv4):
		w0, w1 := p.KeyWords4(data)
		return uint32(s.family.Uint64x2(s.seed, w0, w1))
	case p.Flags.Has(packet.FlagIPv6):
		w0, w1, w2, w3, w4 := p.KeyWords6(data)
		return uint32(s.family.Uint64x5(s.seed, w0, w1, w2, w3, w4))
	}
	w0, w1 := linkWords(p, data)
	return uint32(s.family.Uint64x2(s.seed, w0, w1))
}

// linkWords are both addresses, and the type behind tags and shims.
func linkWords(p *packet.Packet, data []byte) (w0, w1 uint64) {
	h := (*[12]byte)(data)
	return binary.LittleEndian.Uint64(h[0:8]), uint64(binary.LittleEndian.Uint32(h[8:12])) | uint64(p.EtherType)<<32
}

// ids computes the packet ids, and does what flowHashes and arrivals do in the same pass. Those of plain packets,
// which are most, are hashed side by side; a test compares.
func (s *stage) ids(b *packet.Batch) {
	mem, pkts, q := b.Mem, b.Pkts, &s.blocks
	n, ipidCarrier, flows := 0, s.ipidCarrier, s.needs&packet.NeedFlowHash != 0
	var names []packet.FlowName
	if s.needs&packet.NeedFlowName != 0 && s.seed == 0 && cap(b.Flows) >= len(pkts) {
		names = b.Flows[:len(pkts)]
		b.Flows = names
	}
	now := int64(0) // what is 0 stays 0 if no stage needs it
	if s.needs&packet.NeedArrival != 0 {
		now = b.Now
	}
	const kept = 0xff1f_ffff_0000 // id, flags and offset, without those of congestion and of fragments
	keptUnfragmented := uint64(kept)
	if ipidCarrier {
		keptUnfragmented = 0xff1f_0000_0000
	}
	for i := 0; i < len(pkts); i++ {
		if gathers {
			taken := gather(q, &pkts[0], i, len(pkts), n, &mem[0], now, kept, keptUnfragmented)
			n += taken
			if i += taken; i == len(pkts) {
				break
			}
		}
		p := &pkts[i]
		if p.Arrival == 0 {
			p.Arrival = now
		}
		if p.Reason != 0 {
			continue
		}
		data := mem[p.Addr:][:p.Len]
		l3 := uint(p.L3)
		if p.Flags&^unchanging != plainFlags || p.Proto != header.ProtoTCP && p.Proto != header.ProtoUDP || l3+plainIP > uint(len(data)) {
			p.ID = s.id(p, data)
			if names != nil {
				names[i].ID = ^p.ID
			}
			if flows {
				p.FlowHash = s.flowHash(p, data)
			}
			continue
		}
		ip := (*[plainIP]byte)(data[l3:])
		end := min(uint(len(data)), l3+uint(binary.BigEndian.Uint16(ip[2:4])))
		if n == packet.BatchSize {
			q.hash(pkts, &s.member, n, flows, names)
			n = 0
		}
		k := n & (packet.BatchSize - 1) // BCE
		n++
		q.at[k] = int32(i)
		q.a[k] = binary.LittleEndian.Uint64(ip[12:20]) // both addresses
		w := binary.LittleEndian.Uint64(ip[2:10])      // length, id, flags and offset, TTL, protocol
		id := w & 0xffff0000
		if ipidCarrier && w>>32&0xff7f == 0x40 { // DF alone, whatever the reserved bit
			id = 0
		}
		q.f[k] = w>>56 | id | w>>32&0xff1f<<32 | w<<48
		t1 := binary.LittleEndian.Uint64(ip[20:28])
		q.t1[k] = t1
		q.key[k] = t1&(1<<32-1) | w>>56<<32 | 4<<40 // ports, protocol and version, as Packet.KeyWords4 has them
		t2 := binary.LittleEndian.Uint64(ip[28:36])&(1<<48-1) | uint64(binary.LittleEndian.Uint16(ip[36:38]))<<48
		if p.Proto == header.ProtoUDP {
			t2 = 0
		}
		q.t2[k] = t2
		rest := uint64(0)
		if at := uint(p.Payload); at+8 <= end {
			rest = binary.LittleEndian.Uint64(data[at:])
		}
		q.rest[k] = rest
	}
	if n > 0 {
		q.hash(pkts, &s.member, n, flows, names)
	}
}

// id computes the packet id of any packet.
func (s *stage) id(p *packet.Packet, data []byte) uint64 {
	var w packet.IDBlock
	switch w.Fill(data, p, s.ipidCarrier) {
	case packet.IDWords4:
		return s.family.Uint64x5(s.seed, w[0], w[1], w[2], w[3], w[4])
	case packet.IDWords6:
		return s.family.Uint64x8(s.seed, (*[8]uint64)(&w))
	}
	return s.family.Uint64x4(s.seed, w[0], w[1], w[2], w[3])
}
