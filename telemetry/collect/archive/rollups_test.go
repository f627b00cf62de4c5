package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/record"
)

// rollupBed is an archive in a folder whose roll-ups have a table "x", of fine intervals and of the coarse one.
type rollupBed struct {
	*Archive
	made  []Rollup
	fail  string // the table of which the putting ends with the process
	empty bool   // no records are found
	old   bool   // tables are as of versions that did not note the oldest file
	each  func() // called when records are read, before the first table is put; may be nil
}

var errEnded = errors.New("the process ends")

func newRollupBed(t *testing.T) *rollupBed {
	t.Helper()
	b, err := openFolder(t.TempDir(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Archive: collect.DefaultArchive(), Partitions: collect.DefaultPartitions(), Log: zap.NewNop()}
	bed := &rollupBed{}
	c.RollUp = bed.rollUp
	bed.Archive = newArchive(c, b)
	bed.ownership = ownership{wanted: collect.AllPartitions, writing: collect.AllPartitions, changed: make(chan struct{}, 1)}
	return bed
}

func (b *rollupBed) rollUp(_ context.Context, r Rollup, metadata map[string]string, put Put) error {
	b.made = append(b.made, r)
	if b.each != nil {
		b.each()
	}
	if b.empty {
		return ErrNoRecords
	}
	for _, every := range []time.Duration{b.config.Rollups.Fine, b.config.Rollups.Coarse} {
		for _, kind := range []string{"x", Mark} {
			if b.fail == rollupTable(kind, every) {
				return errEnded
			}
			err := put(kind, every, func(w io.Writer) error {
				f := parquet.NewGenericWriter[row](w)
				for key, text := range metadata {
					if b.old && key == sinceKey {
						continue
					}
					f.SetKeyValueMetadata(key, text)
				}
				return f.Close()
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// files are the names of all roll-ups' files.
func (b *rollupBed) files(t *testing.T) (names []string) {
	t.Helper()
	if err := b.bucket.list(t.Context(), rollupPrefix, func(name string, _ int64) { names = append(names, name) }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// records notes a file of records of a time, in UTC, which arrived at another one.
func (b *rollupBed) records(from, to, arrived time.Time) {
	offset := clock.UTCOffset()
	b.index.add(File{Kind: record.LDS, Arrived: arrived.UnixNano(), From: from.UnixNano() + offset, To: to.UnixNano() + offset, Stream: 1, Partitions: 1, First: 1, Last: 1, Rows: 1, Bytes: 1})
}

// TestRollupNames: a name says which roll-up a file is of, and nothing else is taken for a name.
func TestRollupNames(t *testing.T) {
	r := Rollup{time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC).UnixNano(), time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC).UnixNano()}
	for _, c := range []struct {
		kind  string
		every time.Duration
		name  string
		mark  bool
	}{
		{"links", time.Minute, "rollups/kind=links/every=1m/day=2026-11-28/20261128T080000Z-20261128T090000Z.parquet", false},
		{Mark, time.Minute, "rollups/kind=intervals/every=1m/day=2026-11-28/20261128T080000Z-20261128T090000Z.parquet", false},
		{Mark, time.Hour, "rollups/kind=intervals/every=1h/day=2026-11-28/20261128T080000Z-20261128T090000Z.parquet", true},
	} {
		if name := r.name(rollupTable(c.kind, c.every)); name != c.name {
			t.Errorf("%s, want %s", name, c.name)
		}
		if got, table, mark, err := parseRollup(c.name); err != nil || got != r || table != rollupTable(c.kind, c.every) || mark != c.mark {
			t.Errorf("%s: %v %s %v %v", c.name, got, table, mark, err)
		}
		for _, wrong := range []string{c.name + "x", c.name[1:], strings.Replace(c.name, "11-28", "11-27", 1), strings.Replace(c.name, "T080000Z", "T100000Z", 1), ""} {
			if got, _, _, err := parseRollup(wrong); err == nil {
				t.Errorf("%q: %v", wrong, got)
			}
		}
	}
}

// TestRollupsOnce: each coarse interval that has records and ended long enough ago is made once, the newest first, by whichever process; one that was interrupted is made again, in
// the place of what was left of it; and so is one of which records came late, once these have rested.
func TestRollupsOnce(t *testing.T) {
	b := newRollupBed(t)
	now := time.Now()
	hour := func(n int) time.Time { return now.UTC().Truncate(time.Hour).Add(time.Duration(n) * time.Hour) }
	at := func(n int) Rollup { return Rollup{hour(n).UnixNano(), hour(n + 1).UnixNano()} }
	b.records(hour(-6), hour(-3), hour(-3).Add(time.Minute))
	b.records(now.Add(-10*time.Minute), now, now)
	var all *rollups
	look := func(what string, want ...Rollup) {
		t.Helper()
		b.made = nil
		if err := b.rollUpDue(t.Context(), &all); err != nil && !errors.Is(err, errEnded) {
			t.Fatal(err)
		}
		if !slices.Equal(b.made, want) {
			t.Errorf("%s: made %v, want %v", what, b.made, want)
		}
	}
	b.fail = rollupTable(Mark, time.Hour)
	look("with a crash before the mark", at(-4), at(-5), at(-6))
	if n := len(b.files(t)); n != 3*3 {
		t.Errorf("%d files are left, want 9", n)
	}
	b.fail, all = "", nil // another process
	look("after the crash", at(-4), at(-5), at(-6))
	whole := b.files(t)
	if len(whole) != 3*4 {
		t.Errorf("%d files, want 12: %q", len(whole), whole)
	}
	look("again")
	all = nil
	look("by another process")
	b.records(hour(-5).Add(time.Minute), hour(-5).Add(2*time.Minute), now.Add(-time.Minute))
	look("with late records that have not rested")
	b.records(hour(-6).Add(time.Minute), hour(-6).Add(2*time.Minute), now.Add(-61*time.Minute))
	look("with late records that have", at(-6))
	look("with these again")
	all = nil
	look("by another process, with late records")
	if got := b.files(t); !slices.Equal(got, whole) {
		t.Errorf("files %q, were %q", got, whole)
	}
	if s := b.Status(); s.RolledUp != 3 || s.RolledUpAgain != 1 || s.Rollups != 3 || s.RollupsDue != 0 || s.RollupBytes == 0 {
		t.Errorf("%+v", s)
	}
	b.config.Rollups.Coarse, b.config.Rollups.Fine = 30*time.Minute, time.Minute
	look("with other lengths") // what is there stays
}

// TestRollupsAfterRetention: late records do not have a roll-up made again of which retention has deleted records: neither by the same process nor by
// another one, also where it was made by a version that did not note the oldest file, and not if they go while it is made. What is kept goes by its own retention.
func TestRollupsAfterRetention(t *testing.T) {
	for _, c := range []struct {
		name       string
		old, other bool
		during     bool // the records go while the roll-up is made again
		unread     bool // a roll-up finds no records
	}{
		{name: "same process"}, {name: "other process", other: true}, {name: "old tables", old: true, other: true},
		{name: "meanwhile", during: true}, {name: "without a record", unread: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newRollupBed(t)
			b.old = c.old
			now := time.Now()
			hour := now.UTC().Truncate(time.Hour).Add(-5 * time.Hour)
			b.records(hour, hour.Add(30*time.Minute), hour.Add(31*time.Minute))
			b.records(hour.Add(30*time.Minute), hour.Add(time.Hour), hour.Add(61*time.Minute))
			var all *rollups
			look := func(want int) {
				t.Helper()
				b.made = nil
				if err := b.rollUpDue(t.Context(), &all); err != nil || len(b.made) != want {
					t.Errorf("made %v, %v, want %d", b.made, err, want)
				}
			}
			look(1)
			size := func() (bytes int64) {
				if err := b.bucket.list(t.Context(), rollupPrefix, func(_ string, n int64) { bytes += n }); err != nil {
					t.Fatal(err)
				}
				return bytes
			}
			before := size()
			expire := func() {
				offset := clock.UTCOffset()
				for _, f := range b.index.overlapping(record.LDS, hour.UnixNano()+offset, hour.Add(time.Minute).UnixNano()+offset) {
					if f.Arrived == hour.Add(31*time.Minute).UnixNano() {
						b.forget(f)
					}
				}
			}
			b.records(hour.Add(time.Minute), hour.Add(2*time.Minute), now.Add(-90*time.Minute))
			if c.other {
				all = nil
			}
			switch {
			case c.during:
				b.each = expire
				look(1)
			case c.unread:
				b.empty = true
				look(1)
			default:
				expire()
				look(0)
			}
			look(0)
			if s := b.Status(); s.RolledUpAgain != 0 || s.Rollups != 1 || s.RollupBytes != before || size() != before {
				t.Errorf("%+v, of %d bytes, had %d", s, size(), before)
			}
			b.config.Rollups.Age = time.Hour
			if look(0); len(b.files(t)) != 0 {
				t.Errorf("left: %v", b.files(t))
			}
		})
	}
}

// TestRollupsOfWideFiles: of a file that has a record of long ago and one of now only the hours are due that have one of them.
func TestRollupsOfWideFiles(t *testing.T) {
	b := newRollupBed(t)
	close(b.listed)
	now := time.Now()
	s := stage(created(t, b.bucket), record.PINT, 5, 0xffff)
	r := rand.New(rand.NewPCG(3, 3))
	var want []Rollup
	for i, age := range []time.Duration{5 * time.Hour, 4 * 24 * time.Hour, time.Duration(now.UnixNano())} {
		h, e := encoded(t, r, 3, now.Add(-age).UnixNano()+clock.UTCOffset(), 10)
		if err := s.add(&h, e, uint64(i+1), now.UnixNano()); err != nil {
			t.Fatal(err)
		}
		if at := now.Add(-age).Truncate(time.Hour); at.Year() > 1970 {
			want = append(want, Rollup{at.UnixNano(), at.Add(time.Hour).UnixNano()})
		}
	}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	if err := b.bucket.put(t.Context(), s.Name(), s.file); err != nil {
		t.Fatal(err)
	}
	b.index.add(s.File)
	var all *rollups
	for range 2 { // the second look is at what is known
		if err := b.rollUpDue(t.Context(), &all); err != nil || !slices.Equal(b.made, want) {
			t.Errorf("made %v, %v, want %v", b.made, err, want)
		}
	}
}

// TestRollupsNewestFirst: an interval that becomes due while many older ones are made does not wait for these.
func TestRollupsNewestFirst(t *testing.T) {
	b := newRollupBed(t)
	now := time.Now()
	hour := now.UTC().Truncate(time.Hour)
	for i := range 2 {
		b.records(hour.Add(time.Duration(-100-i*20)*time.Hour), hour.Add(time.Duration(-80-i*20)*time.Hour), hour.Add(-80*time.Hour))
	}
	b.each = func() {
		if len(b.made) == 1 {
			b.records(hour.Add(-3*time.Hour), hour.Add(-2*time.Hour), hour.Add(-2*time.Hour))
		}
	}
	var all *rollups
	if err := b.rollUpDue(t.Context(), &all); err != nil || len(b.made) != 41 {
		t.Fatal(len(b.made), err)
	}
	at := slices.Index(b.made, Rollup{hour.Add(-3 * time.Hour).UnixNano(), hour.Add(-2 * time.Hour).UnixNano()})
	if at < 0 || at > perLook {
		t.Errorf("the newest one is made as number %d of %d", at, len(b.made))
	}
}

// TestCutRollups: intervals of which retention deletes records before they are rolled up are counted, each once, also those of which nothing is left; not those
// that are rolled up, or were.
func TestCutRollups(t *testing.T) {
	b := newRollupBed(t)
	now := time.Now()
	hour := func(n int) time.Time { return now.UTC().Truncate(time.Hour).Add(time.Duration(n) * time.Hour) }
	var all *rollups
	look := func(what string, made int, cut uint64) {
		t.Helper()
		b.made = nil
		if err := b.rollUpDue(t.Context(), &all); err != nil || len(b.made) != made || b.Status().RollupsCut != cut {
			t.Errorf("%s: made %v, %v, want %d; %d are cut, want %d", what, b.made, err, made, b.Status().RollupsCut, cut)
		}
	}
	expire := func(before time.Time) {
		t.Helper()
		b.config.Age = time.Since(before)
		if err := b.expire(t.Context()); err != nil {
			t.Error(err)
		}
	}
	half := func(n int) {
		b.records(hour(n), hour(n).Add(30*time.Minute), hour(n).Add(30*time.Minute))
		b.records(hour(n).Add(30*time.Minute), hour(n+1), hour(n+1).Add(-time.Second))
	}
	half(-9)
	look("whole", 1, 0)
	half(-8)
	half(-7)
	expire(hour(-7).Add(45 * time.Minute)) // all of the first one, which is rolled up, and of the second one
	look("half, and nothing", 1, 2)
	if !b.Deleted(hour(-8).UnixNano()+clock.UTCOffset(), hour(-7).UnixNano()+clock.UTCOffset()) || b.Deleted(hour(-7).Add(40*time.Minute).UnixNano()+clock.UTCOffset(), hour(-6).UnixNano()+clock.UTCOffset()) {
		t.Errorf("deleted: %v", b.deleted)
	}
	half(-6)
	b.each = func() { expire(hour(-6).Add(45 * time.Minute)) }
	look("while it is made", 1, 3)
	b.each = nil
	look("again", 0, 3)
	half(-5)
	look("another one", 1, 3)
	b.config.Rollups.Bytes = all.bytes / int64(len(b.files(t))/4)
	look("with room for one", 0, 3)
	half(-7)
	expire(hour(-6))
	look("one that would be deleted", 0, 3)
}

// TestSpans: what was deleted is remembered once, in order.
func TestSpans(t *testing.T) {
	var all []span
	for _, s := range []span{{50, 60}, {10, 20}, {30, 40}, {20, 25}, {26, 28}, {24, 35}, {70, 80}, {55, 58}} {
		all = withSpan(all, s)
	}
	if want := []span{{10, 40}, {50, 60}, {70, 80}}; !slices.Equal(all, want) {
		t.Errorf("%v, want %v", all, want)
	}
}

// TestRollupRetention: what is too old goes, and then the oldest until the rest fits; none of it is made again, and the mark goes last.
func TestRollupRetention(t *testing.T) {
	b := newRollupBed(t)
	now := time.Now()
	hour := func(n int) time.Time { return now.UTC().Truncate(time.Hour).Add(time.Duration(n) * time.Hour) }
	b.records(hour(-12), hour(-2), hour(-2).Add(time.Minute))
	var all *rollups
	if err := b.rollUpDue(t.Context(), &all); err != nil || len(b.made) != 10 {
		t.Fatal(len(b.made), err)
	}
	each := all.bytes / 10
	b.config.Rollups.Bytes = 5*each + each/2
	for _, process := range []string{"the same", "another one"} {
		b.made = nil
		if err := b.rollUpDue(t.Context(), &all); err != nil || len(b.made) != 0 {
			t.Errorf("%s: made %v, %v", process, b.made, err)
		}
		if got := b.files(t); len(got) != 5*4 || !strings.Contains(got[0], hour(-7).Format(rollupForm)+"-") {
			t.Errorf("%s: %q", process, got)
		}
		all = nil
	}
	b.config.Rollups.Age = 5*time.Hour + time.Minute
	if err := b.rollUpDue(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for r := range all.known {
		kept++
		if r.To < now.Add(-b.config.Rollups.Age).UnixNano() {
			t.Errorf("%v is kept", r)
		}
	}
	if got := b.files(t); kept == 0 || kept == 5 || len(got) != kept*4 {
		t.Errorf("%d roll-ups in %q", kept, got)
	}
	b.config.Rollups.Age = time.Minute
	failing := &failingRemoval{bucket: b.bucket}
	b.bucket = failing
	if err := b.rollUpDue(t.Context(), &all); err == nil {
		t.Error("what could not be deleted is no error")
	}
	if !strings.Contains(failing.last, "/kind="+Mark+"/every=1h/") {
		t.Errorf("the last to go is %s", failing.last)
	}
	if s := b.Status(); s.RollupsDeleted < 5 {
		t.Errorf("%+v", s)
	}
}

// failingRemoval removes no marks.
type failingRemoval struct {
	bucket
	last string
}

func (f *failingRemoval) remove(ctx context.Context, name string) error {
	if f.last = name; strings.Contains(name, "/kind="+Mark+"/every=1h/") {
		return fmt.Errorf("%s stays", name)
	}
	return f.bucket.remove(ctx, name)
}

// TestRollupsElsewhere: a collector that does not archive partition 0 makes none, and one that was suspended puts none.
func TestRollupsElsewhere(t *testing.T) {
	b := newRollupBed(t)
	now := time.Now()
	b.records(now.Add(-5*time.Hour), now.Add(-3*time.Hour), now.Add(-3*time.Hour))
	b.config.Partitions.Share = true // Own has not been called
	var all *rollups
	if err := b.rollUpDue(t.Context(), &all); !errors.Is(err, errUnconfirmed) {
		t.Errorf("a collector that may have been suspended: %v", err)
	}
	if got := b.files(t); len(got) != 0 {
		t.Errorf("it put %q", got)
	}
	b.Own(collect.AllPartitions &^ 1)
	b.take()
	b.made = nil
	if err := b.rollUpDue(t.Context(), &all); err != nil || len(b.made) != 0 {
		t.Errorf("made %v, %v", b.made, err)
	}
}

// TestReplace: a file that is put in the place of another one is the new one.
func TestReplace(t *testing.T) {
	b, err := openFolder(t.TempDir(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"old", "new one"} {
		f := created(t, b)
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second attempt finds nothing to do
			if err := b.put(t.Context(), "a/b", f); err != nil {
				t.Fatal(err)
			}
		}
		o, err := b.open(t.Context(), "a/b")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
		if err != nil || !bytes.Equal(got, []byte(text)) {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
		_ = o.Close()
	}
}
