package acl

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/ipmatch"
)

// maxCompared bounds the rules that Warnings compares with each other, as it takes the square of their number.
const maxCompared = 4096

// Warnings names the rules that no packet matches, as what they want contradicts itself, and those that none reaches, as a rule
// before decides all that they match. Of rules that only several others together cover it says nothing.
func (c *Config) Warnings() (all []string) {
	var ports []string // those that rules name: which others there are is of no matter
	for i := range c.Rules {
		for _, name := range c.Rules[i].InPorts {
			if !slices.Contains(ports, name) {
				ports = append(ports, name)
			}
		}
	}
	set, err := c.compile(ports)
	if err != nil {
		return nil // Validate says it
	}
	rules := set.rules[:min(len(set.rules), maxCompared)]
	for i := range rules {
		if why := rules[i].contradiction(); why != "" {
			all = append(all, fmt.Sprintf("rule[%d]: no packet matches it: %s", i, why))
			continue
		}
		for j := range rules[:i] {
			if rules[j].action != actionCount && rules[j].covers(&rules[i]) {
				all = append(all, fmt.Sprintf("rule[%d]: no packet reaches it: rule[%d], %q, decides all that it matches: put it before that one, or remove it", i, j, rules[j].name))
				break
			}
		}
	}
	return all
}

// covers reports whether all packets that o matches match m too.
func (m *match) covers(o *match) bool {
	return (len(m.inPorts) == 0 || len(o.inPorts) != 0 && !slices.ContainsFunc(o.inPorts, func(p uint16) bool { return !slices.Contains(m.inPorts, p) })) &&
		m.srcMAC.covers(o.srcMAC) && m.dstMAC.covers(o.dstMAC) &&
		m.vlanLow <= o.vlanLow && m.vlanHigh >= o.vlanHigh &&
		(m.anyType || !o.anyType && m.etherType == o.etherType) &&
		ipmatch.CoversPrefix(m.src, o.src) && ipmatch.CoversPrefix(m.dst, o.dst) &&
		(m.proto == anyProto || m.proto == o.proto) &&
		m.srcPort.covers(o.srcPort) && m.dstPort.covers(o.dstPort) &&
		m.flagsSet&^o.flagsSet == 0 && m.flagsClear&^o.flagsClear == 0
}

func (m maskedMAC) covers(o maskedMAC) bool { return m.mask&^o.mask == 0 && o.bits&m.mask == m.bits }

func (r portRange) covers(o portRange) bool {
	return r.low <= o.low && r.high >= o.high && (!r.needed || o.needed)
}

// contradiction says why no packet has all that the rule wants.
func (m *match) contradiction() string {
	wantsIP := m.src.IsValid() || m.dst.IsValid() || m.proto != anyProto || m.srcPort.needed || m.dstPort.needed || m.flagsSet|m.flagsClear != 0
	if !m.anyType && m.etherType == header.TypeARP && wantsIP {
		return "ARP has no addresses, protocol, ports and flags of IP: leave ethertype out, or them"
	}
	for _, p := range []netip.Prefix{m.src, m.dst} {
		if !m.anyType && p.IsValid() && (m.etherType == header.TypeIPv4 && !p.Addr().Is4() || m.etherType == header.TypeIPv6 && p.Addr().Is4()) {
			return fmt.Sprintf("ethertype is of the other IP version than %s: leave it out", p)
		}
	}
	return ipmatch.Contradiction(m.src, m.dst, uint16(m.proto), m.proto == anyProto, m.srcPort.needed || m.dstPort.needed)
}
