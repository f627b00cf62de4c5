package main

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/internal/handover"
)

// natTestbed is a router between an inside and an outside host. The outside sees the router's address alone, and what no connection has is dropped:
// tcp_loose is off, so a connection that is not taken over does not begin anew.
//
//	10.1.0.2 ── p0 ── weir ── p1 ── 192.0.2.9
func natTestbed(t *testing.T, queues int) *testbed {
	t.Helper()
	netnstest.Require(t)
	b := &testbed{ns: netnstest.New(t, prefix), dir: t.TempDir()}
	for i, address := range []string{"10.1.0.2/24", "192.0.2.9/24"} {
		b.hosts[i] = netnstest.NewHost(t, prefix, netnstest.Port{Namespace: b.ns, Name: fmt.Sprintf("p%d", i), Queues: queues}, address)
	}
	must(t, b.hosts[0].NS.AddRoute("eth0", netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("10.1.0.1")))
	return b
}

// natSwitch writes the configuration of that router. edit is as of config.
func (b *testbed) natSwitch(t *testing.T, workers int, edit ...string) string {
	t.Helper()
	text := fmt.Sprintf("[workers]\ncount = %d\npin = false\npoll = \"interrupt\"\n", workers) + `
[switch]
name = "s1"
graph = ["parse", "conntrack", "l3"]
[dataplane]
audit = true
[[port]]
name = "p0"
interface = "p0"
[[port]]
name = "p1"
interface = "p1"
[[stages.l3.interface]]
port = "p0"
addresses = ["10.1.0.1/24"]
[[stages.l3.interface]]
port = "p1"
addresses = ["192.0.2.1/24"]
[stages.conntrack]
tcp_loose = false
connections = 65536
[[stages.conntrack.group]]
name = "outside"
ports = ["p1"]
default = "deny"
[[stages.conntrack.group.rule]]
action = "permit"
dst = "192.0.2.1"
protocol = "tcp"
dst_port = "443"
[[stages.conntrack.snat]]
src = "10.1.0.0/24"
addresses = ["192.0.2.1"]
block_size = 4096
[[stages.conntrack.dnat]]
dst = "192.0.2.1"
protocol = "tcp"
dst_port = "443"
[[stages.conntrack.dnat.backend]]
address = "10.1.0.2"
port = 8443
[control]
takeover = true
socket = "$SOCKET"
`
	path := filepath.Join(b.dir, "s1.toml")
	must(t, os.WriteFile(path, []byte(strings.NewReplacer(append(edit, "$SOCKET", b.socket("s1"))...).Replace(text)), 0o600))
	return path
}

// callers are TCP connections to a server that sends back what it gets. Each has a number, which the server knows by the client's first byte on, and an
// address that the server sees.
type callers struct {
	client, server *netnstest.Host
	to             string
	listener       net.Listener

	mu    sync.Mutex
	conns []net.Conn
	seen  map[string]bool // addresses that the server saw
	twice []string
}

func newCallers(t *testing.T, client, server *netnstest.Host, to, at string) *callers {
	t.Helper()
	c := &callers{client: client, server: server, to: to, seen: map[string]bool{}}
	var err error
	c.listener, err = server.NS.Listen("tcp", at)
	must(t, err)
	t.Cleanup(func() { c.listener.Close() })
	go func() {
		for {
			conn, err := c.listener.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			if from := conn.RemoteAddr().String(); c.seen[from] {
				c.twice = append(c.twice, from)
			} else {
				c.seen[from] = true
			}
			c.mu.Unlock()
			t.Cleanup(func() { conn.Close() })
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	return c
}

// call makes another connection, and speaks by it.
func (c *callers) call() error {
	var conn net.Conn
	if err := c.client.NS.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", c.to, time.Minute)
		return err
	}); err != nil {
		return err
	}
	c.mu.Lock()
	n := len(c.conns)
	c.conns = append(c.conns, conn)
	c.mu.Unlock()
	return speak(conn, uint32(n))
}

// speak sends a number and expects it back.
func speak(conn net.Conn, n uint32) error {
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	text := []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	if _, err := conn.Write(text); err != nil {
		return err
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(conn, got); err != nil {
		return fmt.Errorf("connection %d, %v: %w", n, conn.LocalAddr(), err)
	}
	if string(got) != string(text) {
		return fmt.Errorf("connection %d gets %x", n, got)
	}
	return nil
}

// all speaks by every connection.
func (c *callers) all(t *testing.T) {
	t.Helper()
	for i, conn := range c.conns {
		if err := speak(conn, uint32(i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.twice) != 0 {
		t.Errorf("the server sees two connections from %v", c.twice)
	}
}

// connections are those that conntrack counts.
func (b *testbed) connections(t *testing.T) float64 { return b.metrics(t, "conntrack")["connections"] }

// TestTakeoverConnections: processes take a router over from each other while TCP passes through source and destination translation, and connections
// begin. No connection ends, none has another one's outside port, and the processes count the same connections.
func TestTakeoverConnections(t *testing.T) {
	for _, c := range []struct{ workers, queues int }{{1, 1}, {2, 2}} {
		t.Run(fmt.Sprintf("%d workers", c.workers), func(t *testing.T) {
			b := natTestbed(t, c.queues)
			config := b.natSwitch(t, c.workers)
			p := b.start(t, config)
			out := startStream(t, b.hosts[0], b.hosts[1], "192.0.2.9:7000", "192.0.2.9:7000")
			in := startStream(t, b.hosts[1], b.hosts[0], "192.0.2.1:443", "10.1.0.2:8443")
			calls := newCallers(t, b.hosts[0], b.hosts[1], "192.0.2.9:7001", "192.0.2.9:7001")
			for range 100 {
				must(t, calls.call())
			}
			stop, stopped := make(chan struct{}), make(chan error, 1)
			go func() {
				stopped <- func() error {
					for {
						select {
						case <-stop:
							return nil
						default:
						}
						if err := calls.call(); err != nil {
							return err
						}
					}
				}()
			}()
			for range 3 {
				old := p
				p = b.takeOver(t, config, old)
				old.kept(t)
			}
			close(stop)
			must(t, <-stopped)
			calls.all(t)
			bytes := []uint64{out.end(t), in.end(t)}
			// And once in quiet, for the numbers.
			var before float64
			awaitThat(t, "the count to be that of all connections", func() (string, bool) {
				before = b.connections(t)
				return fmt.Sprint(before), before >= float64(len(calls.conns)+2)
			})
			old := p
			p = b.takeOver(t, config, old)
			old.kept(t)
			awaitThat(t, "the new process to count as many", func() (string, bool) {
				now := b.connections(t)
				return fmt.Sprint(now), now == before
			})
			calls.all(t)
			if status := p.stop(t); status != 0 {
				t.Errorf("the last process ended with %d: %s", status, &p.stderr)
			}
			p.kept(t)
			fmt.Printf("4 takeovers with %d workers: %d connections go on, %d and %d MiB by TCP, blocked for %v at last\n",
				c.workers, len(calls.conns)+2, bytes[0]>>20, bytes[1]>>20, p.blocked(t))
			b.checkClean(t)
		})
	}
}

// TestTakeoverConnectionsRefused: a table that the new process cannot go on with is refused before anything stops, and a takeover that fails with the table in the new one's hands
// leaves the old one all connections.
func TestTakeoverConnectionsRefused(t *testing.T) {
	b := natTestbed(t, 1)
	config := b.natSwitch(t, 1)
	p := b.start(t, config)
	calls := newCallers(t, b.hosts[0], b.hosts[1], "192.0.2.9:7001", "192.0.2.9:7001")
	for range 20 {
		must(t, calls.call())
	}
	other := func(name string, edit ...string) string {
		path := b.natSwitch(t, 1, edit...)
		moved := filepath.Join(b.dir, name)
		must(t, os.Rename(path, moved))
		b.natSwitch(t, 1)
		return moved
	}
	says := b.failTakeover(t, other("size.toml", "connections = 65536", "connections = 4096"), nil)
	if want := "connections is 65536 there and 4096 here"; !strings.Contains(says, want) {
		t.Errorf("another size: %s", says)
	}
	calls.all(t)
	rested := func(c *handover.Conn) {
		must(t, c.Send(sayHello, map[string]any{"name": "s1", "process": os.Getpid()}, nil))
		next(t, c) // the offer
		for _, want := range []handover.Kind{sayPort, sayPort, sayShared} {
			m, err := c.Next()
			must(t, err)
			if m.Kind != want || want == sayShared && len(m.Files) != 2 {
				t.Fatalf("message %d with %d files, and not %d", m.Kind, len(m.Files), want)
			}
			m.Close()
		}
		must(t, c.Send(sayRest, nil, nil))
		for next(t, c) != sayEnd {
		}
	}
	b.half(t, rested)
	calls.all(t)
	for _, at := range []handover.Kind{sayShared, sayRested} {
		b.killedAt(t, config, p, at)
		calls.all(t)
	}
	b.half(t, func(c *handover.Conn) {
		rested(c)
		c.Refuse(fmt.Errorf("stage conntrack: the table of worker 0 is wrong"))
	})
	calls.all(t)
	must(t, calls.call())
	q := b.takeOver(t, config, p)
	calls.all(t)
	p.kept(t)
	for _, want := range []string{"connections is 65536 there", "no packet was forwarded for", "the table of worker 0 is wrong"} {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("the log says nothing of %q: %s", want, &p.stderr)
		}
	}
	// Rules that are other ones end what they do not permit, as by a reload.
	denies := b.natSwitch(t, 1, "[[stages.conntrack.snat]]\n", "[[stages.conntrack.group]]\nname = \"inside\"\nports = [\"p0\"]\ndefault = \"deny\"\n[[stages.conntrack.snat]]\n")
	r := b.takeOver(t, denies, q)
	if err := calls.conns[0].SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = calls.conns[0].Write([]byte("x"))
	if n, err := calls.conns[0].Read(make([]byte, 1)); err == nil {
		t.Errorf("a connection that the new rules deny goes on: %d bytes", n)
	}
	if status := r.stop(t); status != 0 {
		t.Errorf("the last process ended with %d: %s", status, &r.stderr)
	}
	r.kept(t)
	b.checkClean(t)
}
