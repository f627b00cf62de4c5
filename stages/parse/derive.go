package parse

import (
	"encoding/binary"

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

func (s *stage) ids(b *packet.Batch) {
	var w packet.IDBlock
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 {
			continue
		}
		switch w.Fill(b.Data(p), p, s.ipidCarrier) {
		case packet.IDWords4:
			p.ID = hash.Uint64x5(s.seed, w[0], w[1], w[2], w[3], w[4])
		case packet.IDWords6:
			p.ID = hash.Uint64x8(s.seed, (*[8]uint64)(&w))
		default:
			p.ID = hash.Uint64x4(s.seed, w[0], w[1], w[2], w[3])
		}
	}
}
