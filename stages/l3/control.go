package l3

import (
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
)

// counters are written with the lock held, or nearly never.
type counters struct {
	held, holdFull, full, evicted, busy, abandoned atomic.Uint64
}

// workerCounters are written by one worker, off the straight path.
type workerCounters struct {
	errors, limited, echoes, answered, requests, toHosts, fromHosts atomic.Uint64
}

// Counters are the router's counters beside the drop reasons, summed over the
// workers.
type Counters struct {
	ICMPErrors    uint64 `json:"icmp_errors"`    // ICMP errors sent
	ICMPLimited   uint64 `json:"icmp_limited"`   // not sent, for icmp_rate
	EchoReplies   uint64 `json:"echo_replies"`   // echo requests to the switch answered
	Answered      uint64 `json:"answered"`       // ARP requests and neighbour solicitations answered
	Requests      uint64 `json:"requests"`       // sent to find a neighbour, or to see whether it is still there
	Held          uint64 `json:"held"`           // packets that waited for a neighbour
	HoldFull      uint64 `json:"hold_full"`      // those that could not
	NeighbourFull uint64 `json:"neighbour_full"` // neighbours refused: the table was full, and packets waited for all that could go
	// NeighbourEvicted counts neighbours that were forgotten for new ones.
	NeighbourEvicted uint64 `json:"neighbour_evicted"`
	Abandoned        uint64 `json:"abandoned"`    // those whose neighbour went from the configuration meanwhile: consumed, and lost
	Busy             uint64 `json:"busy"`         // times that a worker found the neighbours' lock taken for too long
	Neighbours       uint64 `json:"neighbours"`   // in the table now, unanswered ones included
	Routes           uint64 `json:"routes"`       // configured, of the kernel, and networks of the ports
	ToHost           uint64 `json:"to_host"`      // packets passed to host interfaces
	FromHost         uint64 `json:"from_host"`    // packets sent for host interfaces
	HostRoutes       uint64 `json:"host_routes"`  // of the kernel, in force
	HostIgnored      uint64 `json:"host_ignored"` // of the kernel, not in force: see SetHostState
}

// Counters returns the present counts.
func (m *Module) Counters() Counters {
	c := Counters{
		Held: m.counters.held.Load(), HoldFull: m.counters.holdFull.Load(),
		NeighbourFull: m.counters.full.Load(), NeighbourEvicted: m.counters.evicted.Load(), Busy: m.counters.busy.Load(), Abandoned: m.counters.abandoned.Load(),
	}
	for _, s := range m.stages {
		c.ICMPErrors += s.errors.Load()
		c.ICMPLimited += s.limited.Load()
		c.EchoReplies += s.echoes.Load()
		c.Answered += s.answered.Load()
		c.Requests += s.requests.Load()
		c.ToHost += s.toHosts.Load()
		c.FromHost += s.fromHosts.Load()
	}
	m.mu.Lock()
	c.Neighbours = uint64(len(m.list))
	m.mu.Unlock()
	c.HostIgnored = uint64(m.hostIgnored.Load())
	for _, f := range m.tables.Load().fibs {
		for _, r := range f.prefixes.All() {
			if r.origin != "" {
				c.HostRoutes++
			}
			if r.route || r.kind == connected {
				c.Routes++
			}
		}
	}
	return c
}

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	c := m.Counters()
	for _, v := range []struct {
		name, help string
		value      uint64
		gauge      bool
	}{
		{"icmp_errors_total", "ICMP errors sent", c.ICMPErrors, false},
		{"icmp_limited_total", "ICMP errors not sent, for icmp_rate", c.ICMPLimited, false},
		{"echo_replies_total", "echo requests to the switch answered", c.EchoReplies, false},
		{"answered_total", "ARP requests and neighbour solicitations answered", c.Answered, false},
		{"requests_total", "requests sent to find a neighbour, or to see whether it is still there", c.Requests, false},
		{"held_packets_total", "packets that waited for a neighbour", c.Held, false},
		{"hold_full_packets_total", "packets that could not wait for a neighbour", c.HoldFull, false},
		{"neighbour_full_total", "neighbours refused: the table was full, and packets waited for all that could go", c.NeighbourFull, false},
		{"neighbour_evicted_total", "neighbours forgotten for new ones: the table was full", c.NeighbourEvicted, false},
		{"abandoned_packets_total", "packets whose neighbour went from the configuration while they waited", c.Abandoned, false},
		{"busy_total", "times that a worker found the neighbours' lock taken for too long", c.Busy, false},
		{"neighbours", "neighbours in the table, unanswered ones included", c.Neighbours, true},
		{"routes", "routes, and networks of the ports", c.Routes, true},
		{"to_host_packets_total", "packets passed to host interfaces", c.ToHost, false},
		{"from_host_packets_total", "packets sent for host interfaces", c.FromHost, false},
		{"host_routes", "routes of the kernel", c.HostRoutes, true},
		{"host_ignored_routes", "routes of the kernel that are not in force: the configuration has the prefix, or no next hop is on a host interface", c.HostIgnored, true},
	} {
		emit(pipeline.Metric{Name: v.name, Help: v.help, Value: float64(v.value), Gauge: v.gauge})
	}
}

// Apply replaces the present configuration, between two
// batches, or refuses it whole, with all its faults. Neighbours that were
// learned, and still can be there, stay known.
func (m *Module) Apply(c Config) error {
	commit, err := m.Prepare(c, m.tables.Load().env)
	if err != nil {
		return err
	}
	commit()
	return nil
}

// Prepare checks a configuration without putting it into force, which commit
// does.
func (m *Module) Prepare(c Config, ports []pipeline.Port) (commit func(), err error) {
	p, err := c.plan(pipeline.PortNames(ports))
	if err != nil {
		return nil, err
	}
	if err := p.checkMTU(ports); err != nil {
		return nil, err
	}
	if m.perPacket != (c.ECMP == ECMPPacket) { // what the parser computes would change
		return nil, errors.New("ecmp: cannot change while the switch runs: restart it")
	}
	return func() {
		m.control.Lock()
		defer m.control.Unlock()
		m.change(c, p, ports)
		m.tell()
	}, nil
}

func (p *plan) checkMTU(ports []pipeline.Port) error {
	var f faults
	for i, in := range p.interfaces {
		port := ports[i]
		most := mostOf(port)
		if in.mtu > most {
			f.add("interface: mtu %d of port %s exceeds what it can send, %d: lower it, or raise the interface's", in.mtu, port.Name, most)
		}
		if len(in.prefixes) > 0 && most < minMTU4 {
			f.add("interface: port %s sends %d bytes at most: raise the interface's MTU", port.Name, most)
		}
	}
	return errors.Join(f...)
}

// FollowPorts implements pipeline.PortFollower: what an interface can send bounds
// its port's MTU, the configured one too.
func (m *Module) FollowPorts(ports []pipeline.Port) {
	m.control.Lock()
	defer m.control.Unlock()
	m.mu.Lock()
	c := m.config
	m.mu.Unlock()
	p, err := c.plan(pipeline.PortNames(ports))
	if err != nil {
		return // these are not the ports of this configuration
	}
	m.change(c, p, ports)
}

// change builds the tables of a plan beside those in force, and swaps them. The
// slow part, the routes, is built without the lock that workers may want.
func (m *Module) change(c Config, p *plan, ports []pipeline.Port) {
	p.addHost(&m.host)
	m.mu.Lock()
	old := map[neighbourKey]*neighbour{}
	for k, n := range m.known {
		old[k] = n
	}
	m.mu.Unlock()
	fixed := map[neighbourKey]*neighbour{}
	var order []*neighbour
	t := m.build(p, ports, func(k neighbourKey) *neighbour {
		if n := fixed[k]; n != nil {
			return n
		}
		if len(order) >= c.NeighbourTable {
			return nil // of the kernel: the configuration's own were counted before
		}
		n := old[k]
		if n == nil {
			n = &neighbour{neighbourKey: k}
		}
		fixed[k] = n
		order = append(order, n)
		return n
	})
	statics := map[neighbourKey]uint64{}
	for _, n := range p.neighbours {
		statics[n.neighbourKey] = macWord(n.mac)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.list
	m.known, m.list = map[neighbourKey]*neighbour{}, nil
	for _, n := range order {
		m.add(n)
		n.fixed = true
		mac, static := statics[n.neighbourKey]
		if static {
			n.link.Store(mac | linkKnown)
		} else if n.static {
			n.link.Store(0)
		}
		n.static = static
	}
	for _, n := range before {
		if o := m.known[n.neighbourKey]; o != nil {
			if o != n { // learned while the tables were built
				o.link.Store(n.link.Load())
				o.confirmed, o.held = n.confirmed, n.held
			}
			continue
		}
		if n.static || n.link.Load() == 0 && len(n.held) == 0 || len(m.list) >= c.NeighbourTable || !t.reaches(n) {
			m.abandon(n)
			continue
		}
		n.fixed = false
		m.add(n)
		t = t.withHost(n)
	}
	m.countShares()
	m.config = c
	for _, s := range m.stages {
		s.rate.Store(int64(c.ICMPRate))
		s.hostRate.Store(int64(c.HostRate))
	}
	m.tables.Store(t)
	m.version.Add(1)
}

// RouteVersion implements pipeline.Router.
func (m *Module) RouteVersion() uint64 { return m.version.Load() }

// RouteList implements pipeline.Router. It is without the tables of VRFs, whose addresses are others'.
func (m *Module) RouteList() (list []pipeline.Route) {
	for _, e := range m.Routes() {
		if e.Discard || e.VRF != "" {
			continue
		}
		r := pipeline.Route{Prefix: e.Prefix, Gateway: len(e.Hops) > 0}
		if !r.Gateway {
			r.Ports = []uint16{e.Port}
		}
		for _, h := range e.Hops {
			if !slices.Contains(r.Ports, h.Port) {
				r.Ports = append(r.Ports, h.Port)
			}
		}
		list = append(list, r)
	}
	return list
}

// abandon frees what waits for a neighbour that has gone from the
// configuration. Those packets were consumed, and do not come back.
func (m *Module) abandon(n *neighbour) {
	m.arena.free = append(m.arena.free, n.held...)
	m.counters.abandoned.Add(uint64(len(n.held)))
	n.held = nil
	n.link.Store(0)
}

// RouteEntry is a prefix of the table as control sees it.
type RouteEntry struct {
	Prefix netip.Prefix `json:"prefix"`
	// VRF is whose table it is in, empty for that of ports without one.
	VRF string `json:"vrf,omitempty"`
	// Kind is "route", "kernel" for a route of the kernel, or "connected" for a network on a port.
	Kind string `json:"kind"`
	// Origin is who made a route of the kernel: "bird", "static"; empty for the configuration's.
	Origin string `json:"origin,omitempty"`
	// Hops are the gateways in the order of choice (see Pick), one for each
	// unit of weight; empty for a network on a port.
	Hops []Hop `json:"hops,omitempty"`
	// Discard: packets to it are dropped, reason no_route.
	Discard bool `json:"discard,omitempty"`
	// Port is the number of the port on which the network is.
	Port uint16 `json:"port"`
}

// Hop is a gateway.
type Hop struct {
	Address netip.Addr `json:"address"`
	Port    uint16     `json:"port"`
}

// Routes returns the routes and the networks of the ports, by VRF, sorted by prefix,
// IPv4 first.
func (m *Module) Routes() []RouteEntry {
	var all []RouteEntry
	for _, f := range m.tables.Load().fibs {
		all = f.entries(all)
	}
	return all
}

func (t *fib) entries(all []RouteEntry) []RouteEntry {
	for prefix, v := range t.prefixes.AllSorted() {
		if !v.route && v.kind != connected {
			continue
		}
		e := RouteEntry{Prefix: prefix, VRF: t.name, Kind: "connected", Port: v.port, Origin: v.origin}
		if v.route {
			e.Kind = "route"
		}
		if v.origin != "" {
			e.Kind, e.Discard = "kernel", v.kind == discard
		}
		for _, n := range v.hops {
			e.Hops = append(e.Hops, Hop{n.addr, n.port})
		}
		all = append(all, e)
	}
	return all
}

// NeighbourEntry is a neighbour as control sees it.
type NeighbourEntry struct {
	Address netip.Addr `json:"address"`
	Port    uint16     `json:"port"`
	VRF     string     `json:"vrf,omitempty"`
	MAC     string     `json:"mac,omitempty"` // empty while it is not known
	// State is "static", "reachable", "stale", or "looked for".
	State string `json:"state"`
	// Waiting is the number of packets that wait for it.
	Waiting int `json:"waiting"`
}

// Neighbours returns all neighbours, sorted by address and port.
func (m *Module) Neighbours() []NeighbourEntry {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]NeighbourEntry, 0, len(m.list))
	t := m.tables.Load()
	for _, n := range m.list {
		e := NeighbourEntry{Address: n.addr, Port: n.port, VRF: t.fibOf(n.port).name, State: "looked for", Waiting: len(n.held)}
		if v := n.link.Load(); v != 0 {
			e.MAC = macText(macBytes(v & macMask))
			switch {
			case n.static:
				e.State = "static"
			case v&linkStale != 0:
				e.State = "stale"
			default:
				e.State = "reachable"
			}
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b NeighbourEntry) int {
		if c := a.Address.Compare(b.Address); c != 0 {
			return c
		}
		return int(a.Port) - int(b.Port)
	})
	return all
}
