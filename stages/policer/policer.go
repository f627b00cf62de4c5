package policer

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// reasonPoliced is the drop reason of packets beyond a port's rate.
var reasonPoliced = packet.Register("policed", "the input port's rate limit was exceeded")

// Module is the policer of one switch. Its methods may be called from anywhere.
type Module struct {
	table atomic.Pointer[table] // control swaps it

	mu     sync.Mutex // guards what follows
	config Config
	ports  []pipeline.Port
	stages []*stage
}

// table is immutable; all workers read it.
type table struct {
	names   []string  // by port
	buckets []*bucket // by port; nil for one that is not policed
	owners  []uint16  // by port: whose bucket it is, and at which drops count
}

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	m := &Module{ports: env.Ports}
	return m, m.setConfig(c)
}

// setConfig replaces all policers at once. On error nothing changes. New
// buckets are full.
func (m *Module) setConfig(c Config) error {
	m.mu.Lock()
	ports := m.ports
	m.mu.Unlock()
	commit, err := m.Prepare(c, ports)
	if err != nil {
		return err
	}
	commit()
	return nil
}

// Prepare makes buckets without putting them into force, which commit does. A
// port whose rate and burst stay as they are keeps its bucket.
func (m *Module) Prepare(c Config, ports []pipeline.Port) (commit func(), err error) {
	names := pipeline.PortNames(ports)
	if err := c.Validate(names); err != nil {
		return nil, err
	}
	m.mu.Lock()
	before := m.config
	m.mu.Unlock()
	t := &table{names: names, buckets: make([]*bucket, len(ports))}
	for i := range c.Ports {
		n := slices.Index(names, c.Ports[i].Port)
		if slices.Contains(before.Ports, c.Ports[i]) {
			t.buckets[n] = m.table.Load().buckets[n]
			continue
		}
		t.buckets[n] = &bucket{}
		t.buckets[n].set(c.Ports[i].RateBits, c.Ports[i].burst())
	}
	t.owners = make([]uint16, len(ports))
	for i := range ports {
		t.owners[i] = uint16(i)
		if p := &ports[i]; p.VLAN != 0 && t.buckets[i] == nil {
			t.owners[i], t.buckets[i] = p.Parent, t.buckets[p.Parent]
		}
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.config, m.ports = Config{Ports: slices.Clone(c.Ports)}, ports
		for _, s := range m.stages {
			s.count(len(ports))
		}
		m.table.Store(t)
	}, nil
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RolePolicy }

// Needs implements pipeline.Module.
func (m *Module) Needs() packet.Needs { return 0 }

// Stage implements pipeline.Module.
func (m *Module) Stage(int) pipeline.Stage {
	s := &stage{module: m}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.count(len(m.ports))
	m.stages = append(m.stages, s)
	return s
}

type stage struct {
	module *Module
	counts atomic.Pointer[[]*counts] // by port; added to once per batch
}

// count makes room for the counts of n ports. The caller holds Module.mu.
func (s *stage) count(n int) {
	var all []*counts
	if old := s.counts.Load(); old != nil {
		all = slices.Clone(*old)
	}
	for len(all) < n {
		all = append(all, new(counts))
	}
	s.counts.Store(&all)
}

type counts struct{ packets, bytes atomic.Uint64 }

// Process implements pipeline.Stage. Packets of a batch arrived on the same port, unless the stages in front gave some of them to subinterfaces
// or tunnels. Those of a port in a row share a bucket: it is asked once for all of them, and packets conform in their order while the tokens
// last.
func (s *stage) Process(b *packet.Batch) {
	t := s.module.table.Load()
	for first := 0; first < len(b.Pkts); {
		port := b.Pkts[first].InPort
		k := t.buckets[port]
		want, end := uint64(0), first
		for ; end < len(b.Pkts) && b.Pkts[end].InPort == port; end++ {
			if p := &b.Pkts[end]; p.Reason == 0 {
				want += 8 * uint64(p.WireLen)
			}
		}
		if k != nil {
			if taken := k.Take(b.Now, want); taken != want {
				k.GiveBack(taken, s.dropBeyond(b, b.Pkts[first:end], t.owners[port], taken))
			}
		}
		first = end
	}
}

// dropBeyond drops packets of a port's bucket for which tokens do not suffice, and returns how many are left.
func (s *stage) dropBeyond(b *packet.Batch, pkts []packet.Packet, port uint16, tokens uint64) (left uint64) {
	left = tokens
	packets, bytes := uint64(0), uint64(0)
	for i := range pkts {
		p := &pkts[i]
		if p.Reason != 0 {
			continue
		}
		if n := 8 * uint64(p.WireLen); n <= left {
			left -= n
			continue
		}
		packets++
		bytes += uint64(p.WireLen)
		b.Drop(p, reasonPoliced)
	}
	c := (*s.counts.Load())[port]
	c.packets.Add(packets)
	c.bytes.Add(bytes)
	return left
}

// Counters are the packets dropped of one policed port.
type Counters struct {
	Port           string
	Packets, Bytes uint64
}

// Counters returns the present counts of all policed ports.
func (m *Module) Counters() []Counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Counters
	for i := range m.config.Ports {
		n := slices.Index(m.table.Load().names, m.config.Ports[i].Port)
		c := Counters{Port: m.config.Ports[i].Port}
		for _, s := range m.stages {
			k := (*s.counts.Load())[n]
			c.Packets += k.packets.Load()
			c.Bytes += k.bytes.Load()
		}
		out = append(out, c)
	}
	return out
}

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	for _, c := range m.Counters() {
		labels := [][2]string{{"port", c.Port}}
		emit(pipeline.Metric{Name: "policed_packets_total", Help: "packets dropped beyond the port's rate", Labels: labels, Value: float64(c.Packets)})
		emit(pipeline.Metric{Name: "policed_bytes_total", Help: "bytes of the packets dropped beyond the port's rate", Labels: labels, Value: float64(c.Bytes)})
	}
}

// Explain implements pipeline.Explainer.
func (s *stage) Explain(_ *packet.Batch, p *packet.Packet) string {
	t := s.module.table.Load()
	name, k := t.names[p.InPort], t.buckets[p.InPort]
	switch {
	case k == nil:
		return name + " is not policed"
	case p.Reason == reasonPoliced:
		return fmt.Sprintf("%s exceeds %d bit/s", name, k.rateBits)
	}
	return fmt.Sprintf("%s keeps to %d bit/s", name, k.rateBits)
}
