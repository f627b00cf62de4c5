package mirror

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Module is the mirror of one switch. Its methods may be called from anywhere.
type Module struct {
	env      pipeline.Env
	sessions atomic.Pointer[[]session] // control swaps it

	// behindTag: packets that leave by VLAN subinterfaces leave by the ports beneath already. It is set before there are packets.
	behindTag bool

	mu     sync.Mutex // guards what follows
	config Config
	stages []*stage
	slots  [MaxSessions]slot // what the stages' counters are of
}

// slot is the counters of one session in all stages.
type slot struct {
	session string // "" while no session has had them
	// before is what they were when the session got them: they only grow.
	before Counters
}

// MaxSessions bounds the sessions: each has its counters in every worker.
const MaxSessions = 64

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	m := &Module{env: env}
	return m, m.setConfig(c)
}

// setConfig replaces all sessions at once. On error nothing changes. A session
// that keeps its name keeps its counts.
func (m *Module) setConfig(c Config) error {
	m.mu.Lock()
	ports := m.env.Ports
	m.mu.Unlock()
	commit, err := m.Prepare(c, ports)
	if err != nil {
		return err
	}
	commit()
	return nil
}

// Prepare makes sessions without putting them into force, which commit does.
func (m *Module) Prepare(c Config, ports []pipeline.Port) (commit func(), err error) {
	s, err := c.compile(pipeline.PortNames(ports))
	if err == nil {
		err = m.join(&c, s, ports)
	}
	if err != nil {
		return nil, err
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.assign(s)
		m.config, m.env.Ports = c, ports
		m.sessions.Store(&s)
	}, nil
}

// Join implements pipeline.Joined.
func (m *Module) Join(chain []pipeline.Named) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.behindTag = false
	for _, n := range chain {
		if n.Module == pipeline.Module(m) {
			break
		}
		m.behindTag = m.behindTag || n.Name == "tag"
	}
	return m.join(&m.config, nil, m.env.Ports)
}

// join finds what VLAN subinterfaces are to sessions, which their names alone do not say: a session that watches a port watches those on it.
func (m *Module) join(c *Config, sessions []session, ports []pipeline.Port) error {
	for k := range sessions {
		s := &sessions[k]
		for i := range ports {
			if p := &ports[i]; p.VLAN != 0 && uint16(i) != s.to {
				s.in[i] = s.in[i] || s.in[p.Parent]
				s.out[i] = s.out[i] || s.out[p.Parent]
			}
		}
	}
	if !m.behindTag {
		return nil
	}
	sub := func(name string) bool {
		return slices.ContainsFunc(ports, func(p pipeline.Port) bool { return p.Name == name && p.VLAN != 0 })
	}
	for i := range c.Sessions {
		s := &c.Sessions[i]
		if sub(s.To) {
			return fmt.Errorf("session[%d].to: nothing would put the tag of %q on copies: write \"mirror\" in front of \"tag\" in switch.graph", i, s.To)
		}
		for _, name := range s.Ports {
			if s.Direction != In && sub(name) {
				return fmt.Errorf("session[%d].ports: what leaves by %q has left it where copies are made: write \"mirror\" in front of \"tag\" in switch.graph, or use direction = %q", i, name, In)
			}
		}
	}
	return nil
}

// assign gives every session its slot: that of its name, or one that no other has.
func (m *Module) assign(sessions []session) {
	used := map[string]bool{}
	for k := range sessions {
		used[sessions[k].name] = true
	}
	for k := range sessions {
		s := &sessions[k]
		s.slot = slices.IndexFunc(m.slots[:], func(o slot) bool { return o.session == s.name })
		if s.slot >= 0 {
			continue
		}
		// There are as many slots as sessions, so one is always free.
		free := slices.IndexFunc(m.slots[:], func(o slot) bool { return !used[o.session] })
		m.slots[free] = slot{session: s.name, before: m.sum(free)}
		s.slot = free
	}
}

// sum adds up a slot's counters over the stages.
func (m *Module) sum(slot int) (c Counters) {
	for _, s := range m.stages {
		c.Mirrored += s.counts[slot].mirrored.Load()
		c.Truncated += s.counts[slot].truncated.Load()
	}
	return c
}

// Role implements pipeline.Module: copies are made of what leaves.
func (m *Module) Role() pipeline.Role { return pipeline.RoleEgress }

// TakesLarge implements pipeline.LargeTaker: the copy is as large.
func (m *Module) TakesLarge() bool { return true }

// Receives implements pipeline.Receiver: copies are made of all that is on a watched link.
func (m *Module) Receives(port int) packet.Reception {
	var r packet.Reception
	for _, s := range *m.sessions.Load() {
		r.All = r.All || port < len(s.in) && s.in[port]
	}
	return r
}

// Needs implements pipeline.Module.
func (m *Module) Needs() packet.Needs { return 0 }

// Stage implements pipeline.Module.
func (m *Module) Stage(w int) pipeline.Stage {
	s := &stage{module: m, seed: hash.Uint64x2(mirrorSeed, uint64(m.env.ID), uint64(w))}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stages = append(m.stages, s)
	return s
}

// mirrorSeed is the member of the hash family that draws packets.
const mirrorSeed = 0x6d6972726f72

// stage is one worker's mirror.
type stage struct {
	module *Module
	seed   uint64
	drawn  uint64 // packets drawn so far

	// Copies cost far more than an atomic addition per session and batch.
	counts [MaxSessions]struct{ mirrored, truncated atomic.Uint64 }
}

// Process implements pipeline.Stage. Copies are not mirrored again: it looks at
// the packets that were there when it began.
func (s *stage) Process(b *packet.Batch) {
	sessions := *s.module.sessions.Load()
	n := len(b.Pkts)
	for k := range sessions {
		c := &sessions[k]
		mirrored, truncated := 0, 0
		for i := range n {
			p := &b.Pkts[i]
			if p.Reason != 0 || !c.watches(p) {
				continue
			}
			if c.below != 0 {
				if s.drawn++; uint32(hash.Uint64(s.seed, s.drawn)) >= c.below {
					continue
				}
			}
			if len(b.Pkts) == cap(b.Pkts) {
				b.NoRoom++
				continue
			}
			var to packet.Packet
			if !b.Copy(&to, p) {
				continue
			}
			to.OutPort = c.to
			if c.truncate != 0 && to.WireLen > c.truncate {
				cut(b, &to, c.truncate)
				truncated++
			}
			*b.Append() = to
			mirrored++
		}
		if mirrored != 0 {
			s.counts[c.slot].mirrored.Add(uint64(mirrored))
			s.counts[c.slot].truncated.Add(uint64(truncated))
		}
	}
}

// watches reports whether the session mirrors the packet. Of a flooded packet,
// only the original counts as what arrived.
func (c *session) watches(p *packet.Packet) bool {
	if c.in[p.InPort] && !p.Flags.Has(packet.FlagCopy) {
		return true
	}
	return int(p.OutPort) < len(c.out) && c.out[p.OutPort]
}

// cut shortens a copy to a length that is less than its own. Frames behind the
// first are given back.
func cut(b *packet.Batch, p *packet.Packet, length uint32) {
	if p.Next != 0 {
		addr, _, next := b.Pool().Next(p.Next)
		b.Frames.FreePacket(&packet.Packet{Addr: addr, Next: next})
		p.Next = 0
	}
	p.Len = min(p.Len, length)
	p.WireLen = p.Len
}

// Counters are one session's.
type Counters struct {
	Session   string
	Mirrored  uint64 // copies sent on
	Truncated uint64 // of these
}

// Counters returns the present counts of all sessions.
func (m *Module) Counters() []Counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	sessions := *m.sessions.Load()
	out := make([]Counters, len(sessions))
	for k := range sessions {
		sum, before := m.sum(sessions[k].slot), m.slots[sessions[k].slot].before
		out[k] = Counters{sessions[k].name, sum.Mirrored - before.Mirrored, sum.Truncated - before.Truncated}
	}
	return out
}

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	for _, c := range m.Counters() {
		labels := [][2]string{{"session", c.Session}}
		emit(pipeline.Metric{Name: "mirrored_packets_total", Help: "copies that the session sent on", Labels: labels, Value: float64(c.Mirrored)})
		emit(pipeline.Metric{Name: "truncated_packets_total", Help: "copies that were cut", Labels: labels, Value: float64(c.Truncated)})
	}
}

// Explain implements pipeline.Explainer.
func (s *stage) Explain(_ *packet.Batch, p *packet.Packet) string {
	var by []string
	sessions := *s.module.sessions.Load()
	for k := range sessions {
		if sessions[k].watches(p) {
			by = append(by, sessions[k].name)
		}
	}
	if by == nil {
		return "no session watches it"
	}
	return "watched by session " + strings.Join(by, ", ")
}
