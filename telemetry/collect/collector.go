package collect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	nats_js "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/internal/printable"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// MaxPayload bounds a message, in bytes: what NATS advises against exceeding. A
// DiSketch record has about 128 KB; a switch counts what is larger as not sent.
const MaxPayload = 8 << 20

// Applier takes records, one at a time. body is not kept; arrived is when the servers took the record.
type Applier interface {
	Apply(h record.Header, body []byte, arrived time.Time) Outcome
}

// Config is what a collector works with.
type Config struct {
	// Connect connects to the servers. The collector closes what it returns.
	Connect func(context.Context) (*nats.Conn, error)
	// Stream is what the stream keeps.
	Stream     jetstream.StreamConfig
	Partitions Partitions
	// Keyed says that records are to be made under a network's key, but those of the switches of Keyless.
	Keyed   bool
	Keyless map[uint32]bool
	// Restrict says which switches have more than their share of a stream that is nearly full; nil: it is not reported.
	Restrict func(over map[uint32]bool)
	// Begin says with which message of a stream reading some partitions of digests, and all else, begins: that of a sequence number, or the first
	// one that came at a time or behind it, whichever is older; the zero values: with the first one. nil: it begins with the first one.
	Begin func(context.Context, nats_js.Stream, Mask) (sequence uint64, since time.Time)
	Log   *zap.Logger
}

// The pace of reading.
const (
	// pullBytes is what servers send ahead of what is applied; it must exceed a message.
	pullBytes = 2*MaxPayload + 64<<10
	// The pauses behind an attempt to read that failed.
	firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second
	// quiet is how long a server may say nothing at all, twice.
	quiet = 2 * time.Second
	// lookInterval is between two looks at the stream's size.
	lookInterval = time.Second
	callWait     = 4 * time.Second
)

// Collector reads the stream. Run belongs to one goroutine; the rest may be called
// from anywhere.
type Collector struct {
	config  Config
	applier Applier

	counts [256]counters // by kind, kindOther what has none
	ready  chan struct{}

	// Written by the goroutine of Run alone.
	next    uint64    // sequence number of the message to be read next
	created time.Time // of the stream that next is of
	target  uint64    // last message that was there at the start; reading it makes ready
	started bool

	parts parts
	far   uint64 // smaller in tests

	mu     sync.Mutex
	named  map[uint32]bool // switches without a key that the log has
	status Status
	nc     *nats.Conn // nil: there is no connection

	shares shares
	over   map[uint32]bool // owned by the goroutine that looks at the stream

	firstTime      atomic.Int64 // what came into the stream since then was read, ns since 1970; 0: nothing was
	lost, restarts atomic.Uint64
	passed         atomic.Uint64 // messages that were read and not asked for
	lastRead       atomic.Uint64 // sequence number
	lastTime       atomic.Int64  // when that one came into the stream, ns since 1970
	pending        atomic.Uint64
}

// Status is how far a collector is.
type Status struct {
	Connected bool   `json:"connected"`
	Ready     bool   `json:"ready"` // what was there at the start is read
	Problem   string `json:"problem,omitempty"`
	// Drift says what of the stream's configuration somebody has changed: it may lose records, or take none.
	Drift string `json:"drift,omitempty"`
	// Messages and Bytes are what the stream keeps, FirstSequence to LastSequence.
	Messages      uint64 `json:"messages"`
	Bytes         uint64 `json:"bytes"`
	FirstSequence uint64 `json:"first_sequence"`
	LastSequence  uint64 `json:"last_sequence"`
	// Read is the last message that was read, Target the last that was there at the start.
	Read   uint64 `json:"read"`
	Target uint64 `json:"target"`
	// Pending messages are in the stream and not read, of those that this collector reads; far from the stream's end of all.
	Pending uint64 `json:"pending"`
	// Passed messages were read far from the stream's end although they are of partitions that others read.
	Passed uint64 `json:"passed"`
	// Lag is how old the last message was when it was read, 0 if nothing is pending.
	Lag time.Duration `json:"lag_ns"`
	// Lost messages went from the stream before they were read: by its bounds, or with
	// a damaged file. It is known only where a collector reads all partitions.
	Lost uint64 `json:"lost"`
	// Restarts of reading, after a connection or a server went.
	Restarts uint64 `json:"restarts"`
}

// New returns a collector that has not begun.
func New(c Config, a Applier) *Collector {
	o := &Collector{config: c, applier: a, ready: make(chan struct{}), far: far}
	o.parts.changed = make(chan struct{}, 1)
	o.parts.reads = c.Partitions.Fixed()
	return o
}

// Ready is closed once everything is applied that was in the stream when the collector began.
func (c *Collector) Ready() <-chan struct{} { return c.ready }

// Counters returns the counts of a kind so far.
func (c *Collector) Counters(k record.Kind) Counters { return c.counts[k].read() }

// Status returns how far the collector is.
func (c *Collector) Status() Status {
	c.mu.Lock()
	s := c.status
	c.mu.Unlock()
	s.Read, s.Pending = c.lastRead.Load(), c.pending.Load()
	if s.Read >= s.LastSequence {
		s.Pending = 0 // servers count messages, too, that a damaged file has lost
	}
	s.Lost, s.Restarts, s.Passed = c.lost.Load(), c.restarts.Load(), c.passed.Load()
	if at := c.lastTime.Load(); s.Pending != 0 && at != 0 {
		s.Lag = time.Since(time.Unix(0, at))
	}
	select {
	case <-c.ready:
		s.Ready = true
	default:
	}
	return s
}

// Run reads until ctx ends. Whatever fails is logged and tried again: servers
// may be away for days.
func (c *Collector) Run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		before := c.lastRead.Load()
		err := c.connected(ctx)
		if ctx.Err() != nil {
			return
		}
		if c.lastRead.Load() != before {
			pause = firstPause
		}
		c.restarts.Add(1)
		c.change(func(s *Status) { s.Connected, s.Problem = false, err.Error() })
		c.config.Log.Warn("reading the stream is interrupted", zap.Error(err), zap.Duration("again in", pause))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

func (c *Collector) use(nc *nats.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nc = nc
}

// Send sends what a switch should know, over the connection by which records come. The servers do not keep it:
// a switch that is away does not get it.
func (c *Collector) Send(subject string, data []byte) error {
	c.mu.Lock()
	nc := c.nc
	c.mu.Unlock()
	if nc == nil {
		return jetstream.ErrDisconnected
	}
	return nc.Publish(subject, data)
}

func (c *Collector) change(f func(*Status)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.status)
}

// connected reads over one connection until it fails.
func (c *Collector) connected(ctx context.Context) error {
	nc, err := c.config.Connect(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	c.use(nc)
	defer c.use(nil)
	js, err := nats_js.New(nc)
	if err != nil {
		return err
	}
	stream, err := c.stream(ctx, js)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() { c.look(ctx, js, stream) })
	defer looking.Wait()
	defer cancel()
	for {
		if err := c.read(ctx, stream); !errors.Is(err, errPartitions) && !errors.Is(err, errNear) && !errors.Is(err, errMore) {
			return err
		}
	}
}

// stream makes sure that the stream is there, and finds out whether it is the one
// of before.
func (c *Collector) stream(ctx context.Context, js nats_js.JetStream) (nats_js.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	stream, err := jetstream.EnsureStream(ctx, js, c.config.Stream)
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return nil, err
	}
	c.note(info)
	if !info.Created.Equal(c.created) || info.State.LastSeq+1 < c.next {
		// Another stream, whose numbers are unrelated: records are applied once, whichever stream
		// sends them again.
		if c.started {
			c.config.Log.Warn("the stream was made anew: it is read from its beginning")
		}
		c.created, c.next = info.Created, 0
		c.shares.reset()
	}
	if !c.started {
		c.started, c.target = true, info.State.LastSeq
		c.change(func(s *Status) { s.Target = c.target })
		c.config.Log.Info("reading what the stream has", zap.Uint64("messages", info.State.Msgs), zap.Uint64("bytes", info.State.Bytes))
	}
	return stream, nil
}

func (c *Collector) note(info *nats_js.StreamInfo) {
	c.change(func(s *Status) {
		s.Connected, s.Problem = true, ""
		s.Messages, s.Bytes = info.State.Msgs, info.State.Bytes
		s.FirstSequence, s.LastSequence = info.State.FirstSeq, info.State.LastSeq
		if drift := strings.Join(c.config.Stream.Drift(info.Config), "; "); drift != s.Drift {
			if s.Drift = drift; drift != "" {
				c.config.Log.Error("the stream is not as configured", zap.String("drift", drift))
			}
		}
	})
	c.shares.dropBefore(info.State.FirstSeq)
}

// restrict finds the switches that have too much of the stream.
func (c *Collector) restrict(info *nats_js.StreamInfo) {
	if c.config.Restrict == nil || c.config.Stream.Bytes <= 0 {
		return
	}
	over := map[uint32]bool{}
	if float64(info.State.Bytes) > nearlyFull*float64(c.config.Stream.Bytes) || len(c.over) > 0 {
		over = c.shares.over(c.config.Stream.Bytes, c.over)
	}
	if !maps.Equal(over, c.over) {
		c.over = over
		c.config.Restrict(over)
	}
}

// look keeps an eye on the stream's size while another goroutine reads it.
func (c *Collector) look(ctx context.Context, js nats_js.JetStream, stream nats_js.Stream) {
	repaired := false
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		info, err := stream.Info(ctx)
		if err != nil {
			continue
		}
		c.note(info)
		c.restrict(info)
		if repaired && len(c.config.Stream.Drift(info.Config)) == 0 {
			c.config.Log.Warn("the stream is as configured again")
			repaired = false
		}
		if drift := c.config.Stream.Drift(info.Config); len(drift) != 0 && !info.Config.Sealed && !repaired {
			repaired = true // once: others may have another opinion of it
			call, cancel := context.WithTimeout(ctx, callWait)
			_, _ = jetstream.EnsureStream(call, js, c.config.Stream)
			cancel()
		}
	}
}

// read applies messages in the stream's order until it fails.
func (c *Collector) read(ctx context.Context, stream nats_js.Stream) error {
	ctx, give := context.WithCancelCause(ctx)
	defer give(nil)
	reads, added := c.begin(ctx, give)
	var filling sync.WaitGroup
	defer filling.Wait()
	defer give(nil)
	if before := c.next; added != 0 && before > 1 {
		filling.Go(func() { c.fill(ctx, stream, added, before) })
	}
	config := nats_js.OrderedConsumerConfig{FilterSubjects: filters(reads), MaxResetAttempts: 1, InactiveThreshold: time.Minute}
	begin, since := c.next, time.Time{}
	if c.next == 0 && c.config.Begin != nil {
		begin, since = c.config.Begin(ctx, stream, reads)
	}
	info, err := infoOf(ctx, stream)
	if err != nil {
		return fmt.Errorf("read the stream: %w", changed(ctx, err))
	}
	if !info.Created.Equal(c.created) || info.State.LastSeq+1 < c.next {
		return errors.New("read the stream: it is another one")
	}
	last, all := info.State.LastSeq, c.readsAll(&info.State, config.FilterSubjects, begin)
	if all {
		config.FilterSubjects = []string{jetstream.Subjects}
	}
	switch {
	case begin > 0: // also 1: a stream of which nothing is archived
		config.DeliverPolicy, config.OptStartSeq = nats_js.DeliverByStartSequencePolicy, begin
	case !since.IsZero():
		config.DeliverPolicy, config.OptStartTime = nats_js.DeliverByStartTimePolicy, &since
	}
	call, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	consumer, err := stream.OrderedConsumer(call, config)
	if err != nil {
		return fmt.Errorf("make a consumer: %w", changed(ctx, err))
	}
	pending := consumer.CachedInfo().NumPending
	c.pending.Store(pending)
	reached := pending == 0
	if reached {
		c.beReady()
		c.reach(reads)
	}
	messages, err := consumer.Messages(nats_js.PullMaxBytes(pullBytes), nats_js.PullHeartbeat(quiet))
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(nats_js.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read the stream: %w", changed(ctx, err))
		}
		if err := c.take(m, reads, all); err != nil {
			return err
		}
		if !reached {
			if reached = c.next > last; reached {
				c.reach(reads)
			} else if c.pending.Load() == 0 {
				return errMore
			}
		}
		if all && c.next+c.far/farFromNear > last {
			return errNear
		}
	}
}

// errNear ends a reader of all subjects that is near the stream's end.
var errNear = errors.New("the stream's end is near")

const (
	// far is how many messages a collector has to read at least for it to read all subjects, and farFromNear how many times as many as there are left
	// when it asks for its own again.
	far, farFromNear = 10_000, 10
	// smallMessages are as short as that, in bytes, on average, and severalFilters are as many.
	smallMessages, severalFilters = 2 << 10, 4
)

// infoOf asks what the stream has now.
func infoOf(ctx context.Context, stream nats_js.Stream) (*nats_js.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	return stream.Info(ctx)
}

// readsAll reports whether messages that are not asked for are read, too, and passed over here. For the next message of several filters servers look at all
// subjects of a file of messages, of which there are nearly as many as messages (nats-server, server/filestore.go, firstMatchingMulti): where messages are
// small, some 0.3 ms for each (a perf profile of a live run of 1,000 switches), while a collector applies one in less than a tenth of that.
func (c *Collector) readsAll(s *nats_js.StreamState, filters []string, begin uint64) bool {
	left := s.Msgs
	if begin > s.FirstSeq {
		left = s.LastSeq - min(begin, s.LastSeq)
	}
	return len(filters) >= severalFilters && left > c.far && s.Bytes < smallMessages*s.Msgs
}

// take takes one message, and applies it; of all subjects, if it is of what is to be read.
func (c *Collector) take(m nats_js.Msg, reads Mask, all bool) error {
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	seq := meta.Sequence.Stream
	if seq < c.next {
		return errors.New("read the stream: a message came again")
	}
	if !c.config.Partitions.Set() && c.next != 0 {
		c.lost.Add(seq - c.next)
	}
	if !all || reads.wants(m.Subject()) {
		c.apply(m, meta, reads)
		c.shares.add(seq, m.Subject(), len(m.Data()))
	} else {
		c.passed.Add(1)
	}
	c.next = seq + 1
	c.firstTime.CompareAndSwap(0, meta.Timestamp.UnixNano())
	c.lastTime.Store(meta.Timestamp.UnixNano())
	c.lastRead.Store(seq)
	c.pending.Store(meta.NumPending)
	if seq >= c.target || meta.NumPending == 0 {
		c.beReady()
	}
	return nil
}

// apply applies what one message says.
func (c *Collector) apply(m nats_js.Msg, meta *nats_js.MsgMetadata, reads Mask) {
	data := m.Data()
	h, body, kind, o := check(m.Subject(), data, reads)
	if o == Applied && h.Hash.KeyID() == 0 && !c.config.Keyless[h.Switch] {
		c.keyless(&h)
		if c.config.Keyed {
			o = Unkeyed
		}
	}
	if o == Applied {
		o = c.applier.Apply(h, body, meta.Timestamp)
	}
	c.counts[kind].count(len(data), o)
}

// maxNamed bounds the switches that the log names.
const maxNamed = 64

// keyless names a switch whose records are not made under a network's key, once.
func (c *Collector) keyless(h *record.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.named[h.Switch] || len(c.named) >= maxNamed {
		return
	}
	if c.named == nil {
		c.named = map[uint32]bool{}
	}
	c.named[h.Switch] = true
	text := "a switch measures without a network key: hosts can steer what is measured of their packets: set switch.key and collect.keys"
	if c.config.Keyed {
		text = "a switch measures without a network key, and its records are not taken: set switch.key, or name it in collect.keyless"
	}
	c.config.Log.Warn(text, zap.Uint32("switch", h.Switch), zap.String("name", printable.Text(h.Name)), zap.Stringer("hash", h.Hash))
}

// Since is from when on all messages were read, by their arrival in the stream: what came before is elsewhere. The zero time: none was read.
func (c *Collector) Since() time.Time {
	if at := c.firstTime.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

func (c *Collector) beReady() {
	select {
	case <-c.ready:
	default:
		close(c.ready)
		c.config.Log.Info("what the stream had is read", zap.Uint64("last", c.lastRead.Load()))
	}
}
