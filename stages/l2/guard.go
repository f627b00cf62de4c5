package l2

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// The drop reasons of ports that a guard has blocked.
var (
	reasonBPDU = packet.Register("bpdu_guard", "the port is blocked: a BPDU arrived on it, which only a bridge sends")
	reasonLoop = packet.Register("loop_guard", "the port is blocked: stations moved to it and back again and again, as in a loop")
)

// Bounds of the guards.
const (
	maxLoopMoves = 1_000_000
	minGuardTime = time.Second
	maxGuardTime = 24 * time.Hour
)

// guards block ports for some time. A blocked port is one that carries no VLAN, so packets pay nothing for it. The workers
// report BPDUs by a flag of the port; all else is the table's writer's.
type guards struct {
	plan    *plan             // in force, without what is blocked
	blocked map[uint16]*block // by port
	loops   loops
	blocks  [2]atomic.Uint64 // ports blocked so far, by BPDUs and by loops
	begun   []pipeline.Block // not yet reported to onBlock
	onBlock func(pipeline.Block)
}

// block is a port that is blocked.
type block struct {
	reason packet.Reason
	until  int64 // ns of CLOCK_TAI
}

// planGuards returns the flags of the ports that have a BPDU guard, nil for others.
func (c *Config) planGuards(ports []string, f *faults) []*atomic.Bool {
	flags := make([]*atomic.Bool, len(ports))
	for i, name := range c.BPDUGuard {
		number := slices.Index(ports, name)
		if number < 0 {
			f.add("bpdu_guard[%d]: port %q is not defined: define [[port]] name = %q or correct the name", i, name, name)
			continue
		}
		flags[number] = &atomic.Bool{}
	}
	if len(c.BPDUGuard) > 0 && c.ForwardLinkLocal {
		f.add("bpdu_guard: with forward_link_local the bridge takes part in the spanning tree of others as a cable: remove one of the two")
	}
	if c.LoopMoves < 0 || c.LoopMoves > maxLoopMoves {
		f.add("loop_moves: %d is out of range: choose 1 to %d moves per second, or 0 for no guard", c.LoopMoves, maxLoopMoves)
	}
	if on := c.LoopMoves > 0 || len(c.BPDUGuard) > 0; on && (c.GuardTime < minGuardTime || c.GuardTime > maxGuardTime) {
		f.add("guard_time: %v is out of range: choose %v to %v", c.GuardTime, minGuardTime, maxGuardTime)
	}
	return flags
}

// isBPDU reports whether a key's address is that of spanning tree's BPDUs, or of Cisco's for each VLAN.
func isBPDU(key uint64) bool {
	return key&macMask == 0x0000_0000_00c28001 || key&macMask == 0xcdcc_cc0c_0001
}

// guard looks for what guards block ports for, and for ports whose time is over. The writer calls it, behind the events.
func (m *Module) guard(now int64) {
	g := &m.guards
	if g.plan == nil {
		return
	}
	changed := false
	for port, flag := range g.plan.bpdus {
		if flag != nil && flag.Swap(false) {
			changed = m.block(uint16(port), reasonBPDU, now) || changed
		}
	}
	if port, looping := g.loops.worst(uint32(m.config.LoopMoves)); looping {
		changed = m.block(port, reasonLoop, now) || changed
	}
	for port, b := range g.blocked {
		if now >= b.until {
			delete(g.blocked, port)
			changed = true
		}
	}
	if changed {
		m.settings.Store(m.newSettings(&m.config, g.inForce(), m.settings.Load().names))
	}
}

// block blocks a port, or does so for longer, and reports whether that is new.
func (m *Module) block(port uint16, reason packet.Reason, now int64) bool {
	g := &m.guards
	until := now + int64(m.config.GuardTime)
	if b := g.blocked[port]; b != nil {
		b.until = until
		return false
	}
	if g.blocked == nil {
		g.blocked = map[uint16]*block{}
	}
	g.blocked[port] = &block{reason, until}
	if reason == reasonLoop {
		g.blocks[1].Add(1)
	} else {
		g.blocks[0].Add(1)
	}
	if g.onBlock != nil {
		g.begun = append(g.begun, pipeline.Block{Port: m.settings.Load().names[port], Reason: reason, Left: m.config.GuardTime})
	}
	parents := g.plan.parents
	m.fdb.flush(func(_, p uint16) bool { return p == port || int(p) < len(parents) && parents[p] == port })
	return true
}

// OnBlock implements pipeline.Blocker.
func (m *Module) OnBlock(f func(pipeline.Block)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.guards.onBlock = f
}

// Blocks implements pipeline.Blocker.
func (m *Module) Blocks() []pipeline.Block {
	m.mu.Lock()
	defer m.mu.Unlock()
	names, now := m.settings.Load().names, clockTAI()
	var all []pipeline.Block
	for _, port := range slices.Sorted(maps.Keys(m.guards.blocked)) {
		b := m.guards.blocked[port]
		all = append(all, pipeline.Block{Port: names[port], Reason: b.reason, Left: max(0, time.Duration(b.until-now))})
	}
	return all
}

// inForce is the plan without the ports that are blocked.
func (g *guards) inForce() *plan {
	p := *g.plan
	p.ports = slices.Clone(p.ports)
	for port, b := range g.blocked {
		p.ports[port] = portVLANs{pvid: noVLAN, blocked: b.reason}
		for sub, parent := range p.parents {
			if parent == port {
				p.ports[sub] = portVLANs{pvid: noVLAN, blocked: b.reason}
			}
		}
	}
	return &p
}

// emit reports the guards' metrics.
func (g *guards) emit(names []string, emit func(pipeline.Metric)) {
	const help = "ports that guards have blocked"
	emit(pipeline.Metric{Name: "blocks_total", Help: help, Labels: [][2]string{{"guard", "bpdu"}}, Value: float64(g.blocks[0].Load())})
	emit(pipeline.Metric{Name: "blocks_total", Help: help, Labels: [][2]string{{"guard", "loop"}}, Value: float64(g.blocks[1].Load())})
	for port, name := range names {
		if name == "" {
			continue
		}
		v := 0.0
		if g.blocked[uint16(port)] != nil {
			v = 1
		}
		emit(pipeline.Metric{Name: "port_blocked", Help: "1 if a guard blocks the port now", Labels: [][2]string{{"port", name}}, Value: v, Gauge: true})
	}
}

// loops counts moves of stations that have moved a short time before: in a loop a station's packets come back by other ports
// while it goes on sending. A station that moves once, with its machine or with the link of all the stations behind it, is
// not counted. What is counted goes to the port that is not the station's first one, so who sends with the
// address of another one blocks its own port.
type loops struct {
	now    int64 // ns
	since  int64 // when counting began, or will begin
	counts []uint32
	last   [256]struct {
		key  uint64
		home uint16
		at   int64
	}
}

// moveAgain is how soon a station that moves again is in a loop, and settling how long nothing is counted behind a block, while
// what was on its way still moves stations, both in ns.
const moveAgain, settling = int64(time.Second), int64(100 * time.Millisecond)

// begin takes the time of the events that follow.
func (l *loops) begin(now int64, ports int) {
	l.now = now
	if now-l.since >= moveAgain || l.since-now > settling || len(l.counts) != ports {
		l.since = now
		l.counts = append(l.counts[:0], make([]uint32, ports)...)
	}
}

// moved notes that a station was seen on another port than before.
func (l *loops) moved(key, hash uint64, before, port uint16) {
	s := &l.last[hash>>32%uint64(len(l.last))]
	if s.key != key || l.now-s.at > moveAgain || l.now < s.at {
		s.key, s.home = key, before
	} else {
		other := port
		if port == s.home {
			other = before
		}
		if int(other) < len(l.counts) && l.now >= l.since {
			l.counts[other]++
		}
	}
	s.at = l.now
}

// worst is the port with the most moves, if they are at least so many; 0: no port is. Then counting begins anew.
func (l *loops) worst(limit uint32) (port uint16, is bool) {
	most := uint32(0)
	for p, n := range l.counts {
		if n > most {
			port, most = uint16(p), n
		}
	}
	if limit == 0 || most < limit {
		return 0, false
	}
	clear(l.counts)
	l.since = l.now + settling
	return port, true
}
