package port

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/pipeline/packet"
)

func TestMain(m *testing.M) {
	if os.Getenv(bridgeVariable) == "" { // a process of another test has that one's namespaces
		netnstest.Isolate()
	}
	m.Run()
}

const prefix = "wpt"

// wire is one queue of a port whose cable's far end is a host.
type wire struct {
	t     *testing.T
	ns    *netns.Namespace // holds the port, p0
	host  *netnstest.Host
	pool  *packet.Pool
	cache *packet.Cache
	batch *packet.Batch
	port  Port
	queue Queue
	sent  uint32
}

// settings are what a wire has of its own.
type settings struct {
	driver     string
	mode       string // of the XDP program; "" is "auto"
	timestamps string // "" asks for no arrival times
	huge       bool
}

func openWire(t *testing.T, driver string) *wire {
	t.Helper()
	w, err := tryWire(t, settings{driver: driver})
	check(t, err)
	return w
}

func tryWire(t *testing.T, s settings) (*wire, error) {
	t.Helper()
	netnstest.Require(t)
	w := &wire{t: t, ns: netnstest.New(t, prefix)}
	w.host = netnstest.NewHost(t, prefix, netnstest.Port{Namespace: w.ns, Name: "p0"})
	d := DefaultDataplaneConfig()
	d.Audit = true
	if s.timestamps != "" {
		d.Timestamps = s.timestamps
	}
	var err error
	d.HugePages = s.huge
	w.pool, err = packet.NewPool(packet.PoolConfig{
		Frames: d.FramesFor(1, 0, 1), FrameSize: d.FrameSizeFor(nil), HugePages: d.HugePages, Audit: true,
	})
	check(t, err)
	t.Cleanup(func() { check(t, w.pool.Close()) })
	w.cache = w.pool.NewCache()
	w.batch = packet.NewBatch(w.cache, packet.BatchSize)
	return w, w.ns.Do(func() error { return w.open(s, d) })
}

func (w *wire) open(s settings, d DataplaneConfig) (err error) {
	c := DefaultConfig()
	c.Name, c.Interface, c.Driver = "p0", "p0", s.driver
	if s.mode != "" {
		c.Mode = s.mode
	}
	if s.driver == DriverAsavie {
		w.port, err = NewAsavie(c, d)
	} else {
		var memory *UMEM
		if memory, err = NewUMEM(w.pool, d); err != nil {
			return err
		}
		w.port, err = NewXSK(c, memory)
	}
	if err != nil {
		return err
	}
	if s.timestamps != "" {
		if err := w.port.(ArrivalTimer).TimeArrivals(); err != nil {
			return errors.Join(err, w.port.Close())
		}
	}
	w.queue, err = w.port.Open(0, 0, w.cache)
	return err
}

// transmit offers n packets with a running number and returns how many were
// taken. Those that were not are freed, as a worker does.
func (w *wire) transmit(n int) int {
	w.t.Helper()
	idx := make([]uint16, n)
	for i := range idx {
		addr, ok := w.cache.AllocOne()
		if !ok {
			w.t.Fatal("no free frame")
		}
		p := w.batch.Append()
		p.Addr, p.Len, p.WireLen = addr+Headroom, 64, 64
		data := w.batch.Data(p)
		clear(data)
		copy(data, w.host.MAC)
		binary.BigEndian.PutUint16(data[12:], 0x88b5)
		binary.BigEndian.PutUint32(data[14:], w.sent+uint32(i))
		idx[i] = uint16(i)
	}
	taken := w.queue.Transmit(w.batch, idx)
	w.sent += uint32(taken)
	for _, i := range idx[taken:] {
		w.cache.FreePacket(&w.batch.Pkts[i])
	}
	w.batch.Reset()
	return taken
}

// close closes the queue and the port, and finds every frame of the pool.
func (w *wire) close() Rest {
	w.t.Helper()
	check(w.t, w.port.StopReceive())
	rest, err := w.queue.Close()
	check(w.t, err)
	w.cache.Close()
	check(w.t, w.port.Close())
	census := w.pool.Census()
	if census.Faults != 0 || w.pool.Free() != census.Frames {
		w.t.Errorf("%d frames free, %+v held, of %+v", w.pool.Free(), rest, census)
	}
	return rest
}

// A port sends again once its interface is up, whether its worker is awake or
// asleep then: poll sends what waits in the TX ring (xsk_poll in net/xdp/xsk.c),
// and the worker finds nothing left to do.
func TestPortComesBack(t *testing.T) {
	for _, driver := range []string{DriverXSK, DriverAsavie} {
		for _, asleep := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, asleep %v", driver, asleep), func(t *testing.T) {
				w := openWire(t, driver)
				check(t, w.ns.SetDown("p0"))
				w.transmit(1)
				w.queue.Service()
				if taken := w.transmit(1); taken != 0 || w.queue.Refusal() != packet.ReasonPortDown {
					t.Fatalf("took %d packets for an interface that is down; would refuse with %v", taken, w.queue.Refusal())
				}

				check(t, w.ns.SetUp("p0"))
				check(t, w.ns.WaitUp("p0", time.Minute))
				receiver := w.host.Packet(t)
				if asleep {
					_, err := unix.Poll([]unix.PollFd{{Fd: int32(w.queue.FD()), Events: unix.POLLIN}}, 0)
					check(t, err)
				}
				for w.queue.Service() {
				}
				last := w.sent
				if w.transmit(1) != 1 {
					t.Fatalf("refused with %v although the interface is up", w.queue.Refusal())
				}
				for w.queue.Service() {
				}
				w.awaitNumber(receiver, last)
				w.close()
			})
		}
	}
}

// TestDownIsAsked: a queue that was told that its link is down takes no packet while it is, even the first, and sends as soon as it is up; one
// that was told so wrongly sends at once.
func TestDownIsAsked(t *testing.T) {
	w := openWire(t, DriverXSK)
	doubter, ok := w.queue.(Doubter)
	if !ok {
		t.Fatalf("a %T does not ask", w.queue)
	}
	doubter.LinkDown()
	if taken := w.transmit(1); taken != 1 {
		t.Fatalf("refused with %v although the interface is up", w.queue.Refusal())
	}
	for w.queue.Service() {
	}
	check(t, w.ns.SetDown("p0"))
	doubter.LinkDown()
	for range 3 {
		taken := w.transmit(1)
		if waits := w.queue.Service(); taken != 0 || waits {
			t.Errorf("took %d packets for an interface that is down", taken)
		}
		if taken := w.transmit(1); taken != 0 || w.queue.Refusal() != packet.ReasonPortDown {
			t.Errorf("took %d packets for an interface that is down; would refuse with %v", taken, w.queue.Refusal())
		}
	}
	check(t, w.ns.SetUp("p0"))
	check(t, w.ns.WaitUp("p0", time.Minute))
	receiver := w.host.Packet(t)
	last := w.sent
	if w.transmit(1) != 1 {
		t.Fatalf("refused with %v although the interface is up", w.queue.Refusal())
	}
	for w.queue.Service() {
	}
	w.awaitNumber(receiver, last)
	w.close()
}

func (w *wire) awaitNumber(s *netns.PacketSocket, number uint32) {
	w.t.Helper()
	check(w.t, s.SetDeadline(time.Now().Add(10*time.Second)))
	buf := make([]byte, 2048)
	for {
		n, err := s.Receive(buf)
		check(w.t, err)
		if n >= 18 && binary.BigEndian.Uint32(buf[14:]) == number {
			return
		}
	}
}

// What a closing port takes out of its TX ring is as well accounted for as what
// it takes out of its fill ring.
func TestCloseWithPacketsUnsent(t *testing.T) {
	w := openWire(t, DriverXSK)
	check(t, w.ns.SetDown("p0"))
	const packets = 64
	if taken := w.transmit(packets); taken != packets {
		t.Fatalf("took %d of %d", taken, packets)
	}
	w.queue.Service()
	if rest := w.close(); rest.Unsent != packets {
		t.Errorf("%+v left, want %d unsent", rest, packets)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestQueueDoesNotAllocate sends and receives on live rings.
func TestQueueDoesNotAllocate(t *testing.T) {
	w := openWire(t, DriverXSK)
	idx := []uint16{0}
	if n := testing.AllocsPerRun(200, func() {
		addr, _ := w.cache.AllocOne()
		p := w.batch.Append()
		p.Addr, p.Len, p.WireLen = addr+Headroom, 64, 64
		w.queue.Transmit(w.batch, idx)
		w.batch.Reset()
		w.queue.Service()
	}); n != 0 {
		t.Errorf("sending a packet allocates %v times", n)
	}

	host, received := w.host.Packet(t), 0
	frame := make([]byte, 64)
	copy(frame, "\x02weir\x01\x02weir\x02\x88\xb5")
	receive := func() {
		n := w.queue.Receive(w.batch)
		received += n
		for i := range n {
			w.cache.FreePacket(&w.batch.Pkts[i])
		}
		w.batch.Reset()
		w.queue.Service()
	}
	for range 20 {
		for range 10 {
			check(t, host.Send(frame))
		}
		if n := testing.AllocsPerRun(20, receive); n != 0 {
			t.Errorf("receiving allocates %v times", n)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); received < 200 && time.Now().Before(deadline); {
		receive()
	}
	if received < 200 {
		t.Errorf("received %d of 200 packets", received)
	}
	w.close()
}

// TestHugePages: the mode says whether they were granted. Which it is depends on
// what this machine has free; packets pass either way.
func TestHugePages(t *testing.T) {
	w, err := tryWire(t, settings{driver: DriverXSK, huge: true})
	check(t, err)
	mode := w.port.Info().Mode
	if got := strings.HasSuffix(mode, ", huge pages"); got != w.pool.HugePages() {
		t.Errorf("mode %q; huge pages %v", mode, w.pool.HugePages())
	}
	if got := strings.Contains(mode, "no huge pages (too few are free"); got == w.pool.HugePages() {
		t.Errorf("mode %q; huge pages %v", mode, w.pool.HugePages())
	}
	receiver := w.host.Packet(t)
	w.transmit(1)
	for w.queue.Service() {
	}
	w.awaitNumber(receiver, 0)
	w.close()
	t.Log(mode)
}
