package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// classBed is a switch between two hosts, whose port to the second one has a rate and three classes: packets of one are strict, and of two others by weights.
type classBed struct {
	*bed
	t     *testing.T
	to    [3]*net.UDPConn // a socket by class
	from  *net.UDPConn
	sent  [3]uint32
	order uint32 // of all packets that were sent
}

// The classes of a classBed.
const (
	voice = iota
	bulk
	best
)

const classesConfig = `
[switch]
name = "s1"
id = 1
graph = ["parse", "patch"]
[stages.patch]
pairs = [["p0", "p1"]]
[control]
socket = "$DIR/s.sock"
audit = ""
metrics = ""
[[port]]
interface = "p0"
[[port]]
interface = "p1"
rate_bits = 16_000_000
[[port.class]]
name = "best"
default = true
weight = %d
queue_packets = 64
[[port.class]]
name = "voice"
dscp = ["ef"]
[[port.class]]
name = "bulk"
dscp = ["af11", "20"]
weight = %d
queue_packets = 64
`

func newClassBed(t *testing.T) *classBed {
	t.Helper()
	netnstest.Require(t)
	b := &bed{ns: netnstest.New(t, prefix), dir: t.TempDir()}
	b.file = filepath.Join(b.dir, "s1.toml")
	for i := range 2 {
		port := netnstest.Port{Namespace: b.ns, Name: fmt.Sprintf("p%d", i)}
		b.hosts = append(b.hosts, netnstest.NewHost(t, prefix, port, fmt.Sprintf("10.0.0.%d/24", i+1)))
	}
	netnstest.Introduce(t, b.hosts...)
	b.write(t, fmt.Sprintf(classesConfig, 1, 3))
	b.start(t)
	c := &classBed{bed: b, t: t}
	for class, tos := range []int{46 << 2, 10 << 2, 0} {
		check(t, b.hosts[0].NS.Do(func() (err error) {
			c.to[class], err = net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 9000})
			if err != nil {
				return err
			}
			raw, err := c.to[class].SyscallConn()
			if err != nil {
				return err
			}
			return errors.Join(raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, tos) }), err)
		}))
		t.Cleanup(func() { c.to[class].Close() })
	}
	check(t, b.hosts[1].NS.Do(func() (err error) {
		c.from, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 9000})
		return err
	}))
	t.Cleanup(func() { c.from.Close() })
	raw, err := c.from.SyscallConn()
	check(t, err)
	check(t, raw.Control(func(fd uintptr) { // all that waits in the switch fits, if the test is held up: a packet is charged with pages
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
	}))
	check(t, err)
	return c
}

// send sends a packet of 1000 bytes of a class.
func (c *classBed) send(class int) {
	c.t.Helper()
	packet := make([]byte, 1000-14-20-8)
	packet[0] = byte(class)
	binary.BigEndian.PutUint32(packet[1:], c.order)
	binary.BigEndian.PutUint32(packet[5:], c.sent[class])
	c.order++
	c.sent[class]++
	_, err := c.to[class].Write(packet)
	check(c.t, err)
}

type arrived struct {
	class         int
	order, number uint32
}

// receive waits for the next packet; false: none has come for long.
func (c *classBed) receive(patience time.Duration) (a arrived, ok bool) {
	c.t.Helper()
	var buf [2048]byte
	check(c.t, c.from.SetReadDeadline(time.Now().Add(patience)))
	_, err := c.from.Read(buf[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return a, false
	}
	check(c.t, err)
	return arrived{int(buf[0]), binary.BigEndian.Uint32(buf[1:]), binary.BigEndian.Uint32(buf[5:])}, true
}

// overload has packets arrive until n of them left while both classes with weights waited. For each that arrives one of either is sent, so that both
// wait unless the test is held up; and for each twenty, a strict one.
func (c *classBed) overload(n int) (all []arrived) {
	c.t.Helper()
	for range 80 {
		c.send(bulk)
		c.send(best)
	}
	for silent, checked := 0, 0; ; {
		if len(all) >= checked+n/4 {
			checked = len(all)
			if got := weighted(all); got[bulk]+got[best] >= n {
				return all
			}
			if len(all) > 50*n {
				c.t.Fatalf("of %d packets, those that left while both classes waited are %v", len(all), weighted(all))
			}
		}
		a, ok := c.receive(200 * time.Millisecond)
		if !ok { // a change of the port's costs what waits there
			if silent++; silent == 300 {
				c.t.Fatalf("nothing arrives behind %d packets", len(all))
			}
			c.send(bulk)
			c.send(best)
			continue
		}
		all = append(all, a)
		if a.class == voice {
			continue
		}
		c.send(bulk)
		c.send(best)
		if len(all)%20 == 0 {
			c.send(voice)
		}
	}
}

// weighted counts the packets that left while both classes with weights waited, by class. A packet waited as another one left if it was sent before
// one that left no later than that, and came itself afterwards: the switch takes packets in the order in which they are sent, and strict ones, which leave at once,
// show what it has taken.
func weighted(all []arrived) (n [3]int) {
	next := [3]uint32{math.MaxUint32, math.MaxUint32, math.MaxUint32} // order of the first packet of a class that came afterwards
	waiting := make([][3]uint32, len(all))
	for i, a := range slices.Backward(all) {
		waiting[i] = next
		next[a.class] = a.order
	}
	taken := uint32(0)
	for i, a := range all {
		taken = max(taken, a.order)
		if waits := waiting[i]; waits[bulk] < taken && waits[best] < taken {
			n[a.class]++
		}
	}
	return n
}

// share is how many packets of bulk left for each of best, while both waited.
func share(all []arrived) float64 {
	n := weighted(all)
	return float64(n[bulk]) / float64(n[best])
}

// classes are the counters of a port's classes, in the order of the constants.
func classCounts(t *testing.T, p *api.Port) (counts [3]*api.PortClass) {
	t.Helper()
	for _, k := range p.Classes {
		counts[slices.Index([]string{"voice", "bulk", "best"}, k.Name)] = k
		if k.Packets != k.Sent+k.Dropped+k.Unsent+k.Depth {
			t.Errorf("%v does not add up", k)
		}
	}
	if slices.Contains(counts[:], nil) {
		t.Fatalf("%v", p.Classes)
	}
	return counts
}

// TestClasses offers a port twice its rate: no packet of the strict class is lost, and each overtakes what waits; two classes share the rest by their weights;
// all packets are counted; and a reload gives other weights.
func TestClasses(t *testing.T) {
	c := newClassBed(t)
	all := c.overload(3000)
	if got := share(all); got < 2.8 || got > 3.2 {
		t.Errorf("bulk had %.3f of best's, want 3", got)
	}
	c.drain(&all)

	last := [3]int64{-1, -1, -1}
	var came [3]uint32
	var overtook []int
	for i, a := range all {
		if int64(a.number) <= last[a.class] {
			t.Fatalf("packet %d of class %d came behind %d", a.number, a.class, last[a.class])
		}
		last[a.class] = int64(a.number)
		came[a.class]++
		if a.class == voice {
			n := 0
			for _, later := range all[i:] {
				if later.order < a.order {
					n++
				}
			}
			overtook = append(overtook, n)
		}
	}
	slices.Sort(overtook)
	middle := overtook[len(overtook)/2]
	t.Logf("%d of %d, %d of %d and %d of %d packets came; bulk had %.3f of best's; a strict packet overtook %d, %d, %d", came[voice], c.sent[voice], came[bulk], c.sent[bulk],
		came[best], c.sent[best], share(all), overtook[0], middle, overtook[len(overtook)-1])
	if came[voice] != c.sent[voice] || len(overtook) < 100 {
		t.Errorf("%d of %d strict packets came", came[voice], c.sent[voice])
	}
	if middle < 64 { // of some 128 that wait
		t.Errorf("strict packets overtake %d", middle)
	}
	r := c.Report()
	dropped := uint64(0)
	for class, k := range classCounts(t, r.Ports[1]) {
		if k.Sent != uint64(came[class]) || k.Packets != uint64(c.sent[class]) || (k.Dropped != 0) != (class != voice) || k.Depth != 0 {
			t.Errorf("%v; %d of %d came", k, came[class], c.sent[class])
		}
		t.Log(k)
		dropped += k.Dropped
	}
	if got := r.Ports[0].Dropped["queue_full"]; got != dropped {
		t.Errorf("%d packets were dropped, their classes know of %d", got, dropped)
	}

	c.write(t, fmt.Sprintf(classesConfig, 1, 1))
	c.reload(t)
	all = c.overload(1000)
	if got := share(all); got < 0.95 || got > 1.05 {
		t.Errorf("behind a change bulk had %.3f of best's, want 1", got)
	}
	check(t, c.end())
	r = c.Report()
	if !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
		t.Errorf("%v, %v", r.Balanced, r.Frames)
	}
	classCounts(t, r.Ports[1])
}

// drain receives until nothing waits.
func (c *classBed) drain(all *[]arrived) {
	c.t.Helper()
	for {
		waits := uint64(0)
		sent := uint64(0)
		for _, k := range c.Report().Ports[1].Classes {
			waits += k.Depth
			sent += k.Sent
		}
		if waits == 0 && sent == uint64(len(*all)) {
			return
		}
		a, ok := c.receive(time.Minute)
		if !ok {
			c.t.Fatalf("%d packets wait, %d were sent and %d came", waits, sent, len(*all))
		}
		*all = append(*all, a)
	}
}
