package l2

import (
	"encoding/binary"
	"math/bits"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

const (
	vidMask = 0x0fff
	// noVLAN is the pvid of a trunk without native VLAN: a number that no
	// access or trunk port carries, so that its untagged packets are filtered.
	noVLAN = 4095

	vidAt = 14 // where a tag's TCI is, behind the two addresses and the tag's type
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
	// opaque: tags are the packet's own, and its VLAN is pvid whatever they say.
	opaque bool
	// outside: the port is not of the bridge.
	outside bool
	// routed: the port is a routed interface: what leaves by it goes on in the router. owned: the router has an address there.
	routed, owned bool
	// blocked is why a guard has blocked the port, which then carries no VLAN.
	blocked packet.Reason
}

func (v *portVLANs) has(vlan uint16) bool {
	vlan &= vidMask
	return v.member[vlan/64]>>(vlan%64)&1 != 0
}

// gains reports whether the port carries a VLAN that another one does not.
func (v *portVLANs) gains(old *portVLANs) bool {
	for i := range v.member {
		if v.member[i]&^old.member[i] != 0 {
			return true
		}
	}
	return false
}

func (v *portVLANs) add(vlan uint16) { v.member[vlan/64] |= 1 << (vlan % 64) }

// count is how many VLANs the port carries.
func (v *portVLANs) count() (n int) {
	for _, w := range v.member {
		n += bits.OnesCount64(w)
	}
	return n
}

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
// packet could go on by the tag behind it, in a VLAN that is not the port's. So it is with a tag that is cut off, which padding would complete.
func (v *portVLANs) classify(p *packet.Packet) uint16 {
	if p.Flags.Has(packet.FlagMalformed) && v.cutTag(p) {
		return noVLAN
	}
	if p.Flags.Has(packet.FlagVLAN) && !v.opaque {
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

// cutTag reports whether a packet of no VLAN ends within a tag, which the port would take for none.
func (v *portVLANs) cutTag(p *packet.Packet) bool {
	return header.IsVLAN(p.EtherType) && !v.transparent && !v.opaque && (!p.Flags.Has(packet.FlagVLAN) || p.VLAN&vidMask == 0)
}

// refusal says why the port does not take a packet.
func (v *portVLANs) refusal(p *packet.Packet) packet.Reason {
	if v.blocked != 0 {
		return v.blocked
	}
	if v.outside {
		return reasonNotBridged
	}
	if v.untagged && (p.Flags.Has(packet.FlagVLAN) || v.cutTag(p)) {
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
	if v.opaque {
		return true
	}
	tagged := p.Flags.Has(packet.FlagVLAN)
	if vlan == v.pvid {
		if tagged && vlan != 0 {
			if b.PopTags(p, 1); !p.Flags.Has(packet.FlagVLAN) {
				p.VLAN = 0 // a bridge's own tags have no priority
			}
		}
		return true
	}
	switch {
	case !tagged:
		return b.PushTag(p, packet.TypeCustomerTag, vlan)
	case p.VLAN&vidMask == 0:
		p.VLAN |= vlan
		binary.BigEndian.PutUint16(b.Mem[p.Addr+vidAt:], p.VLAN)
	}
	return true
}
