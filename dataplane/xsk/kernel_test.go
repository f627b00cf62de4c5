package xsk_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/xdp"
	"github.com/weirswitch/weir/dataplane/xsk"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	m.Run()
}

// newNamespace moves the thread of the test, but not of its subtests, into a network namespace without a name, which
// ends with the thread: the goroutine keeps it locked, so the runtime throws it away.
func newNamespace(t *testing.T) {
	t.Helper()
	netnstest.Require(t)
	runtime.LockOSThread()
	check(t, unix.Unshare(unix.CLONE_NEWNET))
	// Else the kernel's own packets mix with the test's. The file is that of the thread's namespace.
	os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
}

// cable is a veth pair: the switch has one end, and the test the other.
type cable struct {
	ifindex int // the switch's end
	host    int // AF_PACKET socket on the other end
}

func newCable(t *testing.T, name string, mtu, queues int) cable {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.NumRxQueues, attrs.NumTxQueues = name, mtu, queues, queues
	check(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: name + "h", PeerNumRxQueues: 1, PeerNumTxQueues: 1, PeerMTU: uint32(mtu)}))
	var index [2]int
	for i, n := range []string{name, name + "h"} {
		l, err := netlink.LinkByName(n)
		check(t, err)
		check(t, netlink.LinkSetUp(l))
		index[i] = l.Attrs().Index
	}
	return cable{ifindex: index[0], host: packetSocket(t, index[1])}
}

// packetSocket sends and receives whole packets on an interface, waiting a second at most.
func packetSocket(t *testing.T, ifindex int) int {
	t.Helper()
	protocol := int(binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	check(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	check(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20))
	check(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}))
	check(t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1))
	check(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(protocol), Ifindex: ifindex}))
	return fd
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newUMEM(t *testing.T, frames int) *xsk.UMEM {
	t.Helper()
	config := xsk.DefaultUMEMConfig()
	memory, err := unix.Mmap(-1, 0, frames*config.FrameSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	check(t, err)
	t.Cleanup(func() { unix.Munmap(memory) })
	u, err := xsk.NewUMEM(memory, config)
	check(t, err)
	return u
}

// port is a socket with its program, and the frames that the test accounts for.
type port struct {
	*xsk.Socket
	program    *xdp.Program
	attachment *xdp.Attachment
}

func newPort(t *testing.T, u *xsk.UMEM, c cable, config xsk.Config, mode xdp.Mode) port {
	t.Helper()
	program, err := xdp.Load(xdp.Options{MaxQueues: 1, Frags: config.MultiBuffer})
	check(t, err)
	t.Cleanup(func() { program.Close() })
	attachment, err := program.Attach(c.ifindex, mode)
	check(t, err)
	t.Cleanup(func() { attachment.Close() })
	s, err := u.Open(c.ifindex, 0, config)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	check(t, program.Register(0, s.FD()))
	t.Logf("XDP %v, AF_XDP %v", attachment.Mode(), s.Granted())
	return port{s, program, attachment}
}

// forwarder is a switch of two ports in a few lines, single-threaded.
type forwarder struct {
	umem      *xsk.UMEM
	ports     [2]port
	free      []uint64
	forwarded int // packets
	buffers   int // descriptors
}

func newForwarder(u *xsk.UMEM, a, b port) *forwarder {
	f := &forwarder{umem: u, ports: [2]port{a, b}}
	for i := range u.Frames() {
		f.free = append(f.free, uint64(i*u.FrameSize()))
	}
	return f
}

// step does one round over both ports.
func (f *forwarder) step() {
	var descs [64]xsk.Desc
	var addrs [64]uint64
	for i, in := range f.ports {
		out := f.ports[1-i]
		for n := in.Completion.Pop(addrs[:]); n > 0; n = in.Completion.Pop(addrs[:]) {
			for _, a := range addrs[:n] {
				f.free = append(f.free, f.umem.Frame(a))
			}
		}
		give := min(len(f.free), in.Fill.Free())
		f.free = f.free[:len(f.free)-in.Fill.Push(f.free[len(f.free)-give:])]

		room := min(out.TX.Free(), len(descs))
		n := in.RX.Pop(descs[:room])
		sent := out.TX.Push(descs[:n])
		for _, d := range descs[:sent] {
			if d.Options&xsk.Continued == 0 {
				f.forwarded++
			}
		}
		f.buffers += sent
		for _, d := range descs[sent:n] {
			f.free = append(f.free, f.umem.Frame(d.Addr))
		}
		out.TX.Kick()
	}
}

// audit checks that every frame is accounted for once.
func (f *forwarder) audit(t *testing.T) {
	t.Helper()
	owned := slices.Clone(f.free)
	held := 0
	for _, p := range f.ports {
		check(t, p.program.Unregister(0))
		var h xsk.Held
		before := len(owned)
		owned, h = p.Reclaim(owned)
		t.Logf("free %d, in rings %d, held %+v", len(f.free), len(owned)-before, h)
		held += h.RX + h.TX
		check(t, p.Close())
		check(t, p.attachment.Close())
	}
	for i, a := range owned {
		owned[i] = f.umem.Frame(a)
	}
	slices.Sort(owned)
	if unique := len(slices.Compact(slices.Clone(owned))); unique != len(owned) {
		t.Errorf("%d frames have two owners", len(owned)-unique)
	}
	if len(owned)+held != f.umem.Frames() {
		t.Errorf("%d frames found and %d held, of %d", len(owned), held, f.umem.Frames())
	}
}

// packet is an Ethernet packet of local experimental type with a sequence number and a pattern.
func packet(size, sequence int) []byte {
	p := make([]byte, size)
	copy(p, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb6})
	binary.BigEndian.PutUint32(p[14:], uint32(sequence))
	for i := 18; i < size; i++ {
		p[i] = byte(i*7 + sequence)
	}
	return p
}

// crossing sends packets in at one end and expects them all, in order, at the other.
func crossing(t *testing.T, config xsk.Config, mode xdp.Mode, mtu int, sizes []int, count int) {
	newNamespace(t)
	a, b := newCable(t, "wxa", mtu, 1), newCable(t, "wxb", mtu, 1)
	u := newUMEM(t, 2048)
	f := newForwarder(u, newPort(t, u, a, config, mode), newPort(t, u, b, config, mode))
	f.step()
	buffer := make([]byte, 1<<16)
	for sequence := 0; sequence < count; {
		burst := min(32, count-sequence)
		for i := range burst {
			_, err := unix.Write(a.host, packet(sizes[(sequence+i)%len(sizes)], sequence+i))
			check(t, err)
		}
		// The veth peer receives in its NAPI, which may run later than the write.
		for deadline := time.Now().Add(time.Minute); f.forwarded < sequence+burst && time.Now().Before(deadline); {
			f.step()
		}
		for i := range burst {
			n, err := unix.Read(b.host, buffer)
			if err != nil {
				stats, _ := f.ports[0].Stats()
				t.Fatalf("packet %d of %d: %v; forwarded %d, %+v", sequence+i, count, err, f.forwarded, stats)
			}
			if want := packet(sizes[(sequence+i)%len(sizes)], sequence+i); !bytes.Equal(buffer[:n], want) {
				t.Fatalf("packet %d: %d bytes %x..., want %d bytes %x...", sequence+i, n, buffer[:min(n, 32)], len(want), want[:32])
			}
		}
		sequence += burst
	}
	if f.forwarded != count {
		t.Errorf("forwarded %d of %d packets", f.forwarded, count)
	}
	buffers := 0
	for sequence := range count {
		buffers += (sizes[sequence%len(sizes)] + u.PacketRoom() - 1) / u.PacketRoom()
	}
	if f.buffers != buffers {
		t.Errorf("packets took %d buffers, want %d", f.buffers, buffers)
	}
	f.audit(t)
}

// testConfig has fill rings so small that both together leave frames for packets under way.
func testConfig() xsk.Config {
	config := xsk.DefaultConfig()
	config.FillSize = 512
	return config
}

func TestForward(t *testing.T) {
	crossing(t, testConfig(), xdp.Native, 1500, []int{60, 64, 590, 1514}, 20000)
}

func TestForwardGeneric(t *testing.T) {
	crossing(t, testConfig(), xdp.Generic, 1500, []int{60, 64, 590, 1514}, 5000)
}

func TestForwardJumbo(t *testing.T) {
	config := testConfig()
	config.MultiBuffer = true
	crossing(t, config, xdp.Native, 9000, []int{60, 3840, 3841, 4096, 7680, 7681, 9014}, 5000)
}

// TestTXBudget counts what one Kick sends.
func TestTXBudget(t *testing.T) {
	newNamespace(t)
	a := newCable(t, "wxa", 1500, 4)
	u := newUMEM(t, 256)
	for queue, budget := range []int{0, 32, 64, 128} {
		config := testConfig()
		config.TXBudget = budget
		s, err := u.Open(a.ifindex, queue, config)
		check(t, err)
		per := s.Granted().TXBudget
		if per == 0 {
			per = 32
		} else if per != budget {
			t.Errorf("asked for a budget of %d, granted %d", budget, per)
		}
		var descs [200]xsk.Desc
		for i := range descs {
			descs[i] = xsk.Desc{Addr: uint64(i * u.FrameSize()), Len: 60}
		}
		if n := s.TX.Push(descs[:]); n != len(descs) {
			t.Fatalf("pushed %d", n)
		}
		if r := s.TX.Kick(); r != xsk.KickAgain || s.TX.Unsent() != len(descs)-per {
			t.Errorf("budget %d: kick %v left %d of %d", budget, r, s.TX.Unsent(), len(descs))
		}
		check(t, s.Close())
	}
}

// TestTimestamp finds the arrival time that the program wrote in front of the packet.
func TestTimestamp(t *testing.T) {
	for _, mode := range []xdp.Mode{xdp.Native, xdp.Generic} {
		newNamespace(t)
		a := newCable(t, "wxa", 1500, 1)
		u := newUMEM(t, 64)
		program, err := xdp.Load(xdp.Options{MaxQueues: 1, Timestamp: xdp.ClockTAI})
		check(t, err)
		attachment, err := program.Attach(a.ifindex, mode)
		check(t, err)
		s, err := u.Open(a.ifindex, 0, testConfig())
		check(t, err)
		check(t, program.Register(0, s.FD()))
		s.Fill.Push([]uint64{0, 4096, 8192})

		before := tai(t)
		_, err = unix.Write(a.host, packet(100, 7))
		check(t, err)
		fds := []unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 5000); n != 1 {
			t.Fatalf("poll: %d, %v", n, err)
		}
		after := tai(t)
		var descs [4]xsk.Desc
		if n := s.RX.Pop(descs[:]); n != 1 || !bytes.Equal(u.Bytes(descs[0]), packet(100, 7)) {
			t.Fatalf("received %d: %+v", n, descs[0])
		}
		if at := descs[0].Addr - u.Frame(descs[0].Addr); at != xsk.KernelHeadroom {
			t.Errorf("packet at %d of its frame, want %d", at, xsk.KernelHeadroom)
		}
		front := u.Memory()[descs[0].Addr-xdp.TimestampSize:]
		if tag := binary.NativeEndian.Uint64(front); tag != program.Tag() {
			t.Errorf("%v: tag %x, want %x", mode, tag, program.Tag())
		}
		ns := binary.NativeEndian.Uint64(front[8:])
		if ns < before || ns > after {
			t.Errorf("%v: time %d, want from %d to %d", mode, ns, before, after)
		}
		check(t, s.Close())
		check(t, attachment.Close())
		check(t, program.Close())
	}
}

func tai(t *testing.T) uint64 {
	t.Helper()
	var ts unix.Timespec
	check(t, unix.ClockGettime(unix.CLOCK_TAI, &ts))
	return uint64(ts.Nano())
}

// TestBusyPoll only shows that the options are taken and packets still arrive.
func TestBusyPoll(t *testing.T) {
	config := testConfig()
	config.BusyPoll, config.BusyPollBudget = 20, 64
	newNamespace(t)
	a, b := newCable(t, "wxa", 1500, 1), newCable(t, "wxb", 1500, 1)
	u := newUMEM(t, 2048)
	f := newForwarder(u, newPort(t, u, a, config, xdp.Native), newPort(t, u, b, config, xdp.Native))
	if !f.ports[0].Granted().BusyPoll {
		t.Error("busy polling was not granted")
	}
	f.step()
	for i := range 100 {
		_, err := unix.Write(a.host, packet(100, i))
		check(t, err)
	}
	for deadline := time.Now().Add(time.Minute); f.forwarded < 100 && time.Now().Before(deadline); {
		f.ports[0].WakeRX()
		f.step()
	}
	if f.forwarded != 100 {
		t.Errorf("forwarded %d of 100", f.forwarded)
	}
	f.audit(t)
}
