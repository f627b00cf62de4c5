package acl

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/pipeline/ipmatch"
)

// What becomes of a packet.
const (
	Permit = "permit"
	Deny   = "deny"
	Count  = "count" // count and go on to the next rule
)

// MaxRules bounds a rule set: classes take a bit per rule.
const MaxRules = 65536

// Config is the stage's section of the configuration, [stages.acl].
type Config struct {
	// Default is the fate of packets that no rule decides: "permit" or "deny".
	Default string `toml:"default"`
	// Rules are tried in order.
	Rules []Rule `toml:"rule"`
}

// Rule is one rule, [[stages.acl.rule]]. Fields left empty match everything.
// A rule with ports matches only packets that have ports, so no fragment but
// the first and no protocol without them.
type Rule struct {
	// Name is shown with the counters; default: its number, from 1. It is
	// unique, and a rule that keeps its name keeps its counts when rules change.
	Name string `toml:"name"`
	// Action is "permit", "deny" or "count", which counts and lets the rules behind it go on.
	Action string `toml:"action"`
	// InPorts are names of ports.
	InPorts []string `toml:"in_ports"`
	// SrcMAC and DstMAC are an address, or address/mask: "02:00:00:00:00:00/ff:00:00:00:00:00".
	SrcMAC string `toml:"src_mac"`
	DstMAC string `toml:"dst_mac"`
	// VLAN is the outer tag's VLAN, 0 to 4095, or "none".
	VLAN string `toml:"vlan"`
	// EtherType behind all tags: a number, or "ipv4", "ipv6", "arp".
	EtherType string `toml:"ethertype"`
	// Src and Dst are IP prefixes or addresses.
	Src string `toml:"src"`
	Dst string `toml:"dst"`
	// Protocol is a number, or "tcp", "udp", "icmp", "icmpv6", "sctp".
	Protocol string `toml:"protocol"`
	// SrcPort and DstPort are a port or a range: "80", "1024-65535".
	SrcPort string `toml:"src_port"`
	DstPort string `toml:"dst_port"`
	// TCPFlags lists flags that must be set, and with "!" in front not set:
	// "syn,!ack".
	TCPFlags string `toml:"tcp_flags"`
}

// DefaultConfig permits everything.
func DefaultConfig() Config { return Config{Default: Permit} }

// Validate reports all faults of the configuration for a switch with the named
// ports, joined. Each begins with the key inside the stage's section.
func (c *Config) Validate(ports []string) error {
	_, err := c.compile(ports)
	return err
}

// compile turns the rules into numbers.
func (c *Config) compile(ports []string) (*ruleSet, error) {
	set := &ruleSet{permit: c.Default == Permit}
	var errs []error
	if c.Default != Permit && c.Default != Deny {
		errs = append(errs, fmt.Errorf("default = %q: choose %q or %q", c.Default, Permit, Deny))
	}
	if len(c.Rules) > MaxRules {
		return nil, errors.Join(append(errs, fmt.Errorf("rule: %d rules: %d at most", len(c.Rules), MaxRules))...)
	}
	names := map[string]int{}
	for i := range c.Rules {
		m, err := c.Rules[i].compile(ports)
		for _, e := range split(err) {
			errs = append(errs, fmt.Errorf("rule[%d].%w", i, e))
		}
		switch m.name {
		case "":
			m.name = strconv.Itoa(i + 1)
		case defaultName:
			errs = append(errs, fmt.Errorf("rule[%d].name: %q is the default's: choose another name", i, defaultName))
		}
		if before, ok := names[m.name]; ok {
			errs = append(errs, fmt.Errorf("rule[%d].name: rule[%d] is called %q already: choose another name", i, before, m.name))
		}
		names[m.name] = i
		set.rules = append(set.rules, m)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return set, nil
}

// split takes joined errors apart.
func split(err error) []error {
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

func (r *Rule) compile(ports []string) (match, error) {
	m := match{name: r.Name, vlanLow: 0, vlanHigh: vlanNone, dstPort: anyPort, srcPort: anyPort, proto: anyProto}
	var errs []error
	fail := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf(key+": "+format, args...))
	}
	switch r.Action {
	case Permit:
		m.action = actionPermit
	case Deny:
		m.action = actionDeny
	case Count:
		m.action = actionCount
	default:
		fail("action", "%q: choose %q, %q or %q", r.Action, Permit, Deny, Count)
	}
	for _, name := range r.InPorts {
		i := slices.Index(ports, name)
		if i < 0 {
			fail("in_ports", "port %q is not defined: define [[port]] name = %q or correct the name", name, name)
			continue
		}
		m.inPorts = append(m.inPorts, uint16(i))
	}
	var err error
	if m.srcMAC, err = parseMAC(r.SrcMAC); err != nil {
		fail("src_mac", "%w", err)
	}
	if m.dstMAC, err = parseMAC(r.DstMAC); err != nil {
		fail("dst_mac", "%w", err)
	}
	if err := m.parseVLAN(r.VLAN); err != nil {
		fail("vlan", "%w", err)
	}
	if m.etherType, m.anyType, err = ipmatch.Number(r.EtherType, 65535, etherTypes); err != nil {
		fail("ethertype", "%w", err)
	}
	if m.src, err = ipmatch.Prefix(r.Src); err != nil {
		fail("src", "%w", err)
	}
	if m.dst, err = ipmatch.Prefix(r.Dst); err != nil {
		fail("dst", "%w", err)
	}
	if m.src.IsValid() && m.dst.IsValid() && m.src.Addr().Is4() != m.dst.Addr().Is4() {
		fail("dst", "%s is of another IP version than src = %s: no packet has both, write two rules", r.Dst, r.Src)
	}
	if proto, any, err := ipmatch.Number(r.Protocol, 255, ipmatch.Protocols); err != nil {
		fail("protocol", "%w", err)
	} else if !any {
		m.proto = int16(proto)
	}
	if m.srcPort, err = parseRange(r.SrcPort); err != nil {
		fail("src_port", "%w", err)
	}
	if m.dstPort, err = parseRange(r.DstPort); err != nil {
		fail("dst_port", "%w", err)
	}
	if m.flagsSet, m.flagsClear, err = parseFlags(r.TCPFlags); err != nil {
		fail("tcp_flags", "%w", err)
	} else if m.flagsSet|m.flagsClear != 0 && m.proto != anyProto && m.proto != 6 {
		fail("tcp_flags", "protocol = %q has none: leave one of the two out", r.Protocol)
	}
	return m, errors.Join(errs...)
}

var (
	etherTypes = map[string]uint64{"ipv4": 0x0800, "ipv6": 0x86dd, "arp": 0x0806}
	tcpFlags   = map[string]uint8{"fin": 1, "syn": 2, "rst": 4, "psh": 8, "ack": 16, "urg": 32, "ece": 64, "cwr": 128}
)

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func parseFlags(s string) (set, unset uint8, err error) {
	if s == "" {
		return 0, 0, nil
	}
	for _, word := range strings.Split(s, ",") {
		word = strings.TrimSpace(word)
		name, not := strings.CutPrefix(word, "!")
		bit, ok := tcpFlags[name]
		if !ok {
			return 0, 0, fmt.Errorf("%q: write flags as in \"syn,!ack\", out of %s", s, strings.Join(sortedKeys(tcpFlags), ", "))
		}
		if not {
			unset |= bit
		} else {
			set |= bit
		}
	}
	if set&unset != 0 {
		return 0, 0, fmt.Errorf("%q wants a flag both set and not set", s)
	}
	return set, unset, nil
}

// parseMAC reads an address with an optional mask.
func parseMAC(s string) (maskedMAC, error) {
	if s == "" {
		return maskedMAC{}, nil
	}
	address, mask, masked := strings.Cut(s, "/")
	a, ok1 := macBits(address)
	b, ok2 := uint64(1)<<48-1, true
	if masked {
		b, ok2 = macBits(mask)
	}
	if !ok1 || !ok2 {
		return maskedMAC{}, fmt.Errorf("%q: write an address such as 02:00:00:00:00:01, or address/mask", s)
	}
	if a&^b != 0 {
		return maskedMAC{}, fmt.Errorf("%q has bits that its mask leaves out", s)
	}
	return maskedMAC{a, b}, nil
}

// macBits reads six hexadecimal bytes.
func macBits(s string) (v uint64, ok bool) {
	parts := strings.Split(s, ":")
	if len(parts) != 6 {
		return 0, false
	}
	for _, p := range parts {
		b, err := strconv.ParseUint(p, 16, 8)
		if err != nil || len(p) != 2 {
			return 0, false
		}
		v = v<<8 | b
	}
	return v, true
}

func (m *match) parseVLAN(s string) error {
	switch s {
	case "":
		return nil
	case "none":
		m.vlanLow, m.vlanHigh = vlanNone, vlanNone
		return nil
	}
	v, err := strconv.ParseUint(s, 10, 16)
	if err != nil || v > 4095 {
		return fmt.Errorf("%q: write a VLAN from 0 to 4095, or \"none\" for packets without a tag", s)
	}
	m.vlanLow, m.vlanHigh = uint16(v), uint16(v)
	return nil
}

func parseRange(s string) (portRange, error) {
	r, err := ipmatch.PortRange(s)
	return portRange{r.Low, r.High, r.Needed}, err
}
