package conntrack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// The reasons of the stage.
var (
	reasonInvalid  = packet.Register("ct_invalid", "the packet belongs to no connection and begins none, or is outside its connection's windows")
	reasonDenied   = packet.Register("ct_denied", "the security group of the input port denies the connection")
	reasonFull     = packet.Register("ct_full", "the input port has as many connections as its share of the table, and all are confirmed")
	reasonFragment = packet.Register("ct_fragment", "a later fragment whose first one was not permitted, did not come before, or is overlapped")
)

// Module is the connection tracking of one switch. Its methods may be called from anywhere.
type Module struct {
	settings atomic.Pointer[settings] // control swaps it
	needs    packet.Needs             // of the stages behind
	parser   pipeline.Module          // reads translated packets again, for those
	natted   bool                     // the table has room for aliases
	workers  int                      // how many divide the table
	env      pipeline.Env             // Shared, HugePages and Audit of it
	taken    *taken                   // from another process; nil: nothing is
	seed     hashSeed                 // of where fragments meet, the same at all workers

	mu     sync.Mutex // guards what follows
	config Config
	inline bool
	stages []*stage
}

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	m := &Module{config: c, needs: env.Needs, workers: max(env.Workers, 1), env: env, seed: newSeed()}
	s, err := m.compile(&c, env.Ports)
	if err != nil {
		return nil, err
	}
	m.natted = s.nat.enabled()
	m.settings.Store(s)
	return m, nil
}

// compile makes settings for the switch's workers.
func (m *Module) compile(c *Config, ports []pipeline.Port) (*settings, error) {
	s, err := c.compile(pipeline.PortNames(ports))
	if err == nil {
		err = s.steer(c, m.workers)
	}
	return s, err
}

func newSeed() hashSeed { return hashSeed{rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64()} }

// Prepare checks a new configuration; commit puts it into force between two batches. The table keeps its connections, which the new rules
// decide about anew.
func (m *Module) Prepare(c Config, ports []pipeline.Port) (commit func(), err error) {
	s, err := m.compile(&c, ports)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	before := m.config.Connections
	m.mu.Unlock()
	if c.Connections != before {
		return nil, fmt.Errorf("connections = %d: the table has %d while the switch runs: restart it", c.Connections, before)
	}
	if s.nat.enabled() && !m.natted {
		return nil, errors.New("snat, dnat: the table has no room for translated connections, as the switch began without such rules: restart it")
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.config = c
		s.generation = m.settings.Load().generation + 1
		m.settings.Store(s)
	}, nil
}

// Config returns the configuration in force.
func (m *Module) Config() Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RolePolicy }

// Needs implements pipeline.Module: the parser's flags and offsets suffice.
func (m *Module) Needs() packet.Needs { return 0 }

// TakesLarge implements pipeline.LargeTaker: a large packet is one long segment of its connection.
func (m *Module) TakesLarge() bool { return true }

// Inline makes the table's hash the same in each run, so that the same packets give the same result.
func (m *Module) Inline() { m.inline, m.seed = true, hashSeed{1, 2, 3, 4} }

// Join implements pipeline.Joined: the graph's parser reads translated packets again.
func (m *Module) Join(chain []pipeline.Named) error {
	m.parser = chain[0].Module
	return nil
}

// Stage implements pipeline.Module.
func (m *Module) Stage(w int) pipeline.Stage {
	seed := newSeed()
	if m.inline {
		seed = hashSeed{1, 2, 3, 4}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &stage{module: m, worker: w}
	switch {
	case m.taken != nil:
		s.memory = m.taken.tables[w].memory
	case m.env.Shared:
		s.memory = newMemory(m.env.HugePages)
	}
	if m.natted {
		s.nat = newNAT(m.seed[3], w, m.workers, s.memory) // the seed chooses outside addresses: the same at all workers
		if m.parser != nil {                              // nil only where a module is made without a graph
			s.parser = m.parser.Stage(w)
		}
		s.changed.batch.Pkts = make([]packet.Packet, 0, packet.BatchSize)
		s.FollowNeeds(m.needs)
	}
	if m.taken != nil {
		s.table = m.taken.tables[w].table(s.nat) // the rest comes by Enter and Begin
	} else {
		s.table = newTable(m.config.Connections/m.workers, seed, s.nat, s.memory)
		s.adopt(m.settings.Load())
	}
	m.stages = append(m.stages, s)
	return s
}

// stage is one worker's connection tracking. Everything but what is marked shared is the worker's alone.
type stage struct {
	module    *Module
	worker    int
	*settings // of the present batch
	table     *table
	nat       *nat    // nil: nothing is translated
	memory    *memory // where the table, the mappings and the fragments are
	parser    pipeline.Stage
	changed   changed     // of the present batch
	fragments []fragments // by port
	following []fragments // as fragments, of those that meet here; empty with one worker
	looks     [packet.BatchSize]look
	touched   uint64 // see touch
	now       uint32 // tick of the present batch
	swept     int64  // the clock at the last sweep
	segment   segment
	scratch   []PortCounters
	exhausted []uint64 // by port: packets without an outside port

	outsideScratch []OutsideCounters

	// shared: the worker publishes, others read.
	counters atomic.Pointer[[]PortCounters]
	outside  atomic.Pointer[[]OutsideCounters]
}

// FollowNeeds implements pipeline.NeedsFollower.
func (s *stage) FollowNeeds(n packet.Needs) {
	if s.changed.parse = nil; s.nat != nil && n&(packet.NeedFlowHash|packet.NeedID) != 0 {
		s.changed.parse = s.parser
	}
}

// adopt goes over to new settings.
func (s *stage) adopt(v *settings) {
	s.settings = v
	s.table.setShares(v.limits)
	if s.nat != nil {
		s.nat.adopt(&v.nat, len(v.names))
	}
	for len(s.exhausted) < len(v.names) {
		s.exhausted = append(s.exhausted, 0)
	}
	for len(s.fragments) < len(v.names) {
		cell := s.memory.fragments(len(s.fragments), v.steering != nil)
		s.fragments = append(s.fragments, cell.fragments)
		s.following = append(s.following, cell.following)
	}
}

func ticksOf(d time.Duration) uint32 { return uint32(d >> tickShift) }

// Process implements pipeline.Stage. Keys come first, then their slots and connections are loaded, all at once, and then each packet is
// decided about in order.
func (s *stage) Process(b *packet.Batch) {
	if v := s.module.settings.Load(); v != s.settings {
		s.adopt(v)
	}
	s.now = uint32(b.Now >> tickShift)
	for first := 0; first < len(b.Pkts); first += packet.BatchSize {
		pkts := b.Pkts[first:min(first+packet.BatchSize, len(b.Pkts))]
		s.look(b, pkts)
		if len(s.table.slots) >= touchFrom {
			s.touched = s.touch(len(pkts))
		}
		for i := range pkts {
			s.decide(b, &pkts[i], &s.looks[i])
		}
		if s.changed.any {
			s.changed.finish(b)
		}
	}
}

// touchFrom is the number of slots, half a MiB of them with 4 MiB of connections, from which a table is not in the second-level cache.
const touchFrom = 1 << 16

// touch loads the slots of a batch, then both lines of their connections. So short loops have tens of loads in flight, where the
// long one, which decides, has those of the few packets that the processor looks ahead. What is loaded is returned, mixed, for
// the loads to be of use.
func (s *stage) touch(n int) (mix uint64) {
	t := s.table
	for i := range s.looks[:n] {
		mix ^= t.slots[s.looks[i].tag&t.mask]
	}
	for i := range s.looks[:n] {
		if slot := t.slots[s.looks[i].tag&t.mask]; slot != 0 {
			n := uint32(slot)&^aliasBit - 1
			e := &t.entries[n]
			mix ^= e.key[0] ^ uint64(e.since)
			if t.aliases != nil {
				mix ^= t.aliases[n].key[0]
			}
		}
	}
	return mix
}

// look makes the keys of packets.
func (s *stage) look(b *packet.Batch, pkts []packet.Packet) {
	for i := range pkts {
		p, l := &pkts[i], &s.looks[i]
		l.tag = 0
		if l.kind = kindNone; p.Reason != 0 {
			continue
		}
		if l.kind = s.keyOf(l, p, b.Data(p)); l.kind >= kindFlow {
			l.tag = uint32(l.key.hash(&s.table.seed))
		}
	}
}

// decide permits a packet, or drops it.
func (s *stage) decide(b *packet.Batch, p *packet.Packet, l *look) {
	var r packet.Reason
	var datagram key // of a first fragment, before it is translated
	whole := true
	if p.Flags.Has(packet.FlagFragment) && l.kind >= kindInvalid && l.kind != kindLater {
		whole = s.fragmentKey(&datagram, p, b.Data(p), s.groups[s.byPort[p.InPort]].zone) != kindLater
	}
	switch l.kind {
	case kindNone, kindPass:
		return
	case kindInvalid:
		r = reasonInvalid
	case kindFlow, kindAnswer:
		r = s.track(b, p, l)
	case kindError:
		r = s.related(b, p, l)
	case kindLater:
		r = s.later(p, l, b.Data(p))
	}
	if r == 0 {
		if !whole {
			s.first(&datagram, p, b.Data(p))
		}
		return
	}
	if r == reasonInvalid && s.permit {
		return
	}
	if !whole {
		s.forget(&datagram, p.InPort)
	}
	b.Drop(p, r)
}

// connection returns the living connection of a key, or none, and whether the key is that of its alias.
func (s *stage) connection(l *look) (n uint32, byAlias bool) {
	n, byAlias = s.table.find(&l.key, l.tag)
	if n != none && s.table.entries[n].expired(s.now) {
		s.table.shares[s.table.entries[n].payer].expired++
		s.table.remove(n)
		return none, false
	}
	return n, byAlias
}

// track decides about a packet of a connection, or the first of one.
func (s *stage) track(b *packet.Batch, p *packet.Packet, l *look) packet.Reason {
	isTCP := p.Proto == header.ProtoTCP
	if isTCP && !s.read(b, p) {
		return reasonInvalid
	}
	n, byAlias := s.connection(l)
	if n == none {
		return s.begin(b, p, l, isTCP)
	}
	e := &s.table.entries[n]
	dir := s.table.direction(n, l, byAlias)
	translated := e.flags&flagTranslated != 0
	if translated && byAlias != (dir != 0) {
		return reasonInvalid // each side sends to the ends that it sees
	}
	if r := s.admit(p, l, n, dir); r != 0 {
		return r
	}
	if isTCP {
		old := e.state
		switch e.follow(&s.segment, dir, s.liberal) {
		case segmentInvalid:
			return reasonInvalid
		case segmentIgnored:
			if dir != 0 {
				e.flags |= flagReplied // but that is no proof that it came from the other side: the ports stay
			}
			if translated {
				s.translate(b, p, n, dir)
			}
			return 0
		case segmentReopens:
			s.table.remove(n)
			return s.begin(b, p, l, true)
		case segmentEnds:
			if translated {
				s.translate(b, p, n, dir)
			}
			s.table.remove(n)
			return 0
		case segmentPasses:
		}
		if e.flags&flagReplied != 0 && e.flags&flagConfirmed == 0 &&
			(old == stateSynReceived || old == stateEstablished) && e.state == stateEstablished {
			s.table.confirm(n)
		}
		if ticks, renewed := e.lifetime(&s.segment, old, s.settings); renewed {
			e.deadline = s.now + ticks
		}
	} else {
		s.prolong(n, p.Proto)
	}
	e.passed(p.InPort, dir)
	if translated {
		s.translate(b, p, n, dir)
	}
	return 0
}

// passed notes from where a packet of a connection came.
func (e *entry) passed(port uint16, dir uint8) {
	if dir == 0 {
		e.inPort = port
		return
	}
	if e.replyPort == noPort { // a third port does not take the place of the one that answered first
		e.replyPort = port
	}
	e.flags |= flagReplied
}

// prolong lets a connection of another protocol than TCP live longer.
func (s *stage) prolong(n uint32, proto uint8) {
	e := &s.table.entries[n]
	const settled = int32(2 * time.Second >> tickShift) // a stream of UDP is one that lasts for longer
	which := timeoutOther
	switch proto {
	case header.ProtoUDP, header.ProtoUDPLite:
		which = timeoutUDP
		if e.flags&flagReplied != 0 && int32(s.now-e.since) > settled {
			which = timeoutUDPStream
			s.table.confirm(n)
		}
	case header.ProtoICMP, header.ProtoICMPv6:
		which = timeoutICMP
	default:
		if e.flags&flagReplied != 0 {
			s.table.confirm(n)
		}
	}
	e.deadline = s.now + s.timeouts[which]
}

// admit decides whether a packet may be of the connection: it came from the right port, and the rules in force permit the connection.
func (s *stage) admit(p *packet.Packet, l *look, n uint32, dir uint8) packet.Reason {
	e := &s.table.entries[n]
	if e.generation != s.generation && !s.again(n) {
		return reasonDenied
	}
	port := e.inPort
	if dir != 0 {
		port = e.replyPort
	}
	if port == p.InPort || port == noPort {
		return 0
	}
	// A station may have moved, or a packet is forged: the rules of the port decide.
	t := l.key.tuple(l.fromFirst)
	if !s.groups[s.byPort[p.InPort]].permits(&t) {
		s.table.shares[p.InPort].denied++
		return reasonDenied
	}
	return 0
}

// again decides about a connection by rules that are newer than it. One that is denied goes.
func (s *stage) again(n uint32) bool {
	e := &s.table.entries[n]
	t := e.key.tuple(e.flags&flagFromFirst != 0)
	if int(e.inPort) < len(s.byPort) && (!s.groups[s.byPort[e.inPort]].permits(&t) || !s.stillTranslated(n, &t)) {
		s.table.shares[e.inPort].denied++
		s.table.remove(n)
		return false
	}
	e.generation = s.generation
	return true
}

// begin makes a connection, if the packet may begin one.
func (s *stage) begin(b *packet.Batch, p *packet.Packet, l *look, isTCP bool) packet.Reason {
	state := uint8(stateNone)
	if isTCP {
		state = transitions[0][s.segment.kind][stateNone]
		if state >= numStates || state == stateEstablished && !s.loose {
			return reasonInvalid
		}
	} else if l.kind == kindAnswer {
		return reasonInvalid
	}
	t := l.key.tuple(l.fromFirst)
	if !s.groups[s.byPort[p.InPort]].permits(&t) {
		s.table.shares[p.InPort].denied++
		return reasonDenied
	}
	var tr translation
	translated := false
	if s.nat != nil && t.src.Is4() {
		var r packet.Reason
		if r, translated = s.plan(l, p.InPort, &t, &tr); r != 0 {
			if r == reasonExhausted {
				s.exhausted[p.InPort]++
			}
			return r
		}
		if translated && s.steering != nil && int(s.steering.home(&tr.key)) != s.worker {
			// The answer would go to another worker: such a port is for the station alone for which it was given out.
			s.nat.release(tr.snat)
			s.nat.release(tr.dnat)
			return reasonUnmapped
		}
	}
	n := s.table.add(&l.key, l.tag, p.InPort)
	if n == none {
		if translated {
			s.nat.release(tr.snat)
			s.nat.release(tr.dnat)
		}
		return reasonFull
	}
	e := &s.table.entries[n]
	if translated {
		s.table.addAlias(n, &tr)
		s.translate(b, p, n, 0)
	}
	e.generation, e.since = s.generation, s.now
	if l.fromFirst {
		e.flags |= flagFromFirst
	}
	if !isTCP {
		s.prolong(n, p.Proto)
		return 0
	}
	e.tcp.begin(&s.segment)
	e.tcp.inWindow(stateNone, &s.segment, 0, true)
	e.accept(&s.segment, 0, stateNone, state)
	e.deadline = s.now + s.timeouts[state]
	if state == stateEstablished {
		e.deadline = s.now + min(s.timeouts[state], s.timeouts[timeoutUnanswered])
	}
	return 0
}

// read reads the TCP header of a packet into s.segment.
func (s *stage) read(b *packet.Batch, p *packet.Packet) (valid bool) {
	data := b.Data(p)
	h := header.TCPAt(data, int(p.L4))
	if h == nil || int(p.L4)+header.TCPLen > int(p.Payload) || int(p.Payload) > len(data) {
		return false
	}
	end := int(p.L3) + ipLength(p, data)
	if p.Next != 0 && b.Pool().Large(p.Next).Kind != 0 {
		end = int(p.WireLen)
	}
	s.segment.fragment = p.Flags.Has(packet.FlagFragment)
	return readSegment(&s.segment, h, data[int(p.L4)+header.TCPLen:p.Payload], uint32(max(end-int(p.Payload), 0)))
}

// ipLength is the length of an IP packet by its header.
func ipLength(p *packet.Packet, data []byte) int {
	if p.Flags.Has(packet.FlagIPv4) {
		return header.IPv4At(data, int(p.L3)).TotalLen()
	}
	return header.IPv6Len + header.IPv6At(data, int(p.L3)).PayloadLen()
}

const (
	// sweepTime is how long one pass over the table takes, and period the time between two parts of it, in ns.
	sweepTime = 8 << 30
	period    = 1 << 24
	idle      = 1 << 26 // the period of an empty table
)

// Tick implements pipeline.Ticker: a part of what has expired is freed, and the counts of ports are shown.
func (s *stage) Tick(now int64) (next int64) {
	if v := s.module.settings.Load(); v != s.settings {
		s.adopt(v) // an idle worker must not keep old settings alive
	}
	t := s.table
	s.now = uint32(now >> tickShift)
	if passed := now - s.swept; passed >= period && t.used != 0 {
		many := len(t.entries)
		if passed < sweepTime {
			many = int(passed * int64(len(t.entries)) / sweepTime)
		}
		t.sweep(many+1, s.now)
	}
	s.swept = now
	s.publish()
	if t.used == 0 {
		return now + idle
	}
	return now + period
}

// Finish implements pipeline.Ticker.
func (s *stage) Finish(int64) { s.publish() }

// publish shows the counts of ports. It allocates if they changed, 60 times in a second at most.
func (s *stage) publish() {
	all := s.scratch[:0]
	for i := range s.names {
		h := &s.table.shares[i]
		g := &s.groups[s.byPort[i]]
		all = append(all, PortCounters{
			Port: s.names[i], Group: g.name, Connections: uint64(h.used), Unconfirmed: uint64(h.unconfirmed), Share: uint64(h.limit),
			Begun: h.begun, Evicted: h.evicted, Expired: h.expired, Denied: h.denied, Full: h.full,
			Blocks: s.blocksOf(i), Exhausted: s.exhausted[i],
		})
	}
	if last := s.counters.Load(); last == nil || !slices.Equal(*last, all) {
		shown := slices.Clone(all)
		s.counters.Store(&shown)
	}
	s.scratch = all
	if s.nat != nil {
		s.publishOutside()
	}
}

// blocksOf are the blocks of outside ports that the inside addresses of a port have.
func (s *stage) blocksOf(port int) (n uint64) {
	if s.nat != nil {
		for i := range s.nat.rules {
			n += uint64(s.nat.rules[i].byPort[port])
		}
	}
	return n
}

func (s *stage) publishOutside() {
	all := s.outsideScratch[:0]
	for i := range s.nat.outside {
		if o := &s.nat.outside[i]; !o.retired {
			all = append(all, OutsideCounters{addrOf(o.addr),
				uint64(o.owned), uint64(o.owned - o.freeLen), uint64(o.used)})
		}
	}
	if last := s.outside.Load(); last == nil || !slices.Equal(*last, all) {
		shown := slices.Clone(all)
		s.outside.Store(&shown)
	}
	s.outsideScratch = all
}
