package policer

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// ReasonPoliced is the drop reason of packets beyond a port's rate.
var ReasonPoliced = packet.Register("policed", "the input port's rate limit was exceeded")

// Module is the policer of one switch. Its methods may be called from anywhere.
type Module struct {
	env     pipeline.Env
	buckets atomic.Pointer[[]*bucket] // by port; nil for one that is not policed

	mu     sync.Mutex // guards what follows
	config Config
	stages []*stage
}

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	m := &Module{env: env}
	return m, m.SetConfig(c)
}

// SetConfig replaces all policers at once. On error nothing changes. New
// buckets are full.
func (m *Module) SetConfig(c Config) error {
	names := make([]string, len(m.env.Ports))
	for i := range m.env.Ports {
		names[i] = m.env.Ports[i].Name
	}
	if err := c.Validate(names); err != nil {
		return err
	}
	buckets := make([]*bucket, len(m.env.Ports))
	for i := range c.Ports {
		n, _ := m.env.PortNumber(c.Ports[i].Name)
		buckets[n] = &bucket{}
		buckets[n].set(c.Ports[i].RateBits, c.Ports[i].burst())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.config = c
	m.buckets.Store(&buckets)
	return nil
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RolePolicy }

// Needs implements pipeline.Module.
func (m *Module) Needs() packet.Needs { return 0 }

// Stage implements pipeline.Module.
func (m *Module) Stage(int) pipeline.Stage {
	s := &stage{module: m, counts: make([]counts, len(m.env.Ports))}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stages = append(m.stages, s)
	return s
}

type stage struct {
	module *Module
	counts []counts // by port; added to once per batch
}

type counts struct{ packets, bytes atomic.Uint64 }

// Process implements pipeline.Stage. All packets of a batch arrived on the same
// port, so they share a bucket: it is asked once for all of them, and packets
// conform in their order while the tokens last.
func (s *stage) Process(b *packet.Batch) {
	if len(b.Pkts) == 0 {
		return
	}
	port := b.Pkts[0].InPort
	k := (*s.module.buckets.Load())[port]
	if k == nil {
		return
	}
	want := int64(0)
	for i := range b.Pkts {
		if p := &b.Pkts[i]; p.Reason == 0 {
			want += int64(p.WireLen)
		}
	}
	got := k.take(b.Now, want)
	if got == want {
		return
	}
	taken := got
	packets, bytes := uint64(0), uint64(0)
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 {
			continue
		}
		if n := int64(p.WireLen); n <= got {
			got -= n
			continue
		}
		packets++
		bytes += uint64(p.WireLen)
		b.Drop(p, ReasonPoliced)
	}
	if got > 0 {
		k.giveBack(taken, got)
	}
	s.counts[port].packets.Add(packets)
	s.counts[port].bytes.Add(bytes)
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
		n, _ := m.env.PortNumber(m.config.Ports[i].Name)
		c := Counters{Port: m.config.Ports[i].Name}
		for _, s := range m.stages {
			c.Packets += s.counts[n].packets.Load()
			c.Bytes += s.counts[n].bytes.Load()
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
	name := s.module.env.Ports[p.InPort].Name
	k := (*s.module.buckets.Load())[p.InPort]
	switch {
	case k == nil:
		return name + " is not policed"
	case p.Reason == ReasonPoliced:
		return fmt.Sprintf("%s exceeds %d bit/s", name, k.rateBits)
	}
	return fmt.Sprintf("%s keeps to %d bit/s", name, k.rateBits)
}
