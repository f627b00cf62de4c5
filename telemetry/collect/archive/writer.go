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

	file    *staged // nil: nothing is staged
	due     time.Time
	waiting atomic.Int64 // when the first record of file came into the stream, ns since 1970; 0: none
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
	archived := w.a.index.cursors(w.kind, w.created)
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
		if err := w.take(ctx, m, &archived); err != nil {
			return err
		}
	}
}

// errDue says that the staged file has gathered for long enough.
var errDue = errors.New("the file is due")

// next waits for a message until the staged file is due.
func (w *writer) next(ctx context.Context, messages nats_js.MessagesContext) (nats_js.Msg, error) {
	if w.file == nil {
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

// take stages one message.
func (w *writer) take(ctx context.Context, m nats_js.Msg, archived *[record.Partitions]uint64) error {
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	h, o := collect.Check(m.Subject(), m.Data(), w.owned)
	// The leap seconds are those of now, as in what the store makes of an arrival.
	if end := h.Start + h.Span; o == collect.Applied && (h.Span <= 0 || end < h.Start || end > meta.Timestamp.UnixNano()+clock.UTCOffset()+int64(ahead)) {
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
	if meta.Sequence.Stream <= archived[partition] {
		return nil
	}
	arrived := meta.Timestamp.UnixNano()
	if w.file != nil && day(w.kind, arrived) != day(w.kind, w.file.Arrived) {
		if err := w.put(ctx); err != nil {
			return err
		}
	}
	if w.file == nil {
		f, err := w.a.bucket.create(w.kind.String() + "-*")
		if err != nil {
			return w.staging(err)
		}
		w.file = stage(f, w.kind, w.created, uint16(w.owned))
		w.due = time.Now().Add(w.a.config.Flush)
		w.waiting.Store(arrived)
	}
	if err := w.file.add(&h, slices.Clone(m.Data()), meta.Sequence.Stream, arrived); err != nil {
		return w.staging(err)
	}
	if w.file.bytes >= fileBytes {
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

// put puts the staged file into the bucket, and tries again until it is there or ctx ends.
func (w *writer) put(ctx context.Context) error {
	if w.file == nil {
		return nil
	}
	defer w.drop()
	if err := w.file.finish(); err != nil {
		return w.staging(err)
	}
	f := w.file.File
	confirmed := true
	err := w.a.attempt(ctx, w.kind.String(), func(ctx context.Context) error {
		if confirmed = w.a.confirm(); !confirmed {
			return nil
		}
		return w.a.bucket.put(ctx, f.Name(), w.file.file)
	})
	if err != nil {
		return fmt.Errorf("archive records: %w", err)
	}
	if !confirmed {
		return errUnconfirmed
	}
	w.a.index.add(f)
	w.a.counts.records.Add(uint64(f.Rows))
	w.a.counts.bytes.Add(uint64(w.file.bytes))
	w.a.counts.files.Add(1)
	w.a.counts.fileBytes.Add(uint64(f.Bytes))
	return nil
}

// drop forgets the staged file: what is not in the bucket is in the stream.
func (w *writer) drop() {
	if w.file != nil {
		w.file.drop()
		w.file = nil
	}
	w.waiting.Store(0)
}
