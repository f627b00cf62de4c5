// Package guard is the stage that drops what only DHCP servers and routers send, from ports where there are none: a host cannot give others
// addresses, name servers or a default route.
//
//	batch ──> from a port that is not trusted? ──> DHCP or DHCPv6 of a server: dhcp_guard
//	                                           ──> router advertisement or redirect: ra_guard (RFC 6105)
//	                                           ──> headers that hide which of these it is: guard_undetermined (RFC 7113)
//
// Effect on packets: drops alone. Of a server is UDP from port 67 or to 68, and from 547 or to 546. A first fragment without its transport
// header, and an IP packet that contradicts itself, is dropped, as a host might read in it what the guard cannot. Later fragments pass: they
// are nothing without the first one. Packets within tunnels, behind labels or behind more tags than the parser reads are not looked into.
//
// Config keys: dhcp_servers, routers. Cost: one look at a flag per packet, one at the protocol from ports that are not trusted.
package guard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// The drop reasons.
var (
	reasonDHCP         = packet.Register("dhcp_guard", "a message of a DHCP server from a port where none is trusted")
	reasonRA           = packet.Register("ra_guard", "a router advertisement or redirect from a port where no router is trusted")
	reasonUndetermined = packet.Register("guard_undetermined", "the packet's headers hide whether it is of a DHCP server or a router, and none is trusted at its port")
)

// Config is the stage's section of the configuration, [stages.guard].
type Config struct {
	// DHCPServers are the ports at which there may be DHCP servers, or relays. A port's VLAN subinterfaces are trusted with it.
	DHCPServers []string `toml:"dhcp_servers"`
	// Routers are the ports at which there may be IPv6 routers.
	Routers []string `toml:"routers"`
}

// DefaultConfig trusts no port.
func DefaultConfig() Config { return Config{} }

// Validate reports all faults of the configuration for a switch with the named ports, joined. Each begins with the key inside the stage's
// section.
func (c *Config) Validate(ports []string) error {
	var errs []error
	for _, list := range []struct {
		key   string
		names []string
	}{{"dhcp_servers", c.DHCPServers}, {"routers", c.Routers}} {
		for i, name := range list.names {
			if name == "" || !slices.Contains(ports, name) {
				errs = append(errs, fmt.Errorf("%s[%d]: %w", list.key, i, pipeline.UndefinedPort(name)))
			}
		}
	}
	return errors.Join(errs...)
}

// What is guarded against at a port.
const (
	guardDHCP = 1 << iota
	guardRA
)

// Module is the stage of one switch. Its methods may be called from anywhere.
type Module struct {
	ports atomic.Pointer[[]uint8] // by port number, immutable; a number beyond is guarded
}

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	m := &Module{}
	commit, err := m.Prepare(c, env.Ports)
	if err != nil {
		return nil, err
	}
	commit()
	return m, nil
}

// Prepare checks a new configuration; commit puts it into force between two batches.
func (m *Module) Prepare(c Config, ports []pipeline.Port) (commit func(), err error) {
	if err := c.Validate(pipeline.PortNames(ports)); err != nil {
		return nil, err
	}
	guards := make([]uint8, len(ports))
	for i := range ports {
		p := &ports[i]
		trusted := func(names []string) bool {
			return slices.Contains(names, p.Name) || p.VLAN != 0 && slices.Contains(names, ports[p.Parent].Name)
		}
		if !trusted(c.DHCPServers) {
			guards[i] |= guardDHCP
		}
		if !trusted(c.Routers) {
			guards[i] |= guardRA
		}
	}
	return func() { m.ports.Store(&guards) }, nil
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RolePolicy }

// Needs implements pipeline.Module.
func (m *Module) Needs() packet.Needs { return 0 }

// TakesLarge implements pipeline.LargeTaker: all segments have the same headers.
func (m *Module) TakesLarge() bool { return true }

// Receives implements pipeline.Receiver.
func (m *Module) Receives(int) packet.Reception { return packet.Reception{} }

// Stage implements pipeline.Module.
func (m *Module) Stage(int) pipeline.Stage { return &stage{m} }

type stage struct{ module *Module }

// Process implements pipeline.Stage.
func (s *stage) Process(b *packet.Batch) {
	guards := *s.module.ports.Load()
	for i := range b.Pkts {
		p := &b.Pkts[i]
		g := uint8(guardDHCP | guardRA)
		if int(p.InPort) < len(guards) {
			g = guards[p.InPort]
		}
		if g == 0 || p.Reason != 0 {
			continue
		}
		if why := verdict(b, p, g); why != 0 {
			b.Drop(p, why)
		}
	}
}

// verdict says why a packet is dropped; 0: it passes.
func verdict(b *packet.Batch, p *packet.Packet, g uint8) packet.Reason {
	if p.Flags.Has(packet.FlagMalformed) {
		if p.EtherType == header.TypeIPv6 || p.EtherType == header.TypeIPv4 && g&guardDHCP != 0 {
			return reasonUndetermined
		}
		return 0
	}
	if p.Flags&packet.FlagIP == 0 || p.Flags.Has(packet.FlagLaterFragment) {
		return 0
	}
	switch {
	case p.Flags.Has(packet.FlagPorts):
		if g&guardDHCP != 0 && p.Proto == header.ProtoUDP && ofServer(p) {
			return reasonDHCP
		}
	case !p.Flags.Has(packet.FlagL4):
		// A first fragment that ends in front of the transport header, or headers that are longer than the packet's first frame.
		if p.Flags.Has(packet.FlagIPv6) || p.Proto == header.ProtoUDP && g&guardDHCP != 0 {
			return reasonUndetermined
		}
	case g&guardRA != 0 && p.Proto == header.ProtoICMPv6 && p.Flags.Has(packet.FlagIPv6) && uint32(p.L4) < p.Len:
		if t := b.Mem[p.Addr+uint64(p.L4)]; t == header.ICMPv6RouterAdvert || t == header.ICMPv6Redirect {
			return reasonRA
		}
	}
	return 0
}

// ofServer reports whether a packet of UDP has the ports of a server's or a relay's message (RFC 2131, 4.1; RFC 8415, 7.2).
func ofServer(p *packet.Packet) bool {
	if p.Flags.Has(packet.FlagIPv4) {
		return p.SrcPort == 67 || p.DstPort == 68
	}
	return p.SrcPort == 547 || p.DstPort == 546
}

// Explain implements pipeline.Explainer.
func (s *stage) Explain(_ *packet.Batch, p *packet.Packet) string {
	guards := *s.module.ports.Load()
	if int(p.InPort) >= len(guards) {
		return ""
	}
	var trusts []string
	if guards[p.InPort]&guardDHCP == 0 {
		trusts = append(trusts, "DHCP servers")
	}
	if guards[p.InPort]&guardRA == 0 {
		trusts = append(trusts, "routers")
	}
	if trusts == nil {
		return "the port is trusted with nothing"
	}
	return "the port is trusted with " + strings.Join(trusts, " and ")
}
