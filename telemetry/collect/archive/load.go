package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/record"
)

// Wanted says which records a question needs.
type Wanted struct {
	From, To int64 // the window, ns of CLOCK_TAI
	Kinds    []record.Kind
	// Partition of the digests; below 0: all.
	Partition int
}

// readers is how many files are read at a time.
const readers = 4

// Load calls each for all archived records that are wanted, several at a time; arrived is in ns of CLOCK_TAI, and body is valid until each
// returns. Load ends with the first error.
func (a *Archive) Load(ctx context.Context, w Wanted, each func(h record.Header, body []byte, arrived int64) error) error {
	if err := a.await(ctx); err != nil {
		return err
	}
	offset := clock.UTCOffset()
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(readers)
	for _, k := range w.Kinds {
		want := wanted{from: w.From, to: w.To, partition: -1}
		if k == record.PINT {
			want.partition = w.Partition
		}
		for _, f := range a.index.overlapping(k, w.From, w.To) {
			if want.partition >= 0 && f.Partitions>>want.partition&1 == 0 {
				continue
			}
			reading.Go(func() error {
				return a.loadFile(ctx, f, want, func(h record.Header, body []byte, arrived int64) error {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					a.counts.read.Add(1)
					return each(h, body, arrived+offset)
				})
			})
		}
	}
	return reading.Wait()
}

func (a *Archive) loadFile(ctx context.Context, f File, want wanted, each func(record.Header, []byte, int64) error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	o, err := a.bucket.open(ctx, f.Name())
	if errors.Is(err, errNone) {
		a.forget(f) // retention of another collector deleted it, or somebody did
		a.counts.gone.Add(1)
		a.config.Log.Info("a file is gone from the archive", zap.String("file", f.Name()))
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	defer o.Close()
	reader := &failingReader{object: o}
	broken, err := readRows(reader, &f, want, each)
	a.counts.broken.Add(uint64(broken))
	if failed := reader.err.Load(); err != nil && failed != nil { // the content is not known
		return fmt.Errorf("read %s of the archive: %w", f.Name(), *failed)
	}
	if err == nil && broken != 0 {
		err = fmt.Errorf("%w: the checksums of %d records are wrong", errDamaged, broken)
	}
	return a.judge(f, err)
}

// judge notes whether a file is damaged, by what became of reading it. A question that needs a damaged one has no answer: without the
// file's records its bounds would be wrong.
func (a *Archive) judge(f File, err error) error {
	name := f.Name()
	damaged := errors.Is(err, errDamaged)
	a.mu.Lock()
	known := a.damaged[name]
	if damaged {
		a.damaged[name] = true
	} else if err == nil {
		delete(a.damaged, name)
	}
	a.mu.Unlock()
	if !damaged {
		return err
	}
	err = fmt.Errorf("%s of the archive is damaged: %w: restore it, or remove it to have answers without its %d records", name, err, f.Rows)
	if !known {
		a.config.Log.Warn("questions about some time cannot be answered", zap.Error(err))
	}
	return err
}

// forget forgets a file that is not there any more.
func (a *Archive) forget(f File) {
	a.index.remove(f)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.damaged, f.Name())
	if a.rollsUp() && !f.wide() {
		a.deleted = withSpan(a.deleted, span{f.From, f.To})
		a.fresh = withSpan(a.fresh, span{f.From, f.To})
	}
}

// failingReader notes that an object could not be read, which says nothing of its content.
type failingReader struct {
	object
	err atomic.Pointer[error]
}

func (r *failingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.object.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

// Archived is up to when the records of a kind are archived, of all partitions, by their arrival in the stream, in ns of CLOCK_TAI; 0: none are.
func (a *Archive) Archived(k record.Kind) int64 {
	at := a.index.arrived(k, 0)
	if k == record.PINT {
		for p := range record.Partitions {
			at = min(at, a.index.arrived(k, p))
		}
	}
	if at == 0 {
		return 0
	}
	return at + clock.UTCOffset()
}
