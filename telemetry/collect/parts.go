package collect

import (
	"context"
	"errors"
	"sync"
	"time"

	nats_js "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// parts are the partitions of a collector that shares them with others: which it has changes while it runs.
//
//	Read(with one more) ── the reader begins anew with it, where it is in the stream ──> its messages from there on
//	                    └─ a second reader, from the stream's beginning up to there ───> held, when that one is done, and the first one
//	                                                                                     has read all that the stream had meanwhile
type parts struct {
	changed chan struct{} // holds one token

	mu    sync.Mutex
	reads Mask // those that are to be read
	whole Mask // of these: the reader itself began with them
	// Of these: filled ones, of which all is applied that came before the reader had them; and those of which it has read what came until then or later.
	filled, reached Mask
	held            Mask // of these: all that the stream had of them is applied
}

// errPartitions ends a reader whose partitions have changed.
var errPartitions = errors.New("the partitions have changed")

// changed is errPartitions where that is why a context ended, else err.
func changed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errPartitions) {
		return cause
	}
	return err
}

// Read has the collector read these partitions, where it shares them with others; those that it had and are not among them it does
// not hold any more. What memory has of them stays there until it makes room.
func (c *Collector) Read(m Mask) {
	c.parts.mu.Lock()
	defer c.parts.mu.Unlock()
	if m == c.parts.reads {
		return
	}
	c.parts.reads = m
	c.parts.whole &= m
	c.parts.filled &= m
	c.parts.reached &= m
	c.parts.held &= m
	select {
	case c.parts.changed <- struct{}{}:
	default:
	}
}

// Holds are the partitions of which all is applied that the stream had when they were taken.
func (c *Collector) Holds() Mask {
	c.parts.mu.Lock()
	defer c.parts.mu.Unlock()
	return c.parts.held
}

// reach notes that a reader of these partitions has read all that the stream had when it began.
func (c *Collector) reach(m Mask) {
	c.parts.mu.Lock()
	defer c.parts.mu.Unlock()
	c.parts.reached |= m & c.parts.reads
	c.parts.hold()
}

// filled notes that all is applied that came before the reader had these partitions.
func (c *Collector) filled(m Mask) {
	c.parts.mu.Lock()
	defer c.parts.mu.Unlock()
	c.parts.filled |= m & c.parts.reads
	c.parts.hold()
}

// hold adds what is held since whole, filled or reached have changed. The caller has the lock.
func (p *parts) hold() { p.held |= (p.whole | p.filled) & p.reached }

// begin is which partitions a reader reads, and which of these were added that it does not read from the stream's beginning. give is
// called when they change.
func (c *Collector) begin(ctx context.Context, give context.CancelCauseFunc) (reads, added Mask) {
	c.parts.mu.Lock()
	defer c.parts.mu.Unlock()
	select {
	case <-c.parts.changed: // as is known from here on
	default:
	}
	reads = c.parts.reads
	added = reads &^ (c.parts.held | c.parts.whole | c.parts.filled)
	if c.next <= 1 {
		c.parts.whole |= added
		added = 0
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-c.parts.changed:
			give(errPartitions)
		}
	}()
	return reads, added
}

// fill applies the messages of added partitions that the stream has before a sequence number. It tries until ctx ends.
func (c *Collector) fill(ctx context.Context, stream nats_js.Stream, added Mask, before uint64) {
	began, next, since := time.Now(), uint64(1), time.Time{}
	if c.config.Begin != nil {
		// What is archived need not be in memory.
		if next, since = c.config.Begin(ctx, stream, added); !since.IsZero() {
			c.firstTime.Store(max(c.firstTime.Load(), since.UnixNano()))
		}
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := errMore
		for errors.Is(err, errMore) {
			err = c.fillFrom(ctx, stream, added, since, &next, before)
		}
		if err == nil {
			c.filled(added)
			c.config.Log.Info("partitions are taken", zap.Ints("partitions", added.List()), zap.Duration("took", time.Since(began).Round(time.Millisecond)))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		c.config.Log.Warn("reading partitions is interrupted", zap.Ints("partitions", added.List()), zap.Error(err))
	}
}

// errMore says that there may be more messages: what a server counts as pending while others come may be too few. A new consumer's
// count is exact.
var errMore = errors.New("there may be more messages")

// fillFrom applies messages from a sequence number on, which it moves, to the last one before another number; number 0 is the first message
// that came since a time.
func (c *Collector) fillFrom(ctx context.Context, stream nats_js.Stream, added Mask, since time.Time, next *uint64, before uint64) error {
	subjects := digestFilters(added)
	info, err := infoOf(ctx, stream)
	if err != nil {
		return err
	}
	all := c.readsAll(&info.State, subjects, *next)
	if all {
		subjects = []string{jetstream.FilterKind(record.PINT)}
	}
	config := nats_js.OrderedConsumerConfig{
		FilterSubjects: subjects, MaxResetAttempts: 1, InactiveThreshold: time.Minute,
		DeliverPolicy: nats_js.DeliverByStartSequencePolicy, OptStartSeq: *next,
	}
	switch {
	case *next == 0 && since.IsZero():
		config.OptStartSeq = 1
	case *next == 0:
		config.DeliverPolicy, config.OptStartSeq, config.OptStartTime = nats_js.DeliverByStartTimePolicy, 0, &since
	}
	call, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	consumer, err := stream.OrderedConsumer(call, config)
	if err != nil {
		return err
	}
	if consumer.CachedInfo().NumPending == 0 {
		return nil
	}
	messages, err := consumer.Messages(nats_js.PullMaxBytes(pullBytes), nats_js.PullHeartbeat(quiet))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(nats_js.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Stream >= before {
			return nil
		}
		if !all || added.wants(m.Subject()) {
			c.apply(m, meta, added)
		} else {
			c.passed.Add(1)
		}
		*next = meta.Sequence.Stream + 1
		if meta.NumPending == 0 {
			return errMore
		}
	}
}
