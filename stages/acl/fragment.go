package acl

import (
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// reasonTinyFragment is the drop reason of fragments that would take the transport
// header out of the rules' sight.
var reasonTinyFragment = packet.Register("tiny_fragment", "a first fragment without its whole transport header, or a later one that overlaps it, where rules look at ports or flags")

// headerLens are the bytes of the transport header in which ports and flags are, of
// the protocols that have them.
var headerLens = [256]uint8{
	header.ProtoTCP: header.TCPLen, header.ProtoUDP: header.UDPLen, header.ProtoUDPLite: header.UDPLen,
	header.ProtoSCTP: header.SCTPLen, header.ProtoDCCP: header.DCCPLen,
}

// inspects reports whether a rule looks into transport headers.
func (set *ruleSet) inspects() bool {
	for i := range set.rules {
		if m := &set.rules[i]; m.srcPort.needed || m.dstPort.needed || m.flagsSet|m.flagsClear != 0 {
			return true
		}
	}
	return false
}

// tiny reports whether a fragment hides the transport header from the rules or puts
// another one over it when the datagram is put together (RFC 1858, 3.2 and 4.2; RFC 3128; for
// IPv6, RFC 7112 demands the whole header of a first fragment). All other later
// fragments are harmless: without the first there is no datagram.
func tiny(p *packet.Packet, data []byte) bool {
	n := int(headerLens[p.Proto])
	if n == 0 {
		return false
	}
	if p.Flags.Has(packet.FlagLaterFragment) {
		return fragmentOffset(p, data) < n
	}
	// A capture may have cut what the packet had.
	return !p.Flags.Has(packet.FlagL4) && p.Next == 0 && p.Len == p.WireLen
}

// fragmentOffset is a later fragment's offset in its datagram, in bytes.
func fragmentOffset(p *packet.Packet, data []byte) int {
	if p.Flags.Has(packet.FlagIPv4) {
		return header.IPv4At(data, int(p.L3)).FragmentOffset()
	}
	off := int(p.L3)
	next := header.IPv6At(data, off).NextHeader()
	for off += header.IPv6Len; header.IsIPv6Ext(next); {
		ext := header.IPv6ExtAt(data, off)
		if ext == nil {
			break
		}
		if next == header.ProtoFragment {
			return ext.FragmentOffset()
		}
		off += ext.HeaderLen(next)
		next = ext.NextHeader()
	}
	return maxOffset
}

// maxOffset is an unknown offset, behind all headers.
const maxOffset = 1 << 16
