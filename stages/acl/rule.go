package acl

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/weirswitch/weir/pipeline/packet"
)

// ruleSet is a configuration in numbers.
type ruleSet struct {
	rules  []match
	permit bool // what no rule decides
}

type action uint8

const (
	actionPermit action = iota
	actionDeny
	actionCount
)

// vlanNone is the class of packets without a tag, behind all VLANs.
const vlanNone = 4096

// anyProto matches any protocol and packets without one.
const anyProto = -1

// noFlags is the flags value of packets without a TCP header.
const noFlags = 256

type portRange struct {
	low, high uint16
	needed    bool // the packet must have ports
}

var anyPort = portRange{0, 65535, false}

// anyPrefix is that of rules that name none.
var anyPrefix netip.Prefix

// maskedMAC matches addresses that are bits under mask; mask 0 matches all.
type maskedMAC struct{ bits, mask uint64 }

func (m maskedMAC) matches(mac uint64) bool { return mac&m.mask == m.bits }

// match is one rule in numbers.
type match struct {
	name                 string
	action               action
	inPorts              []uint16 // empty: any
	srcMAC, dstMAC       maskedMAC
	vlanLow, vlanHigh    uint16
	etherType            uint16
	anyType              bool
	src, dst             netip.Prefix // invalid: any
	proto                int16
	srcPort, dstPort     portRange
	flagsSet, flagsClear uint8
}

// fields are what rules match on, of one packet.
type fields struct {
	srcMAC, dstMAC uint64
	src, dst       netip.Addr // the zero Addr for packets that are no IP
	inPort         uint16
	vlan           uint16 // vlanNone without a tag
	etherType      uint16
	srcPort        uint16
	dstPort        uint16
	flags          uint16 // noFlags without a TCP header
	proto          int16  // anyProto without one
	ports          bool
	unknown        unknown // what could not be parsed; the values are those of packets without the field
}

// fieldsOf reads a parsed packet.
func fieldsOf(p *packet.Packet, data []byte) (f fields) {
	mac := (*[14]byte)(data)
	f.dstMAC = binary.BigEndian.Uint64(mac[0:8]) >> 16
	f.srcMAC = binary.BigEndian.Uint64(mac[4:12]) & (1<<48 - 1)
	f.inPort, f.etherType, f.vlan, f.proto, f.flags = p.InPort, p.EtherType, vlanNone, anyProto, noFlags
	if p.Flags.Has(packet.FlagVLAN) {
		f.vlan = p.VLAN & 0xfff
	}
	switch {
	case p.Flags.Has(packet.FlagIPv4):
		h := (*[20]byte)(data[p.L3:])
		f.src, f.dst = netip.AddrFrom4([4]byte(h[12:16])), netip.AddrFrom4([4]byte(h[16:20]))
	case p.Flags.Has(packet.FlagIPv6):
		h := (*[40]byte)(data[p.L3:])
		f.src, f.dst = netip.AddrFrom16([16]byte(h[8:24])), netip.AddrFrom16([16]byte(h[24:40]))
	default:
		f.unknown = unparsed(p, data)
		return f
	}
	f.proto = int16(p.Proto)
	if p.Flags.Has(packet.FlagPorts) {
		f.ports, f.srcPort, f.dstPort = true, p.SrcPort, p.DstPort
		if p.Proto == 6 && int(p.L4)+13 < len(data) {
			f.flags = uint16(data[p.L4+13])
		}
	}
	if p.Flags&(packet.FlagL4|packet.FlagQinQ) != packet.FlagL4 {
		if f.unknown = unparsed(p, data); f.unknown&unknownProto != 0 {
			f.proto = anyProto
		}
	}
	return f
}

// mayMatch is the meaning of a rule: the slow, plain form, used for what the
// classes leave open and by the tests' twin. A rule that denies matches what it cannot see.
func (m *match) mayMatch(f *fields) bool {
	if f.unknown == 0 || m.action != actionDeny {
		return m.matches(f)
	}
	blind := *m
	blind.ignore(f.unknown)
	return blind.matches(f)
}

// matches reports whether a rule matches by what could be parsed.
func (m *match) matches(f *fields) bool {
	return (len(m.inPorts) == 0 || slices.Contains(m.inPorts, f.inPort)) &&
		m.srcMAC.matches(f.srcMAC) && m.dstMAC.matches(f.dstMAC) &&
		m.matchesVLAN(f) &&
		(m.anyType || m.etherType == f.etherType && f.unknown&unknownType == 0) &&
		inPrefix(m.src, f.src) && inPrefix(m.dst, f.dst) &&
		(m.proto == anyProto || m.proto == f.proto) &&
		m.srcPort.matches(f.srcPort, f.ports) && m.dstPort.matches(f.dstPort, f.ports) &&
		m.matchesFlags(f.flags)
}

func (m *match) matchesVLAN(f *fields) bool {
	if f.unknown&unknownVLAN != 0 {
		return m.vlanLow == 0 && m.vlanHigh == vlanNone
	}
	return m.vlanLow <= f.vlan && f.vlan <= m.vlanHigh
}

func inPrefix(p netip.Prefix, a netip.Addr) bool { return !p.IsValid() || a.IsValid() && p.Contains(a) }

func (r portRange) matches(port uint16, has bool) bool {
	return !r.needed || has && r.low <= port && port <= r.high
}

func (m *match) matchesFlags(flags uint16) bool {
	if m.flagsSet|m.flagsClear == 0 {
		return true
	}
	return flags != noFlags && uint8(flags)&m.flagsSet == m.flagsSet && uint8(flags)&m.flagsClear == 0
}
