package netns_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	m.Run()
}

const prefix = "wl"

// inode identifies the namespace of the calling thread.
func inode(t *testing.T) string {
	t.Helper()
	link, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func TestNamespaceLifeCycle(t *testing.T) {
	netnstest.Require(t)
	name := netnstest.UniqueName(prefix)
	ns, err := netns.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Delete(name) })
	if _, err := netns.Create(name); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second Create of a name: %v, want fs.ErrExist", err)
	}
	if names, err := netns.List(name); err != nil || !slices.Equal(names, []string{name}) {
		t.Errorf("List = %q, %v", names, err)
	}
	outside, inside := inode(t), ""
	if err := ns.Do(func() error { inside, err = os.Readlink("/proc/thread-self/ns/net"); return err }); err != nil {
		t.Fatal(err)
	}
	if inside == outside {
		t.Error("Do ran outside the namespace")
	}
	if now := inode(t); now != outside {
		t.Errorf("the test's thread is in %s after Do, was in %s", now, outside)
	}
	if err := ns.Delete(); err != nil {
		t.Fatal(err)
	}
	if _, err := netns.Open(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of a deleted name: %v, want fs.ErrNotExist", err)
	}
	if err := netns.Delete(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Delete of a deleted name: %v, want fs.ErrNotExist", err)
	}
}

func TestBadNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "a\x00b", strings.Repeat("x", 256)} {
		if ns, err := netns.Create(name); err == nil {
			ns.Delete()
			t.Errorf("Create(%q) succeeded", name)
		}
	}
}

func TestDoPassesErrorsAndSurvivesGoexit(t *testing.T) {
	netnstest.Require(t)
	ns := netnstest.New(t, prefix)
	want := errors.New("from inside")
	if err := ns.Do(func() error { return want }); err != want {
		t.Errorf("Do = %v, want %v", err, want)
	}
	done := make(chan error)
	go func() { done <- ns.Do(func() error { runtime.Goexit(); return nil }) }()
	if err := <-done; err == nil {
		t.Error("Do of a function that ends its goroutine succeeded")
	}
}

func TestVethAttributes(t *testing.T) {
	netnstest.Require(t)
	a, b := netnstest.New(t, prefix), netnstest.New(t, prefix)
	mac := netns.HardwareAddr(7)
	err := netns.AddVeth(netns.End{Namespace: a, Name: "left", MAC: mac},
		netns.End{Namespace: b, Name: "right"}, netns.Veth{Queues: 4, MTU: 3000})
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []struct {
		ns   *netns.Namespace
		name string
	}{{a, "left"}, {b, "right"}} {
		link, err := end.ns.Link(end.name)
		if err != nil {
			t.Fatal(err)
		}
		at := link.Attrs()
		if at.NumRxQueues != 4 || at.NumTxQueues != 4 || at.MTU != 3000 {
			t.Errorf("%s: %d rx queues, %d tx queues, MTU %d; want 4, 4, 3000", end.name, at.NumRxQueues, at.NumTxQueues, at.MTU)
		}
	}
	if got, err := a.MAC("left"); err != nil || !bytes.Equal(got, mac) {
		t.Errorf("MAC = %v, %v; want %v", got, err, mac)
	}
	if err := a.DeleteLink("left"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Link("right"); err == nil {
		t.Error("the far end outlives its pair")
	}
}

func TestOffloads(t *testing.T) {
	netnstest.Require(t)
	ns := netnstest.New(t, prefix)
	if err := netns.AddVeth(netns.End{Namespace: ns, Name: "a"}, netns.End{Namespace: ns, Name: "b"}, netns.Veth{}); err != nil {
		t.Fatal(err)
	}
	if err := ns.SetHostOffloads("a"); err != nil {
		t.Fatal(err)
	}
	for o, want := range map[netns.Offload]bool{
		netns.TxChecksum: false, netns.TSO: false, netns.TxVLAN: false, netns.GRO: true,
	} {
		if got, err := ns.Offload("a", o); err != nil || got != want {
			t.Errorf("%s = %t, %v; want %t", o, got, err, want)
		}
	}
	for o := netns.TxChecksum; o <= netns.RxVLAN; o++ {
		before, err := ns.Offload("b", o)
		if err != nil {
			t.Fatal(err)
		}
		if err := ns.SetOffload("b", o, !before); err != nil {
			t.Error(err)
		}
		if err := ns.SetOffload("b", o, before); err != nil {
			t.Error(err)
		}
	}
	if err := ns.SetOffload("none", netns.GRO, true); err == nil {
		t.Error("SetOffload of a missing interface succeeded")
	}
}

func TestSocketsReachTheFarNamespace(t *testing.T) {
	netnstest.Require(t)
	for _, ip := range []struct{ a, b string }{{"10.9.0.1/24", "10.9.0.2/24"}, {"fd09::1/64", "fd09::2/64"}} {
		a, b := netnstest.Pair(t, prefix, ip.a, ip.b)
		address := netip.AddrPortFrom(netip.MustParsePrefix(ip.b).Addr(), 0).String()
		listener, err := b.NS.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				_, _ = io.Copy(conn, conn)
				conn.Close()
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		conn, err := a.NS.Dial(ctx, "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := conn.Write([]byte("there and back")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 14)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != "there and back" {
			t.Errorf("echo = %q, %v", got, err)
		}
	}
}

func TestStartRunsTheChildInside(t *testing.T) {
	netnstest.Require(t)
	ns := netnstest.New(t, prefix)
	var out bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", "readlink /proc/self/ns/net")
	cmd.Stdout = &out
	if err := ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var inside string
	_ = ns.Do(func() (err error) { inside, err = os.Readlink("/proc/thread-self/ns/net"); return err })
	if got := strings.TrimSpace(out.String()); got != inside {
		t.Errorf("the child ran in %s, want %s", got, inside)
	}
}

func TestPacketSocketKeepsFramesWhole(t *testing.T) {
	netnstest.Require(t)
	a, b := netnstest.Pair(t, prefix)
	from, to := a.Packet(t), b.Packet(t)
	addresses := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1}
	frames := [][]byte{
		append(bytes.Clone(addresses), append([]byte{0x88, 0xb6}, bytes.Repeat([]byte{0xa5}, 46)...)...),
		append(bytes.Clone(addresses), append([]byte{0x81, 0, 0x60, 5, 0x88, 0xb6}, bytes.Repeat([]byte{0x5a}, 46)...)...),
		append(bytes.Clone(addresses), append([]byte{0x88, 0xa8, 0, 9, 0x81, 0, 0, 5, 0x88, 0xb6}, bytes.Repeat([]byte{1}, 1492)...)...),
	}
	for _, frame := range frames {
		if err := from.Send(frame); err != nil {
			t.Fatal(err)
		}
	}
	got, err := to.ReceiveAll(2*time.Second, len(frames), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(got, frames, bytes.Equal) {
		t.Errorf("received %x, want %x", got, frames)
	}
	if err := to.SetDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Receive(make([]byte, 64)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Receive past its deadline: %v", err)
	}
}

// TestQuietSaysNothing holds what lets other tests compare counters exactly.
func TestQuietSaysNothing(t *testing.T) {
	netnstest.Require(t)
	a, b := netnstest.Pair(t, prefix, "10.9.1.1/24", "10.9.1.2/24")
	socket := b.Packet(t)
	if frames, err := socket.ReceiveAll(1500*time.Millisecond, 0, nil); err != nil || len(frames) != 0 {
		t.Errorf("a quiet host sent %x (%v)", frames, err)
	}
	for _, h := range []*netnstest.Host{a, b} {
		c, err := h.NS.Counters(h.Interface)
		if err != nil || c.TxPackets != 0 || c.RxPackets != 0 {
			t.Errorf("counters of a quiet link: %+v, %v", c, err)
		}
	}
}

func TestBridgeAndNeighboursAndRoutes(t *testing.T) {
	netnstest.Require(t)
	middle := netnstest.New(t, prefix)
	a := netnstest.NewHost(t, prefix, netnstest.Port{Namespace: middle, Name: "p0"}, "10.9.2.1/24")
	b := netnstest.NewHost(t, prefix, netnstest.Port{Namespace: middle, Name: "p1"}, "10.9.2.2/24", "10.9.3.2/32")
	if err := middle.AddBridge("br0", "p0", "p1"); err != nil {
		t.Fatal(err)
	}
	netnstest.Introduce(t, a, b)
	if err := a.NS.AddRoute(a.Interface, netip.MustParsePrefix("0.0.0.0/0"), b.Addresses[0].Addr()); err != nil {
		t.Fatal(err)
	}
	conn, err := b.NS.ListenPacket("udp", "10.9.3.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	out, err := a.NS.Dial(t.Context(), "udp", conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := out.Write([]byte("routed")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if n, _, err := conn.ReadFrom(buf); err != nil || string(buf[:n]) != "routed" {
		t.Errorf("received %q, %v", buf[:n], err)
	}
}
