package conntrack

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/weirswitch/weir/pipeline/ipmatch"
)

// What becomes of a packet.
const (
	Permit = "permit"
	Deny   = "deny"
)

// Bounds of the configuration.
const (
	MaxConnections = 1 << 23
	minConnections = 64  // of a worker
	MaxRules       = 256 // of a group: a first packet tries them in order
	maxTimeout     = 14 * 24 * time.Hour
)

// Config is the stage's section of the configuration, [stages.conntrack].
type Config struct {
	// Connections is the most connections that the table holds, from 64 to 8,388,608. Each takes 144 to 160 bytes. Each port has a share of them, and the workers divide them evenly.
	Connections int `toml:"connections"`
	// Invalid is the fate of packets that fit no connection and begin none: "deny" or "permit".
	Invalid string `toml:"invalid"`
	// TCPLoose takes an ACK without a connection for one of which the SYN was not seen, as Linux does. The group's rules decide about it as about a SYN.
	TCPLoose bool `toml:"tcp_loose"`
	// TCPLiberal checks the windows of TCP resets alone.
	TCPLiberal bool `toml:"tcp_liberal"`
	// Timeouts are how long a connection lives after its last packet.
	Timeouts Timeouts `toml:"timeouts"`
	// Groups are security groups of ports. A port of no group may begin any connection.
	Groups []Group `toml:"group"`
	// SNAT and DNAT are rules of address translation, in front of the router. Connections that no rule matches are not translated.
	SNAT []SNAT `toml:"snat"`
	DNAT []DNAT `toml:"dnat"`
}

// Timeouts are how long connections live after their last packet, [stages.conntrack.timeouts], 1 s to 336 h each. The defaults are those of Linux.
type Timeouts struct {
	TCPSynSent     time.Duration `toml:"tcp_syn_sent"`     // a SYN without an answer
	TCPSynReceived time.Duration `toml:"tcp_syn_received"` // answered, and not confirmed
	TCPEstablished time.Duration `toml:"tcp_established"`  // both sides took it up
	TCPFinWait     time.Duration `toml:"tcp_fin_wait"`     // one side closed
	TCPCloseWait   time.Duration `toml:"tcp_close_wait"`   // and the other side confirmed that
	TCPLastAck     time.Duration `toml:"tcp_last_ack"`     // both sides closed
	TCPTimeWait    time.Duration `toml:"tcp_time_wait"`    // and both confirmed it
	TCPClose       time.Duration `toml:"tcp_close"`        // reset
	TCPRetransmits time.Duration `toml:"tcp_retransmits"`  // three retransmissions without an answer, or a closed window: at most this
	TCPUnanswered  time.Duration `toml:"tcp_unanswered"`   // data that are not acknowledged: at most this
	UDP            time.Duration `toml:"udp"`              // not answered, or younger than two seconds
	UDPStream      time.Duration `toml:"udp_stream"`       // answered, and older than two seconds
	ICMP           time.Duration `toml:"icmp"`             // a query
	Other          time.Duration `toml:"other"`            // all other protocols
}

// Group is a security group of ports, [[stages.conntrack.group]]. Its rules decide about the first packet of each connection
// that arrives on them. The packets of a connection that was permitted pass in both directions.
type Group struct {
	// Name is unique.
	Name string `toml:"name"`
	// Ports are names of ports. A port is in one group.
	Ports []string `toml:"ports"`
	// Default is the fate of connections that no rule decides: "permit" or "deny".
	Default string `toml:"default"`
	// Zone keeps connections apart that have the same addresses in different networks, 0 to 65535. Connections are between ports of one zone; ports of no group are in zone 0.
	Zone int `toml:"zone,omitempty"`
	// Share is how many connections each of the ports may have begun; 0: an equal part of what the shares of other ports leave.
	Share int `toml:"share,omitempty"`
	// Rules are tried in order.
	Rules []Rule `toml:"rule"`
}

// Rule is one rule, [[stages.conntrack.group.rule]]. Fields left empty match everything. They are written as those of acl.
type Rule struct {
	// Action is "permit" or "deny".
	Action string `toml:"action"`
	// Src and Dst are IP prefixes or addresses.
	Src string `toml:"src"`
	Dst string `toml:"dst"`
	// Protocol is a number, or "tcp", "udp", "icmp", "icmpv6", "sctp".
	Protocol string `toml:"protocol"`
	// SrcPort and DstPort are a port or a range: "80", "1024-65535".
	SrcPort string `toml:"src_port"`
	DstPort string `toml:"dst_port"`
}

// DefaultConfig returns a table of 65,536 connections, and no groups.
func DefaultConfig() Config {
	return Config{
		Connections: 1 << 16, Invalid: Deny, TCPLoose: true,
		Timeouts: Timeouts{
			TCPSynSent: 120 * time.Second, TCPSynReceived: 60 * time.Second, TCPEstablished: 120 * time.Hour, TCPFinWait: 120 * time.Second,
			TCPCloseWait: 60 * time.Second, TCPLastAck: 30 * time.Second, TCPTimeWait: 120 * time.Second, TCPClose: 10 * time.Second,
			TCPRetransmits: 300 * time.Second, TCPUnanswered: 300 * time.Second,
			UDP: 30 * time.Second, UDPStream: 120 * time.Second, ICMP: 30 * time.Second, Other: 600 * time.Second,
		},
	}
}

// Validate reports all faults of the configuration for a switch with the named
// ports, joined. Each begins with the key inside the stage's section.
func (c *Config) Validate(ports []string) error {
	_, err := c.compile(ports)
	return err
}

// settings are a configuration in numbers, which all workers read. They are immutable.
type settings struct {
	names      []string // of the ports; empty for a number without one
	groups     []group  // the last one is that of ports of no group
	byPort     []uint16 // group by port
	limits     []uint32 // share by port
	permit     bool     // of invalid packets
	loose      bool
	liberal    bool
	timeouts   [numTimeouts]uint32 // in ticks
	generation uint16              // another one with each change
	nat        natSettings
	steering   *steering // nil: there is one worker
}

type group struct {
	name   string
	permit bool
	zone   uint16
	rules  []rule
}

type rule struct {
	permit           bool
	src, dst         netip.Prefix // invalid: any
	proto            uint8
	anyProto         bool
	srcPort, dstPort ipmatch.Ports
}

// faults collects what is wrong with a configuration.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

func (c *Config) compile(ports []string) (*settings, error) {
	s := &settings{
		names: ports, permit: c.Invalid == Permit, loose: c.TCPLoose, liberal: c.TCPLiberal,
		byPort: make([]uint16, len(ports)), limits: make([]uint32, len(ports)),
	}
	var errs faults
	if c.Connections < minConnections || c.Connections > MaxConnections {
		errs.add("connections = %d: choose %d to %d", c.Connections, minConnections, MaxConnections)
	}
	if c.Invalid != Permit && c.Invalid != Deny {
		errs.add("invalid = %q: choose %q or %q", c.Invalid, Permit, Deny)
	}
	for i, t := range c.Timeouts.list() {
		if t.of < time.Second || t.of > maxTimeout {
			errs.add("timeouts.%s = %v: choose 1 s to %v", t.key, t.of, maxTimeout)
		}
		s.timeouts[i] = ticksOf(t.of)
	}
	shares := c.compileGroups(ports, s, &errs)
	c.share(shares, s, &errs)
	c.compileNAT(ports, s, &errs)
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// compileGroups returns the shares that groups set, by port.
func (c *Config) compileGroups(ports []string, s *settings, errs *faults) (shares []int) {
	shares = make([]int, len(ports))
	none := uint16(len(c.Groups))
	for i := range s.byPort {
		s.byPort[i] = none
		if i < len(ports) && ports[i] == "" {
			s.byPort[i] = none + 1 // a port that is being removed still receives
		}
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		key := fmt.Sprintf("group[%d]", i)
		if g.Name == "" {
			errs.add("%s.name: a group needs one: it is shown with its ports", key)
		} else if before := slices.IndexFunc(c.Groups, func(o Group) bool { return o.Name == g.Name }); before < i {
			errs.add("%s.name: group[%d] is called %q already: choose another name", key, before, g.Name)
		}
		if g.Default != Permit && g.Default != Deny {
			errs.add("%s.default: %q: choose %q or %q", key, g.Default, Permit, Deny)
		}
		if g.Zone < 0 || g.Zone > 65535 {
			errs.add("%s.zone: %d: choose 0 to 65535", key, g.Zone)
		}
		if g.Share < 0 || g.Share > MaxConnections {
			errs.add("%s.share: %d: choose 1 to connections, or 0 for an equal part", key, g.Share)
		}
		for _, name := range g.Ports {
			n := slices.Index(ports, name)
			switch {
			case n < 0 || name == "":
				errs.add("%s.ports: port %q is not defined: define [[port]] name = %q or correct the name", key, name, name)
			case s.byPort[n] != none:
				errs.add("%s.ports: port %q is in group %q already: leave it in one of the two", key, name, c.Groups[s.byPort[n]].Name)
			default:
				s.byPort[n], shares[n] = uint16(i), g.Share
			}
		}
		if len(g.Rules) > MaxRules {
			errs.add("%s.rule: %d rules: %d at most", key, len(g.Rules), MaxRules)
			continue
		}
		compiled := group{name: g.Name, permit: g.Default == Permit, zone: uint16(g.Zone)}
		for j := range g.Rules {
			compiled.rules = append(compiled.rules, g.Rules[j].compile(fmt.Sprintf("%s.rule[%d]", key, j), errs))
		}
		s.groups = append(s.groups, compiled)
	}
	s.groups = append(s.groups, group{permit: true}, group{}) // of ports of no group, and of those that are being removed
	return shares
}

// share divides the table among the ports.
func (c *Config) share(shares []int, s *settings, errs *faults) {
	left, others := c.Connections, 0
	for i, name := range s.names {
		if name != "" && shares[i] == 0 {
			others++
		}
		left -= shares[i]
	}
	if left < others {
		errs.add("group: the shares of ports are more than connections = %d, with one for each other port: lower them, or raise connections", c.Connections)
		return
	}
	for i, name := range s.names {
		switch {
		case shares[i] != 0:
			s.limits[i] = uint32(shares[i])
		case name != "":
			s.limits[i] = uint32(left / others)
		}
	}
}

func (r *Rule) compile(key string, errs *faults) rule {
	c := rule{permit: r.Action == Permit}
	if r.Action != Permit && r.Action != Deny {
		errs.add("%s.action: %q: choose %q or %q", key, r.Action, Permit, Deny)
	}
	var err error
	if c.src, err = ipmatch.Prefix(r.Src); err != nil {
		errs.add("%s.src: %w", key, err)
	}
	if c.dst, err = ipmatch.Prefix(r.Dst); err != nil {
		errs.add("%s.dst: %w", key, err)
	}
	if c.src.IsValid() && c.dst.IsValid() && c.src.Addr().Is4() != c.dst.Addr().Is4() {
		errs.add("%s.dst: %s is of another IP version than src = %s: no packet has both, write two rules", key, r.Dst, r.Src)
	}
	var proto uint16
	if proto, c.anyProto, err = ipmatch.Number(r.Protocol, 255, ipmatch.Protocols); err != nil {
		errs.add("%s.protocol: %w", key, err)
	}
	c.proto = uint8(proto)
	if c.srcPort, err = ipmatch.PortRange(r.SrcPort); err != nil {
		errs.add("%s.src_port: %w", key, err)
	}
	if c.dstPort, err = ipmatch.PortRange(r.DstPort); err != nil {
		errs.add("%s.dst_port: %w", key, err)
	}
	return c
}

// permits reports whether a group's rules permit a connection from src to dst.
func (g *group) permits(t *tuple) bool {
	for i := range g.rules {
		r := &g.rules[i]
		if (r.anyProto || r.proto == t.proto) &&
			(!r.src.IsValid() || r.src.Contains(t.src)) && (!r.dst.IsValid() || r.dst.Contains(t.dst)) &&
			r.srcPort.Matches(t.srcPort, t.ports) && r.dstPort.Matches(t.dstPort, t.ports) {
			return r.permit
		}
	}
	return g.permit
}

// The timeouts by number: those of TCP's states first, by state.
const (
	timeoutRetransmits = numStates + iota
	timeoutUnanswered
	timeoutUDP
	timeoutUDPStream
	timeoutICMP
	timeoutOther
	numTimeouts
)

type timeout struct {
	key string
	of  time.Duration
}

// list returns the timeouts by number.
func (t *Timeouts) list() [numTimeouts]timeout {
	return [numTimeouts]timeout{
		stateNone:          {"tcp_syn_sent", t.TCPSynSent}, // no connection is in it
		stateSynSent:       {"tcp_syn_sent", t.TCPSynSent},
		stateSynReceived:   {"tcp_syn_received", t.TCPSynReceived},
		stateEstablished:   {"tcp_established", t.TCPEstablished},
		stateFinWait:       {"tcp_fin_wait", t.TCPFinWait},
		stateCloseWait:     {"tcp_close_wait", t.TCPCloseWait},
		stateLastAck:       {"tcp_last_ack", t.TCPLastAck},
		stateTimeWait:      {"tcp_time_wait", t.TCPTimeWait},
		stateClosed:        {"tcp_close", t.TCPClose},
		stateSynSent2:      {"tcp_syn_sent", t.TCPSynSent},
		timeoutRetransmits: {"tcp_retransmits", t.TCPRetransmits},
		timeoutUnanswered:  {"tcp_unanswered", t.TCPUnanswered},
		timeoutUDP:         {"udp", t.UDP},
		timeoutUDPStream:   {"udp_stream", t.UDPStream},
		timeoutICMP:        {"icmp", t.ICMP},
		timeoutOther:       {"other", t.Other},
	}
}
