package acl

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// reasonDenied is the drop reason of packets that a rule, or the default,
// denies.
var reasonDenied = packet.Register("acl_denied", "a rule of the access control list denies the packet")

// Module is the access control of one switch. Its methods may be called from
// anywhere.
type Module struct {
	env pipeline.Env

	rules atomic.Pointer[classifier] // control swaps it
	// asked is raised to ask the workers for a copy of their counts.
	asked atomic.Uint64

	mu      sync.Mutex // guards what follows
	config  Config
	retired []*classifier // whose counts are not in folded yet, for as long as a worker may use them
	folded  map[string]hit
	cleared map[string]hit // the counts at the last Clear
	stages  []*stage
}

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	m := &Module{env: env, folded: map[string]hit{}}
	set, err := c.compile(pipeline.PortNames(env.Ports))
	if err != nil {
		return nil, err
	}
	m.config = c
	m.rules.Store(newClassifier(set, len(env.Ports), max(env.Workers, 1)))
	return m, nil
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RolePolicy }

// TakesLarge implements pipeline.LargeTaker: rules look at headers, and count it once.
func (m *Module) TakesLarge() bool { return true }

// Needs implements pipeline.Module: the parser's flags and offsets suffice.
func (m *Module) Needs() packet.Needs { return 0 }

// Stage implements pipeline.Module.
func (m *Module) Stage(w int) pipeline.Stage {
	s := &stage{module: m, worker: w}
	s.adopt(m.rules.Load())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stages = append(m.stages, s)
	return s
}

// Prepare compiles rules without putting them into force, which commit does.
func (m *Module) Prepare(c Config, ports []pipeline.Port) (commit func(), err error) {
	set, err := c.compile(pipeline.PortNames(ports))
	if err != nil {
		return nil, err
	}
	next := newClassifier(set, len(ports), max(m.env.Workers, 1))
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.config, m.env.Ports = c, ports
		m.retired = append(m.retired, m.rules.Swap(next))
		m.collect()
	}, nil
}

// Config returns the configuration in force.
func (m *Module) Config() Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config
}

// stage is one worker's access control. Everything but what is marked shared is
// the worker's alone.
type stage struct {
	module  *Module
	worker  int
	rules   *classifier
	hits    []hit
	cache   cache  // empty if the rules have none
	looks          // of the present batch
	touched uint64 // see touch

	asked, known uint32 // packets that the cache was asked about, and that it knew, of late
	batches      uint32
	futile       bool // it knew few

	// shared: the worker publishes, control reads.
	answer atomic.Pointer[answer]
	began  atomic.Bool
	ended  atomic.Bool
}

// answer is a copy of a worker's counts. It is immutable.
type answer struct {
	asked uint64      // the question that it answers
	of    *classifier // whose counts they are
	hits  []hit
}

// adopt goes over to new rules, and to a cache that is empty.
func (s *stage) adopt(c *classifier) {
	s.rules, s.hits, s.cache = c, c.hits[s.worker], nil
	s.asked, s.known, s.futile = 0, 0, false
	if c.caches != nil {
		s.cache = c.caches[s.worker]
	}
}

// Process implements pipeline.Stage.
func (s *stage) Process(b *packet.Batch) {
	c := s.module.rules.Load()
	if c != s.rules {
		s.adopt(c)
	}
	for first := 0; first < len(b.Pkts); first += packet.BatchSize {
		pkts := b.Pkts[first:min(first+packet.BatchSize, len(b.Pkts))]
		s.classify(b, c, pkts)
		s.decide(b, c, pkts)
	}
}

// classify finds the classes of packets, and where the cache would have their verdicts.
func (s *stage) classify(b *packet.Batch, c *classifier, pkts []packet.Packet) {
	n := 0
	for i := range pkts {
		p := &pkts[i]
		if p.Reason != 0 {
			continue
		}
		data := b.Data(p)
		if c.looksIn && p.Flags.Has(packet.FlagFragment) && tiny(p, data) {
			b.Drop(p, reasonTinyFragment)
			continue
		}
		s.fields[i&maxLook] = fieldsOf(p, data)
		s.lives[n&maxLook] = uint8(i)
		n++
	}
	lives := s.lives[:n]
	if len(c.shortlists) != 0 {
		lives = s.look(c, lives)
	}
	c.classes(&s.looks, lives, c.active)
	if len(s.cache) == 0 || len(c.shortlists) != 0 {
		return
	}
	for _, i := range lives {
		s.keys[i&maxLook] = c.key(&s.tuples[i&maxLook])
		s.sets[i&maxLook] = s.cache.index(s.keys[i&maxLook])
	}
	s.touched += s.touch(lives)
}

// touch loads the cache's lines of packets. So short a loop has tens of loads in flight. What is
// loaded is returned, mixed, for the loads to be of use.
func (s *stage) touch(lives []uint8) (mix uint64) {
	for _, i := range lives {
		mix ^= s.cache[int(s.sets[i&maxLook])&(len(s.cache)-1)][0].key.low
	}
	return mix
}

// decide drops the packets that are denied, and counts all.
func (s *stage) decide(b *packet.Batch, c *classifier, pkts []packet.Packet) {
	hits := s.hits
	for i := range pkts {
		p := &pkts[i]
		if p.Reason != 0 {
			continue
		}
		v := s.decision(c, i, uint64(p.WireLen))
		h := &hits[v]
		h.packets++
		h.bytes += uint64(p.WireLen)
		if c.denies[v] {
			b.Drop(p, c.reason(v, &s.fields[i]))
		}
	}
}

// reason says why a packet is denied.
func (c *classifier) reason(rule uint32, f *fields) packet.Reason {
	if f.unknown != 0 && rule < uint32(len(c.rules)) && !c.rules[rule].matches(f) {
		return reasonUnparsed
	}
	return reasonDenied
}

// decision finds the rule that decides about packet i, and counts for the rules that only count.
func (s *stage) decision(c *classifier, i int, bytes uint64) uint32 {
	if len(c.shortlists) == 0 || !s.short[i] {
		return s.verdict(c, i, bytes)
	}
	if c.counting {
		s.countListed(c, i, bytes)
	}
	return s.decides[i]
}

// verdict is decision by the rows of all fields, or by the cache.
func (s *stage) verdict(c *classifier, i int, bytes uint64) uint32 {
	f, t := &s.fields[i], &s.tuples[i]
	var set *cacheSet
	if len(s.cache) != 0 && len(c.shortlists) == 0 {
		set = &s.cache[int(s.sets[i])&(len(s.cache)-1)]
		if v := set.lookup(s.keys[i]); v != nil {
			s.count(v, bytes)
			return v.rule
		}
	}
	v, next, pure := c.find(f, t, 0)
	if pure && next == 0 && set != nil {
		set.insert(s.keys[i], v)
	}
	s.count(&v, bytes)
	for next != 0 {
		v, next, _ = c.find(f, t, next)
		s.count(&v, bytes)
	}
	return v.rule
}

func (s *stage) count(v *verdict, bytes uint64) {
	for _, r := range v.counts {
		if r == noRule {
			return
		}
		s.hits[r].packets++
		s.hits[r].bytes += bytes
	}
}

// period is how often a worker looks whether its counts are asked for, in ns.
const period = 1 << 26

// Tick implements pipeline.Ticker.
func (s *stage) Tick(now int64) (next int64) {
	s.began.Store(true)
	if c := s.module.rules.Load(); c != s.rules {
		s.adopt(c) // an idle worker must not keep old rules alive
	}
	asked := s.module.asked.Load()
	if last := s.answer.Load(); asked != 0 && (last == nil || last.asked != asked) {
		s.reply(asked)
	}
	return now + period
}

// Finish implements pipeline.Ticker.
func (s *stage) Finish(int64) {
	s.reply(s.module.asked.Load())
	s.ended.Store(true)
}

// reply allocates, but only when control asks.
func (s *stage) reply(asked uint64) {
	s.answer.Store(&answer{asked, s.rules, slices.Clone(s.hits)})
}

// patience bounds how long a reader of the counts waits for the workers.
const patience = 2 * time.Second
