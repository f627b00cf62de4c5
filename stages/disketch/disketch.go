package disketch

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/epoch"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/record"
)

// Module is the stage of one switch. Its methods may be called from anywhere,
// but Collect, which belongs to one goroutine.
type Module struct {
	config    Config
	ports     atomic.Pointer[ports]
	fragments []*fragment
	needs     packet.Needs

	assigning sync.Mutex
	version   uint64 // of the assignments that were taken last; guarded by assigning
}

// ports are the switch's, by number; adding a port replaces the list.
type ports struct {
	names   []string
	host    []bool // which ones have no other switch behind them
	anyHost bool
}

// fromHostToHost says that the packet passes no other switch.
func (p *ports) fromHostToHost(k *packet.Packet) bool {
	return int(k.OutPort) < len(p.host) && int(k.InPort) < len(p.host) && p.host[k.OutPort] && p.host[k.InPort]
}

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	names := pipeline.PortNames(env.Ports)
	if err := c.Validate(names); err != nil {
		return nil, err
	}
	m := &Module{config: c}
	m.ports.Store(c.ports(names))
	for i := range c.Fragments {
		f, err := newFragment(c.Fragments[i].withDefaults(), disketch.ID{Switch: uint64(env.ID), Sketch: uint16(i)}, c.epochs(), c.Seed, env.Hash)
		if err != nil {
			return nil, err
		}
		if f.keyer.tuple {
			m.needs |= packet.NeedFlowHash
		}
		m.fragments = append(m.fragments, f)
	}
	return m, nil
}

// Role implements pipeline.Module: what leaves is counted, and by which ports a
// packet arrives and leaves says whether it passes another switch.
func (m *Module) Role() pipeline.Role { return pipeline.RoleEgress }

// Needs implements pipeline.Module.
func (m *Module) Needs() packet.Needs { return m.needs }

// Stage implements pipeline.Module. It allocates all memory of the worker: two
// copies of each fragment's cells.
func (m *Module) Stage(int) pipeline.Stage {
	s := &stage{module: m, ports: m.ports.Load()}
	for _, f := range m.fragments {
		s.counts = append(s.counts, counting{fragment: f, worker: f.newWorker()})
	}
	return s
}

// HostPorts lists the ports behind which there is no other switch.
func (m *Module) HostPorts() (names []string) {
	p := m.ports.Load()
	for n, host := range p.host {
		if host {
			names = append(names, p.names[n])
		}
	}
	return names
}

// stage is one worker's.
type stage struct {
	module *Module
	ports  *ports // of the batch
	counts []counting
	// What a batch gives a fragment: flows of packets between other
	// switches, and of those from host to host.
	flows, singleFlows [packet.BatchSize]uint64
	values             [packet.BatchSize]int64 // where these are bytes
	// places are the indexes of these packets in the batch.
	places, singlePlaces [packet.BatchSize]uint8
}

// counting is one fragment on one worker.
type counting struct {
	fragment *fragment
	worker   *epoch.Worker[disketch.Counter]
	epoch    uint64
	planned  bool
	schedule disketch.Schedule
	// parts is the logarithm of the parts that the epoch is counted in: its subepochs, or slices of one.
	parts uint8
}

// Process implements pipeline.Stage.
func (s *stage) Process(b *packet.Batch) {
	s.ports = s.module.ports.Load()
	for i := range s.counts {
		// Batches with copies exceed what fits at once.
		for from := 0; from < len(b.Pkts); from += packet.BatchSize {
			s.count(&s.counts[i], b, b.Pkts[from:min(from+packet.BatchSize, len(b.Pkts))])
		}
	}
}

// count gives packets, at most packet.BatchSize, to one fragment.
func (s *stage) count(c *counting, b *packet.Batch, pkts []packet.Packet) {
	n, single := s.choose(c, b, pkts), 0
	if s.ports.anyHost {
		n, single = s.part(pkts, n)
	}
	counter := c.worker.Current()
	if counter == nil {
		c.worker.Miss(n + single)
		return
	}
	counter.AddBatch(s.flows[:n], s.valuesOf(c, pkts, s.places[:n]), false)
	c.name(counter, b, pkts, &s.places)
	if single > 0 {
		counter.AddBatch(s.singleFlows[:single], s.valuesOf(c, pkts, s.singlePlaces[:single]), true)
		c.name(counter, b, pkts, &s.singlePlaces)
	}
}

// choose notes the flows of packets that count, and where they are.
func (s *stage) choose(c *counting, b *packet.Batch, pkts []packet.Packet) (n int) {
	if !c.fragment.keyer.tuple {
		return s.chooseAddresses(c, b, pkts)
	}
	for i := range pkts {
		p := &pkts[i]
		if p.Reason != 0 || p.Flags.Has(packet.FlagCopy) {
			continue
		}
		j := n & (packet.BatchSize - 1) // BCE
		s.flows[j], s.places[j] = uint64(p.FlowHash), uint8(i)
		n++
	}
	return n
}

// chooseAddresses is choose for keys of addresses.
func (s *stage) chooseAddresses(c *counting, b *packet.Batch, pkts []packet.Packet) (n int) {
	for i := range pkts {
		p := &pkts[i]
		if p.Reason != 0 || p.Flags.Has(packet.FlagCopy) {
			continue
		}
		flow, ok := c.fragment.keyer.address(b.Data(p), p)
		if !ok {
			continue
		}
		j := n & (packet.BatchSize - 1) // BCE
		s.flows[j], s.places[j] = flow, uint8(i)
		n++
	}
	return n
}

// part moves what goes from host to host, of the first n, to the single ones.
func (s *stage) part(pkts []packet.Packet, n int) (left, single int) {
	for k, place := range s.places[:n] {
		flow := s.flows[k]
		if s.ports.fromHostToHost(&pkts[place]) {
			s.singleFlows[single], s.singlePlaces[single] = flow, place
			single++
			continue
		}
		s.flows[left], s.places[left] = flow, place
		left++
	}
	return left, single
}

// valuesOf is what each of the packets counts for; nil: for 1.
func (s *stage) valuesOf(c *counting, pkts []packet.Packet, places []uint8) []int64 {
	if !c.fragment.bytes {
		return nil
	}
	for k, place := range places {
		s.values[k] = int64(pkts[place].WireLen)
	}
	return s.values[:len(places)]
}

// name gives flows that became candidates their keys.
func (c *counting) name(counter *disketch.Counter, b *packet.Batch, pkts []packet.Packet, places *[packet.BatchSize]uint8) {
	for _, a := range counter.Admitted() {
		p := &pkts[places[a.Index]]
		*a.Key = c.fragment.keyer.key(b.Data(p), p)
	}
}

// Tick implements pipeline.Ticker: at the edge of a subepoch the counter goes to
// the collector, and the other one begins the next.
func (s *stage) Tick(now int64) (next int64) {
	next = int64(^uint64(0) >> 1)
	for i := range s.counts {
		next = min(next, s.counts[i].tick(now))
	}
	return next
}

func (c *counting) tick(now int64) (next int64) {
	epochs := c.fragment.epochs
	if e := epochs.Epoch(uint64(now)); !c.planned || e != c.epoch {
		c.epoch, c.planned = e, true
		c.schedule, c.parts = c.fragment.begin(e)
	}
	before, beforeSlice := c.worker.Current(), c.worker.Slice()
	next = c.worker.Tick(now, uint8(epochs)-c.parts)
	counter := c.worker.Current()
	if counter != nil && (counter != before || c.worker.Slice() != beforeSlice) {
		if c.parts > c.schedule.Log {
			counter.BeginSlice(c.schedule)
			return next
		}
		counter.Begin(c.schedule, epochs.Subepoch(uint64(c.worker.Slice().Start), c.schedule.Log))
	}
	return next
}

// Finish implements pipeline.Ticker.
func (s *stage) Finish(now int64) {
	for i := range s.counts {
		s.counts[i].tick(now) // It may be the first look at the clock behind an edge.
		s.counts[i].worker.Finish(now)
	}
}

// Explain implements pipeline.Explainer.
func (s *stage) Explain(b *packet.Batch, p *packet.Packet) string {
	if p.Reason != 0 || p.Flags.Has(packet.FlagCopy) {
		return "not counted: dropped before, or a copy"
	}
	text := ""
	for i := range s.counts {
		c := &s.counts[i]
		flow, ok := uint64(p.FlowHash), true
		if !c.fragment.keyer.tuple {
			flow, ok = c.fragment.keyer.address(b.Data(p), p)
		}
		if i > 0 {
			text += "; "
		}
		now := c.fragment.epochs.Subepoch(uint64(c.worker.Slice().Start), c.schedule.Log)
		switch {
		case !ok:
			text += fmt.Sprintf("fragment %d: no address", i)
		case c.schedule.Counts(flow, now, s.ports.fromHostToHost(p)):
			text += fmt.Sprintf("fragment %d: counted, subepoch %d of %d", i, now, c.schedule.N())
		default:
			text += fmt.Sprintf("fragment %d: its subepoch is %d of %d, now is %d", i, c.schedule.Subepoch(flow), c.schedule.N(), now)
		}
	}
	return text
}

// Collect implements export.Source: it merges the workers' counters of each
// subepoch that is complete, and emits them as records.
func (m *Module) Collect(now int64, last bool, emit func(*record.Header, func([]byte) ([]byte, error))) {
	for _, f := range m.fragments {
		f.collect(now, last, emit)
	}
}

// Inline makes n be chosen on the goroutine that collects, so that the same
// packets give the same records.
func (m *Module) Inline() {
	for _, f := range m.fragments {
		f.inline = true
	}
}

// Run implements pipeline.Background: it chooses n until stop is closed.
func (m *Module) Run(stop <-chan struct{}) {
	var wg sync.WaitGroup
	for _, f := range m.fragments {
		wg.Go(func() { f.run(stop) })
	}
	wg.Wait()
}

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	for _, f := range m.fragments {
		f.metrics(emit)
	}
}
