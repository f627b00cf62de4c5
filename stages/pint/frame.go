package pint

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// linkEnd returns where the link header ends: behind the first EtherType that
// announces no VLAN tag, as the parser found it.
func linkEnd(data []byte, p *packet.Packet) int {
	end := header.EthernetLen
	if p.Flags.Has(packet.FlagVLAN) {
		for end+header.VLANLen <= int(p.L3) && header.IsVLAN(binary.BigEndian.Uint16(data[end-2:])) {
			end += header.VLANLen
		}
	}
	return end
}

// shimsAt counts the shims from end on, as far as it matters: up to 2.
func shimsAt(data []byte, end int) int {
	outer := header.ShimAt(data, end)
	if outer == nil || outer.Type() != header.TypeShim {
		return 1
	}
	if inner := header.ShimAt(data, end+len(outer)); inner == nil || inner.Version() != header.ShimVersion {
		return 1
	}
	return 2
}

// move moves n bytes of data, the addresses and perhaps tags.
func move(data []byte, from, to, n int) {
	if n == 12 { // no tags: two loads, two stores
		a, b := binary.LittleEndian.Uint64(data[from:]), binary.LittleEndian.Uint32(data[from+8:])
		binary.LittleEndian.PutUint64(data[to:], a)
		binary.LittleEndian.PutUint32(data[to+8:], b)
		return
	}
	copy(data[to:to+n], data[from:from+n])
}

// shift moves the packet's first byte n bytes down, and its offsets with it.
func shift(p *packet.Packet, n int) {
	p.Addr -= uint64(n)
	p.Len += uint32(n)
	p.WireLen += uint32(n)
	p.L3 += uint16(n)
	if p.Flags.Has(packet.FlagL4) {
		p.L4 += uint16(n)
		p.Payload += uint16(n)
	}
}
