package bond

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

type hash = pipeline.BondHash

// golden is 2^64 divided by the golden ratio: Knuth's multiplier.
const golden = 0x9e3779b97f4a7c15

// bucketOf is the bucket of a packet. The flow hash is mixed once more, since equal-cost routes and queues are chosen by it too.
func bucketOf(h hash, b *packet.Batch, p *packet.Packet) uint16 {
	v := uint64(p.FlowHash)
	if h != pipeline.HashLayer34 {
		d := (*[12]byte)(b.Mem[p.Addr:])
		v = mix(binary.LittleEndian.Uint64(d[0:8]), uint64(binary.LittleEndian.Uint32(d[8:12])))
		if h == pipeline.HashLayer23 {
			v = mixAddresses(v, b, p)
		}
	}
	v *= golden
	return uint16(v >> (64 - bucketBits))
}

func mixAddresses(v uint64, b *packet.Batch, p *packet.Packet) uint64 {
	data := b.Data(p)
	switch {
	case p.Flags.Has(packet.FlagIPv4):
		return mix(v, binary.LittleEndian.Uint64(header.IPv4At(data, int(p.L3))[12:20]))
	case p.Flags.Has(packet.FlagIPv6):
		ip := header.IPv6At(data, int(p.L3))
		for at := 8; at < header.IPv6Len; at += 8 {
			v = mix(v, binary.LittleEndian.Uint64(ip[at:]))
		}
	}
	return v
}

func mix(v, w uint64) uint64 {
	v = (v ^ w) * golden
	return v ^ v>>32
}
