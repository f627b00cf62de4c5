package main

import (
	"fmt"
	"net/netip"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/stages/parse"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/query"
)

// labPaths recomputes the ways of flows through a lab of routers: at each one the longest prefix, and among
// its gateways the choice of l3.Pick.
type labPaths struct {
	lab     *lab.Config
	routers map[uint32]*router
	owner   map[netip.Addr]uint32 // by a router's own address
	seed    uint64                // of [stages.parse], the same in all switches
	family  hash.Family           // of their packet ids and flow hashes, too
}

type router struct {
	own    []netip.Prefix
	routes []routerRoute
}

type routerRoute struct {
	prefix netip.Prefix
	via    []netip.Addr // one for each unit of weight; none: the network is on a port
}

// maxWay bounds a way, against loops.
const maxWay = 64

// newLabPaths reads the configurations of a lab's switches.
func newLabPaths(c *lab.Config) (*labPaths, error) {
	texts, err := c.SwitchConfigs()
	if err != nil {
		return nil, err
	}
	p := &labPaths{lab: c, routers: map[uint32]*router{}, owner: map[netip.Addr]uint32{}}
	for i, text := range texts {
		name := c.Switches[i].Name
		sw, err := config.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("switch %s: %w", name, err)
		}
		seed := parse.DefaultConfig().Seed
		if p, ok := sw.Stages["parse"].(*parse.Config); ok {
			seed = p.Seed
		}
		if i == 0 {
			p.seed, p.family = seed, sw.Switch.Hash
		} else if sw.Switch.Hash != p.family {
			return nil, fmt.Errorf("switch %s: switch.hash is %v, that of others %v: records can be joined only if all have the same", name, sw.Switch.Hash, p.family)
		} else if seed != p.seed {
			return nil, fmt.Errorf("switch %s: stages.parse.seed is %d, that of others %d: records can be joined only if all have the same", name, seed, p.seed)
		}
		if routing, ok := sw.Stages["l3"].(*l3.Config); ok {
			p.add(sw.Switch.ID, routing)
		}
	}
	return p, nil
}

// add takes a router's configuration, which was validated.
func (p *labPaths) add(id uint32, c *l3.Config) {
	r := &router{}
	for _, i := range c.Interfaces {
		for _, a := range i.Addresses {
			own := netip.MustParsePrefix(a)
			r.own = append(r.own, own)
			p.owner[own.Addr()] = id
		}
	}
	for _, route := range c.Routes {
		to := routerRoute{prefix: netip.MustParsePrefix(route.Prefix)}
		for i, via := range route.Via {
			gateway, weight := netip.MustParseAddr(via).WithZone(""), 1
			if route.Weights != nil {
				weight = route.Weights[i]
			}
			for range weight {
				to.via = append(to.via, gateway)
			}
		}
		r.routes = append(r.routes, to)
	}
	p.routers[id] = r
}

// Path implements query.Paths: routes do not change while a lab runs.
func (p *labPaths) Path(flow query.Key) []query.Passage { return query.PathFunc(p.way).Path(flow) }

// way are the switches that a flow passes, nil if nobody knows.
func (p *labPaths) way(flow query.Key) []uint32 {
	source := p.lab.FlowSource(flow.SrcAddr())
	if source == nil {
		return nil
	}
	gateway := source.Gateway
	if flow.Version == 6 && source.Gateway6 != "" {
		gateway = source.Gateway6
	}
	next, err := netip.ParseAddr(gateway)
	if err != nil {
		return nil
	}
	flowHash := uint32(query.Hash(p.family, flow, p.seed))
	var way []uint32
	for len(way) < maxWay {
		id, ok := p.owner[next]
		if !ok {
			return way // next is a host
		}
		way = append(way, id)
		if next, ok = p.routers[id].next(flow.DstAddr(), p.family, flowHash, id); !ok {
			return way
		}
	}
	return nil
}

// next is the gateway towards a destination; false: it is on a port, or nowhere.
func (r *router) next(dst netip.Addr, f hash.Family, flowHash, id uint32) (netip.Addr, bool) {
	best := routerRoute{}
	for _, route := range r.routes {
		if route.prefix.Contains(dst) && (!best.prefix.IsValid() || route.prefix.Bits() > best.prefix.Bits()) {
			best = route
		}
	}
	for _, own := range r.own {
		if own.Masked().Contains(dst) && own.Bits() >= best.prefix.Bits() {
			return netip.Addr{}, false
		}
	}
	if len(best.via) == 0 {
		return netip.Addr{}, false
	}
	return best.via[l3.Pick(f, flowHash, id, len(best.via))], true
}
