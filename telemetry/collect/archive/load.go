package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	select {
	case <-a.listed:
	case <-ctx.Done():
		return fmt.Errorf("the archive does not answer: %s: %w", a.Status().Problem, ctx.Err())
	}
	offset := clock.UTCOffset()
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(readers)
	for _, k := range w.Kinds {
		want := wanted{w.From, w.To, -1}
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
		a.index.remove(f) // retention of another collector deleted it
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	defer o.Close()
	broken, err := readRows(o, want, each)
	a.counts.broken.Add(uint64(broken))
	if err != nil {
		return fmt.Errorf("read %s of the archive: %w", f.Name(), err)
	}
	return nil
}

// Until is the end of the newest archived slice of some kinds, of the one that is archived least; 0: one has none.
func (a *Archive) Until(kinds []record.Kind) int64 {
	least := int64(0)
	for i, k := range slices.All(kinds) {
		if to := a.index.until(k); i == 0 || to < least {
			least = to
		}
	}
	return least
}
