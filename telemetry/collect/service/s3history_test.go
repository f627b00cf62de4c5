package service_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	nats_js "github.com/nats-io/nats.go/jetstream"

	"github.com/weirswitch/weir/internal/freeport"
	"github.com/weirswitch/weir/internal/s3test"
	"github.com/weirswitch/weir/pipeline/clock"
	sketches "github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
)

// s3Archive is the configuration of an archive in the bucket weir. Files come each second.
func s3Archive(server, keys string) string {
	return fmt.Sprintf("[archive]\nurl = %q\ncredentials = %q\nflush = \"1s\"\n", "s3://weir/net?region=us-east-1&endpoint="+server, keys)
}

func rightKeys(t *testing.T) (file string) { return s3test.Keys(t, s3test.AccessKey, s3test.SecretKey) }

// natsServer is a server of a stream of its own, as a network has that does not leave it to a collector.
func natsServer(t *testing.T) (address string) {
	t.Helper()
	address = freeport.Address(t)
	at := netip.MustParseAddrPort(address)
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: int(at.Port()), JetStream: true, JetStreamMaxStore: 1 << 40, NoSigs: true, NoLog: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(2 * time.Minute) {
		t.Fatal("the NATS server does not come up")
	}
	return address
}

// archiver makes a collector with an archive of a server's stream, and more in [collect].
func archiver(t *testing.T, stream, archive, more string) *collectBed {
	t.Helper()
	b := newCollectBed(t, fmt.Sprintf("servers = [%q]\n", "nats://"+stream), archive)
	b.nats = stream
	b.replaceIn(t, "[collect]\n", "[collect]\n"+more)
	b.start(t)
	return b
}

// forget ends collectors of a stream, deletes it, and starts them again: what they answer is from their archives.
func forget(t *testing.T, collectors ...*collectBed) {
	t.Helper()
	for _, b := range collectors {
		b.stop(t)
	}
	nc, err := nats.Connect("nats://" + collectors[0].nats)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nats_js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), jetstream.Stream); err != nil {
		t.Fatal(err)
	}
	for _, b := range collectors {
		b.start(t)
		if s := b.status(t); s.Stream.Messages != 0 || len(s.Kinds) != 0 {
			t.Fatalf("the collector has not forgotten: %v", s)
		}
	}
}

// awaitArchived waits until so many records are archived since the collector began.
func (b *collectBed) awaitArchived(t *testing.T, n uint64) {
	t.Helper()
	awaitState(t, fmt.Sprint(n, " archived records"), func() (string, bool) {
		got := b.metric(t, "weir_collect_archive_records_total")
		_, text := b.readyz(t)
		return fmt.Sprint(got, text), got == float64(n)
	})
}

// sameAnswers compares answers.
func sameAnswers(t *testing.T, what string, questions []query.Question, got, want []string) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, %s:\n %s\nwant\n %s", questions[i].Kind, what, shorten(got[i]), shorten(want[i]))
		}
	}
}

// TestHistoryS3: two collectors archive one stream, in a bucket and in a folder. Started anew, when the stream has nothing, they answer about
// an hour alike, and as the first one did from memory; and they archived the same.
func TestHistoryS3(t *testing.T) {
	const bits, hours, each = 30, 4, 100
	store := s3test.Start(t)
	objects := filepath.Join(store.Bucket(t, "weir"), "net")
	folder := filepath.Join(t.TempDir(), "archive")
	file := filepath.Join(t.TempDir(), "paths.json")
	if err := os.WriteFile(file, []byte(`[{"switches": ["s1", "s2", "s3"]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	paths := fmt.Sprintf("paths = %q\n", file)
	stream := natsServer(t)
	b := archiver(t, stream, s3Archive(store.URL(), rightKeys(t)), paths)
	onDisk := archiver(t, stream, fmt.Sprintf("[archive]\nurl = %q\nflush = \"1s\"\n", "file://"+folder), paths)
	o := jetstream.Options{Servers: []string{"nats://" + b.nats}, Inbox: jetstream.Acks(1)}
	spool, _ := sender(t, o)
	first := uint64(clock.Kernel.TAI()-hours*int64(time.Hour)) >> bits
	base := int64(first << bits)
	d := &digests{sw: 1, base: base, every: int64(time.Hour) / each}
	d.write(t, spool, hours*each)
	crowded(t, o, first+5400, sketches.Epochs(bits)) // in the second hour: an epoch is about a second
	const records = hours*each + 12
	b.awaitArchived(t, records)
	onDisk.awaitArchived(t, records)
	questions := historyQuestions(base+int64(time.Hour), base+2*int64(time.Hour))
	memory := b.answersOf(t, questions)
	for i, text := range memory[:2] {
		if strings.HasPrefix(text, "error") {
			t.Errorf("%v: %s", questions[i], text)
		}
	}
	forget(t, b, onDisk)
	disk := onDisk.answersOf(t, questions)
	sameAnswers(t, "from the bucket, as from the folder", questions, b.answersOf(t, questions), disk)
	sameAnswers(t, "from the folder, as from memory", questions, disk, memory)
	for _, x := range []*collectBed{b, onDisk} {
		if n := x.metric(t, "weir_collect_archive_read_records_total"); n <= 0 {
			t.Errorf("%v records were read from the archive", n)
		}
		if code, text := x.readyz(t); code != http.StatusOK {
			t.Errorf("/readyz: %d, %s", code, text)
		}
	}
	for kind, n := range map[string]uint64{"pint": hours * each, "disketch": 12} {
		eachOnce(t, objects, kind, n)
		rows := archivedRows(t, objects, kind)
		theirs := archivedRows(t, folder, kind)
		bySequence := func(a, b archivedRow) int { return int(a.Sequence) - int(b.Sequence) }
		slices.SortFunc(rows, bySequence)
		slices.SortFunc(theirs, bySequence)
		if !slices.EqualFunc(rows, theirs, func(a, b archivedRow) bool { return a.Sequence == b.Sequence && bytes.Equal(a.Record, b.Record) }) {
			t.Errorf("%s: the bucket has other records than the folder", kind)
		}
	}
	onDisk.stop(t)
	b.stop(t)
}

// killingProxy is before a server of S3, which it kills in the middle of an upload when that is wanted.
type killingProxy struct {
	*httptest.Server
	mu     sync.Mutex
	when   string        // upload or answer: when the next upload has passed by half, or before its answer passes
	killed chan struct{} // closed then
}

func newKillingProxy(t *testing.T, store *s3test.Server) *killingProxy {
	p := &killingProxy{}
	kill := func() {
		store.Kill()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.when = ""
		close(p.killed)
	}
	due := func(r *http.Request, when string) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return r.Method == http.MethodPut && p.when == when && strings.Contains(r.URL.Path, "kind=pint")
	}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: store.Address})
			r.Out.Host = r.In.Host // which the signature covers
			if due(r.In, "upload") {
				r.Out.Body = &halfBody{r.Out.Body, r.Out.ContentLength / 2, kill}
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if due(r.Request, "answer") {
				kill()
				return errors.New("killed")
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // the connection ends
	}
	p.Server = httptest.NewServer(forward)
	t.Cleanup(p.Close)
	return p
}

// killAt has the server be killed at the next upload, and then closes what it returns.
func (p *killingProxy) killAt(when string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.when, p.killed = when, make(chan struct{})
	return p.killed
}

// halfBody is the first half of a body.
type halfBody struct {
	io.ReadCloser
	left int64
	then func()
}

func (b *halfBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		if b.then != nil {
			b.then()
			b.then = nil
		}
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// TestFaultS3: a server of S3 is killed in the middle of an upload, or when it has kept the object and not answered yet, and so is the collector with it in
// half of the rounds. In the end each record is in the bucket once, and in the answers once.
func TestFaultS3(t *testing.T) {
	store := s3test.Start(t)
	objects := filepath.Join(store.Bucket(t, "weir"), "net")
	proxy := newKillingProxy(t, store)
	b := archiver(t, natsServer(t), s3Archive(proxy.URL, rightKeys(t)), "")
	spool, _ := sender(t, jetstream.Options{Servers: []string{"nats://" + b.nats}, Inbox: jetstream.Acks(1)})
	d := &digests{sw: 1, base: clock.Kernel.TAI() - int64(time.Hour)}
	d.write(t, spool, 200)
	b.awaitArchived(t, d.next)
	lost := 0.0
	for i := range 4 * faultRounds(t) {
		when := [2]string{"upload", "answer"}[i%2]
		killed := proxy.killAt(when)
		before := d.next
		d.write(t, spool, d.next+200)
		select {
		case <-killed:
		case <-time.After(3 * time.Minute):
			t.Fatalf("no upload came\n%s", b.stderr)
		}
		if i%4 < 2 {
			awaitState(t, "/readyz to say that the server does not answer", func() (string, bool) {
				code, text := b.readyz(t)
				return text, code == http.StatusServiceUnavailable && (strings.Contains(text, proxy.URL+" ended the connection: it is asked again") ||
					strings.Contains(text, proxy.URL+" cannot be reached, and is asked again"))
			})
			if n := b.metric(t, "weir_collect_archive_failures_total"); n <= 0 {
				t.Errorf("%v failures are counted", n)
			}
			store.Again(t)
		} else {
			lost += b.metric(t, "weir_collect_archive_lost_messages_total")
			b.kill()
			store.Again(t)
			b.start(t)
		}
		awaitState(t, "all to be archived", func() (string, bool) {
			n := len(archivedRows(t, objects, "pint"))
			code, text := b.readyz(t)
			return fmt.Sprint(when, " ", n, " of ", d.next, ", behind ", before, ": ", text), uint64(n) >= d.next && code == http.StatusOK
		})
	}
	eachOnce(t, objects, "pint", d.next)
	flow := query.FormatKey(query.Key(digestFlow(3)))
	end := d.base + int64(time.Hour)
	questions := []query.Question{{Kind: query.KindLatency, Flow: flow, Start: d.base, End: end}, {Kind: query.KindPath, Start: d.base, End: end}}
	memory := b.answersOf(t, questions)
	for i, text := range memory {
		if strings.HasPrefix(text, "error") {
			t.Errorf("%v: %s", questions[i], text)
		}
	}
	if lost += b.metric(t, "weir_collect_archive_lost_messages_total"); lost != 0 {
		t.Errorf("%v messages are counted as lost", lost)
	}
	forget(t, b)
	sameAnswers(t, "from the bucket, as from memory", questions, b.answersOf(t, questions), memory)
	if n := b.metric(t, "weir_collect_archive_read_records_total"); n <= float64(d.next) {
		t.Errorf("%v records were read of %d for all flows, and some for one", n, d.next)
	}
	b.stop(t)
}

// TestS3Refused: of keys that are wrong and of a bucket that is not there /readyz, and a question that needs the archive, say what to do. The collector
// collects and answers from memory meanwhile, and archives all once that is done.
func TestS3Refused(t *testing.T) {
	store := s3test.Start(t)
	for _, c := range []struct {
		name, access, secret, want string
	}{
		{"access key", "other", s3test.SecretKey, store.URL() + " does not know the access key of the file "},
		{"secret key", s3test.AccessKey, "other", store.URL() + " refuses the secret key of the file "},
		{"bucket", s3test.AccessKey, s3test.SecretKey, `there is no bucket "weir" at ` + store.URL() + ": make it, or correct archive.url"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := filepath.Join(store.Folder, "weir")
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
			if c.name != "bucket" {
				store.Bucket(t, "weir")
			}
			keys := s3test.Keys(t, c.access, c.secret)
			b := newCollectBed(t, "", s3Archive(store.URL(), keys))
			b.start(t)
			code, text := b.readyz(t)
			if want := "records are not archived, and the stream keeps them meanwhile: index: " + c.want; code != http.StatusServiceUnavailable || !strings.HasPrefix(text, want) {
				t.Errorf("/readyz: %s\nwant %s...", text, want)
			}
			spool, _ := sender(t, jetstream.Options{Servers: []string{"nats://" + b.nats}, Inbox: jetstream.Acks(1)})
			d := &digests{sw: 1, base: clock.Kernel.TAI() - int64(time.Hour)}
			d.write(t, spool, 50)
			awaitState(t, "records in memory", func() (string, bool) {
				s := b.status(t)
				return fmt.Sprint(s), collectedKind(s, record.PINT).Held == 50
			})
			flow := query.FormatKey(query.Key(digestFlow(3)))
			if _, err := b.client.Ask(t.Context(), &query.Question{Kind: query.KindLatency, Flow: flow}); err != nil {
				t.Errorf("from memory: %v", err)
			}
			old := &query.Question{Kind: query.KindLatency, Flow: flow, Start: d.base - 2*int64(time.Hour), End: d.base - int64(time.Hour)}
			if _, err := b.client.Ask(t.Context(), old); err == nil || !strings.Contains(err.Error(), "the archive cannot be read: "+c.want) {
				t.Errorf("from the archive: %v", err)
			}
			if c.name == "bucket" {
				store.Bucket(t, "weir")
			} else {
				right, err := os.ReadFile(rightKeys(t))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(keys, right, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			b.awaitArchived(t, d.next)
			awaitState(t, "/readyz to be content", func() (string, bool) {
				code, text := b.readyz(t)
				return text, code == http.StatusOK
			})
			b.stop(t)
			eachOnce(t, filepath.Join(folder, "net"), "pint", d.next)
		})
	}
}

// TestDamagedArchive: a file of the archive that was cut, or that has something else in it, is named by questions about its time, and counted. Others are
// answered; so are these once the file is removed, which is counted, too.
func TestDamagedArchive(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "archive")
	testDamaged(t, fmt.Sprintf("[archive]\nurl = %q\nflush = \"1s\"\n", "file://"+folder), folder)
}

// TestDamagedS3: so it is with objects of a bucket.
func TestDamagedS3(t *testing.T) {
	store := s3test.Start(t)
	testDamaged(t, s3Archive(store.URL(), rightKeys(t)), filepath.Join(store.Bucket(t, "weir"), "net"))
}

func testDamaged(t *testing.T, archive, folder string) {
	b := archiver(t, natsServer(t), archive, "")
	spool, _ := sender(t, jetstream.Options{Servers: []string{"nats://" + b.nats}, Inbox: jetstream.Acks(1)})
	d := &digests{sw: 1, base: clock.Kernel.TAI() - 3*int64(time.Hour), every: int64(time.Hour) / 50}
	files := map[string]bool{}
	ofHour := map[int]string{} // the files' paths
	for hour := range 2 {
		d.write(t, spool, d.next+50)
		b.awaitArchived(t, d.next)
		all, err := filepath.Glob(filepath.Join(folder, "records/kind=pint/*/*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range all {
			if !files[path] {
				files[path], ofHour[hour] = true, path
			}
		}
	}
	forget(t, b)
	// Hours without their edges, which are in files of both.
	ask := func(hour int) error {
		from := d.base + int64(hour)*int64(time.Hour)
		_, err := b.client.Ask(t.Context(), &query.Question{Kind: query.KindPath, Start: from + int64(5*time.Minute), End: from + int64(55*time.Minute)})
		return err
	}
	for hour := range 2 {
		if err := ask(hour); err != nil {
			t.Fatalf("hour %d: %v", hour, err)
		}
	}
	path := ofHour[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(ofHour[1])
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(whole)
	for i := 100; i < len(flipped)-2000; i += 50 {
		flipped[i] ^= 0x55
	}
	damages := map[string][]byte{"empty": nil, "cut": whole[:len(whole)/2], "garbage": bytes.Repeat([]byte("garbage "), 1000), "changed": flipped, "another file": other}
	name := strings.TrimPrefix(path, folder+"/")
	for _, what := range slices.Sorted(maps.Keys(damages)) {
		if err := os.WriteFile(path, damages[what], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ask(0); err == nil || !strings.Contains(err.Error(), name+" of the archive is damaged: ") || !strings.Contains(err.Error(), "restore it, or remove it") {
			t.Errorf("%s: %v", what, err)
		} else {
			t.Logf("%s: %v", what, err)
		}
		if n := b.metric(t, "weir_collect_archive_damaged_files"); n != 1 {
			t.Errorf("%s: %v files are damaged", what, n)
		}
		if err := ask(1); err != nil {
			t.Errorf("%s: the other hour: %v", what, err)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ask(0); err != nil || b.metric(t, "weir_collect_archive_damaged_files") != 0 {
		t.Errorf("restored: %v, %v are damaged", err, b.metric(t, "weir_collect_archive_damaged_files"))
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := ask(0); err != nil && strings.Contains(err.Error(), "archive") {
		t.Errorf("removed: %v", err)
	}
	if n := b.metric(t, "weir_collect_archive_gone_files_total"); n != 1 {
		t.Errorf("%v files are counted as gone", n)
	}
	if log := b.stderr.String(); strings.Count(log, "questions about some time cannot be answered") != 1 {
		t.Errorf("a damaged file is to be in the log once:\n%s", log)
	}
	b.stop(t)
}
