package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	nats_js "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/record"
)

// TestNames: a name says what the file has, and nothing else is taken for a name.
func TestNames(t *testing.T) {
	f := File{Kind: record.PINT, Arrived: 1_795_714_347_083_759_616, From: 17, To: 1 << 60, Stream: 99, Partitions: 0xfffe, First: 1, Last: 1 << 63, Rows: 4}
	for f.Late = lateClasses - 1; f.Late >= 0; f.Late-- {
		if got, err := parseName(f.Name()); err != nil || got != f {
			t.Errorf("%s: %+v, %v", f.Name(), got, err)
		}
	}
	f.Late = 0
	name := f.Name()
	for _, wrong := range []string{
		strings.Replace(name, suffix, "-late0"+suffix, 1), strings.Replace(name, suffix, "-late99"+suffix, 1), strings.Replace(name, suffix, "-late"+suffix, 1),
		"", "records/", name[1:], name + "x", "x" + name, "records/kind=pint/x.parquet",
		"records/kind=other" + name[len("records/kind=pint"):], "records/kind=lds/day=2026-11-26/1-2-1-0-0001-1-1-1.parquet",
	} {
		if f, err := parseName(wrong); err == nil {
			t.Errorf("%q: %+v", wrong, f)
		}
	}
}

// TestIndex: cursors are of the partitions that a file has all of, in one stream; retention takes the oldest files.
func TestIndex(t *testing.T) {
	x := newIndex()
	file := func(arrived int64, partitions uint16, stream int64, last uint64) File {
		return File{Kind: record.PINT, Arrived: arrived, From: arrived, To: arrived + 10, Stream: stream, Partitions: partitions, First: 1, Last: last, Rows: 1, Bytes: 100}
	}
	x.add(file(30, 0x0003, 7, 50), file(10, 0xffff, 7, 20), file(20, 0x0001, 8, 90), file(10, 0xffff, 7, 20))
	for _, c := range []struct {
		stream     int64
		partitions uint16
		want       uint64
	}{{7, 0x0003, 50}, {7, 0x0006, 20}, {7, 0xffff, 20}, {8, 1, 90}, {8, 3, 0}, {9, 1, 0}, {7, 0, 0}} {
		if got := x.cursor(record.PINT, c.stream, c.partitions); got != c.want {
			t.Errorf("stream %d, partitions %x: %d, want %d", c.stream, c.partitions, got, c.want)
		}
	}
	if n, b := x.size(); n != 3 || b != 300 {
		t.Errorf("%d files of %d bytes", n, b)
	}
	if got := x.overlapping(record.PINT, 25, 31); len(got) != 2 || got[0].Arrived != 20 || got[1].Arrived != 30 {
		t.Errorf("overlapping: %v", got)
	}
	if got := x.surplus(15, 1000); len(got) != 1 || got[0].Arrived != 10 {
		t.Errorf("by age: %v", got)
	}
	if got := x.surplus(0, 150); len(got) != 2 || got[1].Arrived != 20 {
		t.Errorf("by bytes: %v", got)
	}
	x.remove(file(10, 0xffff, 7, 20))
	if n, b := x.size(); n != 2 || b != 200 {
		t.Errorf("%d files of %d bytes", n, b)
	}
}

// encoded is a record of a partition, with a body that zstd cannot make smaller.
func encoded(t testing.TB, r *rand.Rand, partition uint16, start int64, size int) (record.Header, []byte) {
	t.Helper()
	h := record.Header{Kind: record.PINT, Switch: uint32(partition) + 1, Name: fmt.Sprint("s", partition), Instance: partition, Start: start, Span: 10}
	b, err := record.Append(nil, &h, func(dst []byte) ([]byte, error) {
		for range size {
			dst = append(dst, byte(r.Uint32()))
		}
		return dst, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, b
}

// created is an empty file of a bucket.
func created(t testing.TB, b bucket) *os.File {
	t.Helper()
	f, err := b.create("test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// stageRows stages records of all partitions in turn, one each 100 ns.
func stageRows(t testing.TB, b bucket, n, size int) (*staged, [][]byte) {
	t.Helper()
	s := stage(created(t, b), record.PINT, 5, 0xffff)
	r := rand.New(rand.NewPCG(1, 9))
	var all [][]byte
	for i := range n {
		h, b := encoded(t, r, uint16(i%record.Partitions), int64(i)*100, size)
		if err := s.add(&h, b, uint64(i+1), int64(1000+i)); err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	return s, all
}

// TestRows: of a file of several groups and pages a reader gets exactly what it wants, as it was published.
func TestRows(t *testing.T) {
	b, err := openFolder(t.TempDir(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	const n, size = 4000, 6000 // three groups
	s, all := stageRows(t, b, n, size)
	if s.First != 1 || s.Last != n || s.Rows != n || s.From != 0 || s.To != (n-1)*100+10 || s.Arrived != 1000+n-1 {
		t.Errorf("%+v", s.File)
	}
	if err := b.put(t.Context(), s.Name(), s.file); err != nil {
		t.Fatal(err)
	}
	for _, w := range []wanted{
		{from: 0, to: 1 << 60, partition: -1}, {from: 0, to: 1 << 60, partition: 3}, {from: 100_000, to: 150_001, partition: -1},
		{from: 100_000, to: 150_001, partition: 7}, {from: 20, to: 90, partition: -1},
	} {
		o, err := b.open(t.Context(), s.Name())
		if err != nil {
			t.Fatal(err)
		}
		got := map[int64]bool{}
		broken, err := readRows(o, &s.File, w, func(h record.Header, body []byte, arrived int64) error {
			i := h.Start / 100
			if want := all[i]; !bytes.Equal(body, want[len(want)-4-size:len(want)-4]) || arrived != 1000+i || got[i] {
				t.Errorf("%+v: record %d is another one, or came again", w, i)
			}
			got[i] = true
			return nil
		})
		if err != nil || broken != 0 {
			t.Errorf("%+v: %d broken, %v", w, broken, err)
		}
		want := 0
		for i := range int64(n) {
			if w.has(&head{instance: i % record.Partitions, from: i * 100, to: i*100 + 10}) {
				want++
			}
		}
		if len(got) != want {
			t.Errorf("%+v: %d records, want %d", w, len(got), want)
		}
		o.Close()
	}
	stop := errors.New("enough")
	o, err := b.open(t.Context(), s.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := readRows(o, &s.File, wanted{from: 0, to: 1 << 60, partition: -1}, func(record.Header, []byte, int64) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a reader that stops: %v", err)
	}
}

// TestDamagedFiles: of a file that is cut or changed a reader gets whole records or an error, and never another record.
func TestDamagedFiles(t *testing.T) {
	b, err := openFolder(t.TempDir(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	s, all := stageRows(t, b, 60, 200)
	whole, err := os.ReadFile(s.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, 4))
	for range 400 {
		b := bytes.Clone(whole)
		if r.IntN(4) == 0 {
			b = b[:r.IntN(len(b))]
		} else {
			for range 1 + r.IntN(4) {
				b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			}
		}
		_, _ = readRows(memory{bytes.NewReader(b)}, &s.File, wanted{from: 0, to: 1 << 60, partition: -1}, func(h record.Header, body []byte, _ int64) error {
			if i := h.Start / 100; i < 0 || i >= 60 || !bytes.Contains(all[i], body) {
				t.Errorf("another record: %+v", h)
			}
			return nil
		})
	}
}

// TestFolder: a file is there whole or not at all, and what was staged goes when its owner starts again.
func TestFolder(t *testing.T) {
	path := t.TempDir()
	b, err := openFolder(path, "c1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openFolder(path, "c2"); err != nil {
		t.Fatal(err)
	}
	staged := created(t, b)
	if _, err := staged.WriteString("content"); err != nil {
		t.Fatal(err)
	}
	const name = "records/kind=lds/day=2026-11-26/x.parquet"
	if _, err := b.open(t.Context(), name); err == nil || errors.Is(err, errNone) || !strings.Contains(err.Error(), "mount it again") {
		t.Errorf("a file of a folder that is not there: %v", err)
	}
	for range 2 { // a second attempt, where the first one did not learn that it succeeded
		if err := b.put(t.Context(), name, staged); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	if err := b.list(t.Context(), prefix, func(name string, size int64) { names = append(names, fmt.Sprint(name, size)) }); err != nil || !slices.Equal(names, []string{name + "7"}) {
		t.Errorf("%v, %v", names, err)
	}
	for range 2 {
		if err := b.remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.open(t.Context(), name); !errors.Is(err, errNone) {
		t.Errorf("behind: %v", err)
	}
	created(t, b)
	if _, err = openFolder(path, "c1"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(path, stagingFolder, "of-c1")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := openFolder(path, ".."); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, stagingFolder, "of-c2")); err != nil {
		t.Error(err)
	}
}

// TestSurplus: of many files of all kinds the oldest are found in the order of arrival.
func TestSurplus(t *testing.T) {
	x := newIndex()
	r := rand.New(rand.NewPCG(8, 1))
	var all []File
	for i, at := range r.Perm(1000) {
		f := File{Kind: collect.Kinds[i%len(collect.Kinds)], Arrived: int64(at), From: 1, To: 2, Partitions: 1, First: 1, Last: 1, Rows: 1, Bytes: 10}
		x.add(f)
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b File) int { return cmp.Compare(a.Arrived, b.Arrived) })
	for _, c := range []struct {
		before, bytes int64
		want          int
	}{{0, 10_000, 0}, {300, 10_000, 300}, {300, 5_001, 500}, {0, 0, 1000}, {2000, 10_000, 1000}} {
		if got := x.surplus(c.before, c.bytes); !slices.Equal(got, all[:c.want]) {
			t.Errorf("%+v: %d files, or others", c, len(got))
		}
	}
	for n, i := range r.Perm(len(all)) {
		x.remove(all[i])
		x.remove(all[i]) // which is not there
		if files, bytes := x.size(); files != len(all)-n-1 || bytes != int64(files)*10 {
			t.Fatalf("%d files of %d bytes are left after %d", files, bytes, n+1)
		}
	}
	if left := x.surplus(2000, 0); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// listing is a bucket that has so many names, and waits before each. It stalls, or fails, behind some of them, if that is not 0.
type listing struct {
	bucket
	names, stall, fail int
	wait               time.Duration
}

func (l *listing) list(ctx context.Context, _ string, each func(string, int64)) error {
	for i := range l.names {
		switch wait := time.After(l.wait); {
		case l.fail != 0 && i == l.fail:
			return errEnded
		case l.stall != 0 && i == l.stall:
			wait = nil
			fallthrough
		default:
			select {
			case <-wait:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		each("records/x", 1)
	}
	return nil
}

// emptyStream has no messages.
type emptyStream struct{ nats_js.Stream }

func (emptyStream) CachedInfo() *nats_js.StreamInfo { return &nats_js.StreamInfo{} }
func (emptyStream) CreateConsumer(ctx context.Context, _ nats_js.ConsumerConfig) (nats_js.Consumer, error) {
	return emptyConsumer{}, ctx.Err()
}
func (emptyStream) DeleteConsumer(context.Context, string) error { return nil }

type emptyConsumer struct{ nats_js.Consumer }

func (emptyConsumer) CachedInfo() *nats_js.ConsumerInfo { return &nats_js.ConsumerInfo{} }

// TestSlowListing: while the names of an archive are listed slowly, a collector that starts waits for them, so that it does not read the stream from its beginning; it
// does that if the bucket lists nothing, or fails again and again.
func TestSlowListing(t *testing.T) {
	for _, c := range []struct {
		name  string
		b     listing
		whole bool
	}{
		{"slow", listing{names: 100, wait: 3 * time.Second}, false},
		{"stalls", listing{names: 100, wait: 3 * time.Second, stall: 50}, true},
		{"fails", listing{names: 100, wait: time.Second, fail: 50}, true},
		{"silent", listing{names: 1, wait: time.Hour}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newArchive(Config{
					Archive: collect.DefaultArchive(), Partitions: collect.DefaultPartitions(), Log: zap.NewNop(),
					Connect: func(context.Context) (*nats.Conn, error) { return nil, errEnded },
				}, &c.b)
				ctx, end := context.WithCancel(t.Context())
				ran := make(chan struct{})
				go func() { defer close(ran); a.Run(ctx) }()
				if sequence, since := a.Begin(ctx, emptyStream{}, collect.AllPartitions); sequence != 0 || since.IsZero() != c.whole {
					t.Errorf("begins at %d and %v", sequence, since)
				}
				end()
				<-ran
			})
		})
	}
}

// TestExpire: retention deletes the files that are too old and the oldest ones beyond the bytes, from the bucket too; a file that another
// collector deleted is no fault.
func TestExpire(t *testing.T) {
	b, err := openFolder(t.TempDir(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	a, from := monthOfRows(t, b, 16, 10)
	a.config.Age, a.config.Bytes = 365*24*time.Hour, 1<<40
	everything := Wanted{from, from + int64(time.Hour), []record.Kind{record.PINT}, -1}
	var rows atomic.Int64
	count := func() int64 {
		t.Helper()
		rows.Store(0)
		if err := a.Load(t.Context(), everything, func(record.Header, []byte, int64) error { rows.Add(1); return nil }); err != nil {
			t.Fatal(err)
		}
		return rows.Load()
	}
	if err := a.expire(t.Context()); err != nil || count() != 12*16 || a.counts.deleted.Load() != 0 {
		t.Fatalf("%d rows, %v", count(), err)
	}
	first := a.index.overlapping(record.PINT, from, from+1)
	if len(first) != 1 {
		t.Fatal(first)
	}
	if err := a.bucket.remove(t.Context(), first[0].Name()); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != 11*16 || a.counts.gone.Load() != 1 {
		t.Errorf("%d rows without a file that is gone, of which %d are counted", got, a.counts.gone.Load())
	}
	_, before := a.index.size()
	a.config.Bytes = before - 1
	if err := a.expire(t.Context()); err != nil || count() != 10*16 || a.counts.deleted.Load() != 1 {
		t.Errorf("by bytes: %d rows, %d files deleted, %v", count(), a.counts.deleted.Load(), err)
	}
	a.config.Age = 24 * time.Hour
	if err := a.expire(t.Context()); err != nil || count() != 0 {
		t.Errorf("by age: %d rows, %v", count(), err)
	}
	if err := a.bucket.list(t.Context(), prefix, func(name string, _ int64) { t.Errorf("%s is left", name) }); err != nil {
		t.Error(err)
	}
	if files, _ := a.index.size(); files > 24*12+1 {
		t.Errorf("the index has %d files of a day", files)
	}
}

// monthOfRows is an archive of a month, of which each hour has a file of a kind per five minutes.
func monthOfRows(tb testing.TB, b bucket, perFile, size int) (a *Archive, from int64) {
	tb.Helper()
	a = newArchive(Config{Archive: collect.DefaultArchive(), Log: zap.NewNop()}, b)
	const files = 12 // of the hour asked about; of the others there are the names
	end := time.Now().Add(-30 * 24 * time.Hour).UnixNano()
	from = end - int64(time.Hour)
	r := rand.New(rand.NewPCG(2, 2))
	for i := range files {
		s := stage(created(tb, b), record.PINT, 5, 0xffff)
		for j := range perFile {
			at := from + int64(i)*int64(5*time.Minute) + int64(j)*int64(5*time.Minute)/int64(perFile)
			h, e := encoded(tb, r, uint16(j%record.Partitions), at, size)
			if err := s.add(&h, e, uint64(i*perFile+j+1), at); err != nil {
				tb.Fatal(err)
			}
		}
		if err := s.finish(); err != nil {
			tb.Fatal(err)
		}
		if err := b.put(tb.Context(), s.Name(), s.file); err != nil {
			tb.Fatal(err)
		}
		a.index.add(s.File)
	}
	for at := end + 1; at < time.Now().UnixNano(); at += int64(5 * time.Minute) {
		a.index.add(File{Kind: record.PINT, Arrived: at, From: at, To: at + int64(5*time.Minute), Stream: 5, Partitions: 0xffff, First: 1, Last: 2, Rows: 1})
	}
	close(a.listed)
	return a, from
}

// BenchmarkHourOfAMonth loads one hour of digests, one month ago: 3,600 records of each of 16 partitions, 1 kB each.
func BenchmarkHourOfAMonth(b *testing.B) {
	folder, err := openFolder(b.TempDir(), "c1")
	if err != nil {
		b.Fatal(err)
	}
	a, from := monthOfRows(b, folder, 3600*record.Partitions/12, 1000)
	for _, c := range []struct {
		name      string
		partition int
	}{{"all", -1}, {"flow", 3}} {
		b.Run(c.name, func(b *testing.B) {
			var mu sync.Mutex
			records, bytes := 0, 0
			for b.Loop() {
				records, bytes = 0, 0
				err := a.Load(b.Context(), Wanted{from, from + int64(time.Hour), []record.Kind{record.PINT}, c.partition}, func(_ record.Header, body []byte, _ int64) error {
					mu.Lock()
					defer mu.Unlock()
					records++
					bytes += len(body)
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(records), "records")
			b.ReportMetric(float64(bytes)/1e6, "MB")
		})
	}
}
