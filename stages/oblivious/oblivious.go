package oblivious

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/epoch"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
)

// Module is the stage of one switch. Its methods may be called from anywhere,
// but Collect, which belongs to one goroutine.
type Module struct {
	config Config
	family hash.Family
	keyer  keyer
	weighs bool // ranks depend on lengths

	mu      sync.Mutex // guards workers while they are made
	workers []*epoch.Worker[cells]
	merger  *epoch.Merger[cells] // made by the first Collect, behind all workers

	shape shape // of the goroutine that collects

	updates, records, entries, leftOut atomic.Uint64
}

// cells are a worker's samples of an epoch. The merger's have no samplers, but
// what the workers' ones gave.
type cells struct {
	main, flows *oblivious.Sampler // flows may be nil
	samples     [2][]*oblivious.Sample
	updates     uint64
	// recent are ids of flows that entered the sample of flows, by their lower bits:
	// most packets are of a flow that did so a moment ago, and need no look into it.
	recent []uint64
}

// recentFlows is the length of cells.recent: 16 KiB, which stay in the cache.
const recentFlows = 1 << 11

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	if err := c.Validate(nil); err != nil {
		return nil, err
	}
	return &Module{config: c, family: env.Hash, keyer: newKeyer(&c, env.Hash), weighs: c.Unit != "packets"}, nil
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RoleIngress }

// Needs implements pipeline.Module.
func (m *Module) Needs() packet.Needs { return packet.NeedID }

// Stage implements pipeline.Module. It allocates all memory of the worker: two
// copies of its samples.
func (m *Module) Stage(int) pipeline.Stage {
	s := &stage{module: m, worker: epoch.NewWorker(m.newCells)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.workers = append(m.workers, s.worker)
	return s
}

func (m *Module) newCells() *cells {
	main, flows := m.config.samplers(m.family)
	c := &cells{main: mustSampler(main)}
	if m.config.Flows {
		c.flows, c.recent = mustSampler(flows), make([]uint64, recentFlows)
		c.forget()
	}
	return c
}

// forget empties recent: no slot holds an id that belongs there, not even 0.
func (c *cells) forget() {
	if clear(c.recent); c.recent != nil {
		c.recent[0] = 1
	}
}

// mustSampler makes a sampler of a configuration that was validated.
func mustSampler(c oblivious.Config) *oblivious.Sampler {
	s, err := oblivious.NewSampler(c)
	if err != nil {
		panic("oblivious: a valid configuration makes no sampler: " + err.Error())
	}
	return s
}

type stage struct {
	block   block // in front of what follows so that it begins with a line of the cache
	pending pending

	module *Module
	worker *epoch.Worker[cells]
}

// pending are packets that the sampler admits, on their way into the sample. They are few, and each needs lines that
// other stages have pushed out of the caches: so they go there together, when a block of them is full or the epoch ends.
type pending struct {
	n       int
	ids     [oblivious.Block]uint64
	lengths [oblivious.Block]uint32
	keys    [oblivious.Block]oblivious.Key
}

// Process implements pipeline.Stage. Per packet it hashes the packet id and
// compares, many at once; the few packets that enter the sample take another path.
func (s *stage) Process(b *packet.Batch) {
	c := s.worker.Current()
	if c == nil {
		s.miss(b)
		return
	}
	packets, weighs := 0, s.module.weighs
	s.block.bytes = 0
	protos := &s.block.protos
	if !s.module.keyer.transport {
		protos = &noProtos
	}
	for from := 0; from < len(b.Pkts); from += oblivious.Block {
		pkts := b.Pkts[from:min(from+oblivious.Block, len(b.Pkts))]
		living := s.block.fill(pkts, b.Mem, weighs)
		packets += bits.OnesCount64(living)
		c.main.CountEach(protos, &s.block.lengths, living)
		for m := living & c.main.AdmitsEach(&s.block.ids, &s.block.lengths, len(pkts)); m != 0; m &= m - 1 {
			s.admit(c, b, &pkts[bits.TrailingZeros64(m)])
		}
	}
	c.main.Count(uint64(packets), s.block.bytes)
	if c.flows != nil {
		s.sampleFlows(c, b)
	}
}

// admit is the path of packets that enter the sample.
//
//go:noinline
func (s *stage) admit(c *cells, b *packet.Batch, p *packet.Packet) {
	x := &s.pending
	i := x.n & (oblivious.Block - 1) // BCE
	x.ids[i], x.lengths[i] = p.ID, length(b.Mem, p)
	s.module.keyer.write((*packet.FlowKey)(&x.keys[i]), b.Data(p), p)
	if x.n++; x.n == oblivious.Block {
		s.insert(c)
	}
}

// insert empties pending into the sample; there is one while something is pending.
func (s *stage) insert(c *cells) {
	x := &s.pending
	if x.n == 0 {
		return
	}
	c.main.InsertEach(x.ids[:x.n], x.lengths[:x.n], x.keys[:x.n])
	x.n = 0
}

// counts reports whether a packet arrived here and lives: a copy that a stage
// made did not arrive.
func counts(p *packet.Packet) bool { return p.Reason == 0 && !p.Flags.Has(packet.FlagCopy) }

// minLength is the shortest Ethernet frame without FCS: what is shorter gets padded
// by some links and not by others.
const minLength = 60

// length is the length of a packet that all switches of its path agree on, in bytes:
// of an Ethernet header and what IP says of itself, without tags, shims and padding.
// Else a packet would have another rank where it is longer, and count twice.
func length(mem []byte, p *packet.Packet) uint32 {
	l3 := p.Addr + uint64(p.L3)
	switch {
	case p.Flags.Has(packet.FlagIPv4):
		return header.EthernetLen + uint32(binary.BigEndian.Uint16(mem[l3+2:]))
	case p.Flags.Has(packet.FlagIPv6):
		return header.EthernetLen + header.IPv6Len + uint32(binary.BigEndian.Uint16(mem[l3+4:]))
	}
	return max(header.EthernetLen+p.WireLen-min(uint32(p.L3), p.WireLen), minLength)
}

// sampleFlows gives each packet's flow to the sample of flows.
func (s *stage) sampleFlows(c *cells, b *packet.Batch) {
	flows, recent := c.flows, (*[recentFlows]uint64)(c.recent)
	packets, bytes := uint64(0), uint64(0)
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if !counts(p) || !p.Flags.Has(packet.FlagIP) {
			continue
		}
		packets++
		bytes += uint64(p.WireLen)
		id := s.module.keyer.flowID(b.Data(p), p)
		before := &recent[id%recentFlows]
		if *before != id && flows.Admits(id, 1) {
			key := sampleKey(s.module.keyer.key(b.Data(p), p))
			flows.Insert(id, 1, &key)
			*before = id
		}
	}
	flows.Count(packets, bytes)
}

// miss counts the packets of a batch for which there are no cells.
func (s *stage) miss(b *packet.Batch) {
	n := 0
	for i := range b.Pkts {
		if counts(&b.Pkts[i]) {
			n++
		}
	}
	s.worker.Miss(n)
}

// Tick implements pipeline.Ticker.
func (s *stage) Tick(now int64) (next int64) {
	s.insert(s.worker.Current())
	return s.worker.Tick(now, uint8(s.module.config.EpochBits))
}

// Finish implements pipeline.Ticker.
func (s *stage) Finish(now int64) {
	s.insert(s.worker.Current())
	s.worker.Finish(now)
}

// Explain implements pipeline.Explainer.
func (s *stage) Explain(b *packet.Batch, p *packet.Packet) string {
	switch c := s.worker.Current(); {
	case c == nil:
		return "not measured: the samples of two epochs wait to be collected"
	case !counts(p):
		return "not counted: dropped before, or a copy"
	case c.main.Admits(p.ID, length(b.Mem, p)):
		return "counted, and in the sample so far"
	}
	return "counted, not in the sample"
}

// Collect implements export.Source: it merges the workers' samples of each
// epoch that is complete and emits them as records.
func (m *Module) Collect(now int64, last bool, emit func(*record.Header, func([]byte) ([]byte, error))) {
	if m.merger == nil {
		m.mu.Lock()
		m.merger = epoch.NewMerger(m.workers, func() *cells { return &cells{} }, (*cells).merge, (*cells).clear)
		m.mu.Unlock()
	}
	emitted := func(e *epoch.Merged[cells]) { m.emit(e, emit) }
	m.merger.Collect(now, emitted)
	if last {
		m.merger.Flush(emitted)
	}
}

// merge takes the samples of a worker in.
func (c *cells) merge(worker *cells) {
	for i, s := range []*oblivious.Sampler{worker.main, worker.flows} {
		if s != nil {
			c.samples[i] = append(c.samples[i], s.Sample())
			c.updates += s.Updates()
		}
	}
}

func (c *cells) clear() {
	for _, s := range []*oblivious.Sampler{c.main, c.flows} {
		if s != nil {
			s.Reset()
		}
	}
	clear(c.samples[:])
	c.forget()
	c.updates = 0
}

// emit makes the records of an epoch.
func (m *Module) emit(e *epoch.Merged[cells], emit func(*record.Header, func([]byte) ([]byte, error))) {
	m.updates.Add(e.Cells.updates)
	for instance, samples := range e.Cells.samples {
		if len(samples) == 0 {
			continue
		}
		// The simple merge, so that a record does not depend on the number of
		// workers. Samples of one module have one shape, so it cannot fail.
		sample, err := oblivious.Simple(samples...)
		if err != nil {
			panic("oblivious: workers' samples differ in kind: " + err.Error())
		}
		whole := len(sample.Entries)
		sample.Shrink(m.shape.size(instance, whole))
		m.leftOut.Add(uint64(whole - len(sample.Entries)))
		if instance == 0 {
			m.entries.Store(uint64(len(sample.Entries)))
		}
		m.records.Add(1)
		body := func(dst []byte) ([]byte, error) {
			out, err := sample.AppendBinary(dst)
			m.shape.made(instance, e.Slice.Length(), whole, len(sample.Entries), len(out)-len(dst))
			return out, err
		}
		emit(&record.Header{
			Kind: record.Oblivious, Instance: uint16(instance),
			Start: e.Slice.Start, Span: e.Slice.Length(), Missed: e.Missed, Partial: e.Partial,
		}, body)
	}
}

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	var missed, overruns uint64
	m.mu.Lock()
	for _, w := range m.workers {
		missed += w.Missed()
		overruns += w.Overruns()
	}
	m.mu.Unlock()
	count := func(name, help string, value uint64) {
		emit(pipeline.Metric{Name: name, Help: help, Value: float64(value)})
	}
	count("updates_total", "entries that entered samples, of epochs that are collected", m.updates.Load())
	count("records_total", "samples made into records", m.records.Load())
	count("left_out_entries_total", "entries that records left out, to keep within the budget", m.leftOut.Load())
	count("missed_packets_total", "packets in no sample, because collecting was late", missed)
	count("overruns_total", "epochs in which a worker missed packets, or might have", overruns)
	emit(pipeline.Metric{Name: "entries", Help: "entries of the last epoch's sample", Value: float64(m.entries.Load()), Gauge: true})
}
