package export

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsstream "github.com/nats-io/nats.go/jetstream"

	"github.com/weirswitch/weir/internal/freeport"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// bed is a NATS server with JetStream, which can go and come back on its port with
// its disk.
type bed struct {
	*server.Server
	options server.Options
}

func newBed(t *testing.T, o server.Options) *bed {
	t.Helper()
	address := netip.MustParseAddrPort(freeport.Address(t))
	o.Host, o.Port, o.JetStream, o.NoSigs, o.NoLog, o.StoreDir = "127.0.0.1", int(address.Port()), true, true, true, t.TempDir()
	b := &bed{options: o}
	b.start(t)
	t.Cleanup(b.stop)
	return b
}

func (b *bed) start(t *testing.T) {
	t.Helper()
	o := b.options
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(2 * time.Minute) {
		t.Fatal("the server does not come up")
	}
	b.Server = s
}

func (b *bed) stop() {
	b.Shutdown()
	b.WaitForShutdown()
}

func (b *bed) target() jetstream.Options {
	return jetstream.Options{Name: "s1", Servers: []string{fmt.Sprintf("nats://127.0.0.1:%d", b.options.Port)}}
}

// stream makes the stream.
func (b *bed) stream(t *testing.T) {
	t.Helper()
	b.with(t, func(ctx context.Context, js natsstream.JetStream) error {
		_, err := jetstream.EnsureStream(ctx, js, jetstream.StreamConfig{})
		return err
	})
}

func (b *bed) with(t *testing.T, f func(context.Context, natsstream.JetStream) error) {
	t.Helper()
	nc, err := nats.Connect(b.target().Servers[0], nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := natsstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := f(ctx, js); err != nil {
		t.Fatal(err)
	}
}

// kept reads the stream: how often it has each number.
func (b *bed) kept(t *testing.T) map[uint64]int {
	t.Helper()
	kept := map[uint64]int{}
	b.with(t, func(ctx context.Context, js natsstream.JetStream) error {
		s, err := js.Stream(ctx, jetstream.Stream)
		if err != nil {
			return err
		}
		left := s.CachedInfo().State.Msgs
		c, err := s.OrderedConsumer(ctx, natsstream.OrderedConsumerConfig{})
		if err != nil || left == 0 {
			return err
		}
		messages, err := c.Messages()
		if err != nil {
			return err
		}
		defer messages.Stop()
		for ; left > 0; left-- {
			m, err := messages.Next(natsstream.NextContext(ctx))
			if err != nil {
				return err
			}
			h, body, rest, err := record.Decode(m.Data())
			if err != nil || len(rest) != 0 || m.Subject() != jetstream.Subject(&h) {
				return fmt.Errorf("message on %s: %+v, %d bytes behind it, %w", m.Subject(), h, len(rest), err)
			}
			kept[binary.BigEndian.Uint64(body)]++
		}
		return nil
	})
	return kept
}

// feed writes the numbers from..to to a spool, as records of a kind with a body of a size.
// Number n is of epoch n.
func feed(t *testing.T, s *Spool, k record.Kind, from, to uint64, size int) {
	t.Helper()
	for n := from; n < to; n++ {
		h := &record.Header{Kind: k, Switch: 1, Name: "s1", Start: int64(n) << 20, Span: 1 << 20}
		b, err := record.Append(nil, h, func(dst []byte) ([]byte, error) {
			return append(binary.BigEndian.AppendUint64(dst, n), make([]byte, size)...), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Write(h, b); err != nil {
			t.Fatal(err)
		}
	}
}

// begin ships a spool until the test ends.
func begin(t *testing.T, s *Spool, o jetstream.Options, l limits) *Shipper {
	t.Helper()
	sh, err := ship(s, o, l, func(Status) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-sh.stop:
		default:
			if err := sh.Stop(0); err != nil {
				t.Error(err)
			}
		}
	})
	return sh
}

var wide = limits{maxInFlight, maxInFlightBytes}

// until waits for a condition.
func until(t *testing.T, what string, sh *Shipper, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s in vain: %+v, %+v", what, sh.Status(), sh.spool.Counts())
		}
	}
}

func counts(s *Spool, k record.Kind) KindCounts {
	for _, c := range s.Counts() {
		if c.Kind == k {
			return c
		}
	}
	return KindCounts{Kind: k}
}

// balanced holds the counters to their sum.
func balanced(t *testing.T, s *Spool) {
	t.Helper()
	for _, c := range s.Counts() {
		dropped := uint64(0)
		for _, d := range c.Dropped {
			dropped += d.Records
		}
		if c.Waiting.Records > 1<<63 || c.Waiting.Bytes > 1<<63 || c.Spooled.Records+c.Found.Records != c.Sent.Records+c.Waiting.Records+dropped {
			t.Errorf("the counters of %s do not add up: %+v", c.Kind, c)
		}
	}
}

// each holds a stream to having each number once, but for those that are left out.
func each(t *testing.T, kept map[uint64]int, from, to uint64, but func(uint64) bool) {
	t.Helper()
	for n := from; n < to; n++ {
		if want := 1; kept[n] != want && (but == nil || !but(n)) || kept[n] > 1 {
			t.Errorf("record %d is in the stream %d times", n, kept[n])
		}
	}
}

// left are the files of the spool.
func leftFiles(t *testing.T, s *Spool) []numbered {
	t.Helper()
	found, err := spoolFiles(s.dir, s.name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestShip: what is written before and after the servers and the stream are there
// arrives once, and the files go.
func TestShip(t *testing.T) {
	b := newBed(t, server.Options{})
	b.stop()
	spool := openSpool(t, Config{Spool: t.TempDir(), SpoolBytes: 16 << 20}, "s1")
	feed(t, spool, record.LDS, 0, 3000, 100)
	sh := begin(t, spool, b.target(), limits{32, 64 << 10})
	until(t, "a refused connection", sh, func() bool { return strings.Contains(sh.Status().LastError, "refused") })
	if st := sh.Status(); st.State != Connecting || st.Server != "" || st.Connects != 0 {
		t.Errorf("without a server: %+v", st)
	}
	b.start(t)
	until(t, "the word that there is no stream", sh, func() bool { return strings.Contains(sh.Status().LastError, "start weir collect") })
	if c := counts(spool, record.LDS); c.Waiting.Records != 3000 || c.Sent.Records != 0 {
		t.Errorf("without a stream: %+v", c)
	}
	b.stream(t)
	feed(t, spool, record.DiSketch, 3000, 3100, 128<<10) // larger than what may be in flight
	until(t, "all to be sent", sh, func() bool {
		return counts(spool, record.LDS).Sent.Records == 3000 && counts(spool, record.DiSketch).Sent.Records == 100
	})
	if st := sh.Status(); st.State != Connected || st.Connects != 1 || !strings.HasPrefix(st.Server, "nats://127.0.0.1:") || st.Acknowledged != 3100 ||
		st.Published != st.Acknowledged+st.Retried {
		t.Errorf("at the end: %+v", st)
	}
	each(t, b.kept(t), 0, 3100, nil)
	balanced(t, spool)
	if err := sh.Stop(0); err != nil {
		t.Error(err)
	}
	if err := spool.Close(); err != nil {
		t.Error(err)
	}
	if files := leftFiles(t, spool); len(files) != 0 {
		t.Errorf("files are left: %v", files)
	}
}

// TestShipAgain: a run goes on where the last one was killed. With its state it
// publishes what was not settled; without, everything that has a file, and the
// stream has it once all the same.
func TestShipAgain(t *testing.T) {
	for _, forget := range []string{"", "removed", "garbage"} {
		t.Run("state "+forget, func(t *testing.T) {
			b := newBed(t, server.Options{})
			b.stream(t)
			c := Config{Spool: t.TempDir(), SpoolBytes: 4 << 20}
			first := openSpool(t, c, "s1")
			feed(t, first, record.LDS, 0, 1000, 1000)
			sh := begin(t, first, b.target(), limits{16, 1 << 20})
			until(t, "some to be sent", sh, func() bool { return counts(first, record.LDS).Sent.Records >= 100 })
			if err := sh.Stop(0); err != nil {
				t.Fatal(err)
			}
			sent := counts(first, record.LDS).Sent.Records
			_ = first.lock.Close() // as a kill does it; and of a record, which it interrupted, the begin
			if _, err := first.file.Write([]byte("WR\x01\x04\x00\x00\x10\x00abc")); err != nil {
				t.Fatal(err)
			}
			switch path := first.statePath(); forget {
			case "removed":
				_ = os.Remove(path)
			case "garbage":
				_ = os.WriteFile(path, []byte("{"), 0o600)
			}
			second := openSpool(t, c, "s1")
			got := counts(second, record.LDS)
			if waited := 1000 - sent + 1; got.Found.Records < waited || forget == "" && got.Found.Records > waited || len(got.Dropped) != 1 || got.Dropped[0].Reason != DropCutOff {
				t.Errorf("%d were sent; found %+v", sent, got)
			}
			feed(t, second, record.LDS, 1000, 1100, 1000)
			sh = begin(t, second, b.target(), wide)
			until(t, "the rest to be sent", sh, func() bool { return counts(second, record.LDS).Waiting.Records == 0 })
			each(t, b.kept(t), 0, 1100, nil)
			balanced(t, second)
		})
	}
}

// TestShipBound: what the bound drops is counted with its epochs, in the state too,
// and everything else is in the stream once.
func TestShipBound(t *testing.T) {
	b := newBed(t, server.Options{})
	b.stop()
	c := Config{Spool: t.TempDir(), SpoolBytes: minSpool}
	spool := openSpool(t, c, "s1")
	sh := begin(t, spool, b.target(), limits{8, 1 << 20})
	feed(t, spool, record.LDS, 0, 2500, 1000)
	drops := counts(spool, record.LDS).Dropped
	if len(drops) != 1 || drops[0].Reason != DropFull || drops[0].FirstEpoch != 0 || drops[0].LastEpoch != int64(drops[0].Records)-1 || drops[0].Last != int64(drops[0].Records)<<20 {
		t.Fatalf("dropped %+v", drops)
	}
	b.start(t)
	b.stream(t)
	until(t, "the rest to be sent", sh, func() bool { return counts(spool, record.LDS).Waiting.Records == 0 })
	dropped := drops[0].Records
	each(t, b.kept(t), 0, 2500, func(n uint64) bool { return n < dropped })
	if kept := b.kept(t); uint64(len(kept)) != 2500-dropped || dropped < 1000 {
		t.Errorf("%d of 2500 kept, %d dropped", len(kept), dropped)
	}
	balanced(t, spool)
	if err := sh.Stop(time.Second); err != nil {
		t.Error(err)
	}
	_ = spool.Close()
	if again := openSpool(t, c, "s1"); fmt.Sprint(again.DroppedBefore()) != fmt.Sprint(drops) {
		t.Errorf("the next run knows of %+v, it was %+v", again.DroppedBefore(), drops)
	}
}

// TestShipBoundInFlight: the bound takes files of which a part is in flight or
// sent. Whatever the order of things, each record is sent or dropped, by its epoch.
func TestShipBoundInFlight(t *testing.T) {
	b := newBed(t, server.Options{})
	b.stream(t)
	spool := openSpool(t, Config{Spool: t.TempDir(), SpoolBytes: minSpool}, "s1")
	feed(t, spool, record.LDS, 0, 2000, 1000) // beyond the bound: something is dropped, however fast it is sent
	sh := begin(t, spool, b.target(), limits{300, 1 << 20})
	r := rand.New(rand.NewPCG(1, 2))
	const all = 20000
	for n := uint64(2000); n < all; {
		end := min(n+r.Uint64N(600), all)
		feed(t, spool, record.LDS, n, end, 1000)
		if n = end; r.IntN(4) == 0 {
			time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
		}
	}
	until(t, "the rest to be sent", sh, func() bool { return counts(spool, record.LDS).Waiting.Records == 0 })
	balanced(t, spool)
	got, kept := counts(spool, record.LDS), b.kept(t)
	each(t, kept, 0, all, func(uint64) bool { return true })
	if uint64(len(kept)) != got.Sent.Records || len(got.Dropped) != 1 || got.Dropped[0].Records != all-got.Sent.Records {
		t.Fatalf("%d kept of %d: %+v", len(kept), all, got)
	}
	first, last := int64(-1), int64(-1)
	for n := range uint64(all) {
		if kept[n] == 0 {
			if last = int64(n); first < 0 {
				first = last
			}
		}
	}
	if d := got.Dropped[0]; d.FirstEpoch != first || d.LastEpoch != last {
		t.Errorf("epochs %d to %d are missing, %+v", first, last, d)
	}
}

// TestShipTooLarge: a record that no server takes is counted, and harms no other.
func TestShipTooLarge(t *testing.T) {
	b := newBed(t, server.Options{MaxPayload: 8 << 10})
	b.stream(t)
	spool := openSpool(t, Config{Spool: t.TempDir(), SpoolBytes: minSpool}, "s1")
	feed(t, spool, record.LDS, 0, 10, 100)
	feed(t, spool, record.DiSketch, 10, 12, 9000)
	feed(t, spool, record.LDS, 12, 20, 100)
	sh := begin(t, spool, b.target(), wide)
	until(t, "all to be settled", sh, func() bool {
		return counts(spool, record.LDS).Sent.Records == 18 && counts(spool, record.DiSketch).Waiting.Records == 0
	})
	want := Drop{DropTooLarge, Tally{record.DiSketch, 2, 2 * (9008 + record.HeadLength + 2 + 4), 10, 11, 10 << 20, 12 << 20}}
	if got := counts(spool, record.DiSketch).Dropped; len(got) != 1 || got[0] != want {
		t.Errorf("dropped %+v, want %+v", got, want)
	}
	if text := sh.Status().LastError; !strings.Contains(text, "raise max_payload") || !strings.Contains(text, "disketch record of 9058 bytes") {
		t.Errorf("it says %q", text)
	}
	each(t, b.kept(t), 0, 20, func(n uint64) bool { return n == 10 || n == 11 })
	balanced(t, spool)
}

// TestShipUnreadable: files that vanish or change under the switch are dropped and
// counted, and the rest goes on.
func TestShipUnreadable(t *testing.T) {
	b := newBed(t, server.Options{})
	b.stream(t)
	spool := openSpool(t, Config{Spool: t.TempDir(), SpoolBytes: minSpool}, "s1")
	feed(t, spool, record.LDS, 0, 500, 1000)
	files := leftFiles(t, spool)
	if len(files) < 5 {
		t.Fatal(files)
	}
	if err := os.Remove(files[1].path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(files[2].path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(files[2].path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(files[len(files)-1].path, 20); err != nil { // that being written
		t.Fatal(err)
	}
	sh := begin(t, spool, b.target(), wide)
	until(t, "all to be settled", sh, func() bool { return counts(spool, record.LDS).Waiting.Records == 0 })
	feed(t, spool, record.LDS, 500, 600, 1000)
	until(t, "what came then to be sent", sh, func() bool { return counts(spool, record.LDS).Waiting.Records == 0 })
	got, kept := counts(spool, record.LDS), b.kept(t)
	if len(got.Dropped) != 1 || got.Dropped[0].Reason != DropUnreadable || got.Dropped[0].Records != 600-uint64(len(kept)) || len(kept) < 400 {
		t.Errorf("%d kept, %+v", len(kept), got)
	}
	each(t, kept, 500, 600, nil)
	balanced(t, spool)
}

// TestShipServerRestarts: the server goes and comes back while records flow.
func TestShipServerRestarts(t *testing.T) {
	b := newBed(t, server.Options{})
	b.stream(t)
	spool := openSpool(t, Config{Spool: t.TempDir(), SpoolBytes: 64 << 20}, "s1")
	sh := begin(t, spool, b.target(), limits{64, 1 << 20})
	n := uint64(0)
	for range 3 {
		feed(t, spool, record.LDS, n, n+500, 500)
		b.stop()
		feed(t, spool, record.LDS, n+500, n+1000, 500)
		n += 1000
		b.start(t)
		until(t, "all to be sent", sh, func() bool { return counts(spool, record.LDS).Sent.Records == n })
	}
	each(t, b.kept(t), 0, n, nil)
	balanced(t, spool)
	if st := sh.Status(); st.Connects < 4 || st.State != Connected {
		t.Errorf("%+v", st)
	}
}

// TestShipStops: a stop sends what waits, if it may take so long; and what is in
// flight when it may not waits for the next run.
func TestShipStops(t *testing.T) {
	b := newBed(t, server.Options{})
	b.stream(t)
	c := Config{Spool: t.TempDir(), SpoolBytes: 64 << 20}
	spool := openSpool(t, c, "s1")
	feed(t, spool, record.LDS, 0, 5000, 500)
	sh := begin(t, spool, b.target(), wide)
	until(t, "a connection", sh, func() bool { return sh.Status().State == Connected })
	if err := sh.Stop(time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := counts(spool, record.LDS); got.Sent.Records != 5000 {
		t.Errorf("%+v", got)
	}
	feed(t, spool, record.LDS, 5000, 9000, 500)
	sh = begin(t, spool, b.target(), wide)
	until(t, "some to be sent", sh, func() bool { return counts(spool, record.LDS).Sent.Records > 5000 })
	_ = sh.Stop(0)
	balanced(t, spool)
	b.stop()
	sh = begin(t, spool, b.target(), wide)
	begun := make(chan error)
	go func() { begun <- sh.Stop(time.Hour) }()
	select {
	case <-begun: // no server, so nothing to wait for
	case <-time.After(time.Minute):
		t.Fatal("a stop waits for a server")
	}
	b.start(t)
	sh = begin(t, spool, b.target(), wide)
	until(t, "all to be sent", sh, func() bool { return counts(spool, record.LDS).Sent.Records == 9000 })
	each(t, b.kept(t), 0, 9000, nil)
}

// TestPathCounts: what a path says of its sending goes on through a new destination, none, and the end.
func TestPathCounts(t *testing.T) {
	b := newBed(t, server.Options{})
	b.stream(t)
	c := DefaultConfig()
	c.Spool, c.Collector = t.TempDir(), b.target().Servers
	p, err := NewPath(c, 1, "s1", hash.XX, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for round := range uint64(3) {
		if err := p.Configure(c); err != nil {
			t.Fatal(err)
		}
		feed(t, p.Spool, record.LDS, 100*round, 100*round+100, 100)
		for counts(p.Spool, record.LDS).Sent.Records != 100*round+100 {
			time.Sleep(time.Millisecond)
		}
	}
	with := p.Sending()
	if with.State != Connected || with.Connects != 3 || with.Acknowledged != 300 || with.Published < 300 {
		t.Errorf("with the third shipper: %+v", with)
	}
	ended := func(when string) {
		if got := p.Sending(); got.State != Off || got.Server != "" || got.Acknowledged != with.Acknowledged || got.Published != with.Published || got.Connects != with.Connects {
			t.Errorf("%s: %+v, before %+v", when, got, with)
		}
	}
	without := c
	without.Collector = nil
	if err := p.Configure(without); err != nil {
		t.Fatal(err)
	}
	ended("without a collector")
	if err := p.Close(0); err != nil {
		t.Fatal(err)
	}
	ended("at the end")
}

// TestConfig: the section is checked whole, under its own keys.
func TestConfig(t *testing.T) {
	c := DefaultConfig()
	c.Collector = []string{"nats://127.0.0.1:4222"}
	c.Complete()
	if err := c.Validate(); err != nil || c.Spool != defaultSpool {
		t.Errorf("%q, %v", c.Spool, err)
	}
	c.Spool = filepath.Join("/", "elsewhere")
	if c.Complete(); c.Spool != "/elsewhere" {
		t.Error(c.Spool)
	}
	bad := Config{SpoolBytes: 7, Collector: []string{"nats://u:p@h", "x"}, TLSKey: "/k", User: "u", TokenFile: "/t"}
	text := fmt.Sprint(bad.Validate())
	for _, want := range []string{"spool_bytes = 7", "collector[0]: ", "collector[1]: ", "tls_cert: ", "password_file: ", "token_file: "} {
		if !strings.Contains("\n"+text, "\n"+want) {
			t.Errorf("no line begins with %q: %s", want, text)
		}
	}
}

// FuzzFound: whatever is in a file that is found, it is read without harm, and
// everything in it is counted once.
func FuzzFound(f *testing.F) {
	var whole []byte
	for n := range 3 {
		h := &record.Header{Kind: record.LDS, Name: "s1", Start: int64(n), Span: 1}
		whole, _ = record.Append(whole, h, func(dst []byte) ([]byte, error) { return append(dst, "body"...), nil })
	}
	f.Add(whole, 0)
	f.Add(whole[:len(whole)-5], 7)
	f.Add([]byte("WR\x01\x04\xff\xff\xff\xff"), 0)
	f.Fuzz(func(t *testing.T, content []byte, offset int) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "s1-00000005.records"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.WriteFile(filepath.Join(dir, "s1.state"), fmt.Appendf(nil, `{"version":1,"file":5,"offset":%d}`, offset), 0o600)
		s, err := OpenSpool(Config{Spool: dir, SpoolBytes: minSpool}, "s1")
		if err != nil {
			t.Fatal(err)
		}
		for {
			taken, err := s.take()
			for i := range taken {
				s.settle(&taken[i], "")
			}
			if err == nil && len(taken) == 0 {
				break
			}
		}
		balanced(t, s)
		for _, c := range s.Counts() {
			if c.Waiting.Records != 0 {
				t.Errorf("%+v", c)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left := leftFiles(t, s); len(left) != 0 {
			t.Errorf("%v are left", left)
		}
	})
}

// BenchmarkShip sends records of a small and of a DiSketch record's size to a server in
// this process.
func BenchmarkShip(b *testing.B) {
	for _, size := range []int{1 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: b.TempDir(), NoSigs: true, NoLog: true})
			if err != nil {
				b.Fatal(err)
			}
			s.Start()
			defer s.WaitForShutdown()
			defer s.Shutdown()
			if !s.ReadyForConnections(2 * time.Minute) {
				b.Fatal("the server does not come up")
			}
			nc, err := nats.Connect(s.ClientURL())
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			js, err := natsstream.New(nc)
			if err == nil {
				_, err = jetstream.EnsureStream(b.Context(), js, jetstream.StreamConfig{Bytes: 256 << 20})
			}
			if err != nil {
				b.Fatal(err)
			}
			spool, err := OpenSpool(Config{Spool: b.TempDir(), SpoolBytes: 1 << 30}, "s1")
			if err != nil {
				b.Fatal(err)
			}
			defer spool.Close()
			sh, err := Ship(spool, jetstream.Options{Servers: []string{s.ClientURL()}}, func(Status) {})
			if err != nil {
				b.Fatal(err)
			}
			for sh.Status().State != Connected { // else Stop would not wait
				time.Sleep(time.Millisecond)
			}
			body := make([]byte, size)
			var encoded []byte
			b.SetBytes(int64(size))
			b.ResetTimer()
			for n := range b.N {
				h := &record.Header{Kind: record.DiSketch, Switch: 1, Start: int64(n) << 20, Span: 1 << 20}
				encoded, _ = record.Append(encoded[:0], h, func(dst []byte) ([]byte, error) { return append(dst, body...), nil })
				if err := spool.Write(h, encoded); err != nil {
					b.Fatal(err)
				}
				for n%64 == 63 && counts(spool, record.DiSketch).Waiting.Bytes > 64<<20 {
					time.Sleep(time.Millisecond)
				}
			}
			if err := sh.Stop(time.Minute); err != nil {
				b.Fatal(err)
			}
			if got := counts(spool, record.DiSketch); got.Sent.Records != uint64(b.N) {
				b.Fatalf("%+v", got)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
