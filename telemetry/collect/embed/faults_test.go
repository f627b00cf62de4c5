package embed

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	nats_js "github.com/nats-io/nats.go/jetstream"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	m.Run()
}

// total sums the counts of all kinds.
func total(c *collect.Collector) (sum collect.Counters) {
	for _, k := range append([]record.Kind{0}, collect.Kinds...) {
		x := c.Counters(k)
		sum.Received += x.Received
		sum.Bytes += x.Bytes
		for o, n := range x.By {
			sum.By[o] += n
		}
	}
	return sum
}

// TestGarbage publishes what is no record, records cut and changed, under subjects of no
// kind, and records under another's: each is counted as what it is, and those that are whole
// go on.
func TestGarbage(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig(t, t.TempDir()))
	defer s.Close()
	all := &kept{}
	c, stop := collecting(t, s, collect.DefaultPartitions(), all)
	defer stop()
	nc := connect(t, s)
	js, err := nats_js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Ready()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var want [16]uint64
	publish := func(o collect.Outcome, subject string, data []byte) {
		t.Helper()
		if _, err := js.Publish(ctx, subject, data); err != nil {
			t.Fatal(subject, err)
		}
		want[o]++
	}
	r := rand.New(rand.NewPCG(1, 2))
	headers := epochs(record.Oblivious, 9, 100)
	for i, h := range headers {
		b := encoded(t, h, []byte{byte(i)})
		subject := jetstream.Subject(&h)
		publish(collect.Applied, subject, b)
		publish(collect.Unreadable, subject, b[:r.IntN(len(b))])
		changed := bytes.Clone(b)
		changed[r.IntN(len(b))] ^= 1 << r.IntN(8)
		publish(collect.Unreadable, subject, changed)
		publish(collect.Unreadable, subject, append(bytes.Clone(b), 'x'))
		noise := make([]byte, r.IntN(300))
		for j := range noise {
			noise[j] = byte(r.Uint32())
		}
		publish(collect.Unreadable, subject, noise)
		for _, forged := range []string{
			strings.Replace(subject, ".9", ".8", 1), strings.Replace(subject, "oblivious", "lds", 1), strings.Replace(subject, ".0.", ".1.", 1), subject + ".9", "weir.records.x", "weir.records.a.b.c.d",
			strings.Replace(subject, fmt.Sprint(".", i, "."), fmt.Sprint(".", i+1, "."), 1),
		} {
			if forged != subject {
				publish(collect.Forged, forged, b)
			}
		}
	}
	far := record.Header{Kind: record.PINT, Switch: 9, Instance: record.Partitions, Span: 1}
	publish(collect.Unreadable, jetstream.Subject(&far), encoded(t, far, nil))
	later := record.Header{Kind: 200, Switch: 9, Span: 1}
	publish(collect.Applied, jetstream.Subject(&later), encoded(t, later, nil)) // the store's to know, by its kind
	var sent uint64
	for _, n := range want {
		sent += n
	}
	eventually(t, "all is read", func() bool { return total(c).Received == sent })
	got := total(c)
	for o, n := range got.By {
		if n != want[o] {
			t.Errorf("%v: %d, want %d", collect.Outcome(o), n, want[o])
		}
	}
	if got := c.Counters(record.Kind(0)); got.Received < 200 {
		t.Errorf("of no kind: %+v", got)
	}
}

// TestPartitions: three collectors have each digest once among them, and everything else each.
func TestPartitions(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig(t, t.TempDir()))
	defer s.Close()
	nc := connect(t, s)
	const of = 3
	var collectors [of]*collect.Collector
	var parts [of]*kept
	for i := range of {
		parts[i] = &kept{}
		c, stop := collecting(t, s, collect.Partitions{Index: i, Of: of}, parts[i])
		defer stop()
		collectors[i] = c
		<-c.Ready()
	}
	var digests []record.Header
	for i := range 8 * record.Partitions {
		digests = append(digests, record.Header{Kind: record.PINT, Switch: 1, Instance: uint16(i % record.Partitions), Start: int64(i) << 20, Span: 1 << 20})
	}
	send(t, nc, digests, nil)
	send(t, nc, epochs(record.LDS, 1, 10), nil)
	send(t, nc, epochs(record.Status, 1, 10), nil)
	sum := uint64(0)
	eventually(t, "all is read", func() bool {
		sum = 0
		for _, c := range collectors {
			if c.Counters(record.LDS).Received != 10 || c.Counters(record.Status).Received != 10 {
				return false
			}
			sum += c.Counters(record.PINT).By[collect.Applied]
		}
		return sum >= uint64(len(digests))
	})
	if sum != uint64(len(digests)) {
		t.Errorf("%d digests, sent %d", sum, len(digests))
	}
	for i, c := range collectors {
		if n := c.Counters(record.PINT); n.Received != n.By[collect.Applied] || n.Received < 5*8 || n.Received > 6*8 {
			t.Errorf("collector %d: %+v", i, n)
		}
	}
}

// TestDamagedFile changes bytes in the middle of the stream's file while no collector runs:
// what is whole is read again, what is not is missed, and new records come as before.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := start(t, testConfig(t, folder))
	c, stop := collecting(t, s, collect.DefaultPartitions(), &kept{})
	<-c.Ready()
	nc := connect(t, s)
	const n = 300
	send(t, nc, epochs(record.LDS, 1, n), make([]byte, 4000))
	nc.Close()
	stop()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	blocks, err := filepath.Glob(filepath.Join(folder, "jetstream", "*", "streams", "WEIR", "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatal(blocks, err)
	}
	b, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	copy(b[len(b)/2:], bytes.Repeat([]byte("damage"), 500))
	if err := os.WriteFile(blocks[0], b, 0o600); err != nil {
		t.Fatal(err)
	}

	s = start(t, testConfig(t, folder))
	defer s.Close()
	again := &kept{}
	c, stop = collecting(t, s, collect.DefaultPartitions(), again)
	defer stop()
	<-c.Ready()
	before := c.Counters(record.LDS)
	t.Logf("%d of %d records are left, %+v", before.By[collect.Applied], n, c.Status())
	if before.By[collect.Applied] == n || before.Received != total(c).Received {
		t.Errorf("a damaged file changes nothing: %+v", before)
	}
	send(t, connect(t, s), epochs(record.LDS, 2, 50), nil)
	eventually(t, "new records arrive", func() bool { return c.Counters(record.LDS).By[collect.Applied] == before.By[collect.Applied]+50 })
}

// TestFullDisk fills the disk of the data folder under load: what was acknowledged stays, what
// is not is refused, and when there is room again records are taken as before, without a
// restart.
func TestFullDisk(t *testing.T) {
	if raceDetector {
		// Server.EnableJetStream writes what requests of other connections read; nobody but
		// nats-server could guard it.
		t.Skip("nats-server races with itself where JetStream is enabled while clients are connected")
	}
	t.Parallel()
	folder := t.TempDir()
	if err := syscall.Mount("weir", folder, "tmpfs", 0, "size=96m"); err != nil {
		t.Skipf("a small file system to fill needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	s := start(t, testConfig(t, folder))
	defer s.Close()
	all := &kept{}
	c, stop := collecting(t, s, collect.DefaultPartitions(), all)
	defer stop()
	<-c.Ready()
	nc := connect(t, s)
	acked, refused := fill(t, s, nc)
	t.Logf("%d records acknowledged, then %v", acked, refused)
	if acked == 0 || refused == nil {
		t.Fatal("the disk was not full")
	}
	eventually(t, "the collector says that the disk is full", func() bool { return s.Problem() != "" })

	if err := syscall.Mount("weir", folder, "tmpfs", syscall.MS_REMOUNT, "size=256m"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is room", func() bool { return s.Problem() == "" })
	eventually(t, "what was acknowledged is applied", func() bool { return c.Status().Connected && all.len() >= acked })
	more := epochs(record.LDS, 4, 30)
	eventually(t, "records are taken", func() bool { return acknowledged(t, nc, more[0]) })
	send(t, nc, more[1:], nil)
	eventually(t, "new records are applied", func() bool { return all.of(4) == len(more) })
}

// acknowledged publishes a record and reports whether the stream has it.
func acknowledged(t *testing.T, nc *nats.Conn, h record.Header) bool {
	t.Helper()
	acks := make(chan jetstream.Ack, 1)
	p, err := jetstream.NewPublisher(nc, jetstream.Secret{}, func(a jetstream.Ack) { acks <- a })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Publish(0, &h, encoded(t, h, nil)); err != nil {
		return false
	}
	select {
	case a := <-acks:
		return a.Err == nil
	case <-time.After(time.Second):
		return false
	}
}

// fill publishes until a record is not acknowledged, for want of room.
func fill(t *testing.T, s *Server, nc *nats.Conn) (acked int, refused error) {
	t.Helper()
	acks := make(chan jetstream.Ack, 1)
	p, err := jetstream.NewPublisher(nc, jetstream.Secret{}, func(a jetstream.Ack) { acks <- a })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i, h := range epochs(record.LDS, 3, 10_000) {
		body := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 64<<10)
		if err := p.Publish(uint64(i), &h, encoded(t, h, body)); err != nil {
			return acked, err
		}
		for answered := false; !answered; {
			select {
			case a := <-acks:
				if answered = true; a.Err != nil {
					return acked, a.Err
				}
				acked++
			case <-time.After(100 * time.Millisecond):
				if s.Problem() != "" {
					return acked, nats.ErrTimeout
				}
			}
		}
	}
	return acked, nil
}
