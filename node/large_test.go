package node

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/gso"
	"github.com/weirswitch/weir/dataplane/vhost/frontend"
	"github.com/weirswitch/weir/pipeline/header"
)

// largeLimit bounds all that these tests wait for.
const largeLimit = 2 * time.Minute

// guestNode is a node with guests a, b and so on, by vhost.
type guestNode struct {
	t   *testing.T
	dir string
	*Node
	end func() error
}

func startGuests(t *testing.T, graph, stage string, workers int, names ...string) *guestNode {
	t.Helper()
	g := &guestNode{t: t, dir: t.TempDir()}
	n, err := New(g.parse(graph, stage, workers, names...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	n.options.Ready = func() error { close(ready); return nil }
	g.Node, g.end = n, running(t, n, ready)
	return g
}

func (g *guestNode) parse(graph, stage string, workers int, names ...string) *config.Config {
	g.t.Helper()
	var ports strings.Builder
	for _, name := range names {
		fmt.Fprintf(&ports, "[[port]]\nname = %q\ndriver = \"vhost\"\nsocket = %q\n", name, g.socket(name))
	}
	return parse(g.t, fmt.Sprintf(`
[switch]
name = "r1"
id = 1
graph = [%s]
[workers]
count = %d
pin = false
[dataplane]
audit = true
[control]
socket = ""
%s
%s
`, graph, workers, ports.String(), stage))
}

func (g *guestNode) socket(name string) string { return filepath.Join(g.dir, name) }

func (g *guestNode) dial(name string, features uint64) *frontend.Frontend {
	g.t.Helper()
	c := frontend.DefaultConfig(g.socket(name))
	c.Descriptors, c.Buffer, c.Features = 256, 4096, features
	if features&frontend.Checksum != 0 {
		c.Descriptors, c.Buffer = 32, 80<<10
	}
	f, err := frontend.Dial(c)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = f.Close() })
	return f
}

// finish ends the node and checks its books.
func (g *guestNode) finish() *api.ReportResponse {
	g.t.Helper()
	check(g.t, g.end())
	r := g.Report()
	if !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
		g.t.Errorf("balanced: %v; frames: %v", r.Balanced, r.Frames)
	}
	return r
}

// largePacket is what a kernel leaves to its device: the header of virtio-net, and a packet.
func largePacket(t *testing.T, v6, udp bool, payload, size int) (h [frontend.HeaderSize]byte, b []byte) {
	t.Helper()
	b = append(b, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1)
	proto, l4 := byte(6), 32
	if udp {
		proto, l4 = 17, 8
	}
	n := l4 + payload
	addresses := []byte{10, 0, 0, 1, 10, 0, 0, 2}
	if v6 {
		addresses = bytes.Repeat(addresses, 4)
		b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0, byte(n>>8), byte(n), proto, 64)
	} else {
		ip := []byte{0x45, 0, byte((n + 20) >> 8), byte(n + 20), 0, 7, 0x40, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
		binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip))
		b = append(b, 8, 0)
		b = append(b, ip[:12]...)
	}
	b = append(b, addresses...)
	at := len(b)
	if udp {
		b = append(b, 4, 1, 4, 2, byte(n>>8), byte(n), 0, 0)
	} else {
		b = append(b, 4, 1, 4, 2, 0xff, 0xff, 0xf0, 0, 1, 2, 3, 4, 0x80, 0x18, 9, 9, 0, 0, 0, 0, 1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8)
	}
	field := at + 16
	if udp {
		field = at + 6
	}
	pseudo := header.Sum([]byte{0, proto, byte(n >> 8), byte(n)}, header.Sum(addresses, 0))
	binary.BigEndian.PutUint16(b[field:], pseudo)
	for i := range payload {
		b = append(b, byte(i*31+i>>8))
	}
	kind := byte(gso.TCP4)
	if v6 {
		kind = gso.TCP6
	}
	if udp {
		kind = gso.UDP
	}
	if !gso.Header(h[:gso.HeaderSize], b, kind, size) {
		t.Fatal("a packet of ours has no header")
	}
	return h, b
}

// receive waits for the next packet, and returns it with its header in front.
func receive(t *testing.T, r *frontend.Receiver) (b []byte) {
	t.Helper()
	var pieces [][]byte
	for deadline := time.Now().Add(largeLimit); len(pieces) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the packet did not arrive")
		}
		runtime.Gosched()
		pieces = r.Next(pieces)
	}
	b = bytes.Join(pieces, nil)
	r.Flush()
	return b
}

// The offloads of both directions that a guest here has.
const (
	leaves = frontend.Checksum | frontend.TCP4 | frontend.TCP6 | 1<<56
	takes  = frontend.GuestChecksum | frontend.GuestTCP4 | frontend.GuestTCP6 | 1<<54 | 1<<55
)

// TestLargePackets: what a guest leaves to its device passes to a guest that takes it byte for byte, over any stages that take it,
// and is cut into valid segments for a guest that does not, and for stages that do not. The counters add up.
func TestLargePackets(t *testing.T) {
	const patch = "[stages.patch]\npairs = [[\"a\", \"b\"]]"
	for _, c := range []struct {
		name, graph, stage string
		workers            int
		features           uint64
		whole              bool
	}{
		{"patch", `"parse", "patch"`, patch, 1, takes, true},
		{"patch to another worker", `"parse", "patch"`, patch, 2, takes, true},
		{"l2 and acl", `"parse", "acl", "l2"`, "", 1, takes, true},
		{"a guest that takes none", `"parse", "patch"`, patch, 1, 0, false},
		{"another worker's guest that takes none", `"parse", "patch"`, patch, 2, 0, false},
		{"telemetry", `"parse", "oblivious", "patch"`, patch, 1, takes, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := startGuests(t, c.graph, c.stage, c.workers, "a", "b")
			a, b := g.dial("a", leaves), g.dial("b", c.features)
			packets, large, bytesIn := uint64(0), uint64(0), uint64(0)
			for _, v6 := range []bool{false, true} {
				for _, udp := range []bool{false, true} {
					for _, payload := range []int{3000, 20001, 65400} {
						h, p := largePacket(t, v6, udp, payload, 1400)
						buffer := a.Senders[0].Next()
						n := copy(buffer[copy(buffer, h[:]):], p)
						a.Senders[0].Send(frontend.HeaderSize + n)
						a.Senders[0].Flush()
						large++
						if c.whole {
							got := receive(t, b.Receivers[0])
							if !bytes.Equal(got[:gso.HeaderSize], h[:gso.HeaderSize]) || !bytes.Equal(got[frontend.HeaderSize:], p) {
								t.Fatalf("v6 %t, udp %t, %d bytes: arrived with %d bytes and the header % x, want % x", v6, udp, payload, len(got)-frontend.HeaderSize, got[:12], h)
							}
							packets, bytesIn = packets+1, bytesIn+uint64(len(p))
							continue
						}
						var cut gso.Cut
						cut.Source([][]byte{p})
						if f := cut.Begin(h[:], len(p), 1792); f != gso.OK {
							t.Fatal(f)
						}
						want := make([]byte, 1792)
						for i := 0; cut.On(); i++ {
							want = want[:cut.Next(want[:1792])]
							got := receive(t, b.Receivers[0])
							if !bytes.Equal(got[frontend.HeaderSize:], want) || got[0] != 0 || got[1] != 0 {
								t.Fatalf("v6 %t, udp %t, %d bytes: segment %d differs", v6, udp, payload, i)
							}
							packets, bytesIn = packets+1, bytesIn+uint64(len(got)-frontend.HeaderSize)
						}
					}
				}
			}
			r := g.finish()
			in, out := r.Ports[0], r.Ports[1]
			if out.Transmitted != packets || out.TransmittedBytes != bytesIn || len(in.Dropped) != 0 || in.RxInvalid+out.TxInvalid+in.RingFaults+out.RingFaults != 0 {
				t.Errorf("sent %d packets of %d bytes, want %d of %d; %v", out.Transmitted, out.TransmittedBytes, packets, bytesIn, in)
			}
			if c.name != "telemetry" && in.Received != large {
				t.Errorf("received %d packets, want %d", in.Received, large)
			}
		})
	}
}

// TestLargePacketsWithFewFrames: a pool that has too few frames for a large packet receives its segments.
func TestLargePacketsWithFewFrames(t *testing.T) {
	g := &guestNode{t: t, dir: t.TempDir()}
	c := g.parse(`"parse", "patch"`, "[stages.patch]\npairs = [[\"a\", \"b\"]]", 1, "a", "b")
	c.Dataplane.Frames = 256
	c.Dataplane.FillRing, c.Dataplane.TXRing, c.Dataplane.CompletionRing, c.Dataplane.RXRing = 64, 64, 64, 64
	n, err := New(c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	n.options.Ready = func() error { close(ready); return nil }
	g.Node, g.end = n, running(t, n, ready)
	a, b := g.dial("a", leaves), g.dial("b", takes)
	h, p := largePacket(t, false, false, 65000, 1400)
	const rounds = 50
	received, sent := 0, 0
	var pieces [][]byte
	take := func() {
		for pieces = b.Receivers[0].Next(pieces[:0]); len(pieces) != 0; pieces = b.Receivers[0].Next(pieces[:0]) {
			for _, piece := range pieces {
				received += len(piece)
			}
			received -= frontend.HeaderSize + 66
		}
		b.Receivers[0].Flush()
	}
	for deadline := time.Now().Add(largeLimit); sent < rounds || a.Senders[0].Waiting() != 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("after %d packets the node takes no more", sent)
		}
		if buffer := a.Senders[0].Next(); buffer != nil && sent < rounds {
			a.Senders[0].Send(frontend.HeaderSize + copy(buffer[copy(buffer, h[:]):], p))
			a.Senders[0].Flush()
			sent++
		}
		take()
	}
	r := g.finish()
	take()
	dropped := uint64(0)
	for _, n := range r.Ports[0].Dropped {
		dropped += n
	}
	for _, n := range r.Ports[0].Copies.GetDropped() {
		dropped += n
	}
	if received == 0 || received < rounds*65000 && dropped == 0 || received > rounds*65000 {
		t.Errorf("%d bytes of payload arrived of %d, and nothing says why: %v", received, rounds*65000, r.Ports[0])
	}
}

// TestGuestsOnTwoWorkers: with ports that different workers have no flow is reordered and each packet is accounted for.
func TestGuestsOnTwoWorkers(t *testing.T) {
	const flows = 7
	packets := 100_000
	if testing.Short() {
		packets = 10_000
	}
	for _, graph := range []string{`"parse", "patch"`, `"parse", "oblivious", "patch"`} {
		for workers := 1; workers <= 2; workers++ {
			t.Run(fmt.Sprintf("%s on %d workers", graph, workers), func(t *testing.T) {
				g := startGuests(t, graph, "[stages.patch]\npairs = [[\"a\", \"b\"]]", workers, "a", "b")
				a, b := g.dial("a", 0), g.dial("b", 0)
				ends := [2]*frontend.Frontend{a, b}
				var next, seen [2][flows]uint32
				sent, received := [2]int{}, [2]int{}
				var pieces [][]byte
				take := func(i int) {
					r := ends[i].Receivers[0]
					for pieces = r.Next(pieces[:0]); len(pieces) != 0; pieces = r.Next(pieces[:0]) {
						p := pieces[0][frontend.HeaderSize:]
						flow, n := p[20], binary.BigEndian.Uint32(p[16:])
						if n <= seen[i][flow] {
							t.Fatalf("flow %d: packet %d behind packet %d", flow, n, seen[i][flow])
						}
						seen[i][flow] = n
						received[i]++
					}
					r.Flush()
				}
				for deadline := time.Now().Add(largeLimit); sent[0]+sent[1] < 2*packets || a.Senders[0].Waiting()+b.Senders[0].Waiting() != 0; runtime.Gosched() {
					if time.Now().After(deadline) {
						t.Fatalf("after %v packets the node takes no more", sent)
					}
					for i, f := range ends {
						for range 32 {
							buffer := f.Senders[0].Next()
							if buffer == nil || sent[i] == packets {
								break
							}
							p := buffer[frontend.HeaderSize:][:60]
							copy(p, []byte{2, 0, 0, 0, 0, byte(2 - i), 2, 0, 0, 0, 0, byte(1 + i), 0x88, 0xb5})
							flow := sent[i] % flows
							next[i][flow]++
							p[20] = byte(flow)
							binary.BigEndian.PutUint32(p[16:], next[i][flow])
							f.Senders[0].Send(frontend.HeaderSize + len(p))
							sent[i]++
						}
						f.Senders[0].Flush()
						take(1 - i)
					}
				}
				r := g.finish()
				take(0)
				take(1)
				dropped := uint64(0)
				for _, p := range r.Ports {
					for _, n := range p.Dropped {
						dropped += n
					}
				}
				if total := uint64(received[0]+received[1]) + dropped; total != uint64(2*packets) {
					t.Errorf("%v arrived and %d were dropped, of %d", received, dropped, 2*packets)
				}
			})
		}
	}
}

// TestGuestsComeAndGo: vhost and memif ports are added, changed and removed while packets of other ports flow, of which none is lost, and their
// sockets, counts and frames go with them.
func TestGuestsComeAndGo(t *testing.T) {
	g := startGuests(t, `"parse", "l2"`, "", 2, "a", "b")
	a, b := g.dial("a", 0), g.dial("b", 0)
	packet := func(from, to byte) []byte {
		p := make([]byte, 60)
		copy(p, []byte{2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5})
		return p
	}
	send := func(f *frontend.Frontend, p []byte) {
		buffer := f.Senders[0].Next()
		if buffer == nil {
			t.Fatal("the device takes nothing")
		}
		f.Senders[0].Send(frontend.HeaderSize + copy(buffer[frontend.HeaderSize:], p))
		f.Senders[0].Flush()
	}
	learn := func(from, to *frontend.Frontend, i, j byte) {
		send(from, packet(i, j))
		receive(t, to.Receivers[0])
	}
	learn(a, b, 1, 2)
	learn(b, a, 2, 1)
	exchange := func() {
		for range 100 {
			send(a, packet(1, 2))
			for !bytes.Equal(receive(t, b.Receivers[0])[frontend.HeaderSize:], packet(1, 2)) {
				// A packet that was flooded, before all was learned.
			}
		}
	}
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	change := func(extra string, names ...string) {
		t.Helper()
		_, err := g.Change(func(*config.Config) (*config.Config, error) {
			return g.parse(`"parse", "l2"`, extra, 2, names...), nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range rounds {
		memif := fmt.Sprintf("[[port]]\nname = \"m\"\ndriver = \"memif\"\nsocket = %q\n", g.socket("m"))
		change(memif, "a", "b", "c")
		exchange()
		c := g.dial("c", 0)
		send(c, packet(3, 1))
		receive(t, a.Receivers[0])
		send(a, packet(1, 3))
		receive(t, c.Receivers[0])
		// A rate is a change that has the port's guest connect again.
		change(memif+fmt.Sprintf("[[port]]\nname = \"c\"\ndriver = \"vhost\"\nsocket = %q\nrate_bits = 1000000000\n", g.socket("c")), "a", "b")
		exchange()
		c = g.dial("c", 0)
		send(c, packet(3, 1))
		receive(t, a.Receivers[0])
		change("", "a", "b")
		exchange()
		for _, name := range []string{"c", "m"} {
			if _, err := os.Stat(g.socket(name)); !os.IsNotExist(err) {
				t.Errorf("the socket of %s is left: %v", name, err)
			}
		}
	}
	r := g.finish()
	want := map[string]uint64{"c": uint64(2 * rounds), "m": 0}
	for _, p := range r.Ports {
		if n, ok := want[p.Name]; ok && p.Received != n {
			t.Errorf("%s received %d packets, want %d", p.Name, p.Received, n)
		}
	}
}

// TestLargePacketsOverGraphs: large packets pass whole while all stages take them, and are cut from the moment on at which one comes that does not.
func TestLargePacketsOverGraphs(t *testing.T) {
	const patch = "[stages.patch]\npairs = [[\"a\", \"b\"]]"
	g := startGuests(t, `"parse", "patch"`, patch, 1, "a", "b")
	a, b := g.dial("a", leaves), g.dial("b", takes)
	h, p := largePacket(t, false, false, 20000, 1400)
	for round := range 6 {
		buffer := a.Senders[0].Next()
		a.Senders[0].Send(frontend.HeaderSize + copy(buffer[copy(buffer, h[:]):], p))
		a.Senders[0].Flush()
		packets := 0
		for payload := 0; payload < 20000; packets++ {
			payload += len(receive(t, b.Receivers[0])) - frontend.HeaderSize - 66 // Ethernet, IP, TCP and its options
		}
		if whole := round%2 == 0; whole != (packets == 1) {
			t.Errorf("round %d: %d packets arrive", round, packets)
		}
		graph := `"parse", "oblivious", "patch"`
		if round%2 != 0 {
			graph = `"parse", "patch"`
		}
		next := g.parse(graph, patch, 1, "a", "b")
		if _, err := g.Change(func(*config.Config) (*config.Config, error) { return next, nil }); err != nil {
			t.Fatal(err)
		}
	}
	g.finish()
}
