package lds

import (
	"math/bits"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/epoch"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/lds"
)

// Module is the ingress or the egress points of one switch.
type Module struct {
	env    pipeline.Env
	egress bool
	shift  uint8
	bit    bool
	plan   atomic.Pointer[plan]

	start   sync.Once // makes what follows, of the plan that there is then
	workers []*epoch.Worker[cells]
	merger  *epoch.Merger[cells]
	joiners map[point]*joiner // with the interval bit
	shape   shape
	records atomic.Uint64
	// interval is that in which Collect was called last.
	interval atomic.Int64
	leftOut  atomic.Uint64 // cells

	mu     sync.Mutex // guards what follows, and changes of plan
	stages []*stage
	router pipeline.Router // nil: none
	names  []string        // of the ports
	// seen is the version of the routes in the plan, if followed.
	seen     uint64
	followed bool
}

// cells are what a worker fills in one slice of the clock: a trio of points for each of
// a plan's.
type cells struct {
	plan *plan   // nil: of several plans
	at   []point // what they are of
	of   []trio
}

// trio is a measurement point in a slice of the clock. Packets that the interval
// bit assigns to the interval before or behind go to late and early; these are
// nil without the bit.
type trio struct {
	now, late, early *lds.Point
	rows             *rows // nil: do not adapt
}

// of is the point of the interval that is so far behind the slice. A packet that a
// worker comes to when it is too late for its interval spoils the nearest one.
func (t *trio) of(behind int8) *lds.Point {
	switch {
	case behind == 0:
		return t.now
	case behind > 0:
		return t.early
	}
	return t.late
}

func (t *trio) each(f func(*lds.Point)) {
	f(t.now)
	if t.late != nil {
		f(t.late)
		f(t.early)
	}
}

// outside is how many packets were refused for their time.
func (t *trio) outside() (n uint64) {
	t.each(func(p *lds.Point) { n += p.Outside() })
	return n
}

// enter takes empty points to the slice with the given number.
func (c *cells) enter(number int64) {
	for i := range c.of {
		t := &c.of[i]
		t.enter(t.now, number)
		if t.late != nil {
			t.enter(t.late, number-1)
			t.enter(t.early, number+1)
		}
	}
}

// enter takes one of its points, empty or of the same interval, to an interval.
func (t *trio) enter(p *lds.Point, number int64) {
	p.Enter(number)
	if t.rows == nil {
		return
	}
	n := t.rows.at(number)
	if n == 0 {
		n = p.Made().Rows
	}
	p.SetRows(n)
}

// NewIngress makes the module that measures what arrives.
func NewIngress(c Config, env pipeline.Env) (*Module, error) { return newModule(c, env, false) }

// NewEgress makes the module that measures what leaves.
func NewEgress(c Config, env pipeline.Env) (*Module, error) { return newModule(c, env, true) }

func newModule(c Config, env pipeline.Env, egress bool) (*Module, error) {
	m := &Module{env: env, egress: egress, shift: uint8(c.IntervalBits), bit: c.IntervalBit, names: pipeline.PortNames(env.Ports), joiners: map[point]*joiner{}}
	p, err := newPlan(c, m.names, nil, egress)
	if err != nil {
		return nil, err
	}
	m.plan.Store(p)
	return m, nil
}

// begin makes the workers' cells, once the module knows the routes.
func (m *Module) begin() {
	m.start.Do(func() {
		for range max(m.env.Workers, 1) {
			m.workers = append(m.workers, epoch.NewWorker(m.newCells))
		}
		m.merger = epoch.NewMerger(m.workers, m.newCells, m.mergeCells, m.clearCells)
	})
}

// newPoints makes empty points of configs that were validated.
func newPoints(configs []lds.Config) []*lds.Point {
	p, err := lds.NewPointsOf(configs)
	if err != nil {
		panic(err)
	}
	return p
}

// sketchOf is the shape of a plan's point.
func (m *Module) sketchOf(p *plan, i int) lds.Config {
	c := p.config.sketch(m.env.Hash)
	c.Columns = p.columns(i)
	return c
}

// newCells makes all points of a plan together, so that packets of different ones
// go into one block.
func (m *Module) newCells() *cells {
	c := &cells{plan: m.plan.Load()}
	c.at = c.plan.points()
	var configs []lds.Config
	for i := range c.at {
		configs = append(configs, slices.Repeat([]lds.Config{m.sketchOf(c.plan, i)}, c.plan.config.copies())...)
	}
	points := newPoints(configs)
	for i := range c.at {
		c.of = append(c.of, newTrio(points[i*c.plan.config.copies():], c.at[i].class, m.bit, c.plan.rows[i]))
	}
	return c
}

func newTrio(points []*lds.Point, class lds.Class, bit bool, r *rows) trio {
	t := trio{now: points[0], rows: r}
	if bit {
		t.late, t.early = points[1], points[2]
	}
	t.each(func(p *lds.Point) { p.SetClass(class) })
	return t
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role {
	if m.egress {
		return pipeline.RoleEgress
	}
	return pipeline.RoleIngress
}

// Needs implements pipeline.Module.
func (m *Module) Needs() packet.Needs {
	return packet.NeedID | packet.NeedArrival | packet.NeedFlowName
}

// Stage implements pipeline.Module.
func (m *Module) Stage(w int) pipeline.Stage {
	m.begin()
	s := &stage{module: m, cells: m.workers[w], steps: newSteps()}
	s.weighAlike()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stages = append(m.stages, s)
	return s
}

// stage is one worker's points.
type stage struct {
	module *Module
	cells  *epoch.Worker[cells]

	// The batch's additions, and their flows.
	block   lds.Block
	keys    keys
	weighed bool // not all of the block's weights are 1

	// What is noted of a block's packets that count: which they are, when, at the points of which port and class, and how many
	// intervals behind the slice.
	of          [lds.BlockSize]uint8
	at          [lds.BlockSize]int64
	port, class [lds.BlockSize]int16
	behind      [lds.BlockSize]int8

	cache classCache

	steps steps

	// Written once per batch.
	measured, skipped, byBit, unclassed atomic.Uint64
	refused                             atomic.Uint64 // of measured
	timed, waited                       atomic.Uint64 // waited: ns
	stepped                             atomic.Uint64 // once per interval
}

// Tick implements pipeline.Ticker: the edge of an interval. A step of the clock is of
// the interval that ends; as the batches' clock may follow late, of the next one too.
func (s *stage) Tick(now int64) (next int64) {
	stepped := s.steps.seen()
	if stepped {
		s.stepped.Add(1)
		s.mark(lds.Stepped)
	}
	next = s.cells.Tick(now, s.module.shift)
	s.enter()
	if stepped {
		s.mark(lds.Stepped)
	}
	return next
}

// mark notes what is wrong with the current interval, if it is measured.
func (s *stage) mark(f lds.Flags) {
	if c := s.cells.Current(); c != nil {
		for i := range c.of {
			c.of[i].each(func(p *lds.Point) { p.Mark(f) })
		}
	}
}

// enter passes the cells, which may have changed, the number of their slice.
func (s *stage) enter() {
	if c := s.cells.Current(); c != nil {
		c.enter(s.cells.Slice().Number())
	}
}

// Finish implements pipeline.Ticker. Late packets of the interval before come until the middle of the slice.
func (s *stage) Finish(now int64) {
	if c := s.cells.Current(); c != nil && s.module.bit && now < s.cells.Slice().Start+s.cells.Slice().Length()/2 {
		for i := range c.of {
			c.of[i].late.Mark(lds.Partial)
		}
	}
	s.cells.Finish(now)
}

// Process implements pipeline.Stage.
func (s *stage) Process(b *packet.Batch) {
	for from := 0; from < len(b.Pkts); from += lds.BlockSize { // copies make a batch longer than a block
		s.measure(b, from, b.Pkts[from:min(len(b.Pkts), from+lds.BlockSize)])
	}
}

// measure adds at most a block of a batch's packets, those behind from, step by step for all of them, before the edge of an interval, as
// that is seen between batches.
func (s *stage) measure(b *packet.Batch, from int, pkts []packet.Packet) {
	current, plan := s.cells.Current(), s.module.plan.Load()
	if current != nil {
		plan = current.plan
	}
	if current != nil && plan.plain() && !s.module.bit {
		s.measurePlain(b, from, pkts, current)
		return
	}
	n := s.choose(b.Now, pkts, plan)
	points := &s.port
	if plan.classifier != nil {
		n = s.classify(b, pkts, plan, n)
		if plan.links == 0 {
			points = &s.class
		}
	}
	if current == nil {
		s.cells.Miss(n)
		return
	}
	s.note(b, pkts, n)
	refused := s.add(b, pkts, current, points, n)
	add(&s.refused, refused)
	if plan.classifier == nil || plan.links == 0 {
		return
	}
	// Once more, at the points of classes, which refuse the same packets.
	classed := 0
	for k, class := range s.class[:n] {
		if class >= 0 {
			s.of[classed], s.at[classed], s.behind[classed], s.class[classed] = s.of[k], s.at[k], s.behind[k], class
			classed++
		}
	}
	s.add(b, pkts, current, &s.class, classed)
}

// measurePlain is measure where neither classes, weights nor the interval bit decide where a packet counts, and flows that lose packets are
// not named, as by default: in one pass, with the names of flows that the parser left.
func (s *stage) measurePlain(b *packet.Batch, from int, pkts []packet.Packet, current *cells) {
	plan, block, egress := current.plan, &s.block, s.module.egress
	names := noNames[:len(pkts)]
	named := from+len(pkts) <= len(b.Flows)
	if named {
		names = b.Flows[from:][:len(pkts)]
	}
	n, first, apart := len(pkts), plan.at(&pkts[0], egress), int16(0)
	taken, all := false, false
	if first >= 0 {
		taken, all = s.takeAlike(pkts, names, b.Now)
	}
	if !taken {
		n, first, apart, all = s.takeEach(pkts, names, b.Now, plan)
	}
	named = all && named
	if n == 0 {
		return
	}
	add(&s.measured, n)
	if !named {
		if taken {
			for i := range pkts {
				s.of[i] = uint8(i)
			}
		}
		s.name(b, pkts, n)
	}
	if s.weighed {
		s.weighed = false
		s.weighAlike()
	}
	outside := uint64(0)
	if apart == 0 {
		outside = block.AddTo(current.of[first].now, n)
	} else {
		for k, i := range s.of[:n] {
			block.Points[k] = current.of[plan.at(&pkts[i], egress)].now
		}
		outside = block.Add(n)
	}
	add(&s.refused, bits.OnesCount64(outside))
}

// takeEach notes which packets count, n of them, when, and whether names are theirs. If apart is 0, all count at the point first.
func (s *stage) takeEach(pkts []packet.Packet, names []packet.FlowName, now int64, plan *plan) (n int, first, apart int16, named bool) {
	block, egress := &s.block, s.module.egress
	skipped, timed, waited, unnamed := 0, 0, int64(0), uint64(0)
	for i := range pkts {
		p := &pkts[i]
		number := plan.at(p, egress)
		if number < 0 {
			continue
		}
		if p.Flags&packet.FlagIP == 0 {
			skipped++
			continue
		}
		at := timeOf(p, egress, now)
		k := n & (lds.BlockSize - 1) // BCE
		if n == 0 {
			first = number
		}
		apart |= number ^ first
		name := &names[i]
		unnamed |= name.ID ^ p.ID
		block.ID[k], block.Time[k], block.Bytes[k], block.Flow[k] = p.ID, at, p.WireLen, name.Name
		s.of[k] = uint8(i)
		if p.Arrival != now {
			timed++
		}
		waited += at - p.Arrival
		n++
	}
	add(&s.skipped, skipped)
	add(&s.timed, timed)
	add(&s.waited, int(waited))
	return n, first, apart, unnamed == 0
}

// noNames are for packets that came behind the parser.
var noNames [lds.BlockSize]packet.FlowName

// timeOf is when a packet counts: the packets of a replayed batch arrive behind its clock.
func timeOf(p *packet.Packet, egress bool, now int64) int64 {
	if egress {
		return max(now, p.Arrival)
	}
	return p.Arrival
}

// name computes the names of flows of all packets noted.
func (s *stage) name(b *packet.Batch, pkts []packet.Packet, n int) {
	for k, i := range s.of[:n] {
		p := &pkts[i]
		if p.Flags.Has(packet.FlagIPv4) {
			w0, w1 := p.KeyWords4(b.Data(p))
			s.keys.take4(k, w0, w1)
		} else {
			s.keys.take6(k, p, b.Data(p))
		}
	}
	s.keys.flows(&s.block.Flow, s.module.env.Hash)
}

// choose notes which packets count, when, and at which ports' points.
func (s *stage) choose(now int64, pkts []packet.Packet, plan *plan) (n int) {
	skipped, egress := 0, s.module.egress
	for i := range pkts {
		p := &pkts[i]
		number := plan.at(p, egress)
		if number < 0 {
			continue
		}
		if p.Flags&packet.FlagIP == 0 {
			skipped++
			continue
		}
		k := n & (lds.BlockSize - 1) // BCE
		s.of[k], s.at[k], s.port[k] = uint8(i), timeOf(p, egress, now), number
		n++
	}
	add(&s.skipped, skipped)
	return n
}

// classify notes the points of classes, -1 for a packet of none. Such a packet is left out where links have no points.
func (s *stage) classify(b *packet.Batch, pkts []packet.Packet, plan *plan, n int) (left int) {
	s.cache.follow(plan.classifier)
	unclassed, edgeBytes := 0, (plan.config.EdgeBits+7)/8
	for k, i := range s.of[:n] {
		p := &pkts[i]
		class := s.cache.class(p, b.Data(p), edgeBytes)
		if class >= 0 {
			class += int16(plan.links)
		} else {
			unclassed++
			if plan.links == 0 {
				continue
			}
		}
		s.of[left], s.at[left], s.port[left], s.class[left] = i, s.at[k], s.port[k], class
		left++
	}
	add(&s.unclassed, unclassed)
	return left
}

// note counts what is measured, and finds out which interval the bit assigns it to.
func (s *stage) note(b *packet.Batch, pkts []packet.Packet, n int) {
	timed, waited := 0, int64(0)
	for k, i := range s.of[:n] {
		arrival := pkts[i].Arrival
		if arrival != b.Now {
			timed++
		}
		waited += s.at[k] - arrival
	}
	add(&s.measured, n)
	add(&s.timed, timed)
	add(&s.waited, int(waited))
	if !s.module.bit {
		return
	}
	byBit, number := 0, s.cells.Slice().Number()
	for k, i := range s.of[:n] {
		s.behind[k] = 0
		if odd, marked := intervalBit(b.Data(&pkts[i])); marked {
			byBit++
			s.behind[k] = int8(min(max(s.module.intervalOf(s.at[k], odd)-number, -1), 1))
		}
	}
	add(&s.byBit, byBit)
}

// add adds the first n packets noted at points, and returns how many were refused for their timestamp.
func (s *stage) add(b *packet.Batch, pkts []packet.Packet, current *cells, points *[lds.BlockSize]int16, n int) (refused int) {
	block, plan := &s.block, current.plan
	if s.module.bit {
		for k, number := range points[:n] {
			block.Points[k] = current.of[number].of(s.behind[k])
		}
	} else {
		for k, number := range points[:n] {
			block.Points[k] = current.of[number].now
		}
	}
	for k, i := range s.of[:n] {
		p := &pkts[i]
		block.ID[k], block.Time[k], block.Bytes[k] = p.ID, s.at[k], p.WireLen
	}
	s.name(b, pkts, n)
	if plan.weights != nil || s.weighed {
		s.weigh(b, pkts, plan, n)
	}
	if plan.config.LostFlows > 0 {
		for k, i := range s.of[:n] {
			p := &pkts[i]
			block.Name[k] = flowName(p, b.Data(p))
		}
	}
	return bits.OnesCount64(block.Add(n))
}

// weigh gives packets the weights of a plan; all are 1 if it has none.
func (s *stage) weigh(b *packet.Batch, pkts []packet.Packet, plan *plan, n int) {
	if s.weighed = plan.weights != nil; !s.weighed {
		s.weighAlike()
		return
	}
	for k, i := range s.of[:n] {
		p := &pkts[i]
		s.block.Weight[k] = plan.weigh(p, b.Data(p))
	}
}

func (s *stage) weighAlike() {
	for k := range s.block.Weight {
		s.block.Weight[k] = 1
	}
}

// flowName is the name of an IPv4 packet's flow, else none.
func flowName(p *packet.Packet, data []byte) lds.FlowName {
	if p.Flags&packet.FlagIPv4 == 0 {
		return lds.FlowName{}
	}
	addresses, ports := p.KeyWords4(data)
	return lds.FlowName{Addresses: addresses, Ports: ports & (1<<40 - 1)}
}

// intervalOf is the number of the interval of a packet by its shim's bit and the time
// at which it arrives, or leaves: in the first half of an interval, the bit of the other
// parity is of the interval before, in the second half of the one behind.
func (m *Module) intervalOf(at int64, odd bool) int64 {
	number := at >> m.shift
	if odd == (number&1 != 0) {
		return number
	}
	return number - 1 + at>>(m.shift-1)&1*2
}

// add spares the counters that nothing happened to.
func add(c *atomic.Uint64, n int) {
	if n != 0 {
		c.Add(uint64(n))
	}
}

// weigh returns the weight of the first policy that matches.
func (l *plan) weigh(p *packet.Packet, data []byte) uint32 {
	var src, dst netip.Addr
	if k, ok := p.Key(data); ok {
		src, dst = k.SrcAddr(), k.DstAddr()
	}
	for i := range l.weights {
		w := &l.weights[i]
		if w.prefix.IsValid() && !w.prefix.Contains(src) && !w.prefix.Contains(dst) ||
			w.proto != 0 && w.proto != p.Proto ||
			w.port != 0 && w.port != p.SrcPort && w.port != p.DstPort {
			continue
		}
		return w.weight
	}
	return 1
}
