package set

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/store"
)

// Config is what a member works with.
type Config struct {
	// Name is the member's, which no other one of the set has.
	Name string
	// Connect connects to the servers. The member closes what it returns.
	Connect func(context.Context) (*nats.Conn, error)
	// Reader reads the partitions. A member that shares them says which.
	Reader interface {
		Holds() collect.Mask
		Read(collect.Mask)
	}
	Share bool
	// Archive archives the partitions that the members' plan gives to the member; nil: there is none.
	Archive interface {
		Own(collect.Mask)
		Owns() collect.Mask
	}
	// KeptFrom is from when on View has all records, in ns of CLOCK_TAI: what is older may be in the archive alone.
	KeptFrom func() int64
	// View is what the member has now; it does not change. It may be of some moments ago, but not of before the last call of Renew.
	View  func() *store.Store
	Renew func()
	// Workers is how many requests of others are answered at a time.
	Workers int
	Log     *zap.Logger
}

// Member is a collector of a set. Run belongs to one goroutine, the rest may be called from anywhere.
type Member struct {
	config Config
	boot   uint64 // of this process
	serves atomic.Uint32

	mu      sync.Mutex
	nc      *nats.Conn // nil: there is no connection
	members []string

	leave, left chan struct{}
	counters    counters
}

// counters count what passes between members.
type counters struct {
	answered, invalid, moved, failed atomic.Uint64 // requests of others
	sent                             atomic.Uint64 // bytes
	asked, refused, unreached        atomic.Uint64 // own requests, and partitions that could not be had
	received                         atomic.Uint64 // bytes
	strange                          atomic.Uint64 // messages of members that are none
	dropped                          atomic.Uint64 // requests that came while too many waited
}

// New returns a member that has not begun.
func New(c Config) *Member {
	return &Member{config: c, boot: uint64(time.Now().UnixNano()), leave: make(chan struct{}), left: make(chan struct{})}
}

// Counters returns what passed so far.
func (m *Member) Counters() collect.SetCounters {
	c := &m.counters
	m.mu.Lock()
	members := len(m.members)
	m.mu.Unlock()
	return collect.SetCounters{
		Answered: c.answered.Load(), Invalid: c.invalid.Load(), Moved: c.moved.Load(), Failed: c.failed.Load(), Dropped: c.dropped.Load(), SentBytes: c.sent.Load(),
		Asked: c.asked.Load(), Refused: c.refused.Load(), Unreached: c.unreached.Load(), ReceivedBytes: c.received.Load(),
		Strange: c.strange.Load(), Held: len(m.Holds().List()), Members: members,
	}
}

// Holds are the partitions for which the member answers.
func (m *Member) Holds() collect.Mask { return collect.Mask(m.serves.Load()) }

// The pace of a member.
const (
	// lookInterval is between two looks at what the reader holds.
	lookInterval = 100 * time.Millisecond
	connectPause = time.Second
	// waiting requests of others, of all partitions.
	maxWaiting = 256
	queueName  = "holders"
	// flushWait bounds the end of a connection that does not answer.
	flushWait = 300 * time.Millisecond
)

// Run serves the partitions that the reader holds until ctx ends.
func (m *Member) Run(ctx context.Context) {
	defer close(m.left)
	for ctx.Err() == nil {
		nc, err := m.config.Connect(ctx)
		if err == nil {
			m.use(nc)
			m.serve(ctx, nc)
			m.use(nil)
			nc.Close()
			return
		}
		m.config.Log.Warn("no connection to the other collectors of the set", zap.Error(err))
		select {
		case <-ctx.Done():
		case <-time.After(connectPause):
		}
	}
}

func (m *Member) use(nc *nats.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nc = nc
}

func (m *Member) conn() *nats.Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nc
}

// serve answers requests for the partitions that are held, whichever these are.
func (m *Member) serve(ctx context.Context, nc *nats.Conn) {
	requests, end := make(chan *nats.Msg, maxWaiting), make(chan struct{})
	var workers sync.WaitGroup
	for range max(m.config.Workers, 1) {
		workers.Go(func() {
			for {
				select {
				case r := <-requests:
					m.answer(r)
					continue
				case <-end:
				}
				select { // what came before the end
				case r := <-requests:
					m.answer(r)
				default:
					return
				}
			}
		})
	}
	subscriptions := map[int]*subscription{}
	var plan *plan
	if m.config.Share {
		plan = m.share(nc)
	}
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		if plan != nil {
			plan.step(time.Now())
		}
		m.subscribe(nc, subscriptions, m.config.Reader.Holds(), requests)
		select {
		case <-ctx.Done():
			m.subscribe(nc, subscriptions, 0, requests)
			_ = nc.FlushTimeout(flushWait) // all that servers sent to these subscriptions is here then
			close(end)
			workers.Wait()
			_ = nc.FlushTimeout(flushWait)
			return
		case <-tick.C:
		}
	}
}

// subscription is to the requests for a partition. What comes while too many wait is dropped.
type subscription struct {
	*nats.Subscription
	dropped int // that were counted
}

// subscribe listens to the subjects of what is held, and to no others.
func (m *Member) subscribe(nc *nats.Conn, to map[int]*subscription, holds collect.Mask, requests chan *nats.Msg) {
	for partition, s := range to {
		if n, err := s.Dropped(); err == nil {
			m.counters.dropped.Add(uint64(n - s.dropped))
			s.dropped = n
		}
		if !holds.Has(partition) {
			m.serves.And(^uint32(collect.Mask(0).With(partition)))
			_ = s.Drain() // what is under way is answered; a connection that is closed has nothing
			delete(to, partition)
		}
	}
	renewed := false
	for _, partition := range holds.List() {
		if to[partition] != nil {
			continue
		}
		if !renewed { // the view has all of them then
			renewed = true
			m.config.Renew()
		}
		s, err := nc.ChanQueueSubscribe(jetstream.Digests(partition), queueName, requests)
		if err != nil {
			m.config.Log.Warn("digests of a partition are not served", zap.Int("partition", partition), zap.Error(err))
			continue
		}
		to[partition] = &subscription{Subscription: s}
		m.serves.Or(uint32(collect.Mask(0).With(partition)))
	}
}

// answer answers one request.
func (m *Member) answer(r *nats.Msg) {
	partition, ok := partitionOf(r.Subject)
	h := head{Version: version, Collector: m.config.Name}
	of, err := parseRequest(r.Data)
	if err != nil || !ok {
		m.counters.invalid.Add(1)
		h.Refused = refusedInvalid
		m.respond(r, &h, nil)
		return
	}
	if !m.Holds().Has(partition) {
		m.counters.moved.Add(1)
		h.Refused = refusedMoved
		m.respond(r, &h, nil)
		return
	}
	q := store.PartQuery{Partition: partition, Window: of.Window, After: of.After, Most: pageBytes, Only: of.Only}
	if of.Flows != nil {
		if q.Has, err = of.Flows.Has(); err != nil {
			m.counters.invalid.Add(1)
			h.Refused = refusedInvalid
			m.respond(r, &h, nil)
			return
		}
	}
	view := m.config.View()
	var page []byte
	if of.Batches {
		page, h.After, h.More = view.AppendPart(nil, q)
	}
	h.KeptFrom = m.config.KeptFrom() // read behind the view, which may make room
	if !of.After.Set {
		h.Part = view.Part(partition, of.Window, of.Sinks)
	}
	if m.respond(r, &h, page) {
		m.counters.answered.Add(1)
	}
}

// respond sends an answer; false: it did not.
func (m *Member) respond(r *nats.Msg, h *head, page []byte) bool {
	b, err := appendHead(make([]byte, 0, 1<<10+len(page)), h)
	if err == nil && len(b)+len(page) > collect.MaxPayload {
		if b, err = appendHead(b[:0], &head{Version: version, Collector: m.config.Name, Refused: refusedLarge}); err == nil {
			page = nil
		}
	}
	if err == nil {
		err = r.Respond(append(b, page...))
	}
	if err != nil {
		m.counters.failed.Add(1)
		return false
	}
	m.counters.sent.Add(uint64(len(b) + len(page)))
	return true
}
