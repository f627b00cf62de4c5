package archive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	nats_js "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// message is one of a stream.
type message struct {
	nats_js.Msg
	subject string
	data    []byte
	meta    nats_js.MsgMetadata
}

func (m *message) Subject() string                         { return m.subject }
func (m *message) Data() []byte                            { return m.data }
func (m *message) Metadata() (*nats_js.MsgMetadata, error) { return &m.meta, nil }

// messages are records of a switch of which each begins so long before it comes, the first with the number 1.
func messages(t *testing.T, arrived time.Time, late ...time.Duration) (list []*message) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for i, l := range late {
		m := &message{}
		var h record.Header
		h, m.data = encoded(t, r, 3, arrived.UnixNano()+clock.UTCOffset()-int64(l), 10)
		m.subject = jetstream.Subject(&h)
		m.meta.Timestamp, m.meta.Sequence.Stream = arrived, uint64(i+1)
		list = append(list, m)
	}
	return list
}

// endingBucket takes so many files, and then the process ends.
type endingBucket struct {
	bucket
	left int
	end  context.CancelFunc
}

func (b *endingBucket) put(ctx context.Context, name string, f *os.File) error {
	if b.left == 0 {
		b.end()
		return errEnded
	}
	b.left--
	return b.bucket.put(ctx, name, f)
}

// TestLateRecords: records that came long after their slices, as from a switch whose clock is of 1970, are in files of their own, so that the others
// are of the hours in which they came; and wherever a process ends between these files, each record is archived once in the end.
func TestLateRecords(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	now := time.Now()
	age := time.Duration(now.UnixNano())
	for _, late := range [][]time.Duration{
		{0, age, hour, 4 * hour, 30 * day, 2 * hour, 20 * day, 365 * day, 2000 * day, age},
		{age, 5 * hour, age, 30 * day, age},
		{age},
		{4 * hour},
	} {
		for ends := range lateClasses {
			t.Run(fmt.Sprint(len(late), " records, end behind file ", ends), func(t *testing.T) {
				b, err := openFolder(t.TempDir(), "c1")
				if err != nil {
					t.Fatal(err)
				}
				list := messages(t, now, late...)
				archive := func(ctx context.Context, b bucket) error {
					a := newArchive(Config{Archive: collect.DefaultArchive(), Log: zap.NewNop()}, b)
					if err := a.index.read(t.Context(), b, prefix); err != nil {
						t.Fatal(err)
					}
					close(a.listed)
					w := &writer{
						a: a, kind: record.PINT, created: 7, owned: collect.AllPartitions,
						archived: a.index.cursors(record.PINT, 7), late: a.index.lateCursors(record.PINT, 7),
					}
					for _, m := range list[min(int(a.index.cursor(record.PINT, 7, 0xffff)), len(list)):] {
						if err := w.take(ctx, m); err != nil {
							t.Fatal(err)
						}
					}
					return w.put(ctx)
				}
				ctx, end := context.WithCancel(t.Context())
				defer end()
				if err := archive(ctx, &endingBucket{b, ends, end}); err != nil && !errors.Is(err, errEnded) {
					t.Fatal(err)
				}
				if err := archive(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				x := newIndex()
				if err := x.read(t.Context(), b, prefix); err != nil {
					t.Fatal(err)
				}
				if got := x.cursor(record.PINT, 7, 0xffff); got != uint64(len(list)) {
					t.Errorf("archived up to %d of %d", got, len(list))
				}
				if got := x.arrived(record.PINT, 3); got != now.UnixNano() {
					t.Errorf("archived up to %v, want %v", time.Unix(0, got), now)
				}
				var got []time.Duration
				for _, f := range x.files[record.PINT] {
					begin, end := now.UnixNano()+clock.UTCOffset()-f.From, now.UnixNano()+clock.UTCOffset()-f.To
					if class := lateClass(f.From, now.UnixNano()); class != lateClass(f.To, now.UnixNano()) || f.Late != 0 && f.Late != class {
						t.Errorf("%s has records that are from %v to %v old", f.Name(), time.Duration(begin), time.Duration(end))
					}
					o, err := b.open(t.Context(), f.Name())
					if err != nil {
						t.Fatal(err)
					}
					_, err = readRows(o, &f, wanted{to: 1 << 62, partition: -1}, func(h record.Header, _ []byte, arrived int64) error {
						got = append(got, time.Duration(arrived+clock.UTCOffset()-h.Start))
						return nil
					})
					if o.Close(); err != nil {
						t.Error(err)
					}
				}
				want := slices.Sorted(slices.Values(late))
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("archived %v, want %v", got, want)
				}
			})
		}
	}
}

// TestLongSlices: a record that claims a longer slice than any has is not archived, as no answer has it and questions about all times would read it.
func TestLongSlices(t *testing.T) {
	b, err := openFolder(t.TempDir(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	a := newArchive(Config{Archive: collect.DefaultArchive(), Log: zap.NewNop()}, b)
	w := &writer{a: a, kind: record.PINT, created: 7, owned: collect.AllPartitions}
	h := record.Header{Kind: record.PINT, Switch: 1, Start: 1, Span: maxSpan + 1}
	m := &message{subject: jetstream.Subject(&h)}
	m.meta.Timestamp, m.meta.Sequence.Stream = time.Now(), 1
	if m.data, err = record.Append(nil, &h, func(dst []byte) ([]byte, error) { return append(dst, 1), nil }); err != nil {
		t.Fatal(err)
	}
	if err := w.take(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if w.waiting.Load() != 0 || a.counts.skipped.Load() != 1 {
		t.Errorf("it is staged, %d are skipped", a.counts.skipped.Load())
	}
}
