package l2

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/pipeline/ring"
	"github.com/weirswitch/weir/stages/l2/snooping"
)

// The drop reasons of the bridge.
var (
	ReasonVLANFiltered = packet.Register("vlan_filtered", "the port does not carry the packet's VLAN")
	reasonNotBridged   = packet.Register("not_bridged", "the port is of no bridge domain, nor of the router")
	reasonTagged       = packet.Register("tagged_on_access", "an access port takes untagged packets alone")
	reasonSamePort     = packet.Register("same_port", "the destination is behind the port on which the packet arrived")
	reasonNoMember     = packet.Register("no_member", "no other port carries the packet's VLAN")
	reasonLinkLocal    = packet.Register("link_local", "a reserved group address, 01:80:c2:00:00:00 to 0f, ends at a bridge")
)

// flooded is the OutPort of a packet between the two passes of Process.
const flooded = packet.NoPort - 1

// Module is the bridge of one switch. Its methods may be called from anywhere,
// unless it is inline.
type Module struct {
	env      pipeline.Env
	settings atomic.Pointer[settings] // control swaps it
	inline   bool

	mu        sync.Mutex // guards what follows, writes to fdb among it
	config    Config
	outside   []string // ports that are not of the bridge, but a tunnel's underlay
	router    []pipeline.RoutedPort
	joined    bool        // to a router, by the stage irb
	related   atomic.Bool // joined is, or was
	static    []staticEntry
	own       []staticEntry // of the router, at routed interfaces
	fdb       *fdb
	stages    []*stage
	gone      goneCounters // of stages that are no more
	guards    guards
	groups    *snooping.Table // nil without snooping; the writer's, as the table is
	down      []bool          // by port, as of FollowPorts
	inlineNow int64           // inline: ns of CLOCK_TAI
}

// settings are what all workers read; they are immutable.
type settings struct {
	names  []string // of the ports
	ports  []portVLANs
	floods floodTable
	// tagging is set if any port is not transparent, so tags may change.
	tagging    bool
	passGroups bool           // forward link-local groups
	granule    uint8          // of stamps: see there
	storms     []*storm       // the limits of what is flooded, by port
	bpdus      []*atomic.Bool // by port, nil without BPDU guard
	joined     bool           // to a router, which has the packets of ports that are not of the bridge
	domains    []string       // names by number, nil without domains
	snoop      *snooper       // nil without snooping
}

// newSettings makes the settings of a plan, and of what the router and other modules have. The caller has the lock, or the only reference.
func (m *Module) newSettings(c *Config, p *plan, names []string) *settings {
	ports := slices.Clone(p.ports)
	for i, name := range names {
		if slices.Contains(m.outside, name) {
			ports[i] = portVLANs{pvid: noVLAN, outside: true}
		}
	}
	for _, r := range m.router {
		switch {
		case int(r.Port) >= len(ports), ports[r.Port].blocked != 0: // what a guard has blocked takes nothing for the router either
		case ports[r.Port].routed:
			ports[r.Port].owned = true
		default:
			ports[r.Port] = portVLANs{pvid: noVLAN, outside: true}
		}
	}
	s := &settings{
		names: names, ports: ports, floods: newFloodTable(ports), passGroups: c.ForwardLinkLocal,
		storms: p.storms, bpdus: p.bpdus, granule: granuleOf(uint32(c.Ageing / time.Second)),
		joined: m.joined, domains: p.names(), snoop: m.newSnooper(c, p, ports),
	}
	for i := range s.ports {
		s.tagging = s.tagging || names[i] != "" && !s.ports[i].transparent && !s.ports[i].outside
		s.ports[i].open = s.ports[i].has(s.ports[i].pvid)
	}
	return s
}

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	names := pipeline.PortNames(env.Ports)
	p, err := c.plan(names, nil)
	if err != nil {
		return nil, err
	}
	if err := p.join(&c, env.Ports); err != nil {
		return nil, err
	}
	m := &Module{env: env, config: c, static: p.static, guards: guards{plan: p}}
	m.settings.Store(m.newSettings(&c, p, names))
	m.fdb, err = m.newTable(rand.Uint64())
	return m, err
}

// Join implements pipeline.Joined: with the stage irb, the graph has a router, whose ports are known to it. Ports of other modules carry no
// VLAN, also by configurations to come.
func (m *Module) Join(chain []pipeline.Named) error {
	joined := slices.ContainsFunc(chain, func(n pipeline.Named) bool { _, ok := n.Module.(*IRB); return ok })
	var outside []string
	for _, n := range chain {
		if o, ok := n.Module.(pipeline.PortOwner); ok {
			outside = append(outside, o.OwnPorts()...)
		}
	}
	if !joined && len(outside) == 0 && !m.related.Load() {
		return nil // the lock is not waited for
	}
	m.related.Store(true)
	var router []pipeline.RoutedPort
	for _, n := range chain {
		if r, ok := n.Module.(pipeline.PortRouter); ok && joined {
			router = r.RoutedPorts()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.joined != joined || !slices.Equal(m.router, router) || !slices.Equal(m.outside, outside) {
		m.joined, m.outside = joined, outside
		m.setRouter(router)
	}
	return nil
}

// newTable returns a table with nothing but the static entries.
func (m *Module) newTable(seed uint64) (*fdb, error) {
	t := newFDB(m.config.TableSize, uint32(m.config.Ageing/time.Second), seed)
	for _, s := range slices.Concat(m.static, m.own) {
		if !t.addStatic(s.key, s.port) {
			return nil, fmt.Errorf("static: %s finds no room: raise table_size", keyMAC(s.key))
		}
	}
	return t, nil
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RoleForward }

// TakesLarge implements pipeline.LargeTaker: addresses and tags are those of each segment, and storm control counts segments.
func (m *Module) TakesLarge() bool { return true }

// Needs implements pipeline.Module: the parser's flags and offsets suffice.
func (m *Module) Needs() packet.Needs { return 0 }

// Inline makes the packet thread the table's writer: a packet's source is known
// to the packet behind it, and time is Batch.Now alone. For one worker only,
// before Stage is called; from then on the module belongs to that thread, and
// Run does nothing.
func (m *Module) Inline() {
	if m.env.Workers > 1 || len(m.stages) > 0 {
		panic("l2: Inline is for one worker, and before its stage is made")
	}
	m.inline = true
	// The hash decides which entries a nearly full table refuses. With a fixed
	// seed results repeat; if static entries do not fit it, they stay where
	// they are.
	if t, err := m.newTable(1); err == nil {
		m.fdb = t
	}
}

// Stage implements pipeline.Module.
func (m *Module) Stage(int) pipeline.Stage { return m.newStage() }

func (m *Module) newStage() *stage {
	s := &stage{
		module:   m,
		fdb:      m.fdb,
		settings: m.settings.Load(),
		inline:   m.inline,
		ring:     ring.New[event](ringSize),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stages = append(m.stages, s)
	if m.groups != nil {
		s.giveRing()
	}
	return s
}

// stage is one worker's bridge. Everything but the ring's reading end and the
// counters is the worker's alone.
type stage struct {
	module    *Module
	fdb       *fdb
	*settings // of the present batch
	inline    bool

	search         // for the present packets' sources and destinations, in turn
	stamp   uint32 // of the present batch
	mark    uint8  // of stamp
	learned bool   // inline: the table has changed since the search
	tick    uint32
	recent  recent
	shares  shares
	ring    *ring.Ring[event]

	messages      atomic.Pointer[ring.Ring[snooping.Event]] // nil without snooping
	messageShares []share                                   // by port
	message       snooping.Event                            // inline
	workerCounters
}

// Process implements pipeline.Stage. The first pass decides for each packet;
// flooding, which needs room for copies between the packets, is left to a
// second pass that most batches do not need.
func (s *stage) Process(b *packet.Batch) {
	s.settings = s.module.settings.Load()
	now := stampOf(b.Now)
	s.stamp, s.tick = max(1, now>>s.granule<<s.granule), uint32(b.Now>>tickShift)
	s.mark = uint8(s.stamp >> s.granule)
	if len(s.ports) != len(s.shares.used) {
		s.shares = newShares(len(s.ports)) // a port came
		s.messageShares = make([]share, len(s.ports))
	}
	if s.inline {
		s.fdb.age(now)
		s.module.inlineNow = b.Now
		if s.snoop != nil {
			s.snoop.Age(b.Now)
		}
	}
	n := s.decide(b)
	if n > 0 {
		n = s.limitStorm(b, n)
	}
	if n > 0 {
		s.flood(b, n)
	}
}

// decide gives every packet its port, a reason to drop it, or marks it as
// flooded. It returns the number of flooded packets.
func (s *stage) decide(b *packet.Batch) (floods int) {
	for first := 0; first < len(b.Pkts); first += packet.BatchSize {
		pkts := b.Pkts[first:min(first+packet.BatchSize, len(b.Pkts))]
		s.learned = false
		s.gather(b, pkts)
		s.search.find(s.fdb, 2*len(pkts))
		floods += s.look(b, pkts)
	}
	return floods
}

// gather finds the packets' VLANs and keys. Packets of VLANs that their port does not carry are dropped.
func (s *stage) gather(b *packet.Batch, pkts []packet.Packet) {
	for i := 0; i < len(pkts); i++ {
		in := &s.ports[pkts[i].InPort]
		if wide && in.open && len(b.Mem) >= 16 {
			i = gather(&s.keys, &pkts[0], i, len(pkts), &b.Mem[0], len(b.Mem)-16, pkts[i].InPort, keyTag(in.pvid))
			if i >= len(pkts) {
				break
			}
			in = &s.ports[pkts[i].InPort]
		}
		p := &pkts[i]
		if p.Reason != 0 {
			continue
		}
		vlan := in.pvid
		if p.Flags&(packet.FlagVLAN|packet.FlagMalformed) != 0 || !in.open {
			if in.outside {
				s.outsider(b, p)
				continue
			}
			if vlan = in.classify(p); !in.has(vlan) {
				b.Drop(p, in.refusal(p))
				continue
			}
		}
		k := 2 * (i & (packet.BatchSize - 1))
		s.keys[k+1], s.keys[k] = addresses(b, p, vlan)
	}
}

// forRouter marks packets, between gather and look, that are the router's, as their port is not of the bridge.
const forRouter = packet.Reason(packet.MaxReasons)

// outsider deals with a packet of a port that is not of the bridge.
func (s *stage) outsider(b *packet.Batch, p *packet.Packet) {
	if dst, _ := addresses(b, p, 0); isBPDU(dst) { // a port with subinterfaces is guarded for them all
		if flag := s.bpdus[p.InPort]; flag != nil {
			flag.Store(true)
		}
	}
	if s.joined {
		p.Reason = forRouter
		return
	}
	b.Drop(p, s.ports[p.InPort].refusal(p))
}

// look decides by what the lookups have found.
func (s *stage) look(b *packet.Batch, pkts []packet.Packet) (floods int) {
	t, l, mark, tagging := s.fdb, &s.search.first, s.mark, s.tagging
	nameBits, ports := t.name, t.ports
	for i := 0; i < len(pkts); i++ {
		if wide && !tagging && !s.learned {
			i = straight(&s.search, &pkts[0], i, len(pkts), nameBits, ports, mark)
			if i >= len(pkts) {
				break
			}
		}
		p := &pkts[i]
		if p.Reason != 0 {
			if p.Reason == forRouter {
				p.Reason = 0
			}
			continue
		}
		k := 2 * (i & (packet.BatchSize - 1))

		// Learning comes before forwarding: a packet to its own sender must
		// not be flooded. One comparison says that nothing is new.
		if l.entries[k] != l.names[k]|uint64(p.InPort) || l.marks[k] != mark || s.learned {
			s.seen(s.keys[k], p.InPort)
		}

		dst := s.keys[k+1]
		if dst&macGroup != 0 {
			if isBPDU(dst) {
				if flag := s.bpdus[p.InPort]; flag != nil {
					flag.Store(true)
				}
			}
			if linkLocal(dst) && !s.passGroups {
				b.Drop(p, reasonLinkLocal)
				continue
			}
			p.OutPort = flooded
			floods++
			continue
		}
		entry := l.entries[k+1]
		if (entry^l.names[k+1])&nameBits != 0 || s.learned {
			if _, _, entry = t.find(t.mix(dst)); entry == 0 {
				p.OutPort = flooded
				floods++
				continue
			}
		}
		out := uint16(entry & ports)
		if out == p.InPort {
			b.Drop(p, reasonSamePort)
			continue
		}
		p.OutPort = out
		if tagging && !s.ports[out].tag(b, p, keyVLAN(s.keys[k])) {
			b.Drop(p, packet.ReasonNoHeadroom)
		}
	}
	return floods
}

// addresses returns the keys of a packet's destination and source. The parser
// has dropped what is shorter than an Ethernet header.
func addresses(b *packet.Batch, p *packet.Packet, vlan uint16) (dst, src uint64) {
	d := (*[12]byte)(b.Mem[p.Addr:])
	low, high := binary.LittleEndian.Uint64(d[:8]), binary.LittleEndian.Uint32(d[8:])
	tag := keyTag(vlan)
	return low&macMask | tag, low>>48 | uint64(high)<<16 | tag
}

// seen handles a source that is not simply where it was, in the granule in
// which it was: unknown, moved, static, or seen in a new one.
func (s *stage) seen(key uint64, port uint16) {
	if unlearnable(key) {
		return
	}
	mixed := s.fdb.mix(key)
	if b, i, entry := s.fdb.find(mixed); b != nil {
		if entry&s.fdb.static != 0 {
			return
		}
		if s.fdb.port(entry) == port {
			// Workers' clocks may differ by an edge of a granule; only a step
			// back beyond that is the clock's.
			if d := int8(s.mark - b.mark(i)); d != 0 && d != -1 {
				b.refresh(i, entry, s.mark)
			}
			return
		}
	}
	if s.inline {
		s.fdb.learn(key, port, s.stamp)
		s.learned = true
		return
	}
	if s.recent.admit(mixed, key, port, s.tick) && !(s.shares.take(port, s.tick) && s.ring.Push(event{key, s.stamp, port})) {
		s.learnOverflow.Add(1)
	}
}
