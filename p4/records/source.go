package records

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	sketches "github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/l3"
	points "github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/oblivious"
	"github.com/weirswitch/weir/stages/parse"
	"github.com/weirswitch/weir/stages/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/record"
)

// Config says what is read, and how.
type Config struct {
	// Switch is the configuration whose tables the target has.
	Switch *tables.Switch
	Target Target
	// Clock reads CLOCK_TAI in ns, which the target's clock follows.
	Clock func() int64
	// Settle is how long behind an edge of the clock, in ns, packets of before it may still be counted.
	Settle int64
	// Shortest keeps subepochs at 2^Shortest ns and longer. 0: as short as those of a Weir switch.
	Shortest uint8
	// Inline does all work in Collect, so that the same packets give the same records; otherwise Run does some.
	Inline bool
}

// Of a switch that runs by itself: packets stay in it for less, and all of a fragment is read in much less, so that a
// machine that is busy may hold the control plane up for half a second.
const (
	DefaultSettle   = 10_000_000
	DefaultShortest = 29
)

// Sizes of the program's registers (p4/include/telemetry.p4); a test compares.
const (
	fragmentColumnBits = 15
	ldsRowBits         = 2
	ldsColumnBits      = 10
)

// Source makes the records of a P4 switch; it is an export.Source.
type Source struct {
	source
	readers []reader
	chain   []pipeline.Named

	// What comes from the CPU port.
	copies  sync.Mutex // between Copy and Collect
	parser  *parser
	sampler *sampler     // nil: no stage samples
	digests *pint.Module // nil: none
	shims   bool         // they come in shims
	punts   *punts
	drops   map[string]uint64 // by reason
	ended   bool              // Collect was called for the last time
}

// Why something that came to the CPU port is in no record.
const (
	DropForeign   = "not_a_copy" // it does not begin with a header cpu_t
	DropUnclaimed = "no_stage"   // no stage of the configuration wants copies of its kind
	DropLate      = "late"       // it came when the last records had been made
)

// DropReasons are all of them.
func DropReasons() []string { return []string{DropForeign, DropLate, DropUnclaimed} }

// reader makes the records of one thing that is measured.
type reader interface {
	collect(now int64, last bool, emit record.Emit) error
}

// source is what readers share.
type source struct {
	target Target
	clock  func() int64
	settle int64
	late   atomic.Uint64 // slices that were read too late

	mu     sync.Mutex
	failed uint64 // readings, and records that were not what was counted
	err    error  // why, of the last
}

// New begins to measure. The tables of the configuration are loaded, and no other program writes the schedules
// of epochs.
func New(c Config) (*Source, error) {
	s := &Source{source: source{target: c.Target, clock: c.Clock, settle: c.Settle}, drops: map[string]uint64{}}
	env := pipeline.Env{ID: c.Switch.ID, Workers: 1, Hash: c.Switch.Hash, Ports: c.Switch.Ports}
	var err error
	if s.chain, err = stages.Build(c.Switch.Graph, c.Switch.Stages, env); err != nil {
		return nil, err
	}
	if c.Inline {
		stages.Inline(s.chain)
	}
	now := c.Clock()
	for _, n := range s.chain {
		switch m := n.Module.(type) {
		case *sketches.Module:
			err = s.addFragments(m, c, now)
		case *parse.Module:
			s.parser, err = newParser(m)
		case *oblivious.Module:
			s.sampler, err = newSampler(&s.source, m, now)
		case *pint.Module:
			s.digests = m
			plan, planErr := c.Switch.Stages[n.Name].(*pint.Config).SourcePlan()
			s.shims = planErr == nil && plan.Carrier == pintplan.CarrierShim
		case *points.Module:
			var d *side
			if d, err = newSide(&s.source, n.Name, m, now); err == nil {
				s.readers = append(s.readers, d)
			}
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("measure with %s: %w", n.Name, err), s.Close())
		}
	}
	routes, _ := c.Switch.Stages["l3"].(*l3.Config)
	s.punts = newPunts(routes)
	return s, nil
}

func (s *Source) addFragments(m *sketches.Module, c Config, now int64) error {
	if c.Shortest != 0 {
		if err := m.Shortest(c.Shortest); err != nil {
			return err
		}
	}
	for i := range m.Fragments() {
		f, err := newFragment(&s.source, m, i, now)
		if err != nil {
			return err
		}
		s.readers = append(s.readers, f)
	}
	return nil
}

// Collect implements export.Source: it emits what is complete. What cannot be read is tried again at the
// next call, and lost if it is too late then.
func (s *Source) Collect(now int64, last bool, emit record.Emit) {
	for _, r := range s.readers {
		s.fail(r.collect(now, last, emit))
	}
	s.copies.Lock()
	defer s.copies.Unlock()
	if s.sampler != nil {
		s.fail(s.sampler.collect(now, last, emit))
	}
	if s.digests != nil {
		s.digests.Collect(now, last, emit)
	}
	s.ended = last
}

// Listen implements export.Listener.
func (s *Source) Listen() {
	if s.digests != nil {
		s.digests.Listen()
	}
}

// Close gives the memory of packets back: neither Take nor Receive may be called behind it.
func (s *Source) Close() error {
	if s.parser == nil {
		return nil
	}
	return s.parser.close()
}

// Receive takes in what was read from the CPU port, beside Collect. What is no copy is counted.
func (s *Source) Receive(b []byte) {
	c, err := parseCopy(b)
	if err != nil {
		s.copies.Lock()
		defer s.copies.Unlock()
		s.drops[DropForeign]++
		return
	}
	s.Take(&c, c.Arrival)
}

// Take takes in a packet from the CPU port, beside Collect. now is the batch's clock when the switch admitted
// it, in ns of CLOCK_TAI: that of its arrival, but in tests.
func (s *Source) Take(c *Copy, now int64) {
	s.copies.Lock()
	defer s.copies.Unlock()
	if s.parser == nil {
		s.drops[DropUnclaimed]++
		return
	}
	if own := *c; s.shims && c.Kind == copyRecord && c.Hop > 1 { // hop 1 came without a shim
		own.Data = asArrived(c.Data)
		c = &own
	}
	s.fail(s.parser.parse(c, func(b *packet.Batch, p *packet.Packet) { s.take(c, now, b, p) }))
}

func (s *Source) take(c *Copy, now int64, b *packet.Batch, p *packet.Packet) {
	sampled, recorded := c.Kind&copySample != 0 && s.sampler != nil, c.Kind&copyRecord != 0 && s.digests != nil
	switch {
	case !sampled && !recorded && c.Kind&copyPunt == 0:
		s.drops[DropUnclaimed]++
	case s.ended && (sampled || recorded):
		s.drops[DropLate]++
		sampled, recorded = false, false
	}
	if sampled {
		if p.ID != c.ID {
			s.fail(fmt.Errorf("a sampled packet has the id %#x here, %#x in the switch", p.ID, c.ID))
		}
		s.sampler.insert(now>>s.sampler.bits, b, p)
	}
	if recorded {
		p.ID = c.ID // which is that of the packet as it arrived
		s.digests.Record(b, p, c.Plan, int(c.Hop), c.Digest)
	}
	if c.Kind&copyPunt != 0 {
		s.punts.count(b.Data(p), p)
	}
}

// Lose counts copies that were lost on the way here. They may have been anything: samples and digests report
// them.
func (s *Source) Lose(copies uint64) {
	s.copies.Lock()
	defer s.copies.Unlock()
	if s.sampler != nil {
		s.sampler.stray += copies
	}
	if s.digests != nil {
		s.digests.Lose(copies)
	}
}

// Punts are how many packets the switch handed to its control plane, by reason.
func (s *Source) Punts() map[string]uint64 {
	s.copies.Lock()
	defer s.copies.Unlock()
	return maps.Clone(s.punts.counts)
}

// Drops are how many frames from the CPU port are in no record, by reason.
func (s *Source) Drops() map[string]uint64 {
	s.copies.Lock()
	defer s.copies.Unlock()
	return maps.Clone(s.drops)
}

// Run does the stages' work beside that of Collect, until stop is closed: it finds the targets of sketches.
func (s *Source) Run(stop <-chan struct{}) {
	var running sync.WaitGroup
	for _, n := range s.chain {
		if m, ok := n.Module.(*sketches.Module); ok {
			running.Go(func() { m.Run(stop) })
		}
	}
	running.Wait()
}

// fail counts a fault, if there is one.
func (s *source) fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed++
	s.err = err
}

// Faults is how often a reading failed or was not what was counted, and why the last time.
func (s *Source) Faults() (n uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed, s.err
}

// Late is how many subepochs and intervals were read too late. Their packets are missed in their records.
func (s *Source) Late() uint64 { return s.late.Load() }

// write writes registers, in order.
func (s *source) write(cells []tables.Register) error {
	var errs []error
	for _, w := range cells {
		errs = append(errs, s.target.WriteRegister(w.Name, w.Index, w.Value))
	}
	return errors.Join(errs...)
}
