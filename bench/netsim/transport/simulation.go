package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/bench/netsim/intmd"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Config describes a simulation. Exactly one of HPCC and Reno is set.
type Config struct {
	Fabric fabric.Config
	HPCC   *HPCC
	Reno   *Reno
	// RoundTrip is the base round trip time T: of HPCC's windows, and of PINT's estimates.
	RoundTrip event.Time
	// Feedback reads PINT's digests, which the fabric's telemetry writes; nil with HPCC: the
	// fabric writes INT, or INT-MD, of which the receiver returns the largest use.
	Feedback *fabric.Reader

	// Payload of a full packet, and what packets have beside it on the wire, in bytes:
	// headers, and telemetry. AckBytes is an acknowledgement, which carries the
	// telemetry too.
	Payload, HeaderBytes, TelemetryBytes, AckBytes int

	// Deadline ends the simulation; flows that did not end by then have no completion time.
	Deadline event.Time
	Seed     uint64
	// Watch, if set, is called every watchEvery events with the present state; for progress.
	Watch func(s *Simulation)
	// Arrived, if set, gets each data packet that arrives, and Stacks its INT-MD stack behind that, which they do not keep.
	Arrived func(flow int, now event.Time, p *fabric.Packet)
	Stacks  func(flow int, p *fabric.Packet, s intmd.Stack)
}

// watchEvery is how many events lie between two calls of Watch.
const watchEvery = 1 << 18

func (c *Config) validate() error {
	var faults []error
	fault := func(format string, a ...any) { faults = append(faults, fmt.Errorf("transport: "+format, a...)) }
	if (c.HPCC == nil) == (c.Reno == nil) {
		fault("set one of HPCC and Reno")
	}
	if c.Payload < 1 || c.HeaderBytes < 0 || c.TelemetryBytes < 0 || c.AckBytes < 1 {
		fault("packets of %d bytes with %d of headers and %d of telemetry, acknowledgements of %d: not all in range", c.Payload, c.HeaderBytes, c.TelemetryBytes, c.AckBytes)
	}
	t := &c.Fabric.Telemetry
	if h := c.HPCC; h != nil {
		if !(h.WAI > 0) || !(h.Eta > 0 && h.Eta <= 1) || h.MaxStage < 0 || c.RoundTrip <= 0 {
			fault("HPCC: W_AI %v, eta %v, maxStage %d, T %d ps: not all in range", h.WAI, h.Eta, h.MaxStage, c.RoundTrip)
		}
		if !c.Fabric.PFC {
			fault("HPCC needs a network that does not drop: use PFC")
		}
		if (c.Feedback == nil) != (t.INT != (t.INTMD != nil)) || (c.Feedback != nil) != (t.PINT != nil) || c.Feedback != nil && (t.INT || t.INTMD != nil) {
			fault("HPCC needs feedback: INT, INT-MD, or PINT with its reader")
		}
	}
	return errors.Join(faults...)
}

// Simulation is a network with hosts.
type Simulation struct {
	config Config
	net    *fabric.Network
	hosts  []host
	flows  []flow
	next   int // flow to arrive
	ended  int
	done   []event.Time // completion times by flow; 0: not yet

	retries   uint64
	feedbacks uint64
	stackHops []intmd.Hop // of the present packet
}

// host is a sender and a receiver.
type host struct {
	active []uint32 // flows with something to send or to wait for, in the order of turns
	turn   int
	acks   list
	timer  event.Time // the earliest one pending; 0: none
}

// flow is a Flow in progress.
type flow struct {
	Flow
	route, back uint32
	nxt, una    int64 // sender: next to send, first not acknowledged
	window      float64
	perByte     float64 // ps, of pacing
	sendAt      event.Time

	expected int64    // receiver: first byte missing
	early    []uint64 // segments behind it that are there, a bit each

	hpcc *hpccState
	reno *renoState
}

// Timers: flows' arrival, hosts' pacing, flows' retransmission.
const arrivalTimer = 0

func hostTimer(h int) uint32 { return 1 + uint32(h) }

func (s *Simulation) flowTimer(f uint32) uint32 { return 1 + uint32(len(s.hosts)) + f }

// New lays out the flows, which must be in the order of their starts.
func New(c Config, flows []Flow) (*Simulation, error) {
	if c.Feedback != nil || c.Fabric.Telemetry.INTMD != nil {
		c.Fabric.Telemetry.RoundTrip = c.RoundTrip
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	net, err := fabric.New(c.Fabric)
	if err != nil {
		return nil, err
	}
	s := &Simulation{config: c, net: net, hosts: make([]host, net.Hosts()), flows: make([]flow, len(flows)), done: make([]event.Time, len(flows))}
	for i := range s.hosts {
		s.hosts[i].acks.clear()
	}
	if uint64(len(flows)+len(s.hosts)) >= uint64(net.MaxTimer()) {
		return nil, fmt.Errorf("transport: %d flows are more than the simulation can name", len(flows))
	}
	for i, f := range flows {
		if f.Bytes < 1 || i > 0 && f.Start < flows[i-1].Start {
			return nil, fmt.Errorf("transport: flow %d has %d bytes and starts at %d ps: want a byte or more, and flows in their order", i, f.Bytes, f.Start)
		}
		g := &s.flows[i]
		g.Flow = f
		if g.route, err = net.Route(f.From, f.To, hash.Uint64x2(c.Seed, uint64(i), 'd')); err != nil {
			return nil, err
		}
		if g.back, err = net.Route(f.To, f.From, hash.Uint64x2(c.Seed, uint64(i), 'a')); err != nil {
			return nil, err
		}
	}
	if len(flows) > 0 {
		net.SetTimer(flows[0].Start, arrivalTimer)
	}
	return s, nil
}

// Run simulates until all flows have ended, or the deadline. It ends early with the context's error.
func (s *Simulation) Run(ctx context.Context) error {
	watched := uint64(0)
	for s.ended < len(s.flows) {
		h := s.net.Next(s.config.Deadline)
		switch h.What {
		case fabric.Delivered:
			s.deliver(h.Host, h.Packet)
		case fabric.Ready:
			s.send(h.Host)
		case fabric.Timer:
			s.timer(h.Packet)
		case fabric.Until:
			return s.lossless()
		}
		if n := s.net.Counts().Events; n-watched >= watchEvery {
			watched = n
			if err := ctx.Err(); err != nil {
				return err
			}
			if s.config.Watch != nil {
				s.config.Watch(s)
			}
		}
	}
	return s.lossless()
}

func (s *Simulation) lossless() error {
	if n := s.net.Counts().Dropped; n > 0 && s.config.HPCC != nil {
		return fmt.Errorf("transport: the network dropped %d packets in spite of PFC: use a larger buffer", n)
	}
	return nil
}

func (s *Simulation) timer(number uint32) {
	switch {
	case number == arrivalTimer:
		for now := s.net.Now(); s.next < len(s.flows) && s.flows[s.next].Start <= now; s.next++ {
			s.start(uint32(s.next))
		}
		if s.next < len(s.flows) {
			s.net.SetTimer(s.flows[s.next].Start, arrivalTimer)
		}
	case number <= uint32(len(s.hosts)):
		h := int(number - 1)
		if s.hosts[h].timer <= s.net.Now() {
			s.hosts[h].timer = 0
		}
		s.send(h)
	default:
		s.expired(number - 1 - uint32(len(s.hosts)))
	}
}

func (s *Simulation) start(i uint32) {
	f := &s.flows[i]
	f.sendAt = s.net.Now()
	f.perByte = float64(s.net.PerByte(f.route))
	if s.config.HPCC != nil {
		f.hpcc = new(hpccState)
		f.window = float64(s.config.RoundTrip) / f.perByte
		f.hpcc.reference = f.window
	} else {
		f.reno = &renoState{threshold: 1 << 40, timeout: s.config.Reno.MinRTO}
		f.window = float64(s.config.Reno.InitialSegments * s.config.Payload)
	}
	h := &s.hosts[f.From]
	h.active = append(h.active, i)
	s.send(f.From)
}

// Network is what carries the packets.
func (s *Simulation) Network() *fabric.Network { return s.net }

// Ended is how many flows have ended.
func (s *Simulation) Ended() int { return s.ended }

// Completion is how long a flow took, from its start to the last acknowledgement, and false if
// it has not ended.
func (s *Simulation) Completion(flow int) (event.Time, bool) {
	return s.done[flow], s.done[flow] > 0
}

// ideal is how long a flow takes alone, without telemetry: at the full rate of its slowest
// link, up to the last acknowledgement.
func (s *Simulation) ideal(flow int) event.Time {
	f, c := &s.flows[flow], &s.config
	packets := (f.Bytes + int64(c.Payload) - 1) / int64(c.Payload)
	last := f.Bytes - (packets-1)*int64(c.Payload)
	there := s.net.Unloaded(f.route, packets, uint32(c.Payload+c.HeaderBytes), uint32(int(last)+c.HeaderBytes))
	return there + s.net.Unloaded(f.back, 1, uint32(c.AckBytes), uint32(c.AckBytes))
}

// Slowdown is Completion over Ideal.
func (s *Simulation) Slowdown(flow int) (float64, bool) {
	d, ok := s.Completion(flow)
	return float64(d) / float64(s.ideal(flow)), ok
}
