package packet

import "encoding/binary"

// The types of VLAN tags that are added: of 802.1Q, and of 802.1ad, a provider's outer tag.
const (
	TypeCustomerTag uint16 = 0x8100
	TypeServiceTag  uint16 = 0x88a8
)

const (
	tagLen   = 4
	tagStart = 12 // behind the two addresses
	// priorityBits are those of a tag's TCI that are no VLAN: priority and drop eligibility.
	priorityBits = 0xf000
)

// PushTag adds a VLAN tag in front of the packet's own type. It has the priority of the tag that PopTags took off last, if there is no
// other one. It reports false if there is no room in front of the packet. The addresses move into the headroom:
//
//	          | dst | src | type | ...
//	| dst | src | tpid | tci | type | ...
func (b *Batch) PushTag(p *Packet, tpid, vlan uint16) bool {
	if b.Headroom(p) < tagLen {
		return false
	}
	if !p.Flags.Has(FlagVLAN) {
		vlan |= p.VLAN & priorityBits
	}
	d := (*[tagStart + tagLen]byte)(b.Mem[p.Addr-tagLen:])
	a, c := binary.LittleEndian.Uint64(d[4:]), binary.LittleEndian.Uint32(d[12:])
	binary.LittleEndian.PutUint64(d[0:], a)
	binary.LittleEndian.PutUint32(d[8:], c)
	binary.BigEndian.PutUint16(d[12:], tpid)
	binary.BigEndian.PutUint16(d[14:], vlan)
	if p.Flags.Has(FlagVLAN) {
		p.Flags |= FlagQinQ
	}
	p.Flags |= FlagVLAN
	p.VLAN = vlan
	p.shift(tagLen)
	return true
}

// PopTags removes the outer n tags, 1 or 2, which the parser found there. Of a packet without a tag then, Packet.VLAN has the priority
// of the outer one.
func (b *Batch) PopTags(p *Packet, n int) {
	priority := p.VLAN & priorityBits
	d := b.Mem[p.Addr:][:tagStart+4*tagLen]
	a, c := binary.LittleEndian.Uint64(d[0:]), binary.LittleEndian.Uint32(d[8:])
	at := tagLen * n
	binary.LittleEndian.PutUint64(d[at:], a)
	binary.LittleEndian.PutUint32(d[at+8:], c)
	more := p.Flags.Has(FlagQinQ) && int(p.L3) >= at+tagStart+2+tagLen && isTag(binary.BigEndian.Uint16(d[at+tagStart:]))
	if !more {
		p.Flags &^= FlagVLAN | FlagQinQ
		p.VLAN = priority
	} else {
		p.VLAN = binary.BigEndian.Uint16(d[at+tagStart+2:])
		if int(p.L3) < at+tagStart+2+2*tagLen || !isTag(binary.BigEndian.Uint16(d[at+tagStart+tagLen:])) {
			p.Flags &^= FlagQinQ
		}
	}
	p.shift(-at)
}

// isTag reports whether a type is that of a VLAN tag: 802.1Q, 802.1ad, or what came before that.
func isTag(t uint16) bool { return t == TypeCustomerTag || t == TypeServiceTag || t == 0x9100 }

// shift moves the packet's first byte n bytes down and its offsets with it.
func (p *Packet) shift(n int) {
	p.Addr -= uint64(n)
	p.Len += uint32(n)
	p.WireLen += uint32(n)
	p.L3 += uint16(n)
	if p.Flags.Has(FlagL4) {
		p.L4 += uint16(n)
		p.Payload += uint16(n)
	}
}
