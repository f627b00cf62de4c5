package lldp

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/limiter"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/pipeline/ring"
)

// reasonLimited is the drop reason of frames that are not read.
var reasonLimited = packet.Register("lldp_limited", "more LLDP frames than are read of one port")

// What a port may send us: neighbours send one in a second at most.
const (
	limitRate  = 20
	limitBurst = 40
	ringSize   = 64 // frames of a worker that wait to be read
	maxPDU     = 1500
	fastFrames = 4 // for a new neighbour, one a second (9.2.5.19)
)

// pause is how long Run sleeps between two looks at the rings.
const pause = 50 * time.Millisecond

// received is a frame that waits to be read.
type received struct {
	at   int64
	port uint16
	n    uint16
	data [maxPDU]byte
}

// settings are what workers read. They are immutable, but for what they point to.
type settings struct {
	limits   []*limiter.Bucket // by port; nil: the port does not receive
	frames   [][]byte          // by port, what it sends; nil: nothing
	interval int64             // ns
}

// Module is the stage of one switch. Its methods may be called from anywhere.
type Module struct {
	env      pipeline.Env
	settings atomic.Pointer[settings]
	fast     atomic.Pointer[[]atomic.Int32] // by port: frames to send a second apart
	inline   bool

	mu           sync.Mutex // guards what follows
	config       Config
	ports        []pipeline.Port
	capabilities uint16
	tables       []portTable // by port
	stages       []*stage
}

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	m := &Module{env: env}
	commit, err := m.Prepare(c, env.Ports)
	if err != nil {
		return nil, err
	}
	commit()
	return m, nil
}

// Prepare checks a new configuration; commit puts it into force between two batches. Neighbours of ports that still receive stay.
func (m *Module) Prepare(c Config, ports []pipeline.Port) (commit func(), err error) {
	if err := c.Validate(pipeline.PortNames(ports)); err != nil {
		return nil, err
	}
	for i := range c.Ports {
		for k := range ports {
			if p := &ports[k]; p.Name == c.Ports[i].Port && (p.VLAN != 0 || p.Routed) {
				return nil, fmt.Errorf("port[%d].port: %q is no end of a cable: name the port beneath", i, p.Name)
			}
		}
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.config, m.ports = c, ports
		m.install()
	}, nil
}

// install makes the settings of what the module has. The caller has the lock.
func (m *Module) install() {
	c := &m.config
	s := &settings{limits: make([]*limiter.Bucket, len(m.ports)), frames: make([][]byte, len(m.ports)), interval: int64(c.Interval)}
	fast := make([]atomic.Int32, len(m.ports))
	old, oldFast := m.settings.Load(), m.fast.Load()
	for len(m.tables) < len(m.ports) {
		m.tables = append(m.tables, portTable{entries: map[string]*entry{}})
	}
	for i := range c.Ports {
		pc := &c.Ports[i]
		n := slices.IndexFunc(m.ports, func(p pipeline.Port) bool { return p.Name == pc.Port })
		p := &m.ports[n]
		if pc.Mode != Send {
			if s.limits[n] = new(limiter.Bucket); old != nil && n < len(old.limits) && old.limits[n] != nil {
				s.limits[n] = old.limits[n]
			} else {
				s.limits[n].Set(limitRate, limitBurst)
			}
		}
		if pc.Mode == Receive {
			continue
		}
		a := announcement{
			source: source(m.env.ID, n), chassis: clip(m.env.Name), port: clip(pc.Port), description: pc.Description, ttl: min(c.ttl(), maxTTL),
			system: clip(m.env.Name), systemDescription: c.Description, capabilities: m.capabilities,
		}
		if a.description == "" {
			a.description = clip(pc.Port)
		}
		if a.chassis == "" { // a switch of a test or a program without a name
			a.chassis = fmt.Sprint(m.env.ID)
		}
		for _, text := range c.Management {
			a.management = append(a.management, netip.MustParseAddr(text))
		}
		if p.MTU > 0 && p.MTU < 1<<16-22 {
			a.maxFrame = p.MTU + header.EthernetLen + 4
		}
		s.frames[n] = a.frame()
		fast[n].Store(1)
		if oldFast != nil && n < len(*oldFast) && old.frames[n] != nil && string(old.frames[n]) == string(s.frames[n]) {
			fast[n].Store((*oldFast)[n].Load()) // nothing is new
		}
	}
	for n := range m.tables {
		if n >= len(s.limits) || s.limits[n] == nil {
			clear(m.tables[n].entries)
		}
	}
	m.fast.Store(&fast)
	m.settings.Store(s)
}

// source is a port's own MAC address, made of the numbers of the switch and the port, as that of a routed port is.
func source(id uint32, port int) [6]byte {
	return [6]byte{0x02, byte(id >> 16), byte(id >> 8), byte(id), byte(port >> 8), byte(port)}
}

// Join implements pipeline.Joined: what the switch is able to do follows from its forwarding stages.
func (m *Module) Join(chain []pipeline.Named) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.capabilities
	m.capabilities = 0
	for _, n := range chain {
		switch n.Name {
		case "l2", "patch":
			m.capabilities |= capBridge
		case "l3":
			m.capabilities |= capRouter
		}
	}
	if m.capabilities != before {
		m.install()
	}
	return nil
}

// Role implements pipeline.Module: what is for the switch itself ends in front of rules and of the forwarding stage.
func (m *Module) Role() pipeline.Role { return pipeline.RoleIngress }

// Needs implements pipeline.Module.
func (m *Module) Needs() packet.Needs { return 0 }

// TakesLarge implements pipeline.LargeTaker: no large packet is of LLDP.
func (m *Module) TakesLarge() bool { return true }

// Receives implements pipeline.Receiver: ports receive all groups.
func (m *Module) Receives(int) packet.Reception { return packet.Reception{} }

// FollowPorts implements pipeline.PortFollower: a port that comes up says who it is, and one that is down has no neighbours.
func (m *Module) FollowPorts(ports []pipeline.Port) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.ports
	m.ports = ports
	m.install()
	for i := range ports {
		if ports[i].Down {
			clear(m.tables[i].entries)
		} else if i < len(before) && before[i].Down {
			m.hurry(i)
		}
	}
}

// hurry has a port send soon and often.
func (m *Module) hurry(port int) {
	if fast := *m.fast.Load(); port < len(fast) {
		fast[port].Store(fastFrames)
	}
}

// Inline makes the packet thread read what arrives, by the batch's clock. For one worker.
func (m *Module) Inline() { m.inline = true }

// Stage implements pipeline.Module.
func (m *Module) Stage(w int) pipeline.Stage {
	s := &stage{module: m, first: w == 0, ring: ring.New[received](ringSize)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stages = append(m.stages, s)
	return s
}

// stage is one worker's. All but the ring's reading end and the counters is the worker's alone.
type stage struct {
	module *Module
	first  bool // this worker sends
	ring   *ring.Ring[received]
	next   []int64 // by port: when it sends again, ns
	ticked int64
	due    bool // Tick was called since the last Emit

	sent, failed, overflow atomic.Uint64
}

// isGroup reports whether a frame is to one of LLDP's groups: nearest bridge, nearest non-TPMR bridge or nearest customer bridge.
func isGroup(dst [6]byte) bool {
	last := dst[5]
	return [5]byte(dst[:5]) == [5]byte(group[:5]) && (last == 0x0e || last == 0x03 || last == 0x00)
}

// Process implements pipeline.Stage.
func (s *stage) Process(b *packet.Batch) {
	for i := range b.Pkts {
		if p := &b.Pkts[i]; p.EtherType == etherType && p.Reason == 0 {
			s.receive(b, p)
		}
	}
}

// receive gives a frame to Run.
func (s *stage) receive(b *packet.Batch, p *packet.Packet) {
	set := s.module.settings.Load()
	if int(p.InPort) >= len(set.limits) || set.limits[p.InPort] == nil || p.Flags&(packet.FlagVLAN|packet.FlagShim) != 0 || p.Len < header.EthernetLen ||
		!isGroup([6]byte(b.Mem[p.Addr:])) {
		return
	}
	if set.limits[p.InPort].Take(b.Now, 1) == 0 {
		b.Drop(p, reasonLimited)
		return
	}
	data := b.Data(p)[header.EthernetLen:]
	r := s.ring.Ahead(0)
	if r == nil {
		s.overflow.Add(1)
		b.Drop(p, reasonLimited)
		return
	}
	// What a jumbo frame has beyond is cut: the TLV that ends there is discarded.
	r.at, r.port, r.n = b.Now, p.InPort, uint16(copy(r.data[:], data))
	s.ring.Commit(1)
	b.Drop(p, packet.Consumed)
	if s.module.inline {
		s.module.read(b.Now)
	}
}

// Tick implements pipeline.Ticker. Once a second it is seen which ports have to send.
func (s *stage) Tick(now int64) (next int64) {
	if !s.first {
		return 1<<63 - 1
	}
	if now < s.ticked { // the clock was set back
		clear(s.next)
	}
	s.ticked, s.due = now, true
	return now + int64(time.Second)
}

// Finish implements pipeline.Ticker.
func (s *stage) Finish(int64) {}

// Emit implements pipeline.Emitter.
func (s *stage) Emit(b *packet.Batch) {
	if !s.due {
		return // another stage's tick
	}
	s.due = false
	set, fast := s.module.settings.Load(), *s.module.fast.Load()
	for len(s.next) < len(set.frames) {
		s.next = append(s.next, 0)
	}
	for port, frame := range set.frames {
		if frame == nil {
			continue
		}
		hurry := port < len(fast) && fast[port].Load() > 0
		if !hurry && b.Now < s.next[port] {
			continue
		}
		p := b.Originate(uint16(port), uint16(port), len(frame))
		if p == nil {
			s.failed.Add(1) // again in a second
			continue
		}
		copy(b.Data(p), frame)
		p.EtherType, p.L3 = etherType, header.EthernetLen
		p.Flags |= packet.FlagMulticast
		s.next[port] = b.Now + set.interval
		s.sent.Add(1)
		if hurry {
			fast[port].Add(-1)
		}
	}
}

// Run implements pipeline.Background: it reads frames and forgets neighbours.
func (m *Module) Run(stop <-chan struct{}) {
	timer := time.NewTicker(pause)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		if !m.inline {
			m.read(clock.Kernel.TAI())
		}
	}
}

// read applies what waits in the rings, and the time.
func (m *Module) read(now int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	set := m.settings.Load()
	for _, s := range m.stages {
		s.ring.Drain(func(r *received) {
			if int(r.port) >= len(m.tables) || set.limits[r.port] == nil {
				return
			}
			if m.tables[r.port].take(r.data[:r.n], r.at, m.config.Neighbours) {
				m.hurry(int(r.port))
			}
		})
	}
	for i := range m.tables {
		m.tables[i].age(now)
	}
}

// Neighbours returns what is known now, by port; now is nanoseconds of CLOCK_TAI.
func (m *Module) Neighbours(now int64) (all []Neighbour) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.tables {
		all = m.tables[i].neighbours(all, uint16(i), now)
	}
	return all
}

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sent, failed, overflow uint64
	for _, s := range m.stages {
		sent += s.sent.Load()
		failed += s.failed.Load()
		overflow += s.overflow.Load()
	}
	emit(pipeline.Metric{Name: "sent_frames_total", Help: "frames given to ports", Value: float64(sent)})
	emit(pipeline.Metric{Name: "send_failed_total", Help: "frames not sent for want of a free frame", Value: float64(failed)})
	emit(pipeline.Metric{Name: "overflow_total", Help: "frames not read: the worker's ring was full", Value: float64(overflow)})
	set := m.settings.Load()
	for i := range m.tables {
		if i >= len(set.limits) || set.limits[i] == nil {
			continue
		}
		t := &m.tables[i]
		labels := [][2]string{{"port", m.ports[i].Name}}
		for _, v := range []struct {
			name, help string
			value      uint64
		}{
			{"received_frames_total", "frames read", t.received},
			{"discarded_frames_total", "frames without valid chassis, port and time to live, which say nothing", t.discarded},
			{"error_frames_total", "frames with an error, discarded or not", t.inError},
			{"discarded_tlvs_total", "TLVs that are malformed, cut or repeated", t.discardedTLVs},
			{"unrecognised_tlvs_total", "TLVs that are not known here", t.unrecognisedTLVs},
			{"aged_neighbours_total", "neighbours forgotten for silence", t.aged},
			{"refused_neighbours_total", "frames of neighbours for which the port's table had no room", t.tooMany},
		} {
			emit(pipeline.Metric{Name: v.name, Help: v.help, Labels: labels, Value: float64(v.value)})
		}
		emit(pipeline.Metric{Name: "neighbours", Help: "neighbours known", Labels: labels, Value: float64(len(t.entries)), Gauge: true})
	}
}

// Explain implements pipeline.Explainer.
func (s *stage) Explain(_ *packet.Batch, p *packet.Packet) string {
	if p.EtherType == etherType && p.Reason == packet.Consumed {
		return "LLDP, read"
	}
	return ""
}
