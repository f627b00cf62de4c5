package parse

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
)

// derive computes what the graph needs beyond the headers. The packets' bytes
// are still in the first-level cache, and a pass per value keeps each loop
// short enough for the processor to overlap packets.
func (s *stage) derive(b *packet.Batch) {
	if s.needs&packet.NeedArrival != 0 {
		arrivals(b)
	}
	if s.needs&packet.NeedFlowHash != 0 {
		s.flowHashes(b)
	}
	if s.needs&packet.NeedID != 0 {
		s.ids(b)
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

func (s *stage) flowHashes(b *packet.Batch) {
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 {
			continue
		}
		data := b.Data(p)
		switch {
		case p.Flags.Has(packet.FlagIPv4):
			w0, w1 := p.KeyWords4(data)
			p.FlowHash = uint32(hash.Uint64x2(s.seed, w0, w1))
		case p.Flags.Has(packet.FlagIPv6):
			w0, w1, w2, w3, w4 := p.KeyWords6(data)
			p.FlowHash = uint32(hash.Uint64x5(s.seed, w0, w1, w2, w3, w4))
		default:
			// Both addresses and the type behind tags and shims.
			h := (*[12]byte)(data)
			p.FlowHash = uint32(hash.Uint64x2(s.seed, binary.LittleEndian.Uint64(h[0:8]),
				uint64(binary.LittleEndian.Uint32(h[8:12]))|uint64(p.EtherType)<<32))
		}
	}
}

// ids computes the packet ids. The packets of Process's loop with all pieces of
// their block there, which are most, are read in this loop; a test compares.
func (s *stage) ids(b *packet.Batch) {
	var w packet.IDBlock
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 {
			continue
		}
		data := b.Data(p)
		if a, f, t1, t2, rest, ok := plainBlock(data, p); ok && !s.ipidCarrier {
			p.ID = hash.Uint64x5(s.seed, a, f, t1, t2, rest)
			continue
		}
		switch w.Fill(data, p, s.ipidCarrier) {
		case packet.IDWords4:
			p.ID = hash.Uint64x5(s.seed, w[0], w[1], w[2], w[3], w[4])
		case packet.IDWords6:
			p.ID = hash.Uint64x8(s.seed, (*[8]uint64)(&w))
		default:
			p.ID = hash.Uint64x4(s.seed, w[0], w[1], w[2], w[3])
		}
	}
}

// plainBlock returns the words of packet.IDBlock for TCP and UDP over plain IPv4
// with at least 8 bytes of payload.
func plainBlock(data []byte, p *packet.Packet) (a, f, t1, t2, rest uint64, ok bool) {
	const least = header.IPv4Len + header.UDPLen
	l3, payload := uint(p.L3), uint(p.Payload)
	if p.Flags&^(packet.FlagShim|packet.FlagVLAN|packet.FlagQinQ|packet.FlagMulticast|packet.FlagBroadcast|packet.FlagCopy) != plainFlags ||
		payload+8 > uint(len(data)) || l3+least > payload {
		return
	}
	h := (*[least + 8]byte)(data[l3:])
	length := uint(binary.BigEndian.Uint16(h[2:4]))
	if payload+8 > l3+length {
		return
	}
	a = binary.LittleEndian.Uint64(h[12:20])
	w := binary.LittleEndian.Uint64(h[2:10]) // length, id, flags and offset, TTL, protocol
	f = w>>56 | w>>16&0xffff<<16 | w>>32&0xff1f<<32 | w<<48
	t1 = binary.LittleEndian.Uint64(h[20:28])
	switch p.Proto {
	case header.ProtoTCP:
		t := (*[18]byte)(data[l3+header.IPv4Len:])
		t2 = binary.LittleEndian.Uint64(t[8:16])&(1<<48-1) | uint64(binary.LittleEndian.Uint16(t[16:18]))<<48
	case header.ProtoUDP:
	default:
		return
	}
	return a, f, t1, t2, binary.LittleEndian.Uint64(data[payload:]), true
}
