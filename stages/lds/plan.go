package lds

import (
	"fmt"
	"slices"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/lds"
)

// plan says what a module's measurement points are. It does not change: another one takes its place, copy by copy of the
// workers' cells, as the exporter returns them.
type plan struct {
	config   Config
	measured []bool // by port
	ports    []int  // of the measured ones, ascending
	port     []int16
	weights  []weight
	// With classes a point is of a class, over all measured ports, else of a port; the first so many points are of ports in any case.
	links      int
	classes    []class
	classifier *classifier // nil: points are of ports
	refused    int         // classes for which there was no room
	rows       []*rows     // of the points, if these adapt
}

// plain reports whether there are neither classes nor weights, and flows that lose packets are not named.
func (p *plan) plain() bool {
	return p.classifier == nil && len(p.weights) == 0 && p.config.LostFlows == 0
}

// at is the number of the port's point at which a living packet counts; below 0: at none.
func (p *plan) at(k *packet.Packet, egress bool) int16 {
	port := k.InPort
	if egress {
		port = k.OutPort
	}
	if k.Reason != 0 || int(port) >= len(p.port) {
		return -1
	}
	return p.port[port]
}

// point is what a measurement point is of.
type point struct {
	port  int // of ports
	class lds.Class
}

// newPlan makes the plan of a valid configuration. router may be nil.
func newPlan(c Config, names []string, router pipeline.Router, egress bool) (*plan, error) {
	compiled, err := c.compile(names)
	if err != nil {
		return nil, err
	}
	p := &plan{config: c, ports: compiled.ports, weights: compiled.weights, classes: compiled.classes, measured: make([]bool, len(names)), port: make([]int16, len(names))}
	for i := range p.port {
		p.port[i] = -1
	}
	for i, port := range p.ports {
		p.measured[port], p.port[port] = true, int16(i)
	}
	if !c.Edges && len(p.classes) == 0 {
		p.makeRows()
		return p, nil
	}
	if c.Links {
		p.links = len(p.ports)
	}
	if c.Edges && router != nil {
		p.addEdges(router.RouteList(), egress)
	}
	p.classifier = newClassifier(p.classes)
	p.makeRows()
	return p, nil
}

// FixedColumns is the most columns of a P4 target, whose rows do not adapt: points that may have one at their other end do not
// adapt, either.
const FixedColumns = 1024

func (p *plan) makeRows() {
	p.rows = make([]*rows, len(p.points()))
	for i := range p.rows {
		if p.config.Rows == 0 && p.columns(i) > FixedColumns {
			p.rows[i] = &rows{bytes: p.config.recordBytes()}
		}
	}
}

// follow takes the place of another plan, whose points keep their rows.
func (p *plan) follow(old *plan) {
	was := old.points()
	for i, at := range p.points() {
		if n := slices.Index(was, at); n >= 0 && p.rows[i] != nil && old.rows[n] != nil {
			if p.rows[i].bytes == old.rows[n].bytes {
				p.rows[i] = old.rows[n]
			} else {
				p.rows[i].packed.Store(old.rows[n].packed.Load())
			}
		}
	}
}

func (p *plan) addEdges(routes []pipeline.Route, egress bool) {
	cells := p.links * p.config.Columns
	for i := range p.classes {
		cells += p.classes[i].columns
	}
	measured := func(port uint16) bool { return int(port) < len(p.measured) && p.measured[port] }
	for _, e := range edges(routes, measured, egress) {
		if slices.ContainsFunc(p.classes, func(c class) bool { return c.Same(&e) }) {
			continue
		}
		columns := p.config.classColumns()
		cells += columns
		if len(p.classes) == MaxClasses || cells*p.config.rows()*p.config.copies() > maxCells {
			p.refused++
			continue
		}
		p.classes = append(p.classes, class{e, columns})
	}
}

// points are what the plan's points are of.
func (p *plan) points() (list []point) {
	if p.classifier == nil || p.links > 0 {
		for _, port := range p.ports {
			list = append(list, point{port: port})
		}
	}
	if p.classifier == nil {
		return list
	}
	for i := range p.classes {
		list = append(list, point{port: -1, class: p.classes[i].Class})
	}
	return list
}

func (p *plan) columns(i int) int {
	if p.classifier == nil || i < p.links {
		return p.config.Columns
	}
	return p.classes[i-p.links].columns
}

// same reports whether both plans have the same points.
func (p *plan) same(q *plan) bool {
	return slices.Equal(p.ports, q.ports) && slices.Equal(p.measured, q.measured) && slices.Equal(p.weights, q.weights) && slices.Equal(p.classes, q.classes) &&
		(p.classifier == nil) == (q.classifier == nil) && p.links == q.links && p.refused == q.refused
}

// Prepare checks a configuration for a module that runs, whose points and weights may change, and
// nothing that both ends of a measurement have in common.
func (m *Module) Prepare(c Config, ports []pipeline.Port) (commit func(), err error) {
	names := pipeline.PortNames(ports)
	m.mu.Lock()
	router, old := m.router, m.plan.Load()
	m.mu.Unlock()
	p, err := newPlan(c, names, router, m.egress)
	if err != nil {
		return nil, err
	}
	was := old.config
	for _, k := range []struct {
		key  string
		same bool
	}{
		{"edge_bits", c.EdgeBits == was.EdgeBits}, {"rows", c.Rows == was.Rows}, {"virtual", c.Virtual == was.Virtual}, {"banks", slices.Equal(c.Banks, was.Banks)},
		{"interval_bits", c.IntervalBits == was.IntervalBits}, {"interval_bit", c.IntervalBit == was.IntervalBit}, {"seed", c.Seed == was.Seed}, {"samples", c.Samples == was.Samples}, {"lost_flows", c.LostFlows == was.LostFlows},
	} {
		if !k.same {
			return nil, fmt.Errorf("%s: does not change while the switch runs: restart it", k.key)
		}
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.names = names
		p.follow(m.plan.Load())
		m.plan.Store(p)
	}, nil
}

// FollowRoutes implements pipeline.RouteFollower.
func (m *Module) FollowRoutes(r pipeline.Router) {
	m.mu.Lock()
	m.router, m.followed = r, false
	m.mu.Unlock()
	m.renew()
}

// renew makes a new plan if the routes have changed since the last one.
func (m *Module) renew() {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.plan.Load()
	if m.router == nil && m.followed || !old.config.Edges {
		return
	}
	version := uint64(0)
	if m.router != nil {
		version = m.router.RouteVersion()
	}
	if m.seen == version && m.followed {
		return
	}
	m.seen, m.followed = version, true
	p, err := newPlan(old.config, m.names, m.router, m.egress)
	if err == nil && !p.same(old) {
		p.follow(old)
		m.plan.Store(p)
	}
}
