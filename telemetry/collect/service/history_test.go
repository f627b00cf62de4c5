package service_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/weirswitch/weir/pipeline/clock"
	sketches "github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/status"
)

// metric reads a metric without labels of a collector; -1: it does not show it.
func (b *collectBed) metric(t testing.TB, name string) float64 {
	t.Helper()
	r, err := http.Get("http://" + b.web + "/metrics")
	if err != nil {
		return -1
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	return -1
}

// readyz is what a collector says of itself.
func (b *collectBed) readyz(t *testing.T) (code int, text string) {
	t.Helper()
	r, err := http.Get("http://" + b.web + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	all, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(all)
}

// archivedRow is a row of the archive, as any reader of Parquet sees it.
type archivedRow struct {
	Sequence uint64 `parquet:"sequence"`
	Switch   uint32 `parquet:"switch_number"`
	Record   []byte `parquet:"record"`
}

// archivedRows reads all files of a kind in an archive on disk, as any reader of Parquet does.
func archivedRows(t *testing.T, folder, kind string) (rows []archivedRow) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(folder, "records", "kind="+kind), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && d.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		more, err := parquet.ReadFile[archivedRow](path)
		rows = append(rows, more...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// historyQuestions are about a window of the records of crowded switches and digests.
func historyQuestions(from, to int64) []query.Question {
	flow := query.FormatKey(query.Key(digestFlow(3)))
	return []query.Question{
		{Kind: query.KindTarget, Start: from, End: to},
		{Kind: query.KindHeavyHitters, By: query.BySketch, AtLeast: 10, Start: from, End: to},
		{Kind: query.KindPath, Flow: flow, Start: from, End: to},
		{Kind: query.KindPath, Start: from, End: to},
		{Kind: query.KindLatency, Flow: flow, Start: from, End: to},
		{Kind: query.KindFrequency, Flow: "10.0.1.0:3 > 10.0.2.0:0 udp", Start: from, End: to},
	}
}

// answersOf asks questions, and returns answers and errors as text. Of one flow only its partition's digests are read from an archive, so how many
// records there were of others, and what was missing among these, is left out.
func (b *collectBed) answersOf(t *testing.T, questions []query.Question) (answers []string) {
	t.Helper()
	for i := range questions {
		a, err := b.client.Ask(t.Context(), &questions[i])
		if err != nil {
			answers = append(answers, "error: "+err.Error())
			continue
		}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if questions[i].Flow != "" {
			var all map[string]any
			if err := json.Unmarshal(text, &all); err != nil {
				t.Fatal(err)
			}
			delete(all, "records")
			delete(all, "missing")
			if text, err = json.Marshal(all); err != nil {
				t.Fatal(err)
			}
		}
		answers = append(answers, string(text))
	}
	return answers
}

// shorten keeps a long answer from filling a test's log.
func shorten(text string) string {
	if len(text) > 600 {
		return text[:600] + " ..."
	}
	return text
}

// replaceIn changes a collector's configuration for its next start.
func (b *collectBed) replaceIn(t testing.TB, old, text string) {
	t.Helper()
	all, err := os.ReadFile(b.file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(all), old) {
		t.Fatalf("%q is not in the configuration", old)
	}
	if err := os.WriteFile(b.file, []byte(strings.Replace(string(all), old, text, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestHistory: what a collector answered from memory it answers from the archive, when a restart has read nothing of the stream; and each
// record is in the archive once.
func TestHistory(t *testing.T) {
	const bits = 30
	folder := filepath.Join(t.TempDir(), "archive")
	b := newCollectBed(t, "", fmt.Sprintf("[archive]\nurl = %q\nflush = \"1s\"\nrecent = \"24h\"\n", "file://"+folder))
	paths := filepath.Join(b.dir, "paths.json")
	if err := os.WriteFile(paths, []byte(`[{"switches": ["s1", "s2", "s3"]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.replaceIn(t, "[collect]\n", fmt.Sprintf("[collect]\npaths = %q\n", paths))
	b.start(t)
	o := jetstream.Options{Servers: []string{"nats://" + b.nats}, Inbox: jetstream.Acks(1)}
	spool, _ := sender(t, o)
	first := uint64(clock.Kernel.TAI())>>bits - 3600
	from := int64(first << bits)
	d := &digests{sw: 1, base: from}
	for range 200 {
		h, encoded := d.batch(t)
		if err := spool.Write(h, encoded); err != nil {
			t.Fatal(err)
		}
	}
	crowded(t, o, first, sketches.Epochs(bits))
	var count uint64
	awaitState(t, "all records", func() (string, bool) {
		s := b.status(t)
		count = s.Stream.Messages
		held := collectedKind(s, record.PINT).Held + collectedKind(s, record.DiSketch).Held
		return fmt.Sprint(s), collectedKind(s, record.PINT).Held == 200 && collectedKind(s, record.DiSketch).Held >= 12 && held == count
	})
	questions := historyQuestions(from, from+8<<bits)
	want := b.answersOf(t, questions)
	for i, text := range want[:2] {
		if strings.HasPrefix(text, "error") {
			t.Errorf("%v: %s", questions[i], text)
		}
	}
	awaitState(t, "all to be archived", func() (string, bool) {
		n := b.metric(t, "weir_collect_archive_records_total")
		return fmt.Sprint(n, " of ", count, b.metric(t, "weir_collect_archive_works")), n == float64(count)
	})
	b.kill()
	b.replaceIn(t, "recent = \"24h\"", "recent = \"1s\"")
	time.Sleep(1100 * time.Millisecond) // what came is older than recent then
	b.start(t)
	if s := b.status(t); s.Stream.Messages != count || len(s.Kinds) != 0 {
		t.Errorf("a restart read the stream again: %v\n%s", s, b.stderr)
	}
	got := b.answersOf(t, questions)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v:\n from the archive %s\n from memory      %s", questions[i].Kind, shorten(got[i]), shorten(want[i]))
		}
	}
	if code, text := b.readyz(t); code != http.StatusOK {
		t.Errorf("/readyz: %d, %s", code, text)
	}
	if n := b.metric(t, "weir_collect_archive_read_records_total"); n <= 0 {
		t.Errorf("%v records were read from the archive", n)
	}
	b.stop(t)
	eachOnce(t, folder, "pint", 200)
	eachOnce(t, folder, "disketch", 12)
}

// TestHistoryNeverArchived adds an archive to a collector whose stream has not dropped anything: until the archive has the records, all of them are in
// memory, also those older than recent.
func TestHistoryNeverArchived(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "archive")
	b := newCollectBed(t, "", fmt.Sprintf("[archive]\n# url = %q\nflush = \"1h\"\nrecent = \"1s\"\n", "file://"+folder))
	b.start(t)
	spool, _ := sender(t, jetstream.Options{Servers: []string{"nats://" + b.nats}, Inbox: jetstream.Acks(1)})
	d := &digests{sw: 1, base: clock.Kernel.TAI() - int64(time.Hour)}
	d.write(t, spool, 200)
	questions := historyQuestions(d.base, d.base+int64(time.Minute))
	var want []string
	awaitState(t, "answers from all records", func() (string, bool) { // which may be from a view that is some ms old
		want = b.answersOf(t, questions)
		return shorten(want[3]), strings.Contains(want[3], `"records":200,`)
	})
	last := time.Now()
	b.kill()
	b.replaceIn(t, "# url", "url")
	time.Sleep(time.Until(last.Add(1100 * time.Millisecond))) // what came is older than recent then
	b.start(t)
	if s := b.status(t); collectedKind(s, record.PINT).Held != 200 {
		t.Errorf("records are neither archived nor in memory: %v\n%s", s, b.stderr)
	}
	awaitState(t, "the same answers with an archive", func() (string, bool) {
		got := b.answersOf(t, questions)
		return shorten(fmt.Sprint(got)), slices.Equal(got, want)
	})
	b.stop(t)
	eachOnce(t, folder, "pint", 200)
}

// eachOnce checks that an archive has so many records of a kind, whole and once each.
func eachOnce(t *testing.T, folder, kind string, want uint64) {
	t.Helper()
	seen := map[uint64]int{}
	for _, r := range archivedRows(t, folder, kind) {
		if h, _, rest, err := record.Decode(r.Record); err != nil || len(rest) != 0 || h.Switch != r.Switch {
			t.Errorf("a row's record: %+v, %v", h, err)
		}
		if seen[r.Sequence]++; seen[r.Sequence] > 1 {
			t.Errorf("message %d is there %d times", r.Sequence, seen[r.Sequence])
		}
	}
	if uint64(len(seen)) != want {
		t.Errorf("%d records of kind %s are in the archive, want %d", len(seen), kind, want)
	}
}

// write writes digests to a spool until it has so many.
func (d *digests) write(t testing.TB, spool *export.Spool, n uint64) {
	for d.next < n {
		h, encoded := d.batch(t)
		if err := spool.Write(h, encoded); err != nil {
			t.Error(err)
			return
		}
	}
}

// TestFaultArchive kills the collector again and again while it archives: in the end each record is in the archive once, and nothing is
// left of what was half written.
func TestFaultArchive(t *testing.T) {
	rounds := faultRounds(t)
	folder := filepath.Join(t.TempDir(), "archive")
	b := newCollectBed(t, "", fmt.Sprintf("[archive]\nurl = %q\nflush = \"1s\"\n", "file://"+folder))
	b.start(t)
	spool, shipper := sender(t, jetstream.Options{Servers: []string{"nats://" + b.nats}, Inbox: jetstream.Acks(1)})
	d := &digests{sw: 1, base: clock.Kernel.TAI() - int64(time.Hour)}
	r := rand.New(rand.NewPCG(6, 3))
	for range rounds {
		d.write(t, spool, d.next+200)
		before := b.metric(t, "weir_collect_archive_records_total")
		awaitState(t, "records to be archived", func() (string, bool) {
			now := b.metric(t, "weir_collect_archive_records_total")
			return fmt.Sprint(now), now > before
		})
		d.write(t, spool, d.next+200)
		time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
		b.kill()
		b.start(t)
	}
	awaitState(t, "all to be sent", func() (string, bool) {
		c := pintCounts(spool)
		return fmt.Sprintf("%+v, %+v", c, shipper.Status()), c.Sent.Records == d.next
	})
	awaitState(t, "all to be archived", func() (string, bool) {
		n := len(archivedRows(t, folder, "pint"))
		return fmt.Sprint(n), uint64(n) >= d.next
	})
	b.stop(t)
	eachOnce(t, folder, "pint", d.next)
	if left, err := os.ReadDir(filepath.Join(folder, ".staging", "of-c1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("staged files are left: %v, %v", left, err)
	}
	t.Logf("%d kills: %d records, each once", rounds, d.next)
}

// TestFullArchive fills the disk of the archive: it says so, the stream keeps the records, and with room again all of them are archived once.
func TestFullArchive(t *testing.T) {
	folder := t.TempDir()
	if err := syscall.Mount("weir", folder, "tmpfs", 0, "size=128k"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	b := newCollectBed(t, "", fmt.Sprintf("[archive]\nurl = %q\nflush = \"1s\"\n", "file://"+folder))
	b.start(t)
	spool, _ := sender(t, jetstream.Options{Servers: []string{"nats://" + b.nats}, Inbox: jetstream.Acks(1)})
	d := &digests{sw: 1, base: clock.Kernel.TAI() - int64(time.Hour)}
	d.write(t, spool, 5000)
	awaitState(t, "/readyz to say that the disk is full", func() (string, bool) {
		code, text := b.readyz(t)
		return text, code == http.StatusServiceUnavailable && strings.Contains(text, "no space left")
	})
	if n := b.metric(t, "weir_collect_archive_failures_total"); n <= 0 {
		t.Errorf("%v failures are counted", n)
	}
	if err := syscall.Mount("weir", folder, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	awaitState(t, "all to be archived", func() (string, bool) {
		n := b.metric(t, "weir_collect_archive_records_total")
		code, text := b.readyz(t)
		return fmt.Sprint(n, text), n == float64(d.next) && code == http.StatusOK
	})
	b.stop(t)
	eachOnce(t, folder, "pint", d.next)
}

// coldSwitches are those of BenchmarkColdStart, of which each has a record of each of coldKinds in each coldEvery.
const (
	coldSwitches = 20
	coldEvery    = 28 << 30 // ns: 30 s, one epoch of a second in 28
	coldKinds    = 3
)

// coldRecords writes such records of some ticks to the spools of the switches: a status of four ports, a Count Sketch of 4 KiB that has counted 100 flows, and a batch of 20 digests.
func coldRecords(b *testing.B, base int64, ticks int, spools *[coldSwitches]*export.Spool) {
	b.Helper()
	const epochBits, flows = 30, 100
	var sinks [coldSwitches]digests
	var counters [coldSwitches]*sketches.Counter
	var fragments [coldSwitches]*sketches.Fragment
	for i := range sinks {
		sinks[i] = digests{sw: uint32(i + 1), base: base, every: coldEvery}
		var err error
		if fragments[i], err = sketches.NewFragment(sketches.Config{ID: sketches.ID{Switch: uint64(i + 1)}, Kind: sketches.CountSketch, Memory: 4 << 10, Epochs: epochBits}); err != nil {
			b.Fatal(err)
		}
		if counters[i], err = fragments[i].NewCounter(); err != nil {
			b.Fatal(err)
		}
	}
	write := func(i int, h *record.Header, body func([]byte) ([]byte, error)) {
		h.Switch, h.Name = uint32(i+1), fmt.Sprint("s", i+1)
		encoded, err := record.Append(nil, h, body)
		if err == nil {
			err = spools[i].Write(h, encoded)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for tick := range ticks {
		at := base + int64(tick)*coldEvery
		for i := range coldSwitches {
			st := &status.Status{Time: at + 1<<epochBits, Boot: 7, Program: "test"}
			for port := range 4 {
				n := uint64(tick) * 1e6
				st.Ports = append(st.Ports, status.Port{Number: uint32(port), Name: fmt.Sprint("p", port), Up: true, Received: n, ReceivedBytes: 800 * n, Transmitted: n, TransmittedBytes: 800 * n})
			}
			write(i, &record.Header{Kind: record.Status, Start: at, Span: 1 << epochBits, Partial: true}, st.AppendBinary)
			counters[i].Begin(fragments[i].Begin(uint64(at)>>epochBits), 0)
			for flow := range uint64(flows) {
				counters[i].Add(flow+uint64(tick), 1+int64(flow), false)
			}
			write(i, &record.Header{Kind: record.DiSketch, Start: at, Span: 1 << epochBits}, counters[i].Record().AppendBinary)
			h, encoded := sinks[i].batch(b)
			if err := spools[i].Write(h, encoded); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkColdStart starts a collector whose stream has 172,800 records of 20 switches: a status, a small sketch and a batch of 20 digests of each in 30 s, for a day. That is not a day of
// such a network, whose switches have records of all kinds and slices: within the default budget 20 switches make as many in six minutes. Once the collector has an archive that has
// all but the last seconds, once none. With -short there are fewer.
func BenchmarkColdStart(b *testing.B) {
	ticks := 24 * 3600 / 30
	if testing.Short() {
		ticks = 34
	}
	records := float64(ticks * coldSwitches * coldKinds)
	bed := newCollectBed(b, "", fmt.Sprintf("[archive]\nurl = %q\nflush = \"1s\"\nrecent = \"1s\"\n", "file://"+filepath.Join(b.TempDir(), "archive")))
	bed.start(b)
	var spools [coldSwitches]*export.Spool
	for i := range spools {
		spools[i], _ = sender(b, jetstream.Options{Servers: []string{"nats://" + bed.nats}, Inbox: jetstream.Acks(uint32(i + 1))})
	}
	base := (clock.Kernel.TAI() - int64(ticks+1)*coldEvery) >> 30 << 30
	coldRecords(b, base, ticks, &spools)
	for part := range 10 { // each has the time of one wait
		awaitState(b, "all to be archived", func() (string, bool) {
			n := bed.metric(b, "weir_collect_archive_records_total")
			return fmt.Sprint(n), n >= records*float64(part+1)/10
		})
	}
	bytes := bed.metric(b, "weir_collect_archive_record_bytes_total")
	bed.stop(b)
	b.Run("archive", func(b *testing.B) {
		for b.Loop() {
			bed.start(b)
			bed.kill()
		}
		b.ReportMetric(records, "records")
		b.ReportMetric(bytes/1e6, "MB")
	})
	bed.start(b)
	flow := query.FormatKey(query.Key(digestFlow(uint64(ticks/2) + 3)))
	for _, q := range []query.Question{{Kind: query.KindLatency, Flow: flow}, {Kind: query.KindLatency}, {Kind: query.KindNetwork}} {
		q.Start = base + int64(ticks/2)*coldEvery
		q.End = q.Start + int64(time.Hour)
		b.Run(fmt.Sprintf("hour/%s/one=%v", q.Kind, q.Flow != ""), func(b *testing.B) {
			for b.Loop() {
				if _, err := bed.client.Ask(b.Context(), &q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	bed.kill()
	bed.replaceIn(b, "[archive]\nurl", "[archive]\n# url")
	b.Run("stream", func(b *testing.B) {
		for b.Loop() {
			bed.start(b)
			bed.kill()
		}
	})
}
