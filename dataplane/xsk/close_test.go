package xsk_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/xdp"
	"github.com/weirswitch/weir/dataplane/xsk"
)

// flood sends until stop is called, which waits for its end.
func flood(fd int, size int) (stop func()) {
	var group sync.WaitGroup
	done := make(chan struct{})
	group.Go(func() {
		p := packet(size, 0)
		for {
			select {
			case <-done:
				return
			default:
				unix.Write(fd, p)
			}
		}
	})
	return func() { close(done); group.Wait() }
}

// closeUnderLoad audits and closes while packets pour in from both sides, and starts
// again at once, several times.
func closeUnderLoad(t *testing.T, config xsk.Config, mtu, size int) {
	newNamespace(t)
	a, b := newCable(t, "wxa", mtu, 1), newCable(t, "wxb", mtu, 1)
	defer flood(a.host, size)()
	defer flood(b.host, size)()
	for range 10 {
		u := newUMEM(t, 2048)
		f := newForwarder(u, newPort(t, u, a, config, xdp.Native), newPort(t, u, b, config, xdp.Native))
		for deadline := time.Now().Add(time.Minute); f.forwarded < 2000 && time.Now().Before(deadline); {
			f.step()
		}
		if f.forwarded < 2000 {
			t.Errorf("forwarded %d packets only", f.forwarded)
		}
		f.audit(t)
	}
}

func TestCloseUnderLoad(t *testing.T) {
	closeUnderLoad(t, testConfig(), 1500, 200)
}

func TestCloseUnderJumboLoad(t *testing.T) {
	config := testConfig()
	config.MultiBuffer = true
	closeUnderLoad(t, config, 9000, 9014)
}

// TestUnpoppedRing leaves packets in the RX ring, and frames on the kernel's free list.
func TestUnpoppedRing(t *testing.T) {
	newNamespace(t)
	a, b := newCable(t, "wxa", 1500, 1), newCable(t, "wxb", 1500, 1)
	u := newUMEM(t, 2048)
	config := testConfig()
	config.RXSize = 64
	f := newForwarder(u, newPort(t, u, a, config, xdp.Native), newPort(t, u, b, config, xdp.Native))
	f.step()
	for i := range 200 {
		_, err := unix.Write(a.host, packet(100, i))
		check(t, err)
	}
	var stats xsk.Stats
	for deadline := time.Now().Add(time.Minute); stats.RXRingFull < 200-64 && time.Now().Before(deadline); {
		var err error
		stats, err = f.ports[0].Stats()
		check(t, err)
	}
	if stats.RXRingFull != 200-64 {
		t.Errorf("%+v, want 136 packets for which the RX ring was full", stats)
	}
	if n := f.ports[0].RX.Available(); n != 64 {
		t.Errorf("%d packets in the RX ring, want 64", n)
	}
	f.audit(t)
}

// TestReclaimSends leaves packets in the TX ring, and they leave.
func TestReclaimSends(t *testing.T) {
	newNamespace(t)
	a := newCable(t, "wxa", 1500, 1)
	u := newUMEM(t, 256)
	s, err := u.Open(a.ifindex, 0, testConfig())
	check(t, err)
	var descs [200]xsk.Desc
	for i := range descs {
		descs[i] = xsk.Desc{Addr: uint64(i * u.FrameSize()), Len: uint32(copy(u.Memory()[i*u.FrameSize():], packet(100, i)))}
	}
	if n := s.TX.Push(descs[:]); n != len(descs) {
		t.Fatalf("pushed %d", n)
	}
	found, held := s.Reclaim(nil)
	if len(found)+held.TX != len(descs) || held.RX != 0 {
		t.Errorf("%d frames found, held %+v, of %d", len(found), held, len(descs))
	}
	check(t, s.Close())
	buffer := make([]byte, 2048)
	for i := range descs {
		if n, err := unix.Read(a.host, buffer); err != nil || !bytes.Equal(buffer[:n], packet(100, i)) {
			t.Fatalf("packet %d: %d bytes, %v", i, n, err)
		}
	}
}

// TestCarrierLost has the device drop what is sent, and the frames still come back.
func TestCarrierLost(t *testing.T) {
	newNamespace(t)
	a, b := newCable(t, "wxa", 1500, 1), newCable(t, "wxb", 1500, 1)
	u := newUMEM(t, 2048)
	f := newForwarder(u, newPort(t, u, a, testConfig(), xdp.Native), newPort(t, u, b, testConfig(), xdp.Native))
	peer, err := netlink.LinkByName("wxbh")
	check(t, err)
	check(t, netlink.LinkSetDown(peer))

	descs := make([]xsk.Desc, 20)
	for i := range descs {
		last := len(f.free) - 1
		descs[i] = xsk.Desc{Addr: f.free[last], Len: 100}
		f.free = f.free[:last]
	}
	out := f.ports[1]
	if n := out.TX.Push(descs); n != len(descs) {
		t.Fatalf("pushed %d", n)
	}
	for range 3 { // three of them, then the audit has to cope with an index that is not published
		if r := out.TX.Kick(); r != xsk.KickDropped {
			t.Errorf("kick: %v, want dropped", r)
		}
	}
	var addrs [2]uint64
	f.free = append(f.free, addrs[:out.Completion.Pop(addrs[:])]...)
	f.audit(t)
}

func TestInterfaceDownAndRemoved(t *testing.T) {
	newNamespace(t)
	a, b, c := newCable(t, "wxa", 1500, 1), newCable(t, "wxb", 1500, 1), newCable(t, "wxc", 1500, 1)
	u := newUMEM(t, 2048)
	pa, pb := newPort(t, u, a, testConfig(), xdp.Native), newPort(t, u, b, testConfig(), xdp.Native)
	link, err := netlink.LinkByIndex(a.ifindex)
	check(t, err)
	check(t, netlink.LinkSetDown(link))
	if r := pa.TX.Kick(); r != xsk.KickDown {
		t.Errorf("kick on an interface that is down: %v", r)
	}
	check(t, netlink.LinkDel(link))
	if r := pa.TX.Kick(); r != xsk.KickGone {
		t.Errorf("kick on a removed interface: %v", r)
	}
	// The first socket is unbound now, and cannot lend the UMEM; the second one can.
	pc := newPort(t, u, c, testConfig(), xdp.Native)
	f := newForwarder(u, pb, pc)
	f.step()
	_, err = unix.Write(b.host, packet(100, 1))
	check(t, err)
	for deadline := time.Now().Add(time.Minute); f.forwarded < 1 && time.Now().Before(deadline); {
		f.step()
	}
	if f.forwarded != 1 {
		t.Error("no packet forwarded")
	}
	check(t, pa.Close())
	f.audit(t)
}

// TestOpenInAnyOrder closes the socket that registered the UMEM first, and then all.
func TestOpenInAnyOrder(t *testing.T) {
	newNamespace(t)
	before := descriptors(t)
	c := newCable(t, "wxa", 1500, 4)
	link, err := netlink.LinkByIndex(c.ifindex)
	check(t, err)
	if n := link.Attrs().NumRxQueues; n != 4 {
		t.Fatalf("%d queues", n)
	}
	u := newUMEM(t, 256)
	open := func(queue int) *xsk.Socket {
		t.Helper()
		s, err := u.Open(c.ifindex, queue, testConfig())
		check(t, err)
		return s
	}
	first, second := open(0), open(1)
	check(t, first.Close())
	third := open(2)
	check(t, second.Close())
	fourth := open(0) // as the first socket, at once after its end
	check(t, third.Close())
	check(t, fourth.Close())
	check(t, fourth.Close()) // again
	last := open(0)
	check(t, last.Close())
	check(t, unix.Close(c.host))
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(entries)
}

func TestOpenErrors(t *testing.T) {
	newNamespace(t)
	c := newCable(t, "wxa", 1500, 2)
	u, other := newUMEM(t, 256), newUMEM(t, 256)
	s, err := u.Open(c.ifindex, 0, testConfig())
	check(t, err)
	defer s.Close()
	before := descriptors(t)

	change := func(f func(*xsk.Config)) xsk.Config { config := testConfig(); f(&config); return config }
	for _, test := range []struct {
		name    string
		umem    *xsk.UMEM
		ifindex int
		queue   int
		config  xsk.Config
		is      error
		says    string
	}{
		{"queue in use by us", u, c.ifindex, 0, testConfig(), unix.EBUSY, "has a socket there already"},
		{"queue in use by others", other, c.ifindex, 0, testConfig(), unix.EBUSY, "another AF_XDP socket"},
		{"no such queue, shared", u, c.ifindex, 77, testConfig(), unix.EINVAL, "no such queue"},
		{"no such queue, first", other, c.ifindex, 77, testConfig(), unix.EINVAL, "no such queue"},
		{"no such queue with multi-buffer", other, c.ifindex, 77, change(func(c *xsk.Config) { c.MultiBuffer = true }), unix.EINVAL, "no such queue"},
		{"no such interface", other, 9999, 0, testConfig(), unix.ENODEV, "no such interface"},
		{"zero-copy on veth", other, c.ifindex, 1, change(func(c *xsk.Config) { c.Mode = xsk.ZeroCopy }), xsk.ErrNotSupported, "copy mode"},
		{"zero-copy beside copy", u, c.ifindex, 1, change(func(c *xsk.Config) { c.Mode = xsk.ZeroCopy }), xsk.ErrNotSupported, "copy mode"},
		{"need_wakeup differs", u, c.ifindex, 1, change(func(c *xsk.Config) { c.NeedWakeup = false }), nil, "agree on it"},
		{"multi-buffer differs", u, c.ifindex, 1, change(func(c *xsk.Config) { c.MultiBuffer = true }), nil, "agree on it"},
		{"bad size", u, c.ifindex, 1, change(func(c *xsk.Config) { c.RXSize = 1000 }), nil, "power of two"},
	} {
		s, err := test.umem.Open(test.ifindex, test.queue, test.config)
		switch {
		case err == nil:
			t.Errorf("%s: opened", test.name)
			s.Close()
		case test.is != nil && !errors.Is(err, test.is), !strings.Contains(err.Error(), test.says), strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: error %q, want %v and %q in it, on one line", test.name, err, test.is, test.says)
		default:
			t.Log(err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// withoutCapability runs f on a thread that lacks a capability.
func withoutCapability(t *testing.T, capability int, f func()) {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had, less [2]unix.CapUserData
	check(t, unix.Capget(&header, &had[0]))
	less = had
	less[capability/32].Effective &^= 1 << (capability % 32)
	check(t, unix.Capset(&header, &less[0]))
	defer func() { check(t, unix.Capset(&header, &had[0])) }()
	f()
}

func TestNoPrivilege(t *testing.T) {
	newNamespace(t)
	c := newCable(t, "wxa", 1500, 1)
	u := newUMEM(t, 256)
	withoutCapability(t, unix.CAP_NET_RAW, func() {
		if _, err := u.Open(c.ifindex, 0, testConfig()); !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_NET_RAW") {
			t.Errorf("error %v", err)
		}
	})
}

func TestTooLittleLockedMemory(t *testing.T) {
	newNamespace(t)
	c := newCable(t, "wxa", 1500, 1)
	u := newUMEM(t, 256)
	var had unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &had))
	check(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 1 << 16, Max: had.Max}))
	defer func() { check(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &had)) }()
	withoutCapability(t, unix.CAP_IPC_LOCK, func() {
		if _, err := u.Open(c.ifindex, 0, testConfig()); !errors.Is(err, unix.ENOBUFS) || !strings.Contains(err.Error(), "CAP_IPC_LOCK") {
			t.Errorf("error %v", err)
		}
	})
	s, err := u.Open(c.ifindex, 0, testConfig())
	check(t, err)
	check(t, s.Close())
}

// TestProbe: a probe sees a queue as taken until its socket is closed, and leaves nothing.
func TestProbe(t *testing.T) {
	c := newCable(t, "wxp", 1500, 2)
	before := descriptors(t)
	s, err := newUMEM(t, 256).Open(c.ifindex, 1, testConfig())
	check(t, err)
	p, err := xsk.NewProbe(c.ifindex, 1)
	check(t, err)
	if err := p.Try(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("beside a socket: %v, want %v", err, unix.EBUSY)
	}
	check(t, s.Close())
	check(t, p.Await())
	if gone, err := xsk.NewProbe(9999, 0); err != nil || gone.Await() != nil {
		t.Errorf("without an interface: %v", err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}
