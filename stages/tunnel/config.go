package tunnel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/weirswitch/weir/pipeline/header"

	"github.com/weirswitch/weir/pipeline"
)

// Config is the section of the configuration of both stages, [stages.tunnel].
type Config struct {
	// Underlays are the ports by which tunnels leave and arrive. They are no ports of a bridge.
	Underlays []Underlay `toml:"underlay"`
	// Tunnels are the tunnels, each a port with driver = "tunnel".
	Tunnels []Tunnel `toml:"tunnel"`
	// VXLANPort and GenevePort are the UDP ports to which tunnels go and at which they arrive.
	VXLANPort  int `toml:"vxlan_port"`
	GenevePort int `toml:"geneve_port"`
	// Ageing is how long a station at a remote end is known after its last packet, from 1 s to 1,000,000 s.
	Ageing time.Duration `toml:"ageing"`
	// TableSize is how many stations at remote ends are known at most, 16 to 1,048,576; a power of two is used.
	TableSize int `toml:"table_size"`
	// ZeroChecksum6 sends without UDP checksum over IPv6, and takes such packets (RFC 6935). Over IPv4 none is ever sent.
	ZeroChecksum6 bool `toml:"zero_checksum6"`
}

// Underlay is a port of the underlay.
type Underlay struct {
	Port      string   `toml:"port"`               // the port's name
	Addresses []string `toml:"addresses"`          // the switch's own there, with prefix lengths
	Gateways  []string `toml:"gateways,omitempty"` // the way to all remote ends that are on no prefix, one for each IP version
	MAC       string   `toml:"mac,omitempty"`      // the switch's own there; default: one made of the switch's number and the port's
}

// Tunnel is a VXLAN or Geneve segment as a port.
type Tunnel struct {
	Port string `toml:"port"` // the name of a port with driver = "tunnel"
	Kind string `toml:"kind"` // "vxlan", "geneve", or "erspan", into which the stage mirror puts copies of packets
	VNI  int    `toml:"vni"`  // 0 to 16,777,215
	// Session is the session id of a tunnel of kind erspan, 0 to 1023. Such a tunnel has one remote end, and nothing comes out of it.
	Session int `toml:"session,omitempty"`
	// TruncateBytes cuts the packets of a tunnel of kind erspan, 64 to 65,536; 0: only those that would exceed the underlay's MTU.
	TruncateBytes int      `toml:"truncate_bytes,omitempty"`
	Remotes       []string `toml:"remotes,omitempty"` // the remote ends; each has a copy of what is flooded
	// LearnRemotes takes packets of any source too, and sends to the stations there what is for them; floods go to Remotes alone.
	LearnRemotes bool `toml:"learn_remotes,omitempty"`
	// DSCP is that of the outer header, 0 to 63, or -1 for the inner packet's.
	DSCP int `toml:"dscp,omitempty"`
	// TTL is that of the outer header, 1 to 255; 0 means 64.
	TTL int `toml:"ttl,omitempty"`
	// Static are stations that neither move nor age.
	Static []Station `toml:"static,omitempty"`
}

// Station is a station at a remote end.
type Station struct {
	MAC    string `toml:"mac"`    // a station's address, as in "02:00:00:00:00:01"
	Remote string `toml:"remote"` // one of the tunnel's Remotes
}

// The kinds of tunnels.
const (
	KindVXLAN  = "vxlan"
	KindGeneve = "geneve"
	KindERSPAN = "erspan"
)

// Bounds of the configuration.
const (
	maxTunnels = 4096
	maxEnds    = 1024
	minTable   = 16
	maxTable   = 1 << 20
	minAgeing  = time.Second
	maxAgeing  = 1_000_000 * time.Second
)

// DefaultConfig returns the ports that IANA assigned, and no tunnel.
func DefaultConfig() Config {
	return Config{VXLANPort: header.PortVXLAN, GenevePort: header.PortGeneve, Ageing: 300 * time.Second, TableSize: 16384}
}

// EncapConfig is the section [stages.encap], which has no keys: [stages.tunnel] is for both.
type EncapConfig struct {
	_ byte // two configurations have two addresses
}

// DefaultEncapConfig returns it.
func DefaultEncapConfig() EncapConfig { return EncapConfig{} }

// Validate finds nothing wrong.
func (c *EncapConfig) Validate([]string) error { return nil }

// Validate reports all faults of the configuration for a switch with the named ports, joined.
func (c *Config) Validate(ports []string) error {
	_, err := c.plan(ports)
	return err
}

// plan is a configuration that was found good, in numbers.
type plan struct {
	underlays []planUnderlay
	tunnels   []planTunnel
}

type planUnderlay struct {
	port     uint16
	prefixes []netip.Prefix // with the own address
	gateways []netip.Addr
	mac      [6]byte // zero: the default
}

type planTunnel struct {
	port    uint16
	geneve  bool
	erspan  bool
	vni     uint32
	remotes []netip.Addr
	static  []planStation
}

type planStation struct {
	mac    [6]byte
	remote netip.Addr
}

type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

func (f *faults) port(key, name string, ports []string) uint16 {
	n := slices.Index(ports, name)
	if n < 0 || name == "" {
		f.add("%s.port: %w", key, pipeline.UndefinedPort(name))
		return 0
	}
	return uint16(n)
}

func (f *faults) mac(key, text string) (mac [6]byte) {
	hw, err := net.ParseMAC(text)
	if err != nil || len(hw) != 6 || hw[0]&1 != 0 || [6]byte(hw) == mac {
		f.add("%s: %q is not a station's MAC address: write six bytes, as in \"02:00:00:00:00:01\"", key, text)
		return mac
	}
	return [6]byte(hw)
}

func (f *faults) addr(key, text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil || !isHost(a) {
		f.add("%s: %q is not the address of a host: write one, as in \"192.0.2.1\" or \"2001:db8::1\"", key, text)
		return a, false
	}
	return a, true
}

// isHost reports whether an address can be that of a remote end, or of the switch.
func isHost(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && !a.Is4In6() && !a.IsMulticast() && !a.IsUnspecified() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

func (c *Config) plan(ports []string) (*plan, error) {
	var f faults
	for _, k := range []struct {
		key  string
		port int
	}{{"vxlan_port", c.VXLANPort}, {"geneve_port", c.GenevePort}} {
		if k.port < 1 || k.port > 65535 {
			f.add("%s: %d: choose 1 to 65535", k.key, k.port)
		}
	}
	if c.VXLANPort == c.GenevePort {
		f.add("geneve_port: %d is vxlan_port too: choose another one", c.GenevePort)
	}
	if c.Ageing < minAgeing || c.Ageing > maxAgeing {
		f.add("ageing: %v is out of range: choose 1s to 1000000s", c.Ageing)
	}
	if c.TableSize < minTable || c.TableSize > maxTable {
		f.add("table_size: %d is out of range: choose %d to %d", c.TableSize, minTable, maxTable)
	}
	if len(c.Tunnels) > maxTunnels {
		f.add("tunnel: %d tunnels: choose up to %d", len(c.Tunnels), maxTunnels)
	}
	p := &plan{}
	used := map[string]string{}
	for i := range c.Underlays {
		p.underlays = append(p.underlays, c.planUnderlay(i, ports, used, &f))
	}
	own := func(a netip.Addr) bool {
		return slices.ContainsFunc(p.underlays, func(u planUnderlay) bool {
			return slices.ContainsFunc(u.prefixes, func(x netip.Prefix) bool { return x.Addr() == a })
		})
	}
	type segment struct {
		kind string
		vni  int
	}
	segments, ends := map[segment]int{}, map[netip.Addr]bool{}
	for i := range c.Tunnels {
		t, key := &c.Tunnels[i], fmt.Sprintf("tunnel[%d]", i)
		pt := c.planTunnel(t, key, ports, used, &f)
		if pt.erspan {
			t = &Tunnel{Kind: t.Kind, VNI: t.Session}
		}
		if before, ok := segments[segment{t.Kind, t.VNI}]; ok && pt.erspan {
			f.add("%s.session: %d is that of tunnel[%d] already: choose another one", key, t.VNI, before)
		} else if ok {
			f.add("%s.vni: %s %d is that of tunnel[%d] already: choose another one", key, t.Kind, t.VNI, before)
		}
		segments[segment{t.Kind, t.VNI}] = i
		for j, a := range pt.remotes {
			ends[a] = true
			if own(a) {
				f.add("%s.remotes[%d]: %v is the switch's own address: name the other end's", key, j, a)
			} else if _, _, ok := p.route(a); !ok {
				f.add("%s.remotes[%d]: no underlay leads to %v: add an address of its prefix to one, or a gateway", key, j, a)
			}
		}
		p.tunnels = append(p.tunnels, pt)
	}
	if len(ends) > maxEnds {
		f.add("tunnel: %d remote ends: choose up to %d", len(ends), maxEnds)
	}
	return p, errors.Join(f...)
}

func (c *Config) planUnderlay(i int, ports []string, used map[string]string, f *faults) (u planUnderlay) {
	uc, key := &c.Underlays[i], fmt.Sprintf("underlay[%d]", i)
	u.port = f.port(key, uc.Port, ports)
	if other, ok := used[uc.Port]; ok {
		f.add("%s.port: port %q is that of %s already", key, uc.Port, other)
	}
	used[uc.Port] = key
	if len(uc.Addresses) == 0 {
		f.add("%s.addresses: missing: give the switch an address there, as in [\"192.0.2.1/24\"]", key)
	}
	for j, text := range uc.Addresses {
		x, err := netip.ParsePrefix(text)
		if err != nil {
			f.add("%s.addresses[%d]: %q: write an address with its prefix length, as in \"192.0.2.1/24\"", key, j, text)
			continue
		}
		if _, ok := f.addr(fmt.Sprintf("%s.addresses[%d]", key, j), x.Addr().String()); ok {
			u.prefixes = append(u.prefixes, x)
		}
	}
	for j, text := range uc.Gateways {
		a, ok := f.addr(fmt.Sprintf("%s.gateways[%d]", key, j), text)
		if !ok {
			continue
		}
		if !slices.ContainsFunc(u.prefixes, func(x netip.Prefix) bool { return x.Contains(a) }) {
			f.add("%s.gateways[%d]: %v is on no prefix of the port's addresses", key, j, a)
		}
		u.gateways = append(u.gateways, a)
	}
	if uc.MAC != "" {
		u.mac = f.mac(key+".mac", uc.MAC)
	}
	return u
}

func (c *Config) planTunnel(t *Tunnel, key string, ports []string, used map[string]string, f *faults) planTunnel {
	pt := planTunnel{port: f.port(key, t.Port, ports), geneve: t.Kind == KindGeneve, erspan: t.Kind == KindERSPAN, vni: uint32(t.VNI)}
	if other, ok := used[t.Port]; ok {
		f.add("%s.port: port %q is that of %s already", key, t.Port, other)
	}
	used[t.Port] = key
	if t.Kind != KindVXLAN && t.Kind != KindGeneve && t.Kind != KindERSPAN {
		f.add("%s.kind: %q: choose %q, %q or %q", key, t.Kind, KindVXLAN, KindGeneve, KindERSPAN)
	}
	c.planERSPAN(t, key, f)
	if t.VNI < 0 || t.VNI > 1<<24-1 {
		f.add("%s.vni: %d: choose 0 to %d", key, t.VNI, 1<<24-1)
	}
	if t.DSCP < -1 || t.DSCP > 63 {
		f.add("%s.dscp: %d: choose 0 to 63, or -1 for the inner packet's", key, t.DSCP)
	}
	if t.TTL < 0 || t.TTL > 255 {
		f.add("%s.ttl: %d: choose 1 to 255, or 0 for 64", key, t.TTL)
	}
	if len(t.Remotes) == 0 && !t.LearnRemotes {
		f.add("%s.remotes: missing: name the remote ends, or set learn_remotes", key)
	}
	for j, text := range t.Remotes {
		k := fmt.Sprintf("%s.remotes[%d]", key, j)
		a, ok := f.addr(k, text)
		if !ok {
			continue
		}
		if slices.Contains(pt.remotes, a) {
			f.add("%s: %v appears twice: remove one", k, a)
			continue
		}
		pt.remotes = append(pt.remotes, a)
	}
	for j, s := range t.Static {
		k := fmt.Sprintf("%s.static[%d]", key, j)
		mac := f.mac(k+".mac", s.MAC)
		a, ok := f.addr(k+".remote", s.Remote)
		if ok && !slices.Contains(pt.remotes, a) {
			f.add("%s.remote: %v is none of the tunnel's remotes: add it there", k, a)
		}
		pt.static = append(pt.static, planStation{mac, a})
	}
	return pt
}

// planERSPAN checks what is of tunnels of kind erspan, or not of them.
func (c *Config) planERSPAN(t *Tunnel, key string, f *faults) {
	if t.Kind != KindERSPAN {
		if t.Session != 0 || t.TruncateBytes != 0 {
			f.add("%s: session and truncate_bytes are of the kind %q: remove them", key, KindERSPAN)
		}
		return
	}
	if t.Session < 0 || t.Session > maxSession {
		f.add("%s.session: %d: choose 0 to %d", key, t.Session, maxSession)
	}
	if t.TruncateBytes != 0 && (t.TruncateBytes < minMirrored || t.TruncateBytes > maxMirrored) {
		f.add("%s.truncate_bytes: %d: choose %d to %d, or 0 for what the underlay carries", key, t.TruncateBytes, minMirrored, maxMirrored)
	}
	if t.VNI != 0 || t.LearnRemotes || len(t.Static) != 0 || len(t.Remotes) != 1 || t.DSCP < 0 {
		f.add("%s: a tunnel of kind %q has a session in place of a vni, one remote, and neither stations nor the inner packet's dscp", key, KindERSPAN)
	}
}

// route finds the underlay by which an address is reached, and the next hop: the longest prefix, else a gateway.
func (p *plan) route(a netip.Addr) (underlay int, hop netip.Addr, ok bool) {
	best := -1
	for i := range p.underlays {
		for _, x := range p.underlays[i].prefixes {
			if x.Contains(a) && x.Bits() > best {
				best, underlay, hop, ok = x.Bits(), i, a, true
			}
		}
	}
	for i := 0; i < len(p.underlays) && !ok; i++ {
		for _, g := range p.underlays[i].gateways {
			if g.Is4() == a.Is4() {
				return i, g, true
			}
		}
	}
	return underlay, hop, ok
}

// source is an underlay's own address for a next hop.
func (u *planUnderlay) source(hop netip.Addr) (netip.Addr, bool) {
	for _, x := range u.prefixes {
		if x.Contains(hop) {
			return x.Addr(), true
		}
	}
	return netip.Addr{}, false
}
