package l2

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

const (
	vidMask = 0x0fff
	// noVLAN is the pvid of a trunk without native VLAN: a number that no
	// access or trunk port carries, so that its untagged packets are filtered.
	noVLAN = 4095

	tagLen   = 4
	tagStart = 12 // behind the two addresses
)

// portVLANs is what VLANs a port carries, and how.
type portVLANs struct {
	// member has bit v set if the port carries VLAN v.
	member [4096 / 64]uint64
	// pvid is the VLAN of untagged packets, in and out; noVLAN for none.
	pvid uint16
	// open: the port carries pvid (newSettings).
	open bool
	// transparent: pvid is 0 and a priority tag in VLAN 0 is left alone.
	transparent bool
	// untagged: only untagged and priority-tagged packets are taken.
	untagged bool
	// outside: the port is not of the bridge.
	outside bool
	// blocked is why a guard has blocked the port, which then carries no VLAN.
	blocked packet.Reason
}

func (v *portVLANs) has(vlan uint16) bool {
	vlan &= vidMask
	return v.member[vlan/64]>>(vlan%64)&1 != 0
}

func (v *portVLANs) add(vlan uint16) { v.member[vlan/64] |= 1 << (vlan % 64) }

func transparent() portVLANs {
	v := portVLANs{transparent: true}
	for i := range v.member {
		v.member[i] = ^uint64(0)
	}
	return v
}

func access(vlan uint16, tagged bool) portVLANs {
	v := portVLANs{pvid: vlan, untagged: !tagged}
	v.add(vlan)
	return v
}

// classify returns the VLAN of a packet that arrived on the port: its outer
// tag's, or the port's own if there is no tag or only a priority tag (VID 0). A tag on a
// port for untagged packets gives a VLAN that the port does not carry: were it taken off, the
// packet could go on by the tag behind it, in a VLAN that is not the port's.
func (v *portVLANs) classify(p *packet.Packet) uint16 {
	if p.Flags.Has(packet.FlagVLAN) {
		vid := p.VLAN & vidMask
		switch {
		case v.untagged && (vid != 0 || p.Flags.Has(packet.FlagQinQ)):
			return noVLAN
		case vid != 0:
			return vid
		}
	}
	return v.pvid
}

// refusal says why the port does not take a packet.
func (v *portVLANs) refusal(p *packet.Packet) packet.Reason {
	if v.blocked != 0 {
		return v.blocked
	}
	if v.untagged && p.Flags.Has(packet.FlagVLAN) {
		return reasonTagged
	}
	return ReasonVLANFiltered
}

// tag gives a packet of a VLAN the tag, or none, with which it leaves the
// port. It reports false if a tag does not fit in front of the packet.
//
//	            │ to VLAN = pvid │ to other VLAN
//	untagged    │ -              │ push
//	VID 0       │ pop (not in 0) │ set VID, the priority stays
//	VID = VLAN  │ pop            │ -
func (v *portVLANs) tag(b *packet.Batch, p *packet.Packet, vlan uint16) bool {
	tagged := p.Flags.Has(packet.FlagVLAN)
	if vlan == v.pvid {
		if tagged && vlan != 0 {
			pop(b, p)
		}
		return true
	}
	switch {
	case !tagged:
		return push(b, p, vlan)
	case p.VLAN&vidMask == 0:
		p.VLAN |= vlan
		binary.BigEndian.PutUint16(b.Mem[p.Addr+tagStart+2:], p.VLAN)
	}
	return true
}

// push adds an 802.1Q tag with priority 0 in front of the packet's own type.
// The addresses move into the headroom:
//
//	          | dst | src | type | ...
//	| dst | src | 8100 | tci | type | ...
func push(b *packet.Batch, p *packet.Packet, vlan uint16) bool {
	if b.Headroom(p) < tagLen {
		return false
	}
	d := (*[tagStart + tagLen]byte)(b.Mem[p.Addr-tagLen:])
	a, c := binary.LittleEndian.Uint64(d[4:]), binary.LittleEndian.Uint32(d[12:])
	binary.LittleEndian.PutUint64(d[0:], a)
	binary.LittleEndian.PutUint32(d[8:], c)
	binary.BigEndian.PutUint16(d[12:], header.TypeVLAN)
	binary.BigEndian.PutUint16(d[14:], vlan)
	if p.Flags.Has(packet.FlagVLAN) {
		p.Flags |= packet.FlagQinQ
	}
	p.Flags |= packet.FlagVLAN
	p.VLAN = vlan
	shift(p, tagLen)
	return true
}

// pop removes the outer tag, which the parser found there.
func pop(b *packet.Batch, p *packet.Packet) {
	d := (*[tagStart + 3*tagLen]byte)(b.Mem[p.Addr:])
	a, c := binary.LittleEndian.Uint64(d[0:]), binary.LittleEndian.Uint32(d[8:])
	binary.LittleEndian.PutUint64(d[4:], a)
	binary.LittleEndian.PutUint32(d[12:], c)
	if !p.Flags.Has(packet.FlagQinQ) {
		p.Flags &^= packet.FlagVLAN
		p.VLAN = 0
	} else {
		p.VLAN = binary.BigEndian.Uint16(d[18:])
		if !header.IsVLAN(binary.BigEndian.Uint16(d[20:])) {
			p.Flags &^= packet.FlagQinQ
		}
	}
	shift(p, -tagLen)
}

// shift moves the packet's first byte n bytes down and its offsets with it.
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
