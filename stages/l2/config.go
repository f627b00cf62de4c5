package l2

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/pipeline"
)

// Config is the stage's section of the configuration, [stages.l2].
type Config struct {
	// Ageing is how long a learned address is kept after its last packet, from
	// 1 s to 1,000,000 s (the range of 802.1Q ends there). The clock of the
	// table counts seconds, and of more than two minutes 64ths, so an entry may live for one more.
	Ageing time.Duration `toml:"ageing"`
	// TableSize is the most addresses that the table holds, static ones
	// included, from 1 to 1,048,576. It costs 13 to 26 bytes per address, 64 KiB at least.
	TableSize int `toml:"table_size"`
	// ForwardLinkLocal forwards the reserved group addresses
	// 01:80:c2:00:00:00 to 0f (spanning tree, LACP, LLDP), which end at a
	// standard bridge.
	ForwardLinkLocal bool `toml:"forward_link_local"`
	// BPDUGuard lists ports to hosts, which have no business in spanning tree: a BPDU blocks such a port for guard_time.
	BPDUGuard []string `toml:"bpdu_guard"`
	// LoopMoves is from how many moves of stations to a port and back in a second on it is taken for one end of a loop and
	// blocked for guard_time, from 1 to 1,000,000; 0 for no guard.
	LoopMoves int `toml:"loop_moves"`
	// GuardTime is how long a guard blocks a port behind the last reason for it, from 1 s to 24 h.
	GuardTime time.Duration `toml:"guard_time"`
	// Static are addresses that are known from the start.
	Static []Static `toml:"static"`
	// Ports are the VLAN settings of ports. A port without is transparent.
	Ports []Port `toml:"port"`
	// Domains are bridge domains, in place of VLANs: each is a bridge of its own, of the ports that it names. A port without is of no bridge.
	Domains []Domain `toml:"domain"`
	// StormBroadcast limits the broadcasts that each port without an entry of storm may have flooded, in packets per second; 0 sets no limit.
	StormBroadcast int `toml:"storm_broadcast"`
	// StormMulticast limits its packets to all other groups.
	StormMulticast int `toml:"storm_multicast"`
	// StormUnknown limits its packets to stations that were never seen, or long ago. A bridge of two ports floods to one, and has no such limit.
	StormUnknown int `toml:"storm_unknown"`
	// Storms are the limits of single ports, in place of those three.
	Storms []Storm `toml:"storm"`
	// Snooping sends packets of IP groups to the ports whose hosts have joined them by IGMP or MLD, and to multicast routers (RFC 4541), in VLANs
	// where a querier is heard. In others, and without, they are flooded.
	Snooping bool `toml:"snooping"`
	// FloodUnregistered floods, where Snooping applies, the packets of groups that no port has joined. Otherwise they go to multicast routers
	// alone, but for IPv6 groups of link-local scope.
	FloodUnregistered bool `toml:"flood_unregistered"`
	// GroupTable is the most memberships of ports in groups, of which each source that a host names counts as one more, from 1 to 1,048,576.
	GroupTable int `toml:"group_table"`
	// MulticastRouters lists ports to multicast routers, in addition to those where queries or PIM are heard.
	MulticastRouters []string `toml:"multicast_routers"`
	// RouterGuard lists ports on which there is neither a querier nor a multicast router: what one would send is dropped.
	RouterGuard []string `toml:"router_guard"`
	// FastLeave lists ports with one host each, which get no more packets of a group as soon as the host leaves it.
	FastLeave []string `toml:"fast_leave"`
}

// Static is an entry of the table that neither moves nor ages.
type Static struct {
	MAC  string `toml:"mac"`            // a station's address, as in "02:00:00:00:00:01"
	VLAN int    `toml:"vlan,omitempty"` // 1 to 4094; 0 is the untagged VLAN of transparent ports
	Port string `toml:"port"`           // where the station is
}

// Domain is a bridge of its own.
type Domain struct {
	Name  string   `toml:"name"`  // as reports call it
	Ports []string `toml:"ports"` // its ports; one with driver = "irb" joins it to the router
	// Tagged has packets with VLAN tags pass, with these, as an operator's customers want it. Otherwise they are dropped: a VLAN is a
	// subinterface, which takes its tag off.
	Tagged bool `toml:"tagged,omitempty"`
}

// Port is the VLAN setting of one port: access, or trunk with or without
// native.
type Port struct {
	Port   string `toml:"port" was:"name"`  // the port's name
	Access int    `toml:"access,omitempty"` // the VLAN of an access port, 1 to 4094
	Trunk  []int  `toml:"trunk,omitempty"`  // the VLANs of a trunk port, 1 to 4094 each
	Native int    `toml:"native,omitempty"` // the trunk's VLAN of untagged packets, 0 for none
	// AcceptTagged has an access port take tags of its VLAN off, and packets with a second tag, instead of dropping them.
	AcceptTagged bool `toml:"accept_tagged,omitempty"`
}

// Bounds of the configuration.
const (
	MaxTableSize = 1 << 20
	MaxPorts     = minBuckets << 2 // an entry of the smallest table has bits for the numbers of so many
	minAgeing    = time.Second
	maxAgeing    = 1_000_000 * time.Second
	maxVID       = 4094 // 4095 is reserved by 802.1Q
)

// DefaultConfig returns the configuration of a bridge that is transparent to
// VLANs.
func DefaultConfig() Config {
	return Config{
		Ageing: 300 * time.Second, TableSize: 16384, LoopMoves: 100, GuardTime: 5 * time.Minute,
		StormBroadcast: defaultBroadcast, StormMulticast: defaultMulticast, StormUnknown: defaultUnknown,
		FloodUnregistered: true, GroupTable: 16384,
	}
}

// Validate reports all faults of the configuration for a switch with the named
// ports, joined. Each begins with the key inside the stage's section.
func (c *Config) Validate(ports []string) error {
	_, err := c.plan(ports, nil)
	return err
}

// plan is a configuration that was found good, in numbers.
type plan struct {
	ports  []portVLANs // by port number
	static []staticEntry
	storms []*storm       // by port number
	bpdus  []*atomic.Bool // by port number, nil without guard; set by workers when a BPDU arrives
	// domains has the numbers of the bridge domains by name, which are VLANs in keys; nil without domains.
	domains map[string]uint16
	snoop   snoopPlan
	// parents are the ports beneath subinterfaces, by port number; packet.NoPort for others.
	parents []uint16
}

type staticEntry struct {
	key  uint64
	port uint16
}

// faults collects what is wrong with a configuration.
type faults []error

func (f *faults) add(format string, args ...any) {
	*f = append(*f, fmt.Errorf(format, args...))
}

func (f faults) join() error { return errors.Join(f...) }

func (f *faults) vid(key string, vid int) bool {
	if vid >= 1 && vid <= maxVID {
		return true
	}
	f.add("%s: VLAN %d does not exist: choose 1 to %d", key, vid, maxVID)
	return false
}

// plan checks a configuration. Domains that are known keep their numbers, so that what was learned in one stays there.
func (c *Config) plan(ports []string, known map[string]uint16) (*plan, error) {
	var f faults
	if c.Ageing < minAgeing || c.Ageing > maxAgeing {
		f.add("ageing: %v is out of range: choose 1s to 1000000s", c.Ageing)
	}
	if c.TableSize < 1 || c.TableSize > MaxTableSize {
		f.add("table_size: %d is out of range: choose 1 to %d", c.TableSize, MaxTableSize)
	}
	if len(ports) > MaxPorts {
		f.add("port: the switch has %d ports: a bridge has %d at most", len(ports), MaxPorts)
	}
	if len(c.Static) > c.TableSize {
		f.add("static: %d entries exceed table_size %d: raise table_size", len(c.Static), c.TableSize)
	}
	p := &plan{}
	if len(c.Domains) == 0 {
		p.ports = c.planPorts(ports, &f)
	} else {
		c.planDomains(p, ports, known, &f)
	}
	p.static = c.planStatic(ports, p, &f)
	p.storms = c.planStorms(ports, &f)
	p.bpdus = c.planGuards(ports, &f)
	p.snoop = c.planSnooping(ports, &f)
	return p, errors.Join(f...)
}

// planPorts turns the [[port]] entries into VLANs by port number.
func (c *Config) planPorts(ports []string, f *faults) []portVLANs {
	vlans := make([]portVLANs, len(ports))
	for i := range vlans {
		if ports[i] != "" { // a port that has gone carries nothing
			vlans[i] = transparent()
		}
	}
	first := map[string]int{}
	for i, pc := range c.Ports {
		key := fmt.Sprintf("port[%d]", i)
		number := slices.Index(ports, pc.Port)
		if number < 0 {
			f.add("%s.port: %w", key, pipeline.UndefinedPort(pc.Port))
		}
		if before, ok := first[pc.Port]; ok {
			f.add("%s.port: port %q is already set by port[%d]: join the two", key, pc.Port, before)
		} else {
			first[pc.Port] = i
		}
		v := pc.vlans(key, f)
		if number >= 0 {
			vlans[number] = v
		}
	}
	return vlans
}

func (pc *Port) vlans(key string, f *faults) portVLANs {
	switch {
	case pc.Access != 0 && (len(pc.Trunk) != 0 || pc.Native != 0):
		f.add("%s: access excludes trunk and native: keep one", key)
	case pc.Access != 0:
		if f.vid(key+".access", pc.Access) {
			return access(uint16(pc.Access), pc.AcceptTagged)
		}
	case pc.AcceptTagged:
		f.add("%s.accept_tagged: only access ports refuse tags: remove it, or set access", key)
	case len(pc.Trunk) == 0 && pc.Native != 0:
		f.add("%s.native: a native VLAN needs a trunk: add trunk = [...] or use access = %d", key, pc.Native)
	case len(pc.Trunk) == 0:
		f.add("%s: port %q has neither access nor trunk: set one, or remove the entry to leave the port transparent", key, pc.Port)
	default:
		return pc.trunk(key, f)
	}
	return transparent()
}

func (pc *Port) trunk(key string, f *faults) portVLANs {
	v := portVLANs{pvid: noVLAN}
	for i, vid := range pc.Trunk {
		if !f.vid(fmt.Sprintf("%s.trunk[%d]", key, i), vid) {
			continue
		}
		if v.has(uint16(vid)) {
			f.add("%s.trunk[%d]: VLAN %d appears twice: remove one", key, i, vid)
		}
		v.add(uint16(vid))
	}
	// The native VLAN is carried whether or not it is in the list.
	if pc.Native != 0 && f.vid(key+".native", pc.Native) {
		v.pvid = uint16(pc.Native)
		v.add(v.pvid)
	}
	return v
}

// planStatic turns the static entries into keys and port numbers.
func (c *Config) planStatic(ports []string, p *plan, f *faults) []staticEntry {
	var entries []staticEntry
	first := map[uint64]int{}
	for i, s := range c.Static {
		key := fmt.Sprintf("static[%d]", i)
		port := slices.Index(ports, s.Port)
		if port < 0 {
			f.add("%s.port: %w", key, pipeline.UndefinedPort(s.Port))
		}
		mac, ok := station(key, s.MAC, f)
		if s.VLAN != 0 && !f.vid(key+".vlan", s.VLAN) || port < 0 || !ok {
			continue
		}
		vlan := uint16(s.VLAN)
		switch in := &p.ports[port]; {
		case p.domains != nil && vlan != 0:
			f.add("%s.vlan: a port's domain says where the station is: remove it", key)
		case p.domains != nil && in.outside:
			f.add("%s.port: port %q is of no domain: add it to one", key, s.Port)
		case p.domains != nil:
			vlan = in.pvid
		case !in.has(vlan):
			f.add("%s.vlan: port %q does not carry VLAN %d: correct the vlan or the port's VLANs", key, s.Port, s.VLAN)
		}
		k := makeKey(vlan, mac)
		if before, ok := first[k]; ok {
			f.add("%s: %s in VLAN %d is already in static[%d]: remove one", key, s.MAC, s.VLAN, before)
			continue
		}
		first[k] = i
		entries = append(entries, staticEntry{k, uint16(port)})
	}
	return entries
}

func station(key, text string, f *faults) (MAC, bool) {
	hw, err := net.ParseMAC(text)
	if err != nil || len(hw) != 6 {
		f.add("%s.mac: %q is not a MAC address: write six bytes, as in \"02:00:00:00:00:01\"", key, text)
		return MAC{}, false
	}
	mac := MAC(hw)
	if !mac.learnable() {
		f.add("%s.mac: %s is not the address of a station: groups and zero have no port: write the station's own, as its \"ip link\" shows it", key, text)
		return MAC{}, false
	}
	return mac, true
}
