// Package labpath computes the paths of flows through a lab from its file: by the routes of its switches, else by its
// links. The collector, queries of records and the lab's grader use it where PINT has not decoded a path.
package labpath

import (
	"errors"
	"net/netip"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/stages/parse"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/query"
)

// Paths implements query.Paths. It is immutable, so it is safe for concurrent use.
type Paths struct {
	// Seed of [stages.parse] and Family of hashes are the same in all switches.
	Seed   uint64
	Family hash.Family
	// Switches are the switches' configurations, in the order of the lab's file.
	Switches []*config.Config

	lab     *lab.Config
	routers map[uint32]*router
	owner   map[netip.Addr]owner // by a router's own address
	byLinks map[[2]*lab.Host][]uint32
	ids     map[string]uint32      // of switches
	bridged map[[2]string][]uint32 // switches between two nodes, on the one way over bridges
}

// owner is the router that has an address, and in which of its tables packets to it are looked up.
type owner struct {
	id  uint32
	vrf string
}

type router struct {
	name   string
	own    []network
	routes []route

	perPacket bool // ECMP spreads each flow
}

// network is on an interface of a router.
type network struct {
	prefix netip.Prefix
	vrf    string
}

type route struct {
	prefix netip.Prefix
	vrf    string
	via    []netip.Addr // a gateway appears once per unit of its weight; none: the network is on a port
}

// maxHops bounds a path, in case the routes loop.
const maxHops = 64

// Load reads a lab's file and the configurations of its switches. key is the file of the key that the lab has drawn, if it has.
func Load(file, key string) (*Paths, error) {
	c, err := lab.Load(file)
	if err != nil {
		return nil, err
	}
	c.UseKey(key)
	return New(c)
}

// Switches reads the configurations of a lab's switches, in the order of the file. The error joins the faults of all of them; then the
// configurations are what config.ParseFaulty has, to be compared with each other.
func Switches(c *lab.Config) (switches []*config.Config, err error) {
	texts, err := c.SwitchConfigs()
	if err != nil {
		return nil, err
	}
	var faults []error
	for i, text := range texts {
		sw, err := config.ParseFaulty(text)
		if err != nil {
			faults = append(faults, c.SwitchFaults(i, err)...)
		}
		switches = append(switches, sw)
	}
	return switches, errors.Join(faults...)
}

// New reads the configurations of a lab's switches.
func New(c *lab.Config) (*Paths, error) {
	switches, err := Switches(c)
	if err != nil {
		return nil, err
	}
	if err := Common(c, switches); err != nil {
		return nil, err
	}
	p := &Paths{Switches: switches, lab: c, routers: map[uint32]*router{}, owner: map[netip.Addr]owner{}, byLinks: map[[2]*lab.Host][]uint32{},
		ids: map[string]uint32{}, bridged: map[[2]string][]uint32{}}
	for i, sw := range switches {
		p.Seed, p.Family = seedOf(sw), sw.Switch.Hash
		if routing, ok := sw.Stages["l3"].(*l3.Config); ok {
			p.addRouter(c.Switches[i].Name, sw.Switch.ID, routing)
		}
		p.ids[c.Switches[i].Name] = sw.Switch.ID
	}
	p.addBridged()
	for i := range c.Hosts {
		for k := range c.Hosts {
			if from, to := &c.Hosts[i], &c.Hosts[k]; from != to {
				for _, name := range c.Path(from, to) {
					p.byLinks[[2]*lab.Host{from, to}] = append(p.byLinks[[2]*lab.Host{from, to}], p.ids[name])
				}
			}
		}
	}
	return p, nil
}

// seedOf is the seed of a switch's flow hashes.
func seedOf(sw *config.Config) uint64 {
	if p, ok := sw.Stages["parse"].(*parse.Config); ok {
		return p.Seed
	}
	return parse.DefaultConfig().Seed
}

// Common reports the switches whose flow hashes are other ones than those of the first switch.
func Common(c *lab.Config, switches []*config.Config) error {
	var faults []error
	for i := 1; i < len(switches); i++ {
		first, sw := switches[0], switches[i]
		if sw.Switch.Hash != first.Switch.Hash {
			faults = append(faults, c.SwitchFault(i, "switch.hash", "%v, but that of switch %s is %v: records can be joined only if all have the same", sw.Switch.Hash, c.Switches[0].Name, first.Switch.Hash))
		}
		if seedOf(sw) != seedOf(first) {
			faults = append(faults, c.SwitchFault(i, "stages.parse.seed", "%d, but that of switch %s is %d: records can be joined only if all have the same", seedOf(sw), c.Switches[0].Name, seedOf(first)))
		}
	}
	return errors.Join(faults...)
}

// Names are the names of all switches by their numbers.
func (p *Paths) Names() map[uint32]string {
	names := map[uint32]string{}
	for _, sw := range p.Switches {
		names[sw.Switch.ID] = sw.Switch.Name
	}
	return names
}

// addRouter takes the configuration of a router, which config.Parse has validated.
func (p *Paths) addRouter(name string, id uint32, c *l3.Config) {
	r := &router{name: name, perPacket: c.ECMP == l3.ECMPPacket}
	for _, i := range c.Interfaces {
		for _, a := range i.Addresses {
			own := netip.MustParsePrefix(a)
			r.own = append(r.own, network{own, i.VRF})
			p.owner[own.Addr()] = owner{id, i.VRF}
		}
	}
	for _, configured := range c.Routes {
		to := route{prefix: netip.MustParsePrefix(configured.Prefix), vrf: configured.VRF}
		for i, via := range configured.Via {
			gateway, weight := netip.MustParseAddr(via).WithZone(""), 1
			if configured.Weights != nil {
				weight = configured.Weights[i]
			}
			for range weight {
				to.via = append(to.via, gateway)
			}
		}
		r.routes = append(r.routes, to)
	}
	p.routers[id] = r
}

// addBridged finds the ways over bridges from each host and router to each other one.
func (p *Paths) addBridged() {
	var nodes []string
	for i := range p.lab.Hosts {
		nodes = append(nodes, p.lab.Hosts[i].Name)
	}
	for _, r := range p.routers {
		nodes = append(nodes, r.name)
	}
	for _, from := range nodes {
		for _, to := range nodes {
			names, known := p.lab.Bridged(from, to)
			if from == to || !known {
				continue
			}
			for _, name := range names {
				p.bridged[[2]string{from, to}] = append(p.bridged[[2]string{from, to}], p.ids[name])
			}
		}
	}
}

// Path implements query.Paths: routes and links do not change while a lab runs.
func (p *Paths) Path(flow query.Key) []query.Passage { return query.PathFunc(p.Of).Path(flow) }

// Of lists the ids of the switches that a flow passes; nil: a router on its way has no route, there is no router and the links leave a choice, or packets of the flow take different ways.
func (p *Paths) Of(flow query.Key) []uint32 {
	source := p.lab.FlowSource(flow.SrcAddr())
	if source == nil {
		return nil
	}
	if path, routed := p.byRoutes(source, flow); routed {
		return path
	}
	return p.byLinks[[2]*lab.Host{source, p.lab.FlowTarget(flow.DstAddr())}]
}

// byRoutes follows the longest prefixes from the source's gateway on, and between routers the way over bridges. What is for a network of the source
// itself passes no router. routed: the source's packets go to a router of the lab; path is nil then if one has no route, as for an address that is translated on the way.
func (p *Paths) byRoutes(source *lab.Host, flow query.Key) (path []uint32, routed bool) {
	gateway := source.Gateway
	if flow.Version == 6 && source.Gateway6 != "" {
		gateway = source.Gateway6
	}
	next, err := netip.ParseAddr(gateway)
	if source.OnLink(flow.DstAddr()) {
		if _, ok := p.owner[flow.DstAddr()]; !ok {
			return nil, false
		}
		next = flow.DstAddr()
	} else if err != nil {
		return nil, false
	}
	at := source.Name
	target := ""
	if host := p.lab.FlowTarget(flow.DstAddr()); host != nil {
		target = host.Name
	}
	flowHash := uint32(query.Hash(p.Family, flow, p.Seed))
	for len(path) < maxHops {
		to, ok := p.owner[next]
		if !ok { // next is a host
			return append(path, p.bridged[[2]string{at, target}]...), len(path) > 0
		}
		router := p.routers[to.id]
		path = append(append(path, p.bridged[[2]string{at, router.name}]...), to.id)
		at = router.name
		via, ok := router.via(to.vrf, flow.DstAddr())
		switch {
		case !ok:
			return nil, true
		case len(via) == 0:
			return append(path, p.bridged[[2]string{at, target}]...), true
		case len(via) > 1 && router.perPacket:
			return nil, true // there is no one path
		}
		next = via[l3.Pick(p.Family, flowHash, to.id, len(via))]
	}
	return nil, true
}

// via are the gateways towards a destination by the table of a VRF; none: the destination is on a port. ok: there is a route.
func (r *router) via(vrf string, dst netip.Addr) (gateways []netip.Addr, ok bool) {
	best := route{}
	for _, to := range r.routes {
		if to.vrf == vrf && to.prefix.Contains(dst) && (!best.prefix.IsValid() || to.prefix.Bits() > best.prefix.Bits()) {
			best = to
		}
	}
	for _, own := range r.own {
		if own.vrf == vrf && own.prefix.Masked().Contains(dst) && own.prefix.Bits() >= best.prefix.Bits() {
			return nil, true
		}
	}
	return best.via, best.prefix.IsValid()
}
