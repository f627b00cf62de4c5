package tunnel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/pipeline/ring"
)

// Module is the stage tunnel of one switch, and the tables of the stage encap.
type Module struct {
	env    pipeline.Env
	tables atomic.Pointer[tables] // swapped under mu
	inline bool
	fdb    *fdb
	parser pipeline.Module // of the graph

	mu        sync.Mutex // guards what follows, and writes to fdb
	config    Config
	plan      *plan
	ports     []pipeline.Port
	numbers   map[netip.Addr]uint32 // of remote ends
	hops      map[hopKey]*hop
	sequences sequences
	learned   []netip.Addr // ends beyond those of the configuration
	workers   []*worker
}

// worker is what the two stages of one worker share. It is the worker's alone, but for the counters and the ring's other end.
type worker struct {
	*tables
	module  *Module
	parse   pipeline.Stage
	scratch packet.Batch
	at      [packet.BatchSize]uint16 // where the packets of scratch are in the batch
	replies []packet.Packet          // made by tunnel, appended by encap
	tooBig  []tooBig                 // made by encap, appended by tunnel
	events  *ring.Ring[event]
	recent  [256]event
	now     atomic.Int64 // of the last batch, for ageing
	counters
}

// counters are additions of one worker.
type counters struct {
	encapsulated, decapsulated, copies, flooded, requests, answered, echoes, tooBigs, lost, cut atomic.Uint64
}

// event notifies the writer that a station was seen at an end.
type event struct {
	key   uint64
	addr  [16]byte
	six   bool
	stamp uint32
}

// The sizes of a worker's lists.
const (
	maxReplies = packet.BatchSize
	maxTooBig  = 8
	ringSize   = 4096
)

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	p, err := c.plan(pipeline.PortNames(env.Ports))
	if err != nil {
		return nil, err
	}
	m := &Module{
		env: env, config: c, plan: p, ports: env.Ports, fdb: newFDB(c.TableSize, rand.Uint64()), // a seed that hosts do not know
		numbers: map[netip.Addr]uint32{}, hops: map[hopKey]*hop{}, sequences: sequences{},
	}
	m.tables.Store(m.build())
	m.addStatic()
	for range max(env.Workers, 1) {
		w := &worker{
			module: m, tables: m.tables.Load(), events: ring.New[event](ringSize),
			replies: make([]packet.Packet, 0, maxReplies), tooBig: make([]tooBig, 0, maxTooBig),
		}
		w.scratch.Pkts = make([]packet.Packet, 0, packet.BatchSize)
		m.workers = append(m.workers, w)
	}
	return m, nil
}

func (m *Module) addStatic() {
	for i := range m.plan.tunnels {
		t := &m.plan.tunnels[i]
		for _, s := range t.static {
			if n, ok := m.numbers[s.remote]; ok {
				m.fdb.put(stationKey(t.port, macAt(&s.mac)), entryValue(n, 0)|staticBit)
			}
		}
	}
}

// Join implements pipeline.Joined: the graph's parser reads what comes out of tunnels, and a stage encap must be there for what goes in.
func (m *Module) Join(chain []pipeline.Named) error {
	m.parser = chain[0].Module
	encap := false
	for _, n := range chain {
		if n.Name == "mirror" && encap && len(m.copyPorts()) != 0 {
			return fmt.Errorf("nothing would put copies into tunnels of kind %q: write \"mirror\" in front of \"encap\" in switch.graph", KindERSPAN)
		}
		if e, ok := n.Module.(*Encap); ok {
			encap = true
			e.module = m
		}
	}
	if !encap {
		return errors.New("nothing would be encapsulated: add \"encap\" behind the forwarding stage")
	}
	return nil
}

// OwnPorts implements pipeline.PortOwner: a bridge has neither the underlays nor the ports of tunnels of kind erspan.
func (m *Module) OwnPorts() []string {
	names := m.copyPorts()
	for i := range m.config.Underlays {
		names = append(names, m.config.Underlays[i].Port)
	}
	return names
}

// copyPorts are the ports of tunnels of kind erspan, which a bridge does not have.
func (m *Module) copyPorts() []string { return m.config.copyPorts() }

func (c *Config) copyPorts() (names []string) {
	for i := range c.Tunnels {
		if c.Tunnels[i].Kind == KindERSPAN {
			names = append(names, c.Tunnels[i].Port)
		}
	}
	return names
}

// Role implements pipeline.Module: what is behind the stage sees inner packets.
func (m *Module) Role() pipeline.Role { return pipeline.RoleIngress }

// Needs implements pipeline.Module.
func (m *Module) Needs() packet.Needs { return 0 }

// Receives implements pipeline.Receiver: an underlay receives for the address that the switch has there.
func (m *Module) Receives(port int) packet.Reception {
	t := m.tables.Load()
	return packet.Reception{All: port < len(t.roles) && t.roles[port].kind == isUnderlay}
}

// Inline makes the packet thread the table's writer. For one worker, before Stage.
func (m *Module) Inline() {
	m.inline = true
	m.fdb = newFDB(m.config.TableSize, inlineSeed) // results repeat
	m.addStatic()
}

const inlineSeed = 0x5be0cd19137e2179

// Stage implements pipeline.Module.
func (m *Module) Stage(w int) pipeline.Stage {
	if m.parser != nil { // nil only where a module is made without a graph
		m.workers[w].parse = m.parser.Stage(w)
	}
	return &decap{worker: m.workers[w]}
}

// FollowPorts implements pipeline.PortFollower: the MTU of an underlay bounds what its tunnels carry.
func (m *Module) FollowPorts(ports []pipeline.Port) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ports = ports
	m.tables.Store(m.build())
}

// Prepare checks a new configuration; commit puts it into force between two batches. Underlays and the size of the table cannot
// change. What was learned stays where its tunnel stays.
func (m *Module) Prepare(c Config, ports []pipeline.Port) (commit func(), err error) {
	p, err := c.plan(pipeline.PortNames(ports))
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	same := func(a, b Underlay) bool {
		return a.Port == b.Port && a.MAC == b.MAC && slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Gateways, b.Gateways)
	}
	if c.TableSize != m.config.TableSize {
		return nil, errors.New("table_size: cannot change while the switch runs: restart it")
	}
	if !slices.EqualFunc(c.Underlays, m.config.Underlays, same) {
		return nil, errors.New("underlay: cannot change while the switch runs: restart it")
	}
	if !slices.Equal(c.copyPorts(), m.config.copyPorts()) {
		return nil, fmt.Errorf("tunnel: those of kind %q cannot come or go while the switch runs: restart it", KindERSPAN)
	}
	fresh := map[netip.Addr]bool{}
	for i := range p.tunnels {
		for _, a := range p.tunnels[i].remotes {
			if !m.knows(a) {
				fresh[a] = true
			}
		}
	}
	if len(m.numbers)+len(fresh) > maxEnds {
		return nil, fmt.Errorf("tunnel: %d remote ends are new, and %d were known since the switch began: it can know %d: restart it", len(fresh), len(m.numbers), maxEnds)
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.config, m.plan, m.ports = c, p, ports
		t := m.build()
		m.fdb.sweep(0, 1<<31-1, func(key, v uint64) bool {
			port := int(key >> 48)
			if v&staticBit != 0 || port >= len(t.roles) || t.roles[port].kind != isTunnel {
				return true
			}
			tun := &t.tunnels[t.roles[port].index]
			return !tun.learn && !tun.allowed(valueEnd(v))
		})
		m.addStatic()
		m.tables.Store(t)
	}, nil
}

// Run implements pipeline.Background: the writer of the table.
func (m *Module) Run(stop <-chan struct{}) {
	timer := time.NewTicker(2 * time.Millisecond)
	defer timer.Stop()
	sweep := 0
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		if m.inline {
			continue
		}
		m.mu.Lock()
		now := int64(0)
		for _, w := range m.workers {
			w.events.Drain(m.learn)
			now = max(now, w.now.Load())
		}
		if sweep++; sweep == 500 { // once a second
			sweep = 0
			m.fdb.sweep(stampOf(now), uint32(m.config.Ageing/time.Second), nil)
		}
		m.mu.Unlock()
	}
}

// learn applies an event. The caller has the lock.
func (m *Module) learn(e *event) {
	t := m.tables.Load()
	n := t.endOf(&e.addr, e.six)
	if n < 0 {
		a := netip.AddrFrom16(e.addr)
		if !e.six {
			a = netip.AddrFrom4([4]byte(e.addr[:4]))
		}
		if !m.room(a) {
			m.fdb.full.Add(1)
			return
		}
		m.learned = append(m.learned, a)
		t = m.build()
		m.tables.Store(t)
		if n = t.endOf(&e.addr, e.six); n < 0 {
			return
		}
	}
	m.fdb.put(e.key, entryValue(uint32(n), e.stamp))
}

// room reports whether an end can be learned: it is the address of a host, as a forged packet may come from any, an underlay leads to it, and there is room in that half of the ends that is not for those that are named.
func (m *Module) room(a netip.Addr) bool {
	_, _, ok := m.plan.route(a)
	return ok && isHost(a) && (m.knows(a) || len(m.numbers) < maxEnds && len(m.learned) < maxEnds/2)
}

func (m *Module) knows(a netip.Addr) bool {
	_, ok := m.numbers[a]
	return ok
}

func stampOf(ns int64) uint32 { return uint32(ns / int64(time.Second)) }

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	var sum [10]uint64
	for _, w := range m.workers {
		for i, c := range []*atomic.Uint64{&w.encapsulated, &w.decapsulated, &w.copies, &w.flooded, &w.requests, &w.answered, &w.echoes, &w.tooBigs, &w.lost, &w.cut} {
			sum[i] += c.Load()
		}
	}
	f := m.fdb
	for _, v := range []struct {
		name, help string
		value      float64
		gauge      bool
	}{
		{"encapsulated_packets_total", "packets put into tunnels, copies included", float64(sum[0]), false},
		{"decapsulated_packets_total", "packets that came out of tunnels", float64(sum[1]), false},
		{"replicated_packets_total", "copies made of flooded packets for further remote ends", float64(sum[2]), false},
		{"flooded_packets_total", "packets to groups and to stations at no known end", float64(sum[3]), false},
		{"neighbour_requests_total", "ARP requests and neighbour solicitations sent for next hops", float64(sum[4]), false},
		{"neighbour_answers_total", "ARP requests and neighbour solicitations answered", float64(sum[5]), false},
		{"echo_replies_total", "echo requests to the underlay's own addresses answered", float64(sum[6]), false},
		{"too_big_sent_total", "ICMP errors sent to stations whose packets exceed the tunnel's MTU", float64(sum[7]), false},
		{"learn_overflow_total", "learn events lost: the worker's ring was full", float64(sum[8]), false},
		{"truncated_packets_total", "packets that were cut for tunnels of kind erspan", float64(sum[9]), false},
		{"learned_stations_total", "stations learned at remote ends, static ones included", float64(f.learned.Load()), false},
		{"moved_stations_total", "stations seen at another end than before", float64(f.moved.Load()), false},
		{"aged_stations_total", "stations forgotten for silence", float64(f.aged.Load()), false},
		{"evicted_stations_total", "stations forgotten for new ones: their bucket was full", float64(f.evicted.Load()), false},
		{"refused_stations_total", "stations not learned: no room beside static ones, or no room for another end", float64(f.full.Load()), false},
		{"stations", "stations known at remote ends", float64(f.entries.Load()), true},
	} {
		emit(pipeline.Metric{Name: v.name, Help: v.help, Value: v.value, Gauge: v.gauge})
	}
	t := m.tables.Load()
	for i := range t.ends {
		e := &t.ends[i]
		if e.hop == nil {
			continue
		}
		v := 0.0
		if e.hop.mac.Load() != 0 {
			v = 1
		}
		emit(pipeline.Metric{Name: "end_resolved", Help: "1 if the next hop to a remote end is known", Labels: [][2]string{{"end", e.addr.String()}}, Value: v, Gauge: true})
	}
}
