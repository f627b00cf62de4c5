package port

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/gso"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// openTapWire is a wire whose far end is a packet socket at the port's own interface.
func openTapWire(t *testing.T, c Config) (*wire, *Tap, *netns.PacketSocket) {
	t.Helper()
	netnstest.Require(t)
	w := &wire{t: t, ns: netnstest.New(t, prefix)}
	must := func(err error) {
		t.Helper()
		check(t, err)
	}
	must(w.ns.DisableIPv6()) // or it announces itself
	d := DefaultDataplaneConfig()
	var err error
	w.pool, err = packet.NewPool(packet.PoolConfig{Frames: 1024, FrameSize: d.FrameSizeFor([]Config{c}), Audit: true})
	must(err)
	t.Cleanup(func() { check(t, w.pool.Close()) })
	w.cache = w.pool.NewCache()
	w.batch = packet.NewBatch(w.cache, packet.BatchSize)
	var tap *Tap
	must(w.ns.Do(func() (err error) {
		tap, err = NewTap(c, d)
		return err
	}))
	w.port = tap
	w.queue, err = tap.Open(3, 0, w.cache)
	must(err)
	mac, err := w.ns.MAC(c.Interface)
	must(err)
	w.host = &netnstest.Host{NS: w.ns, Interface: c.Interface, MAC: mac}
	return w, tap, w.host.Packet(t)
}

func tapConfig() Config {
	c := DefaultConfig()
	c.Name, c.Driver, c.Interface = "t", DriverTap, "t0"
	return c
}

// receive waits for n packets of the queue.
func (w *wire) receive(n int) {
	w.t.Helper()
	for end := time.Now().Add(2 * time.Minute); len(w.batch.Pkts) < n; {
		if w.queue.Receive(w.batch); time.Now().After(end) {
			w.t.Fatalf("%d packets received, want %d", len(w.batch.Pkts), n)
		}
	}
}

// TestTapCarriesPackets: what the host sends arrives, what is sent arrives at the host, whole and in order; a packet
// in several frames too. Nothing is left of the interface.
func TestTapCarriesPackets(t *testing.T) {
	c := tapConfig()
	c.MAC, c.MTU = "02:00:00:00:07:01", 1600
	w, tap, socket := openTapWire(t, c)
	if i := tap.Info(); !i.Up || i.State != StateUp || i.MTU != 1600 || i.MAC != c.MAC || i.MaxFrame != 1618 || i.Queues != 1 || i.Mode != "tap, 1 queues, checksum, segmentation, large receive, copy" {
		t.Errorf("%+v", i)
	}
	frames := [][]byte{bytes.Repeat([]byte{2}, 60), bytes.Repeat([]byte{4}, 1614)}
	for _, f := range frames {
		check(t, socket.Send(f))
	}
	w.receive(len(frames))
	for i, f := range frames {
		p := &w.batch.Pkts[i]
		if !bytes.Equal(w.batch.Data(p), f) || p.WireLen != uint32(len(f)) || p.InPort != 3 || p.InQueue != 0 {
			t.Errorf("packet %d: %+v", i, *p)
		}
	}
	// The second goes back behind the first, in one packet of two frames.
	first, second := &w.batch.Pkts[0], &w.batch.Pkts[1]
	first.Next = w.pool.Link(second.Addr, 1000, 0)
	first.WireLen += 1000
	if n := w.queue.Transmit(w.batch, []uint16{0}); n != 1 {
		t.Fatalf("%d packets taken: %s", n, w.queue.Refusal())
	}
	w.batch.Reset()
	buf := make([]byte, 2048)
	check(t, socket.SetDeadline(time.Now().Add(2*time.Minute)))
	n, err := socket.Receive(buf)
	check(t, err)
	if want := append(frames[0], frames[1][:1000]...); !bytes.Equal(buf[:n], want) {
		t.Errorf("%d bytes: %x", n, buf[:n])
	}
	if taken := w.transmit(50); taken != 50 {
		t.Errorf("%d packets taken", taken)
	}
	for i := range byte(50) {
		if n, err := socket.Receive(buf); err != nil || n != 64 || buf[17] != i {
			t.Fatalf("packet %d: %x, %v", i, buf[:n], err)
		}
	}
	one := []uint16{0}
	if got := testing.AllocsPerRun(100, func() {
		w.transmit0(one)
		w.queue.Receive(w.batch)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
	if c := tap.Counters(); c.Lost() != 0 {
		t.Errorf("%+v", c)
	}
	w.close()
	if _, err := w.ns.Link("t0"); err == nil {
		t.Error("the interface is left")
	}
}

// TestTapLarge: the host gets a large packet whole, and one that is none is refused and counted.
func TestTapLarge(t *testing.T) {
	w, tap, socket := openTapWire(t, tapConfig())
	l := packet.Large{Kind: gso.TCP4, Size: 1400}
	if taker, ok := w.queue.(LargeTaker); !ok || !taker.TakesLarge(l) {
		t.Fatal("a TAP port takes no large packets")
	}
	const payload, headers = 5000, 14 + 20 + 20
	ip := []byte{0x45, 0, (20 + 20 + payload) >> 8, (20 + 20 + payload) & 255, 0, 1, 0x40, 0, 64, header.ProtoTCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
	binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip))
	frame := append([]byte{2, 0, 0, 0, 7, 1, 2, 0, 0, 0, 0, 1, 8, 0}, ip...)
	frame = append(frame, 4, 1, 4, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 9, 9, 0, 0, 0, 0)
	frame = append(frame, bytes.Repeat([]byte{7}, payload)...)
	send := func() {
		p := w.batch.Append()
		addr, _ := w.cache.AllocOne()
		p.Addr, p.Len, p.WireLen = addr+Headroom, 1000, uint32(len(frame))
		copy(w.batch.Data(p), frame)
		for at := len(frame); at > 1000; {
			size := (at - 1000 - 1) % 2048
			at -= size + 1
			more, _ := w.cache.AllocOne()
			copy(w.batch.Mem[more:], frame[at:at+size+1])
			p.Next = w.pool.Link(more, uint32(size+1), p.Next)
		}
		w.pool.SetLarge(p.Next, l)
		if n := w.queue.Transmit(w.batch, []uint16{0}); n != 1 {
			t.Fatalf("%d packets taken: %s", n, w.queue.Refusal())
		}
		w.batch.Reset()
	}
	send()
	buf := make([]byte, gso.MaxLarge)
	check(t, socket.SetDeadline(time.Now().Add(2*time.Minute)))
	if n, err := socket.Receive(buf); err != nil || !bytes.Equal(buf[:n], frame) {
		t.Errorf("%d bytes, want %d: %v", n, len(frame), err)
	}
	l.Kind = gso.UDP
	send()
	if c := tap.Counters(); c.TxInvalid != 1 {
		t.Errorf("%+v", c)
	}
	w.close()
}

// TestTapOffloadsOff: without offloads the kernel completes packets, and the port takes no large packets.
func TestTapOffloadsOff(t *testing.T) {
	c := tapConfig()
	c.Offloads = OffloadsOff
	w, tap, _ := openTapWire(t, c)
	if i := tap.Info(); i.Mode != "tap, 1 queues, copy" {
		t.Errorf("%+v", i)
	}
	if w.queue.(LargeTaker).TakesLarge(packet.Large{Kind: gso.TCP4, Size: 1400}) {
		t.Error("it takes large packets")
	}
	w.close()
}

// transmit0 sends a packet of 64 zeros.
func (w *wire) transmit0(idx []uint16) {
	addr, _ := w.cache.AllocOne()
	p := w.batch.Append()
	p.Addr, p.Len, p.WireLen = addr+Headroom, 64, 64
	w.queue.Transmit(w.batch, idx)
	w.batch.Reset()
}

// TestTapFaults: what a TAP port refuses is counted by its reason, and the packets' frames come back.
func TestTapFaults(t *testing.T) {
	w, tap, socket := openTapWire(t, tapConfig())
	// Too short for the kernel.
	addr, _ := w.cache.AllocOne()
	p := w.batch.Append()
	p.Addr, p.Len, p.WireLen = addr+Headroom, 9, 9
	if n := w.queue.Transmit(w.batch, []uint16{0}); n != 1 || tap.Counters().TxInvalid != 1 {
		t.Errorf("%d taken, %+v", n, tap.Counters())
	}
	w.batch.Reset()
	// Longer than a frame, because the MTU was raised.
	check(t, w.ns.SetMTU("t0", 4000))
	check(t, socket.Send(make([]byte, 3000)))
	check(t, socket.Send(bytes.Repeat([]byte{2}, 60)))
	w.receive(1)
	if c := tap.Counters(); c.RxTooLong != 1 {
		t.Errorf("%+v", c)
	}
	if i := tap.Info(); i.MaxFrame != 1792 || !strings.HasPrefix(i.Error, "the MTU was set to 4000, but a frame holds a packet of 1792 bytes") {
		t.Errorf("%+v", i)
	}
	w.cache.FreePacket(&w.batch.Pkts[0])
	w.batch.Reset()
	// The ring is full.
	const beyond = 10
	sent := 2048 + beyond
	for range sent {
		check(t, socket.Send(bytes.Repeat([]byte{2}, 60)))
	}
	received := 0
	for tap.Counters().RxRingFull+uint64(received) < uint64(sent) {
		received += w.queue.Receive(w.batch)
		for i := range w.batch.Pkts {
			w.cache.FreePacket(&w.batch.Pkts[i])
		}
		w.batch.Reset()
	}
	if c := tap.Counters(); received < 1024 || c.RxRingFull < beyond {
		t.Errorf("%d received, %+v", received, c)
	}
	// Down.
	check(t, w.ns.SetDown("t0"))
	if n := w.transmit(1); n != 0 || w.queue.Refusal() != packet.ReasonPortDown {
		t.Errorf("%d taken, refused for %s", n, w.queue.Refusal())
	}
	if i := tap.Info(); i.Up || i.State != StateDown {
		t.Errorf("%+v", i)
	}
	// Gone.
	check(t, w.ns.DeleteLink("t0"))
	if n := w.transmit(1); n != 0 || w.queue.Refusal() != packet.ReasonPortDown || !tap.Lost() {
		t.Errorf("%d taken, refused for %s, lost %v", n, w.queue.Refusal(), tap.Lost())
	}
	if n := w.queue.Receive(w.batch); n != 0 {
		t.Errorf("%d packets", n)
	}
	w.close()
}

// TestTapNameClash: a port takes no interface of others, not even a TAP.
func TestTapNameClash(t *testing.T) {
	w, _, _ := openTapWire(t, tapConfig())
	err := w.ns.Do(func() error {
		_, err := NewTap(tapConfig(), DefaultDataplaneConfig())
		return err
	})
	const want = "port t: the interface t0 exists, and a port with driver = \"tap\" makes its own: choose another name, or remove it (ip link del t0)"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	w.close()
	if links, err := net.Interfaces(); err != nil || len(links) > 1 {
		t.Errorf("%v, %v", links, err)
	}
}
