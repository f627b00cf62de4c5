package pint

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/pipeline/ring"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// The drop reasons of the stage.
var (
	ReasonLoop     = packet.Register("pint_loop", "a loop query found that the packet loops")
	ReasonHostShim = packet.Register("pint_host_shim", "a host's packet looks like one of the network's that carries a digest, and could not be wrapped")
)

// Module is the stage of one switch. Its exported methods may be called from
// anywhere while packets flow.
type Module struct {
	env    pipeline.Env
	config Config
	loaded *loaded
	needs  packet.Needs
	inline bool
	stages []*stage
	plans  []livePlan

	mu     sync.Mutex // guards outbox, between Run and Collect
	outbox *outbox    // nil: records of digests are not collected

	// read is what a sink that condenses asks of workers: to record those of 1 of 2^read of the packets from edge to edge.
	read atomic.Uint32

	batches    *batches   // of the goroutine that collects
	condensing condensing // too, but for its counters
}

// livePlan is a plan with what the packet path wants to know of it at once.
type livePlan struct {
	encoder    *encode.Encoder
	id         uint16
	digest     uint64 // of the plan's file
	bytes      int    // of the digest in a shim
	edge       int    // bytes of the edge beside it
	initialTTL int
	ttlHops    bool
	loops      bool
}

// digestOf is the digest in a shim of the plan.
func (p *livePlan) digestOf(s header.Shim) uint64 { return s.Digest() >> (8 * p.edge & 63) }

// setDigest leaves the edge in a shim of the plan as it is.
func (p *livePlan) setDigest(s header.Shim, digest uint64) {
	s.SetDigest(digest<<(8*p.edge&63) | uint64(s.Edge(p.edge)))
}

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	names := make([]string, len(env.Ports))
	for i := range env.Ports {
		names[i] = env.Ports[i].Name
	}
	l, err := c.load(names)
	if err != nil {
		return nil, err
	}
	m := &Module{env: env, config: c, loaded: l, needs: packet.NeedID}
	if c.ThenOneOf > 1 {
		m.needs |= packet.NeedFlowHash
	}
	m.condensing.module = m
	if err := c.useFamily(env.Hash, l.plans); err != nil {
		return nil, err
	}
	for _, p := range l.plans {
		if err := c.checkIDs(p, env.ID); err != nil {
			return nil, err
		}
		if err := m.addPlan(p); err != nil {
			return nil, err
		}
	}
	for range max(env.Workers, 1) {
		s, err := m.newStage()
		if err != nil {
			return nil, err
		}
		m.stages = append(m.stages, s)
	}
	return m, nil
}

func (m *Module) addPlan(p *pintplan.Plan) error {
	e, err := p.Compile()
	if err != nil {
		return err
	}
	digest, err := p.Digest()
	if err != nil {
		return err
	}
	bytes, edge := p.ShimBytes()
	m.plans = append(m.plans, livePlan{
		encoder: e, id: p.ID, digest: digest, bytes: bytes, edge: edge, initialTTL: p.InitialTTL,
		ttlHops: p.Hops == pintplan.HopsFromTTL, loops: e.Loops(),
	})
	if p.Carrier == pintplan.CarrierIPID {
		m.needs |= packet.NeedIPIDCarrier
	}
	// Records have the time of a digest, so it is always known.
	m.needs |= packet.NeedArrival
	if m.asked(pint.QueueOccupancy, pint.QueueCongestion, pint.EgressUtilisation) {
		m.needs |= packet.NeedDepth
	}
	if m.asked(pint.HopLatency) {
		m.needs |= packet.NeedWait
	}
	return nil
}

// asked reports whether any live plan asks for one of the values.
func (m *Module) asked(values ...pint.Value) bool {
	for i := range m.plans {
		for _, v := range values {
			if slices.Contains(m.plans[i].encoder.Values(), v) {
				return true
			}
		}
	}
	return false
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RoleEgress }

// Needs implements pipeline.Module.
func (m *Module) Needs() packet.Needs { return m.needs }

// Inline makes the packet thread record by itself, and takes time from the
// packets alone. For one worker only, before its first packet.
func (m *Module) Inline() {
	if len(m.stages) > 1 {
		panic("pint: Inline is for one worker")
	}
	m.inline = true
}

// Stage implements pipeline.Module.
func (m *Module) Stage(w int) pipeline.Stage { return m.stages[w] }

// stage is one worker's. All but what is published is the worker's alone.
type stage struct {
	gathering gathering // of straight; in front for its lines

	module *Module
	plans  []livePlan
	ports  []port
	ipid   bool
	anyID  bool
	drop   bool // loops

	intervals   bool // sources set the interval bit, to bit intervalBit of the arrival
	intervalBit uint8

	needLatency, needQueue, needUse bool

	now         int64 // of the present batch, at this stage
	clock       clock.Clock
	seen        pint.Observed // of the present packet; the switch's id stays
	passing     []passing     // by plan, of those that need nothing else
	plainLocal  bool          // what the newest plan asks of packets from edge to edge is what locals knows
	classed     bool          // some port had classes in the last batch
	usual       bool          // the newest plan asks for values that straight knows, and no other plan is live
	counters    counters
	records     *ring.Ring[record]
	held        []record                 // without the ring, in a replay
	endings     []ending                 // by plan, of digests that end here
	open        int                      // number of the one that has packets
	ids, hashes [encode.BlockSize]uint64 // of locals
	shown       shown
	feedback    *feedback // nil: none is sent
	sparing     *sparing  // nil: all packets carry digests
}

// port is what a worker knows of an output port.
type port struct {
	edge     bool
	maxFrame uint32
	ring     uint64 // packets that can wait
	use      *encode.Utilisation

	// Of the present batch: packets and bytes that leave here, the packets that
	// waited before, and the use of the link.
	inBatch, bytes, waiting, used uint64
	// How long the batch's next packet will wait to leave here, and how much longer each one after it.
	wait  packet.Wait
	lines *packet.Lines // what waits by class; nil: the port has no classes
	// By class: inBatch, and wait.
	inClass [packet.MaxClasses]uint64
	waits   [packet.MaxClasses]packet.Wait

	latency, queue *histogram
}

// Defaults for a link's speed and a ring's size where they are not known.
const (
	unknownBitsPerSecond = 10_000_000_000
	unknownRing          = 2048
)

func (m *Module) newStage() (*stage, error) {
	s := &stage{
		module: m, plans: m.plans, ports: make([]port, len(m.env.Ports)),
		ipid: m.needs&packet.NeedIPIDCarrier != 0, anyID: m.config.Identification == IdentificationAny, drop: m.config.DropLoops,
		needLatency: m.asked(pint.HopLatency), needQueue: m.asked(pint.QueueOccupancy, pint.QueueCongestion),
		needUse:   m.asked(pint.EgressUtilisation),
		intervals: m.config.IntervalBits != 0, intervalBit: uint8(m.config.IntervalBits),
		records: ring.New[record](m.config.Records), held: make([]record, encode.BlockSize),
	}
	s.seen[pint.SwitchID] = uint64(m.env.ID)
	for i := range s.ports {
		info := &m.env.Ports[i]
		p := &s.ports[i]
		*p = port{edge: m.loaded.edge[i], maxFrame: ^uint32(0), ring: unknownRing, latency: new(histogram), queue: new(histogram)}
		if info.MaxFrame > 0 {
			p.maxFrame = uint32(info.MaxFrame)
		}
		if info.TxRing > 0 {
			p.ring = uint64(info.TxRing)
		}
		speed := info.BitsPerSecond
		if speed == 0 {
			speed = unknownBitsPerSecond
		}
		var err error
		if p.use, err = encode.NewUtilisation(speed/8, uint64(m.config.RoundTrip)); err != nil {
			return nil, fmt.Errorf("port %s: round_trip: %w", info.Name, err)
		}
	}
	for i := range m.plans {
		if pl := &m.plans[i]; !pl.loops && !pl.ttlHops {
			s.passing = append(s.passing, newPassing(pl, uint64(m.env.ID)))
		}
		s.endings = append(s.endings, newEnding(&m.plans[i], uint64(m.env.ID)))
	}
	s.plainLocal = !s.needQueue && len(s.endings[0].others) == 0
	s.usual = len(s.plans) == 1 && len(s.passing) == 1 && len(s.passing[0].others) == 0 && !s.passing[0].long && !s.needQueue
	s.sparing = newSparing(&m.config)
	s.shown.init(len(s.ports))
	if m.config.FeedbackPort != 0 {
		var err error
		if s.feedback, err = newFeedback(&m.config, m.loaded.plans); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Process implements pipeline.Stage.
func (s *stage) Process(b *packet.Batch) {
	s.now = b.Now
	if !s.module.inline && (s.needLatency || s.needUse) {
		s.now = s.clock.Now()
	}
	for i, wait := range b.Wait[:min(len(b.Wait), len(s.ports))] {
		s.ports[i].wait = wait
	}
	if len(b.Lines) != 0 || s.classed {
		s.followLines(b)
	}
	var r run
	if len(b.Pkts) > 0 && s.passes(&b.Pkts[0]) {
		r = s.straight(b, 0)
	}
	if s.needQueue || s.needUse {
		s.beginBatch(b, &r)
	}
	for i := 0; i < len(b.Pkts); i++ {
		if s.passes(&b.Pkts[i]) {
			if i > 0 {
				r = s.straight(b, i)
			}
			s.settle(&r)
			if i += r.taken; i == len(b.Pkts) {
				break
			}
		}
		if s.plainLocal {
			if i += s.locals(b, i); i == len(b.Pkts) {
				break
			}
		}
		p := &b.Pkts[i]
		if p.Reason != 0 || int(p.OutPort) >= len(s.ports) {
			continue
		}
		out := &s.ports[p.OutPort]
		s.observe(b, p, out)
		var fate count
		// A packet that waited for a neighbour is in a batch of the port of the answer:
		// what counts is where it came from.
		fromEdge := s.ports[b.ArrivalPort(p)].edge
		switch {
		case p.ID == 0:
			fate = leftOwn
		case fromEdge && out.edge:
			fate = s.local(b, p)
		case s.ipid:
			fate = s.identification(b, p, fromEdge, out.edge)
		case fromEdge:
			fate = s.source(b, p, out)
		case out.edge:
			fate = s.sink(b, p)
		default:
			fate = s.transit(b, p, out)
		}
		s.counters.now[fate]++
	}
	for i := range s.passing {
		s.passing[i].write(b)
	}
	s.record()
	if r.taken > 0 && r.taken == len(b.Pkts) {
		s.counters.publishOne(transited) // the others are what they were
		return
	}
	s.counters.publish()
}

// local is for packets from a host to a host of the same switch: a path of one
// hop, which needs no carrier.
func (s *stage) local(b *packet.Batch, p *packet.Packet) count {
	read := uint8(s.module.read.Load())
	if read > 0 && !pint.Sampled(p.ID, read) {
		s.counters.now[unread]++
		return local
	}
	s.end(b, p, 0, 1, 0, read)
	return local
}

// source puts a shim into a packet, behind its addresses and tags, which move
// into the headroom:
//
//	              | dst src tags | type | ...
//	| dst src tags | 88b5 | shim | type | ...
func (s *stage) source(b *packet.Batch, p *packet.Packet, out *port) count {
	pl := &s.plans[0]
	grow := header.ShimLen(pl.bytes + pl.edge)
	fits, room := p.WireLen+uint32(grow) <= out.maxFrame, b.Headroom(p) >= grow
	data := b.Data(p)
	end := linkEnd(data, p)
	if p.Flags.Has(packet.FlagShim) && (!fits || !room || shimsAt(data, end) > 1) {
		b.Drop(p, ReasonHostShim)
		return leftForged
	}
	switch {
	case s.sparing != nil && !p.Flags.Has(packet.FlagShim) && !s.sparing.carries(p.FlowHash, p.ID, b.Now):
		return leftSpared
	case !fits:
		return leftMTU
	case !room:
		return leftRoom
	}
	shift(p, grow)
	data = b.Data(p)
	move(data, grow, 0, end-2)
	data[end-2], data[end-1] = header.TypeShim>>8, header.TypeShim&0xff
	if len(s.passing) > 0 && s.passing[0].plan == pl && s.passing[0].fresh != 0 && end+8 <= len(data) {
		// The shim is written with those of the whole batch. Hop 0 and a digest of 0 are what the first hop finds.
		t := &s.passing[0]
		word := binary.BigEndian.Uint64(data[end:])&t.behind | t.fresh
		if s.odd(b, p) {
			word |= header.ShimInterval << 56
		}
		p.Flags |= packet.FlagShim
		t.put(b, p, p.Addr+uint64(end), word, 1, 0, &s.seen)
		return sourced
	}
	shim := header.NewShim(data[end:], pl.bytes+pl.edge, pl.id)
	p.Flags |= packet.FlagShim
	if pl.edge > 0 {
		shim.SetDigest(s.seen[pint.SwitchID]) // it fits, as New has checked
	}
	shim.SetInterval(s.odd(b, p))
	// A shim of hop 0 and a digest of 0 is what the first hop finds: as in transit, the digest is written with those of the batch.
	if len(s.passing) > 0 && s.passing[0].plan == pl && s.passing[0].add(b, p, data[end:], &s.seen) {
		return sourced
	}
	hop := s.hop(pl, p, data, 0)
	shim.SetHop(1)
	pl.setDigest(shim, pl.encoder.Encode(p.ID, hop, 0, &s.seen))
	return sourced
}

// odd reports whether a packet leaves in an odd interval, if sources say so. What counts is the time at which it leaves, and not its
// arrival: what it waited for this switch would count against the half interval that it may take to the next one.
func (s *stage) odd(b *packet.Batch, p *packet.Packet) bool {
	return s.intervals && uint64(max(b.Now, p.Arrival))>>(s.intervalBit&63)&1 != 0
}

// transit writes the next hop in place. The digest is written with those of the
// whole batch, unless the plan looks for loops, which may end the packet's way.
func (s *stage) transit(b *packet.Batch, p *packet.Packet, out *port) count {
	if !p.Flags.Has(packet.FlagShim) {
		return leftBare
	}
	data := b.Data(p)
	if p.WireLen > out.maxFrame {
		return s.unload(b, p, data)
	}
	end := header.EthernetLen
	if p.Flags.Has(packet.FlagVLAN) {
		end = linkEnd(data, p)
	}
	for i := range s.passing {
		if s.passing[i].add(b, p, data[end:], &s.seen) {
			return transited
		}
	}
	shim := header.ShimAt(data, end)
	if _, dropped := s.pass(b, p, data, shim); dropped {
		return leftLooping
	}
	return transited
}

// sink writes the last hop, takes the shim out and records its digest, unless it is of
// no plan. The packet is then what the source received, byte for byte.
func (s *stage) sink(b *packet.Batch, p *packet.Packet) count {
	if !p.Flags.Has(packet.FlagShim) {
		return leftBare
	}
	data := b.Data(p)
	end := linkEnd(data, p)
	shim := header.ShimAt(data, end)
	if i, hop := s.of(shim), int(shim.Hop())+1; i >= 0 && s.endings[i].plain && hop <= pint.MaxHops && s.feedback == nil {
		s.end(b, p, i, hop, s.plans[i].digestOf(shim), 0)
		s.strip(p, data, shim, end)
		return sunk
	}
	hops, dropped := s.pass(b, p, data, shim)
	if dropped {
		return leftLooping
	}
	if i := s.of(shim); i >= 0 {
		digest := s.plans[i].digestOf(shim)
		s.report(b, p, s.plans[i].id, hops, digest, false)
		if s.feedback != nil {
			var r record
			r.describe(b, p, s.plans[i].id, hops, digest, false)
			s.feedBack(b, p, i, &r.Record)
		}
	}
	s.strip(p, data, shim, end)
	return sunk
}

// strip takes a shim out.
func (s *stage) strip(p *packet.Packet, data []byte, shim header.Shim, end int) {
	grow := len(shim)
	if !nested(p, shim, end) {
		p.Flags &^= packet.FlagShim
	}
	move(data, 0, grow, end-2)
	shift(p, -grow)
}

// nested reports whether a shim that a host sent is behind the network's.
func nested(p *packet.Packet, shim header.Shim, end int) bool {
	return shim.Type() == header.TypeShim && int(p.L3) > end+len(shim)
}

// unload takes the shim out of a packet in transit that is longer than the next
// link's: the packet matters more than its digest, which is not recorded. What
// is a host's behind it must not be met by the next switch.
func (s *stage) unload(b *packet.Batch, p *packet.Packet, data []byte) count {
	end := linkEnd(data, p)
	shim := header.ShimAt(data, end)
	if nested(p, shim, end) {
		b.Drop(p, ReasonHostShim)
		return leftForged
	}
	s.strip(p, data, shim, end)
	return leftMTU
}

// pass counts the hop and writes the digest. It returns the packet's hop number for its
// plan, where the switch knows that, and reports whether the packet was dropped since it
// loops.
func (s *stage) pass(b *packet.Batch, p *packet.Packet, data []byte, shim header.Shim) (hop int, dropped bool) {
	hop = int(shim.Hop()) + 1
	if hop <= pint.MaxHops {
		shim.SetHop(uint8(hop))
	} else {
		s.counters.now[hopSaturated]++
	}
	i := s.of(shim)
	if i < 0 {
		s.counters.now[unknownPlan]++
		return hop, false
	}
	pl := &s.plans[i]
	digest := pl.digestOf(shim)
	if pl.ttlHops {
		hop = s.hop(pl, p, data, hop)
	}
	if pl.loops && s.loops(b, p, pl, hop, digest) {
		return hop, true
	}
	pl.setDigest(shim, pl.encoder.Encode(p.ID, hop, digest, &s.seen))
	return hop, false
}

// of returns the number of a shim's plan, or -1: digests of another length than
// the plan's are none of it.
func (s *stage) of(shim header.Shim) int {
	id := shim.Plan()
	for i := range s.plans {
		if pl := &s.plans[i]; pl.id == id && pl.bytes+pl.edge == shim.DigestLen() {
			return i
		}
	}
	return -1
}

// loops asks the loop query, and drops the packet if so configured.
func (s *stage) loops(b *packet.Batch, p *packet.Packet, pl *livePlan, hop int, digest uint64) bool {
	if !pl.encoder.Loop(p.ID, hop, digest, s.seen[pint.SwitchID]) {
		return false
	}
	s.counters.now[loopsFound]++
	s.report(b, p, pl.id, hop, digest, true)
	if s.drop {
		b.Drop(p, ReasonLoop)
	}
	return s.drop
}

// hop is the packet's hop number for a plan: the shim's, or how far the TTL is
// from where it began. It is 0, which no query encodes, if the TTL says nothing.
func (s *stage) hop(pl *livePlan, p *packet.Packet, data []byte, shims int) int {
	if !pl.ttlHops {
		return max(shims, 1)
	}
	var ttl int
	switch {
	case p.Flags.Has(packet.FlagIPv4):
		ttl = int(data[p.L3+8])
	case p.Flags.Has(packet.FlagIPv6):
		ttl = int(data[p.L3+7])
	default:
		s.counters.now[hopUnknown]++
		return 0
	}
	first := pl.initialTTL
	if first == 0 {
		first = nearestTTL(ttl)
	}
	if ttl >= first {
		s.counters.now[hopUnknown]++
		return 0
	}
	return first - ttl
}

// nearestTTL is the least usual initial TTL that is not below ttl.
func nearestTTL(ttl int) int {
	switch {
	case ttl <= 32:
		return 32
	case ttl <= 64:
		return 64
	case ttl <= 128:
		return 128
	}
	return 255
}
