package acl

import (
	"strings"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/ipmatch"
	"github.com/weirswitch/weir/pipeline/packet"
)

// reasonUnparsed is the drop reason of packets that a rule denies unless what it looks at is
// otherwise, which the parser could not find out.
var reasonUnparsed = packet.Register("acl_unparsed", "a rule of the access control list that denies looks at a header that could not be parsed")

// unknown are the parts of a packet that the parser did not reach, though the packet's receiver
// may. A rule that permits or counts matches only what is known; one that denies matches
// whatever an unknown part may be. So a packet passes only if the rules permit all that it can be.
type unknown uint8

const (
	unknownVLAN      unknown = 1 << iota // a priority tag in front of another tag: receivers differ
	unknownType                          // more tags or shims than the parser looks behind, or IP in 802.2 SNAP
	unknownAddresses                     // the IP header
	unknownProto                         // the chain of IPv6 extension headers
	unknownPorts                         // the transport header
	unknownFlags                         // the same, of TCP

	unknownTransport = unknownPorts | unknownFlags
	unknownNetwork   = unknownAddresses | unknownProto | unknownTransport
)

// unknownOf are the parts by field. Whatever is unknown of the rest, the input port and the MAC addresses are known.
var unknownOf = [numFields]unknown{
	fieldVLAN: unknownVLAN, fieldEtherType: unknownType, fieldSrc: unknownAddresses, fieldDst: unknownAddresses,
	fieldProto: unknownProto, fieldSrcPort: unknownPorts, fieldDstPort: unknownPorts, fieldFlags: unknownFlags,
}

var unknownNames = [...]string{"the VLAN", "the type", "the IP header", "the protocol", "the ports", "the TCP flags"}

func (u unknown) String() string {
	var names []string
	for i, name := range unknownNames {
		if u>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// unparsed says what of a packet is unknown, of packets without FlagL4 or with two tags.
func unparsed(p *packet.Packet, data []byte) unknown {
	var u unknown
	if p.Flags.Has(packet.FlagQinQ) && p.VLAN&0xfff == 0 {
		// A bridge takes the priority tag for none, Linux goes on to the VLAN behind it.
		u = unknownVLAN
	}
	switch {
	case p.Flags.Has(packet.FlagIP):
		return u | unparsedTransport(p)
	case header.IsVLAN(p.EtherType), ipmatch.HiddenShim(p, data), ipmatch.SNAP(p, data):
		return u | unknownType | unknownNetwork
	case p.EtherType == header.TypeIPv4, p.EtherType == header.TypeIPv6:
		return u | unknownNetwork
	}
	return u
}

// unparsedTransport says what of an IP packet's transport header is unknown.
func unparsedTransport(p *packet.Packet) unknown {
	switch {
	case p.Flags.Has(packet.FlagL4):
		return 0 // with ports, if the protocol has any
	case p.Flags.Has(packet.FlagIPv6) && header.IsIPv6Ext(p.Proto):
		return unknownProto | unknownTransport
	case p.Flags.Has(packet.FlagLaterFragment), headerLens[p.Proto] == 0:
		return 0 // it has no ports
	case p.Proto == header.ProtoTCP:
		return unknownTransport
	}
	return unknownPorts
}

// ignore makes a rule match whatever the unknown parts are.
func (m *match) ignore(u unknown) {
	if u&unknownVLAN != 0 {
		m.vlanLow, m.vlanHigh = 0, vlanNone
	}
	if u&unknownType != 0 {
		m.anyType = true
	}
	if u&unknownAddresses != 0 {
		m.src, m.dst = anyPrefix, anyPrefix
	}
	if u&unknownProto != 0 {
		m.proto = anyProto
	}
	if u&unknownPorts != 0 {
		m.srcPort, m.dstPort = anyPort, anyPort
	}
	if u&unknownFlags != 0 {
		m.flagsSet, m.flagsClear = 0, 0
	}
}

// blindRow is the row of a field's class of packets of which it is unknown: the rules that
// look at the field, as far as they deny.
func (c *classifier) blindRow(field int) []uint64 {
	row := make([]uint64, c.words)
	for i := range c.rules {
		if m := &c.rules[i]; m.action == actionDeny && c.field[field].wild[i/64]>>(i%64)&1 == 0 {
			setBit(row, i)
		}
	}
	return row
}

// unknownClasses sets the classes of the unknown fields.
func (c *classifier) unknownClasses(u unknown, t *tuple) {
	for _, f := range c.active {
		if u&unknownOf[f] != 0 {
			t[f] = c.unknown[f]
		}
	}
}
