package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	nats_js "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// Config is what an archive works with.
type Config struct {
	collect.Archive
	// Owner is the collector's name: it distinguishes what collectors of one archive stage.
	Owner string
	// Connect connects to the servers of the stream. The archive closes what it returns.
	Connect    func(context.Context) (*nats.Conn, error)
	Partitions collect.Partitions
	// Keyed and Keyless are those of collect.Config: what the collector does not take is not archived.
	Keyed   bool
	Keyless map[uint32]bool
	// RollUp makes roll-ups; nil: none are made.
	RollUp RollUp
	Log    *zap.Logger
}

// Archive writes the records of a stream to a bucket, and reads them there. Run belongs to one goroutine; the rest may be called
// from anywhere.
type Archive struct {
	config Config
	bucket bucket
	index  *index
	listed chan struct{} // closed once the index has all that was there at the start

	refused  chan struct{} // closed once the bucket refused to be listed
	refusal  error         // why; valid then
	mu       sync.Mutex
	problems map[string]string // what does not work now, by whom
	damaged  map[string]bool   // names of the files that questions found damaged
	writers  map[record.Kind]*writer
	rolled   struct {
		there, due int
		bytes      int64
	}
	deleted []span // of files that are not there any more, merged, in order; where roll-ups are made
	fresh   []span // of these: what roll-ups do not know yet
	current int64  // when the stream was made that is read now, ns since 1970; 0: it is not known
	ownership

	counts counts
}

// counts are those of collect.ArchiveStatus.
type counts struct {
	records, bytes, files, fileBytes, skipped, lost, failures, deleted, gone, broken, read, rolled, rolledAgain, rollupsCut, rollupsDeleted atomic.Uint64
}

// The pauses between attempts.
const (
	firstPause, longestPause = 200 * time.Millisecond, 15 * time.Second
	// closeWait is how long the last files may take when a collector ends.
	closeWait = 10 * time.Second
	// ahead is by how much a record's slice may end behind its arrival, as in store.DefaultAhead.
	ahead = 2 * time.Minute
)

// Open opens the bucket that a configuration names. It does not wait for a server.
func Open(c Config) (*Archive, error) {
	b, err := openBucket(&c.Archive, c.Owner)
	if err != nil {
		return nil, err
	}
	a := newArchive(c, b)
	a.ownership = ownership{wanted: c.Partitions.Fixed(), changed: make(chan struct{}, 1)}
	return a, nil
}

func newArchive(c Config, b bucket) *Archive {
	return &Archive{
		config: c, bucket: b, index: newIndex(), listed: make(chan struct{}), refused: make(chan struct{}),
		problems: map[string]string{}, damaged: map[string]bool{}, writers: map[record.Kind]*writer{},
	}
}

// Close removes what is staged of an archive that does not run.
func (a *Archive) Close() error { return a.bucket.close() }

// Status returns how the archive is.
func (a *Archive) Status() collect.ArchiveStatus {
	s := collect.ArchiveStatus{
		Records: a.counts.records.Load(), RecordBytes: a.counts.bytes.Load(), WrittenFiles: a.counts.files.Load(), WrittenBytes: a.counts.fileBytes.Load(),
		Skipped: a.counts.skipped.Load(), Lost: a.counts.lost.Load(), Failures: a.counts.failures.Load(), Deleted: a.counts.deleted.Load(),
		Read: a.counts.read.Load(), Broken: a.counts.broken.Load(), Gone: a.counts.gone.Load(),
		RolledUp: a.counts.rolled.Load(), RolledUpAgain: a.counts.rolledAgain.Load(), RollupsCut: a.counts.rollupsCut.Load(), RollupsDeleted: a.counts.rollupsDeleted.Load(),
	}
	s.Files, s.Bytes = a.index.size()
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Problem, s.Damaged = a.problem(), len(a.damaged)
	s.Rollups, s.RollupBytes, s.RollupsDue = a.rolled.there, a.rolled.bytes, a.rolled.due
	for _, w := range a.writers {
		if at := w.waiting.Load(); at != 0 {
			s.Lag = max(s.Lag, time.Since(time.Unix(0, at)))
		}
	}
	return s
}

// problem is what does not work, and where. It needs the lock.
func (a *Archive) problem() string {
	var texts []string
	where := map[string][]string{}
	for _, who := range slices.Sorted(maps.Keys(a.problems)) {
		text := a.problems[who]
		if where[text] = append(where[text], who); len(where[text]) == 1 {
			texts = append(texts, text)
		}
	}
	for i, text := range texts {
		texts[i] = strings.Join(where[text], ", ") + ": " + text
	}
	return strings.Join(texts[:min(len(texts), 3)], "; ")
}

// await waits for the index to have what was there at the start, but not for a bucket that refuses.
func (a *Archive) await(ctx context.Context) error {
	select {
	case <-a.listed: // also if it refused before
		return nil
	default:
	}
	why := ""
	select {
	case <-a.listed:
		return nil
	case <-a.refused:
		why = a.refusal.Error()
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if why = cmp.Or(a.problems["index"], why); ctx.Err() == nil {
		return fmt.Errorf("the archive cannot be read: %s", why)
	}
	return fmt.Errorf("the archive does not answer: %s: %w", why, ctx.Err())
}

// awaitListing is await for as long as the bucket lists more names than before: it ends with an error if there was none for some time.
func (a *Archive) awaitListing(ctx context.Context, wait time.Duration) error {
	for {
		before := a.index.listed.Load()
		some, cancel := context.WithTimeout(ctx, wait)
		err := a.await(some)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || a.index.listed.Load() == before {
			return err
		}
		a.config.Log.Info("the archive is listed before the stream is read", zap.Uint64("names", a.index.listed.Load()))
	}
}

// report notes what became of an attempt; nil: it works.
func (a *Archive) report(who string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, had := a.problems[who]
	if err == nil {
		if delete(a.problems, who); had {
			a.config.Log.Info("the archive works again", zap.String("part", who))
		}
		return
	}
	a.counts.failures.Add(1)
	if a.problems[who] = err.Error(); before != err.Error() {
		a.config.Log.Warn("the archive has a problem: the stream keeps what is not archived", zap.String("part", who), zap.Error(err))
	}
}

// attempt calls f until it succeeds or ctx ends.
func (a *Archive) attempt(ctx context.Context, who string, f func(context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := f(ctx)
		if err == nil || ctx.Err() == nil {
			a.report(who, err)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// Run archives until ctx ends, and then what it has read by then.
func (a *Archive) Run(ctx context.Context) {
	err := a.attempt(ctx, "index", func(ctx context.Context) error {
		err := a.index.read(ctx, a.bucket, prefix)
		if isRefusal(err) && a.refusal == nil {
			a.refusal = err
			close(a.refused)
		}
		return err
	})
	if err != nil {
		return
	}
	close(a.listed)
	var beside sync.WaitGroup
	beside.Go(func() { a.retain(ctx) })
	if a.rollsUp() {
		beside.Go(func() { a.rollUp(ctx) })
	}
	defer beside.Wait()
	_ = a.attempt(ctx, "stream", func(ctx context.Context) error { return a.connected(ctx) })
}

// connected archives over one connection until something fails.
func (a *Archive) connected(ctx context.Context) error {
	nc, err := a.config.Connect(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := nats_js.New(nc)
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	stream, err := js.Stream(call, jetstream.Stream)
	if err != nil {
		return err
	}
	created := stream.CachedInfo().Created.UnixNano()
	a.mu.Lock()
	a.current = created
	a.mu.Unlock()
	a.report("stream", nil)
	for {
		if err := a.write(ctx, stream, created); !errors.Is(err, errOwners) {
			return err
		}
		if err := a.Refresh(ctx); err != nil {
			return err
		}
	}
}

// write archives the partitions that are the collector's, until these change or something fails.
func (a *Archive) write(ctx context.Context, stream nats_js.Stream, created int64) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	mask := a.take()
	defer a.release()
	failed := make(chan error, len(collect.Kinds))
	var writing sync.WaitGroup
	for _, k := range collect.Kinds {
		filters, owned := mask.Filters(k)
		if len(filters) == 0 {
			continue
		}
		w := &writer{a: a, kind: k, stream: stream, created: created, owned: owned, filters: filters}
		a.mu.Lock()
		a.writers[k] = w
		a.mu.Unlock()
		writing.Go(func() { failed <- w.run(ctx) })
	}
	var err error
	select {
	case err = <-failed:
	case <-a.changed:
		err = errOwners
	case <-ctx.Done():
		err = ctx.Err()
	}
	stop()
	writing.Wait()
	return err
}

// retain deletes what is too old or too much, and finds the files of other collectors.
func (a *Archive) retain(ctx context.Context) {
	tick := time.NewTicker(min(a.config.Flush, time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if a.config.Partitions.Set() {
			err := a.Refresh(ctx)
			if ctx.Err() != nil {
				return
			}
			a.report("index", err)
		}
		if a.Owns().Has(0) {
			err := a.expire(ctx)
			if ctx.Err() != nil {
				return
			}
			a.report("retention", err)
		}
	}
}

// expire deletes files until the rest is as retention has it.
func (a *Archive) expire(ctx context.Context) error {
	for _, f := range a.index.surplus(time.Now().Add(-a.config.Age).UnixNano(), a.config.Bytes) {
		if err := a.bucket.remove(ctx, f.Name()); err != nil {
			return fmt.Errorf("delete %s: %w", f.Name(), err)
		}
		a.forget(f)
		a.counts.deleted.Add(1)
	}
	return nil
}

// Begin says where in a stream a collector of some partitions begins that needs what is not archived, and what came lately (collect.Config).
func (a *Archive) Begin(ctx context.Context, stream nats_js.Stream, m collect.Mask) (sequence uint64, since time.Time) {
	if err := a.awaitListing(ctx, callWait); err != nil {
		a.config.Log.Warn("the stream is read from its beginning", zap.Error(err))
		return 0, time.Time{}
	}
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	if a.config.Partitions.Set() {
		if err := a.Refresh(ctx); err != nil { // more of the stream is read then
			a.config.Log.Warn("what other collectors archived is not known", zap.Error(err))
		}
	}
	created := stream.CachedInfo().Created.UnixNano()
	since = time.Now().Add(-a.config.Recent)
	for _, k := range collect.Kinds {
		for filter, cursor := range a.cursors(k, created, m) {
			first, at, err := firstBehind(ctx, stream, filter, cursor)
			if err != nil {
				a.config.Log.Warn("the stream is read from its beginning", zap.Error(err))
				return 0, time.Time{}
			}
			if first != 0 && at.Before(since) && (sequence == 0 || first < sequence) {
				sequence = first
			}
		}
	}
	return sequence, since
}

// firstBehind finds the first message under a subject behind a sequence number; 0: there is none. It needs the rights of
// one who reads the stream, and no more.
func firstBehind(ctx context.Context, stream nats_js.Stream, subject string, sequence uint64) (uint64, time.Time, error) {
	consumer, err := stream.CreateConsumer(ctx, nats_js.ConsumerConfig{
		FilterSubject: subject, DeliverPolicy: nats_js.DeliverByStartSequencePolicy, OptStartSeq: sequence + 1,
		AckPolicy: nats_js.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: callWait,
	})
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("look at the stream: %w", err)
	}
	defer func() { _ = stream.DeleteConsumer(ctx, consumer.CachedInfo().Name) }()
	if consumer.CachedInfo().NumPending == 0 {
		return 0, time.Time{}, nil
	}
	batch, err := consumer.Fetch(1, nats_js.FetchContext(ctx))
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("look at the stream: %w", err)
	}
	m, some := <-batch.Messages()
	if !some {
		if err := batch.Error(); err != nil {
			return 0, time.Time{}, fmt.Errorf("look at the stream: %w", err)
		}
		return 0, time.Time{}, nil
	}
	meta, err := m.Metadata()
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("look at the stream: %w", err)
	}
	return meta.Sequence.Stream, meta.Timestamp, nil
}

// cursors are up to where the subjects of a kind are archived, by whichever collector, those of some partitions: one subject where all are
// alike.
func (a *Archive) cursors(k record.Kind, created int64, m collect.Mask) map[string]uint64 {
	last := a.index.cursors(k, created)
	list := map[string]uint64{}
	switch {
	case k != record.PINT:
		list[jetstream.Filter(k, 0)] = last[0]
	case m == collect.AllPartitions && slices.Min(last[:]) == slices.Max(last[:]):
		list[jetstream.FilterKind(k)] = last[0]
	default:
		for _, p := range m.List() {
			list[jetstream.Filter(k, p)] = last[p]
		}
	}
	return list
}
