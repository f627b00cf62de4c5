package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	nats_js "github.com/nats-io/nats.go/jetstream"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/record"
)

// writer archives the records of a kind. It has one goroutine.
type writer struct {
	a       *Archive
	kind    record.Kind
	stream  nats_js.Stream
	created int64 // of the stream
	owned   collect.Mask
	filters []string

	// Of each partition, and of the late records of each class, what is archived.
	archived [record.Partitions]uint64
	late     [lateClasses][record.Partitions]uint64

	files       [lateClasses]*staged // that are put together: those of late records, and the others; nil: there are none
	first, last uint64               // sequence numbers of all that is staged
	arrived     int64                // when the last of it came into the stream, ns since 1970
	due         time.Time
	waiting     atomic.Int64 // when the first of it came; 0: nothing is staged
}

// The pace of reading.
const (
	// pullBytes is what servers send ahead of what is written; it must exceed a message.
	pullBytes = collect.MaxPayload + 64<<10
	quiet     = 2 * time.Second
)

// run archives until something fails or ctx ends, and then puts what it has.
func (w *writer) run(ctx context.Context) error {
	defer w.drop()
	cursor := w.a.index.cursor(w.kind, w.created, uint16(w.owned))
	if first := w.stream.CachedInfo().State.FirstSeq; cursor != 0 && first > cursor+1 {
		w.a.counts.lost.Add(first - cursor - 1)
	}
	// Where partitions changed hands, some are archived further than others.
	w.archived, w.late = w.a.index.cursors(w.kind, w.created), w.a.index.lateCursors(w.kind, w.created)
	call, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	consumer, err := w.stream.OrderedConsumer(call, nats_js.OrderedConsumerConfig{
		FilterSubjects: w.filters, MaxResetAttempts: 1, InactiveThreshold: time.Minute,
		DeliverPolicy: nats_js.DeliverByStartSequencePolicy, OptStartSeq: cursor + 1,
	})
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	messages, err := consumer.Messages(nats_js.PullMaxBytes(pullBytes), nats_js.PullHeartbeat(quiet))
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	defer messages.Stop()
	for {
		m, err := w.next(ctx, messages)
		switch {
		case ctx.Err() != nil:
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
			defer cancel()
			return errors.Join(ctx.Err(), w.put(last))
		case errors.Is(err, errDue):
			if err := w.put(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return fmt.Errorf("read the stream: %w", err)
		}
		if err := w.take(ctx, m); err != nil {
			return err
		}
	}
}

// errDue says that what is staged has gathered for long enough.
var errDue = errors.New("the file is due")

// next waits for a message until what is staged is due.
func (w *writer) next(ctx context.Context, messages nats_js.MessagesContext) (nats_js.Msg, error) {
	if w.waiting.Load() == 0 {
		return messages.Next(nats_js.NextContext(ctx))
	}
	wait, cancel := context.WithDeadline(ctx, w.due)
	defer cancel()
	m, err := messages.Next(nats_js.NextContext(wait))
	if err != nil && ctx.Err() == nil && !time.Now().Before(w.due) {
		err = errDue
	}
	return m, err
}

// maxSpan bounds a slice, as in the store: what claims a longer one is in no answer.
const maxSpan = 1 << 43

// take stages one message.
func (w *writer) take(ctx context.Context, m nats_js.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	h, o := collect.Check(m.Subject(), m.Data(), w.owned)
	// The leap seconds are those of now, as in what the store makes of an arrival.
	if end := h.Start + h.Span; o == collect.Applied && (h.Span <= 0 || h.Span > maxSpan || end < h.Start || end > meta.Timestamp.UnixNano()+clock.UTCOffset()+int64(ahead)) {
		o = collect.Future
	}
	if o == collect.Applied && w.a.config.Keyed && h.Hash.KeyID() == 0 && !w.a.config.Keyless[h.Switch] {
		o = collect.Unkeyed
	}
	if o != collect.Applied {
		w.a.counts.skipped.Add(1)
		return nil
	}
	partition := 0
	if w.kind == record.PINT {
		partition = int(h.Instance)
	}
	sequence, arrived := meta.Sequence.Stream, meta.Timestamp.UnixNano()
	class := lateClass(h.Start, arrived)
	if sequence <= w.archived[partition] {
		return nil
	}
	if sequence <= w.late[class][partition] {
		w.last = sequence // what is put next completes the numbers up to it
		return nil
	}
	if w.waiting.Load() != 0 && day(w.kind, arrived) != day(w.kind, w.arrived) {
		if err := w.put(ctx); err != nil {
			return err
		}
	}
	if w.files[class] == nil {
		f, err := w.a.bucket.create(w.kind.String() + "-*")
		if err != nil {
			return w.staging(err)
		}
		w.files[class] = stage(f, w.kind, w.created, uint16(w.owned))
	}
	if w.waiting.Load() == 0 {
		w.due, w.first = time.Now().Add(w.a.config.Flush), sequence
		w.waiting.Store(arrived)
	}
	w.last, w.arrived = sequence, arrived
	if err := w.files[class].add(&h, slices.Clone(m.Data()), sequence, arrived); err != nil {
		return w.staging(err)
	}
	bytes := 0
	for _, s := range w.files {
		if s != nil {
			bytes += s.bytes
		}
	}
	if bytes >= fileBytes {
		return w.put(ctx)
	}
	return nil
}

// staging reports that a file cannot be staged, until one is put.
func (w *writer) staging(err error) error {
	err = fmt.Errorf("stage a file: %w", err)
	w.a.report(w.kind.String(), err)
	return err
}

// put puts what is staged into the bucket, and tries again until it is there or ctx ends. The last of the files is that of the records that did not
// come late, if there is one, and its name has all sequence numbers: without it the others say what need not be put again.
func (w *writer) put(ctx context.Context) error {
	defer w.drop()
	var classes []int
	for i := range lateClasses {
		if class := (i + 1) % lateClasses; w.files[class] != nil {
			classes = append(classes, class)
		}
	}
	for i, class := range classes {
		s := w.files[class]
		if err := s.finish(); err != nil {
			return w.staging(err)
		}
		if s.Late = class; i == len(classes)-1 {
			s.Late, s.First, s.Last = 0, w.first, w.last
		}
		if err := w.putFile(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) putFile(ctx context.Context, s *staged) error {
	f := s.File
	confirmed := true
	err := w.a.attempt(ctx, w.kind.String(), func(ctx context.Context) error {
		if confirmed = w.a.confirm(); !confirmed {
			return nil
		}
		return w.a.bucket.put(ctx, f.Name(), s.file)
	})
	if err != nil {
		return fmt.Errorf("archive records: %w", err)
	}
	if !confirmed {
		return errUnconfirmed
	}
	w.a.index.add(f)
	w.a.counts.records.Add(uint64(f.Rows))
	w.a.counts.bytes.Add(uint64(s.bytes))
	w.a.counts.files.Add(1)
	w.a.counts.fileBytes.Add(uint64(f.Bytes))
	return nil
}

// drop forgets what is staged: what is not in the bucket is in the stream.
func (w *writer) drop() {
	for i, s := range w.files {
		if s != nil {
			s.drop()
			w.files[i] = nil
		}
	}
	w.waiting.Store(0)
}
