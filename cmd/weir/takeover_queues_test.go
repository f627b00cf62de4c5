package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/internal/handover"
)

// queueRate is that of the port of a queueBed, in bits per second.
const queueRate = 16_000_000

// fullClasses is what a port to a host has more: a rate and classes, two of which are full all the time, and TCP is in the third one.
var fullClasses = fmt.Sprintf(`rate_bits = %d
[[port.class]]
name = "voice"
dscp = ["ef"]
rate_bits = 4_000_000
queue_packets = 64
[[port.class]]
name = "bulk"
dscp = ["af11"]
weight = 3
queue_packets = 128
[[port.class]]
name = "best"
default = true
weight = 2
`, queueRate)

// otherClasses has no class "bulk", whose code point is of "voice".
var otherClasses = fmt.Sprintf(`rate_bits = %d
[[port.class]]
name = "best"
default = true
weight = 1
[[port.class]]
name = "voice"
dscp = ["ef", "af11"]
weight = 1
queue_packets = 48
`, queueRate/2)

// numbers are UDP packets of two classes from one host to the other, each with its number in its class.
type numbers struct {
	to   [2]*net.UDPConn // voice and bulk
	from *net.UDPConn
	stop chan struct{}
	done sync.WaitGroup
	sent [2]uint64
	err  error // of sending, once it has ended

	mu       sync.Mutex
	received [2]uint64
	wrong    []string // what came twice, or out of order
	last     [2]int64
	arrived  time.Time // of the last one
}

const numbersSize = 1000 // bytes of a packet, with its Ethernet header

func startNumbers(t *testing.T, from, to *netnstest.Host, address net.IP) *numbers {
	t.Helper()
	n := &numbers{stop: make(chan struct{}), last: [2]int64{-1, -1}}
	must(t, to.NS.Do(func() (err error) {
		n.from, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 9000})
		return err
	}))
	t.Cleanup(func() { n.from.Close() })
	setOption(t, n.from, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20) // what comes while the test is held up
	for class, tos := range []int{46 << 2, 10 << 2} {
		must(t, from.NS.Do(func() (err error) {
			n.to[class], err = net.DialUDP("udp4", nil, &net.UDPAddr{IP: address, Port: 9000})
			return err
		}))
		t.Cleanup(func() { n.to[class].Close() })
		setOption(t, n.to[class], unix.IPPROTO_IP, unix.IP_TOS, tos)
	}
	n.done.Go(func() { n.err = n.send() })
	go n.receive()
	return n
}

// send sends twice what the port's rate lets pass, in bursts that the switch's RX ring has room for many times.
func (n *numbers) send() error {
	text := make([]byte, numbersSize-14-20-8)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-n.stop:
			return nil
		case <-tick.C:
		}
		for k := range 40 {
			class := min(k%4, 1)
			text[0] = byte(class)
			binary.BigEndian.PutUint64(text[1:], n.sent[class])
			if _, err := n.to[class].Write(text); err != nil {
				return err
			}
			n.sent[class]++
		}
	}
}

// receive notes what comes until the socket is closed.
func (n *numbers) receive() {
	var buf [2048]byte
	for {
		if _, err := n.from.Read(buf[:]); err != nil {
			return
		}
		class, number := buf[0]&1, int64(binary.BigEndian.Uint64(buf[1:]))
		n.mu.Lock()
		n.received[class]++
		n.arrived = time.Now()
		if number <= n.last[class] {
			n.wrong = append(n.wrong, fmt.Sprintf("packet %d of class %d behind %d", number, class, n.last[class]))
		}
		n.last[class] = number
		n.mu.Unlock()
	}
}

// end ends the sending.
func (n *numbers) end() {
	close(n.stop)
	n.done.Wait()
}

func (n *numbers) counts() [2]uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.received
}

// queueReport is what these tests read of a report's ports.
type queueReport struct {
	Name     string
	Received uint64
	Dropped  map[string]uint64
	TxUnsent uint64 `json:"tx_unsent"`
	RingFull uint64 `json:"rx_ring_full"`
	NoFrame  uint64 `json:"rx_no_frame"`
	Classes  []port.ClassCounters
}

// queues are the ports of a process's last report.
func (p *process) queues(t *testing.T) []queueReport {
	t.Helper()
	var r struct{ Ports []queueReport }
	lines := bytes.Split(bytes.TrimSpace(p.stdout.Bytes()), []byte("\n"))
	must(t, json.Unmarshal(lines[len(lines)-1], &r))
	return r.Ports
}

// depths are how many packets wait in each class of p1 now, by name, and how many were dropped in all.
func (b *testbed) depths(t *testing.T) (depth map[string]uint64, dropped uint64) {
	t.Helper()
	var shown struct{ Ports []queueReport }
	status, out, stderr := weir("ctl", "--socket", b.socket("s1"), "show", "ports", "--json")
	if err := json.Unmarshal([]byte(out), &shown); status != 0 || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, stderr)
	}
	depth = map[string]uint64{}
	for _, c := range shown.Ports[1].Classes {
		depth[c.Name] = c.Depth
		dropped += c.Dropped
	}
	return depth, dropped
}

// TestTakeoverQueues: a port has a rate and classes, two of which are full of numbered packets whenever another process takes the switch over, or is killed while it does. Each
// packet that a queue took leaves once, in the order of its class, at the rate; what found no room is counted, and the counters of all processes add up. TCP passes
// beside them. In the last takeover the classes are other ones.
func TestTakeoverQueues(t *testing.T) {
	times := takeovers(t, 5, 2)
	for _, to := range []string{"p1", "host0"} { // a veth interface, and one of the host
		t.Run(to, func(t *testing.T) { takeOverQueues(t, to, times) })
	}
}

func takeOverQueues(t *testing.T, to string, times int) {
	b := newTestbed(t, 0)
	with := func(classes string) string {
		device := fmt.Sprintf("interface = %q\n", to)
		if to == "host0" {
			device += "driver = \"tap\"\n"
		}
		return b.config(t, "s1", append(slices.Clone(takeable), "interface = \"p1\"\n", device+classes, `"p1"]]`, fmt.Sprintf("%q]]", to))...)
	}
	config := with(fullClasses)
	p := b.start(t, config)
	receiver, address := b.hosts[1], "10.0.0.2"
	if to == "host0" {
		receiver, address = &netnstest.Host{NS: b.ns, Interface: to}, "10.0.0.9"
		must(t, b.ns.AddAddress(to, netip.MustParsePrefix(address+"/24")))
		mac, err := b.ns.MAC(to)
		must(t, err)
		must(t, b.hosts[0].NS.AddNeighbour(b.hosts[0].Interface, netip.MustParseAddr(address), mac))
		must(t, b.ns.AddNeighbour(to, b.hosts[0].Addresses[0].Addr(), b.hosts[0].MAC))
	}
	begun := time.Now()
	s := startStream(t, b.hosts[0], receiver, address+":7000", address+":7000")
	n := startNumbers(t, b.hosts[0], receiver, net.ParseIP(address))
	full := func(classes ...string) {
		t.Helper()
		_, before := b.depths(t)
		awaitThat(t, "the classes to be full", func() (string, bool) {
			depth, dropped := b.depths(t)
			wait := !slices.ContainsFunc(classes, func(c string) bool { return depth[c] < 32 })
			return fmt.Sprint(depth, dropped-before), wait && dropped > before
		})
	}
	// Longer queues than the packet memory has frames for are refused, as by a reload.
	if says := b.failTakeover(t, with(strings.Replace(fullClasses, "queue_packets = 128", "queue_packets = 65536", 1)), nil); !strings.Contains(says, "wait in queue_packets of ports") {
		t.Errorf("longer queues than the memory has frames for: %s", says)
	}
	config = with(fullClasses)
	var processes []*process
	var blocked []time.Duration
	takeOver := func(config string) {
		old := p
		p = b.takeOver(t, config, old)
		old.kept(t)
		processes = append(processes, old)
		blocked = append(blocked, p.blocked(t))
	}
	for i := range times {
		full("voice", "bulk")
		b.killedAt(t, config, p, []handover.Kind{sayQueue, sayEnd, sayReady}[i%3])
		full("voice", "bulk")
		takeOver(config)
	}
	transferred := s.end(t)
	full("voice", "bulk")
	takeOver(with(otherClasses))
	full("voice")
	n.end()
	if n.err != nil {
		t.Fatal(n.err)
	}
	awaitThat(t, "the queues to be empty", func() (string, bool) {
		depth, _ := b.depths(t)
		left := uint64(0)
		for _, d := range depth {
			left += d
		}
		return fmt.Sprint(depth), left == 0
	})
	if status := p.stop(t); status != 0 {
		t.Errorf("the last process ended with %d: %s", status, &p.stderr)
	}
	p.kept(t)
	processes = append(processes, p)

	// The books of all processes together. A packet that waited at a takeover is in those of the process that sent it.
	sums := map[string]port.ClassCounters{}
	var received, missed, all uint64
	var waited []uint64 // at each takeover, and at last 0
	for _, p := range processes {
		ports := p.queues(t)
		in, out := ports[0], ports[1]
		here := uint64(0)
		for _, c := range out.Classes {
			if c.Packets != c.Sent+c.Dropped || c.Unsent+c.Depth != 0 {
				t.Errorf("a class of a process: %+v", c)
			}
			here += c.Packets
			sum := sums[c.Name]
			sum.Add(&c)
			sums[c.Name] = sum
		}
		for reason, n := range in.Dropped {
			if reason != "queue_full" {
				t.Errorf("%d packets are dropped for %s", n, reason)
			}
		}
		if out.TxUnsent != 0 {
			t.Errorf("%d packets were not sent", out.TxUnsent)
		}
		received += in.Received
		missed += in.RingFull + in.NoFrame
		all += here
		waited = append(waited, received-all)
	}
	if slices.Max(waited) == 0 {
		t.Error("no packet waited at any takeover")
	}
	if all != received {
		t.Errorf("%d packets came to classes, and %d were received", all, received)
	}
	both, tcp := sums["voice"], sums["best"]
	bulk := sums["bulk"]
	both.Add(&bulk)
	sent := n.sent[0] + n.sent[1]
	if short := sent - both.Packets; short > missed || missed == 0 && short != 0 {
		t.Errorf("%d packets were sent, %d came to their classes, and %d are counted as missed", sent, both.Packets, missed)
	}
	awaitThat(t, "what left to arrive", func() (string, bool) {
		got := n.counts()
		return fmt.Sprint(got, both), got[0]+got[1] >= both.Sent
	})
	got := n.counts()
	if got[0]+got[1] != both.Sent || len(n.wrong) != 0 {
		t.Errorf("%d packets left, and %v arrived; %d out of order, or twice: %v", both.Sent, got, len(n.wrong), n.wrong[:min(len(n.wrong), 10)])
	}
	bytes, most := both.SentBytes+tcp.SentBytes, uint64(n.arrived.Sub(begun).Seconds()*queueRate/8)+2*queueRate/8/500
	if bytes > most {
		t.Errorf("%d bytes left, and the rate lets pass %d", bytes, most)
	}
	slices.Sort(blocked)
	fmt.Printf("%s: %d takeovers and %d killed ones of full queues: %d packets accepted and sent once in order, %d to %d of them had waited at each; %d dropped (queue_full), %d missed; %d KiB by TCP; %.2f of %.2f Mbit/s; blocked for %v to %v, median %v\n",
		to, len(blocked), times, both.Sent, slices.Min(waited[:len(blocked)]), slices.Max(waited), both.Dropped, missed, transferred>>10, float64(bytes)*8e-6/n.arrived.Sub(begun).Seconds(), queueRate*1e-6,
		blocked[0], blocked[len(blocked)-1], blocked[len(blocked)/2])
	b.checkClean(t)
	b.checkNoTakeover(t)
}
