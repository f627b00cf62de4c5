package sflow

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/pipeline/ring"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sflow"
)

// ringSize is how many samples of a worker wait at most, and pause how long they do: 10,000 samples a second are not lost.
const (
	ringSize = 1024
	pause    = 50 * time.Millisecond
)

// sample is a sampled packet on its way to Run.
type sample struct {
	port   uint16 // where it arrived
	n      uint16
	output uint32
	length uint32
	rate   uint32
	pool   uint32 // packets of the port since the worker's last sample, this one included
	lost   uint32 // samples of the port that found no room since then
	data   [sflow.MaxHeader]byte
}

// settings are what workers read. They are immutable.
type settings struct {
	rates  []uint32 // by port; 0: not sampled
	header int
}

// Output is what takes datagrams, and counts the ports.
type Output struct {
	// Send sends a datagram to all collectors, and is done with it when it returns. An error counts as a lost datagram.
	Send func(datagram []byte) error
	// Agent is the address that names the switch.
	Agent netip.Addr
	// Counters calls f with the counters of a port by its name; Source and Sequence are not looked at.
	Counters func(f func(name string, c sflow.Counters))
}

// Module is the stage of one switch. Its methods may be called from anywhere.
type Module struct {
	env      pipeline.Env
	settings atomic.Pointer[settings]

	mu      sync.Mutex // guards what follows
	config  Config
	ports   []pipeline.Port
	stages  []*stage
	output  *Output
	began   time.Time
	counted time.Time // when counters were sent last
	sources []source  // by port
	d       sflow.Datagram
	number  uint32 // of the next datagram
	sentCounts
}

type source struct{ flows, counters, pool, lost uint32 }

type sentCounts struct{ datagrams, failed, samples, lost, unsent uint64 }

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	m := &Module{env: env, config: c, began: time.Now()}
	commit, err := m.Prepare(c, env.Ports)
	if err != nil {
		return nil, err
	}
	commit()
	return m, nil
}

// Prepare checks a new configuration; commit puts it into force between two batches. Collectors and the agent's address cannot change.
func (m *Module) Prepare(c Config, ports []pipeline.Port) (commit func(), err error) {
	names := pipeline.PortNames(ports)
	if err := c.Validate(names); err != nil {
		return nil, err
	}
	m.mu.Lock()
	before := m.config
	m.mu.Unlock()
	if !slices.Equal(c.Collectors, before.Collectors) || c.Agent != before.Agent {
		return nil, errors.New("collectors: they and the agent cannot change while the switch runs: restart it")
	}
	s := &settings{rates: make([]uint32, len(ports)), header: c.HeaderBytes}
	for i := range c.Ports {
		s.rates[slices.Index(names, c.Ports[i].Port)] = uint32(c.Ports[i].OneIn)
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.config, m.ports = c, ports
		m.sources = append(m.sources, make([]source, max(0, len(ports)-len(m.sources)))...)
		m.settings.Store(s)
	}, nil
}

// Collectors returns where datagrams go, and the agent's address if it was named.
func (m *Module) Collectors() (to []string, agent string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config.Collectors, m.config.Agent
}

// SetOutput says what sends datagrams. Without, samples are counted and go nowhere.
func (m *Module) SetOutput(o *Output) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.output = o
}

// Role implements pipeline.Module: what arrived is sampled where it is known by which port it leaves.
func (m *Module) Role() pipeline.Role { return pipeline.RoleEgress }

// Needs implements pipeline.Module.
func (m *Module) Needs() packet.Needs { return 0 }

// TakesLarge implements pipeline.LargeTaker: a large packet counts as its segments.
func (m *Module) TakesLarge() bool { return true }

// Receives implements pipeline.Receiver: sampled is what the forwarding stage receives.
func (m *Module) Receives(int) packet.Reception { return packet.Reception{} }

// sflowSeed is the member of the hash family that draws packets.
const sflowSeed = 0x73666c6f77

// Stage implements pipeline.Module.
func (m *Module) Stage(w int) pipeline.Stage {
	s := &stage{module: m, seed: hash.Uint64x2(sflowSeed, uint64(m.env.ID), uint64(w)), ring: ring.New[sample](ringSize)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stages = append(m.stages, s)
	return s
}

// stage is one worker's. It is the worker's alone, but for the ring's other end.
type stage struct {
	module *Module
	seed   uint64
	drawn  uint64
	now    *settings // those by which skips were drawn
	ports  []sampler
	ring   *ring.Ring[sample]
	lost   atomic.Uint64
}

// sampler is a worker's of one port.
type sampler struct {
	skip   uint64  // packets until the next sample, that one included; 0: the port is not sampled
	log    float64 // of the probability that a packet is not sampled
	rate   uint32
	pool   uint32 // packets since the last sample that Run has
	missed uint32 // samples since then
}

// Process implements pipeline.Stage.
func (s *stage) Process(b *packet.Batch) {
	if now := s.module.settings.Load(); now != s.now {
		s.configure(now)
	}
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Flags.Has(packet.FlagCopy) || int(p.InPort) >= len(s.ports) {
			continue
		}
		m := &s.ports[p.InPort]
		if m.skip == 0 {
			continue
		}
		n := uint64(1)
		if p.Next != 0 {
			n = b.Segments(p)
		}
		m.pool += uint32(n)
		if m.skip > n {
			m.skip -= n
			continue
		}
		// Several of the segments of a large packet may be due.
		for ; m.skip <= n; m.skip = s.draw(m) {
			n -= m.skip
			s.take(b, p, m)
		}
		m.skip -= n
	}
}

// configure takes new settings over. Ports whose rate is as before go on with their skips.
func (s *stage) configure(now *settings) {
	ports := make([]sampler, len(now.rates))
	copy(ports, s.ports)
	for i, rate := range now.rates {
		if m := &ports[i]; m.rate != rate {
			m.rate, m.skip = rate, 0
			if rate != 0 {
				m.log = math.Log1p(-1 / float64(rate))
				m.skip = s.draw(m)
			}
		}
	}
	s.ports, s.now = ports, now
}

// draw returns how many packets there are until the next sample, that one included: n with the probability p(1-p)^(n-1), p = 1/rate, by
// inversion of a uniform number of 53 bits.
func (s *stage) draw(m *sampler) uint64 {
	if m.rate <= 1 {
		return 1
	}
	s.drawn++
	u := (float64(hash.Uint64(s.seed, s.drawn)>>11) + 0.5) / (1 << 53)
	return 1 + uint64(math.Log(u)/m.log)
}

// take gives a packet to Run.
func (s *stage) take(b *packet.Batch, p *packet.Packet, m *sampler) {
	v := s.ring.Ahead(0)
	if v == nil {
		m.missed++
		s.lost.Add(1)
		return
	}
	v.port, v.output, v.length, v.rate, v.pool, v.lost = p.InPort, output(p), b.FrameLen(p), m.rate, m.pool, m.missed
	m.pool, m.missed = 0, 0
	data := b.Data(p)
	v.n = uint16(copy(v.data[:s.now.header], data))
	s.ring.Commit(1)
}

// output is where a packet goes, in sFlow's terms.
func output(p *packet.Packet) uint32 {
	switch {
	case p.Reason == packet.Consumed:
		return sflow.Internal
	case p.Reason != 0 || p.OutPort == packet.NoPort:
		return sflow.DropUnknown
	case p.Flags.Has(packet.FlagMulticast):
		return sflow.Several
	}
	return number(p.OutPort)
}

// number is a port's as an interface.
func number(port uint16) uint32 { return uint32(port) + 1 }

// Run implements pipeline.Background: it sends what was sampled, and counters.
func (m *Module) Run(stop <-chan struct{}) {
	timer := time.NewTicker(pause)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			m.send(time.Now())
			return
		case now := <-timer.C:
			m.send(now)
		}
	}
}

// send sends what waits in the rings, and counters if they are due.
func (m *Module) send(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.output
	m.begin(now)
	for _, s := range m.stages {
		s.ring.Drain(func(v *sample) {
			if int(v.port) >= len(m.sources) {
				return
			}
			c := &m.sources[v.port]
			c.pool += v.pool
			c.lost += v.lost
			m.lost += uint64(v.lost)
			if o == nil {
				m.unsent++
				return
			}
			c.flows++
			f := sflow.Flow{
				Source: number(v.port), Sequence: c.flows, Rate: v.rate, Pool: c.pool, Drops: c.lost,
				Input: number(v.port), Output: v.output, Length: v.length, Header: v.data[:v.n],
			}
			if !m.d.AddFlow(&f) {
				m.flush(now)
				m.d.AddFlow(&f)
			}
			m.samples++
		})
	}
	if o != nil && o.Counters != nil && m.config.CounterInterval != 0 && now.Sub(m.counted) >= m.config.CounterInterval {
		m.counted = now
		o.Counters(func(name string, c sflow.Counters) { m.count(now, name, &c) })
	}
	m.flush(now)
}

// count adds a counter sample of a port. The caller has the lock.
func (m *Module) count(now time.Time, name string, c *sflow.Counters) {
	port := slices.IndexFunc(m.ports, func(p pipeline.Port) bool { return p.Name == name && name != "" })
	if port < 0 {
		return
	}
	s := &m.sources[port]
	s.counters++
	c.Source, c.Sequence, c.Name = number(uint16(port)), s.counters, name
	if !m.d.AddCounters(c) {
		m.flush(now)
		m.d.AddCounters(c)
	}
}

func (m *Module) begin(now time.Time) {
	agent := netip.IPv4Unspecified()
	if m.output != nil {
		agent = m.output.Agent
	}
	m.d.Begin(agent, 0, m.number+1, uint32(now.Sub(m.began)/time.Millisecond))
}

// flush sends the datagram, if it has samples, and begins the next one. The caller has the lock.
func (m *Module) flush(now time.Time) {
	if m.d.Samples() != 0 {
		m.number++
		if err := m.output.Send(m.d.Bytes()); err != nil {
			m.failed++
		} else {
			m.datagrams++
		}
	}
	m.begin(now)
}

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lost := uint64(0)
	for _, s := range m.stages {
		lost += s.lost.Load()
	}
	for _, v := range []struct {
		name, help string
		value      uint64
	}{
		{"sampled_packets_total", "samples put into datagrams", m.samples},
		{"lost_samples_total", "samples lost: the worker's ring was full", lost},
		{"unsent_samples_total", "samples that go nowhere, as no collector is named", m.unsent},
		{"datagrams_total", "datagrams sent", m.datagrams},
		{"failed_datagrams_total", "datagrams that the host could not send", m.failed},
	} {
		emit(pipeline.Metric{Name: v.name, Help: v.help, Value: float64(v.value)})
	}
}

// Explain implements pipeline.Explainer.
func (s *stage) Explain(_ *packet.Batch, p *packet.Packet) string {
	if set := s.module.settings.Load(); int(p.InPort) < len(set.rates) && set.rates[p.InPort] != 0 && !p.Flags.Has(packet.FlagCopy) {
		return fmt.Sprintf("one in %d of its port is sampled", set.rates[p.InPort])
	}
	return ""
}
