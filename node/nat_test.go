package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// natBed is a router that translates between two inside hosts, by ports of one network each, and one outside:
//
//	10.1.0.2 ── p0 ┐
//	               ├── weir ── p2 ── 192.0.2.9, and 192.0.2.1 is all that it sees
//	10.2.0.2 ── p1 ┘
func natBed(t *testing.T, workers, queues int) *bed {
	t.Helper()
	netnstest.Require(t)
	b := &bed{ns: netnstest.New(t, prefix), dir: t.TempDir()}
	b.file = b.dir + "/r1.toml"
	for i, address := range []string{"10.1.0.2/24", "10.2.0.2/24", "192.0.2.9/24"} {
		h := netnstest.NewHost(t, prefix, netnstest.Port{Namespace: b.ns, Name: fmt.Sprintf("p%d", i), Queues: queues}, address)
		if i < 2 { // the outside has no route to the inside
			check(t, h.NS.AddRoute("eth0", netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr(strings.Replace(address, ".2/24", ".1", 1))))
		}
		b.hosts = append(b.hosts, h)
	}
	b.write(t, fmt.Sprintf("[workers]\ncount = %d\npin = false\n", workers)+`
[switch]
name = "r1"
id = 1
graph = ["parse", "conntrack", "l3"]
[dataplane]
audit = true
[[port]]
name = "p0"
interface = "p0"
[[port]]
name = "p1"
interface = "p1"
[[port]]
name = "p2"
interface = "p2"
[[stages.l3.interface]]
port = "p0"
addresses = ["10.1.0.1/24"]
[[stages.l3.interface]]
port = "p1"
addresses = ["10.2.0.1/24"]
[[stages.l3.interface]]
port = "p2"
addresses = ["192.0.2.1/24"]
[[stages.conntrack.group]]
name = "outside"
ports = ["p2"]
default = "deny"
[[stages.conntrack.group.rule]]
action = "permit"
dst = "192.0.2.1"
protocol = "tcp"
dst_port = "443"
[[stages.conntrack.snat]]
exempt = true
dst = "10.0.0.0/8"
[[stages.conntrack.snat]]
src = "10.0.0.0/8"
addresses = ["192.0.2.1"]
[[stages.conntrack.dnat]]
dst = "192.0.2.1"
protocol = "tcp"
dst_port = "443"
[[stages.conntrack.dnat.backend]]
address = "10.2.0.2"
port = 8443
[control]
socket = "$DIR/s.sock"
audit = ""
metrics = ""
`)
	b.start(t)
	return b
}

// TestNAT: hosts' kernels speak TCP, UDP and ICMP through source translation, destination translation and a hairpin, and see the errors of
// the router itself, with one worker and with several, each of which has connections whose packets others receive.
func TestNAT(t *testing.T) {
	for _, c := range []struct{ workers, queues int }{{1, 1}, {2, 1}, {2, 2}, {3, 4}} {
		t.Run(fmt.Sprintf("%d workers %d queues", c.workers, c.queues), func(t *testing.T) { testNAT(t, c.workers, c.queues) })
	}
}

func testNAT(t *testing.T, workers, queues int) {
	b := natBed(t, workers, queues)
	inside, server, outside := b.hosts[0], b.hosts[1], b.hosts[2]
	out := netip.MustParseAddr("192.0.2.9")
	const public, seen = "192.0.2.1", 8 << 20
	if err := transfer(inside, outside, out, seen); err != nil {
		t.Errorf("TCP to the outside: %v", err)
	}
	if err := echo(inside, outside, out); err != nil {
		t.Errorf("UDP to the outside: %v", err)
	}
	for _, c := range []struct {
		what string
		from *netnstest.Host
	}{{"from the outside to the server", outside}, {"from an inside host to the server, by the outside address", inside}, {"from the server to itself", server}} {
		peer, err := download(c.from, server, public+":443", "10.2.0.2:8443", seen)
		if err != nil {
			t.Errorf("TCP %s: %v", c.what, err)
		}
		if want := "192.0.2."; !strings.HasPrefix(peer, want) {
			t.Errorf("TCP %s: the server sees %s, want an outside address", c.what, peer)
		}
	}
	for _, arguments := range [][]string{{"-c", "5", "-i", "0.01"}, {"-c", "2", "-i", "0.01", "-s", "4000"}} { // of one packet, and of fragments
		ping := exec.Command("ping", append(arguments, "-W", "60", out.String())...)
		check(t, inside.NS.Start(ping))
		if err := ping.Wait(); err != nil {
			t.Errorf("ping %v: %v", arguments, err)
		}
	}
	// The router's own errors, of which the first is about a packet that it has translated: a time to live that ends at it.
	var text strings.Builder
	ping := exec.Command("ping", "-c", "1", "-t", "1", "-W", "60", out.String())
	ping.Stdout = &text
	check(t, inside.NS.Start(ping))
	_ = ping.Wait() // no answer is its failure
	if !strings.Contains(text.String(), "From 10.1.0.1") || !strings.Contains(text.String(), "Time to live exceeded") {
		t.Errorf("a time to live of 1: ping says %q", text.String())
	}
	// So many flows that not all can arrive at the home of their connection in both directions.
	for range 20 {
		if err := echo(inside, outside, out); err != nil {
			t.Errorf("UDP to the outside: %v", err)
		}
	}
	r := b.Node.Report()
	var steered uint64
	for _, w := range r.Workers {
		steered += w.Steered
	}
	t.Logf("%d packets received, %d handed over to the worker of their connection; dropped: %v", r.Received, steered, r.Dropped)
	if (steered != 0) != (workers > 1) || r.Dropped["handoff_full"]+r.Dropped["ct_fragment"]+r.Dropped["nat_unmapped"] != 0 {
		t.Errorf("%d packets were handed over, of %d; dropped: %v", steered, r.Received, r.Dropped)
	}
	b.stop(t)
}

// download has a host receive what a server sends it, by another address than the server listens on, and returns the client that the server sees.
func download(client, server *netnstest.Host, to, at string, size int64) (peer string, err error) {
	listener, err := server.NS.Listen("tcp", at)
	if err != nil {
		return "", err
	}
	defer listener.Close()
	sent := make(chan [sha256.Size]byte, 1)
	peers := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		peers <- conn.RemoteAddr().String()
		digest := sha256.New()
		_, _ = io.CopyN(io.MultiWriter(conn, digest), rand.NewChaCha8([32]byte{1}), size)
		sent <- [sha256.Size]byte(digest.Sum(nil))
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := client.NS.Dial(ctx, "tcp", to)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if remote := conn.RemoteAddr().(*net.TCPAddr).String(); remote != to {
		return "", fmt.Errorf("connected with %s", remote)
	}
	digest := sha256.New()
	n, err := io.Copy(digest, conn)
	if err != nil {
		return "", err
	}
	if n != size || <-sent != [sha256.Size]byte(digest.Sum(nil)) {
		return "", errors.New("received other bytes than were sent")
	}
	return <-peers, nil
}
