package embed

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// kept is an applier that keeps what it is given, and knows what came before.
type kept struct {
	mu   sync.Mutex
	seen map[string]int
}

func (k *kept) Apply(h record.Header, body []byte, _ time.Time) collect.Outcome {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen == nil {
		k.seen = map[string]int{}
	}
	id := fmt.Sprint(h.Switch, h.Kind, h.Start, h.Instance, string(body))
	k.seen[id]++
	if k.seen[id] > 1 {
		return collect.Duplicate
	}
	return collect.Applied
}

// of counts a switch's records.
func (k *kept) of(sw uint32) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.seen {
		if strings.HasPrefix(id, fmt.Sprint(sw, " ")) {
			n++
		}
	}
	return n
}

func (k *kept) len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.seen)
}

func testConfig(t *testing.T, data string) Config {
	c := Config{Name: "test", Data: data, NATS: collect.DefaultNATS(), Retention: collect.DefaultRetention(), Log: quiet(t)}
	c.NATS.Listen, c.Retention.Bytes = "127.0.0.1:0", 256<<20
	return c
}

func quiet(t *testing.T) *zap.Logger { return zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)) }

func start(t *testing.T, c Config) *Server {
	t.Helper()
	s, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// collecting runs a collector over a server until the function that it returns is called.
func collecting(t *testing.T, s *Server, p collect.Partitions, a collect.Applier) (*collect.Collector, func()) {
	t.Helper()
	c := collect.New(collect.Config{
		Connect: s.Connect, Partitions: p, Log: quiet(t),
		Stream: jetstream.StreamConfig{Age: time.Hour, Bytes: s.config.Retention.Bytes},
	}, a)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { c.Run(ctx); close(ended) }()
	return c, func() { cancel(); <-ended }
}

// eventually waits for what must come to be.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

func encoded(t *testing.T, h record.Header, body []byte) []byte {
	t.Helper()
	b, err := record.Append(nil, &h, func(dst []byte) ([]byte, error) { return append(dst, body...), nil })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func connect(t *testing.T, s *Server, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.URL(), append(opts, nats.Timeout(time.Minute))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// send publishes records as a switch does and waits until all are acknowledged: what is
// refused, or has no answer for long, as when a cluster chooses another leader, is published
// again.
func send(t *testing.T, nc *nats.Conn, headers []record.Header, body []byte) {
	t.Helper()
	waiting := map[uint64]bool{}
	for i := range headers {
		waiting[uint64(i)] = true
	}
	eventually(t, "all records are acknowledged", func() bool { return sendSome(t, nc, headers, body, waiting) == nil })
}

// sendSome publishes the records whose numbers wait, and takes out those that the stream has.
func sendSome(t *testing.T, nc *nats.Conn, headers []record.Header, body []byte, waiting map[uint64]bool) (last error) {
	t.Helper()
	acks := make(chan jetstream.Ack, len(headers))
	p, err := jetstream.NewPublisher(nc, jetstream.Secret{}, func(a jetstream.Ack) { acks <- a })
	if err != nil {
		return err
	}
	defer p.Close()
	published := 0
	for i := range headers {
		if !waiting[uint64(i)] {
			continue
		}
		if err := p.Publish(uint64(i), &headers[i], encoded(t, headers[i], body)); err != nil {
			return err
		}
		published++
	}
	for range published {
		select {
		case a := <-acks:
			if a.Err != nil {
				last = a.Err
				continue
			}
			delete(waiting, a.Number)
		case <-time.After(10 * time.Second):
			return nats.ErrTimeout
		}
	}
	return last
}

func epochs(kind record.Kind, sw uint32, n int) []record.Header {
	var all []record.Header
	for i := range n {
		all = append(all, record.Header{Kind: kind, Switch: sw, Name: fmt.Sprint("s", sw), Start: int64(i) << 20, Span: 1 << 20})
	}
	return all
}

// TestKeep: what switches publish reaches the applier in order and once, a collector that
// starts anew reads it again from the disk, and is ready only then.
func TestKeep(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := start(t, testConfig(t, folder))
	first := &kept{}
	c, stop := collecting(t, s, collect.DefaultPartitions(), first)
	<-c.Ready()
	nc := connect(t, s, nats.CustomInboxPrefix(jetstream.Acks(3)))
	const n = 500
	sent := epochs(record.LDS, 3, n)
	send(t, nc, sent, make([]byte, 1000))
	send(t, nc, sent[:10], make([]byte, 1000)) // again: the stream has them
	eventually(t, "all are applied", func() bool { return c.Counters(record.LDS).By[collect.Applied] == n })
	if got := c.Counters(record.LDS); got.Received != n {
		t.Errorf("%+v", got)
	}
	stop()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = start(t, testConfig(t, folder))
	defer s.Close()
	second := &kept{}
	c, stop = collecting(t, s, collect.DefaultPartitions(), second)
	defer stop()
	<-c.Ready()
	if got := c.Counters(record.LDS); got.Received != n || got.By[collect.Applied] != n || second.len() != n {
		t.Errorf("after a restart: %+v", got)
	}
	if st := c.Status(); !st.Ready || st.Target != n || st.Read != n || st.Lost != 0 || st.Pending != 0 {
		t.Errorf("%+v", st)
	}
}

// TestOneFolder: two collectors do not share a folder.
func TestOneFolder(t *testing.T) {
	t.Parallel()
	c := testConfig(t, t.TempDir())
	s := start(t, c)
	if _, err := Start(c); err == nil {
		t.Error("a second collector in the folder: no error")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, c).Close()
}
