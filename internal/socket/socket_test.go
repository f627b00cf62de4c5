package socket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRemoveStale: only a socket without a listener is removed.
func TestRemoveStale(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("file"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path("live"), path("link")); err != nil {
		t.Fatal(err)
	}
	live := listen(t, path("live"))
	dead := listen(t, path("dead"))
	dead.SetUnlinkOnClose(false) // as after kill -9
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	datagrams, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path("datagrams"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	for name, want := range map[string]error{"none": nil, "file": ErrNotSocket, "link": ErrNotSocket, "live": ErrInUse, "dead": nil, "datagrams": unix.EPROTOTYPE} {
		if err := RemoveStale(path(name)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	var dialling *net.OpError
	if err := RemoveStale(path("datagrams")); !errors.As(err, &dialling) {
		t.Errorf("what could not be dialled: %v", err)
	}
	if _, err := os.Lstat(path("dead")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the stale socket is there: %v", err)
	}
	if data, err := os.ReadFile(path("file")); err != nil || string(data) != "precious" {
		t.Errorf("the file became %q, %v", data, err)
	}
	dial(t, live)
}

// TestPeerOf: the kernel names the process of a unix socket, and none over TCP.
func TestPeerOf(t *testing.T) {
	l := listen(t, filepath.Join(t.TempDir(), "s"))
	b := &Bounded{Listener: l, Take: func(net.Conn) (func(), bool) { return func() {}, true }}
	dial(t, l)
	c, err := b.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := Peer{UID: os.Geteuid(), PID: os.Getpid()}
	for _, c := range []net.Conn{c, c.(*bounded).Conn} {
		if p := PeerOf(c); p != want || !p.Privileged() {
			t.Errorf("%T: %+v, want %+v", c, p, want)
		}
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	if p := PeerOf(dial(t, tcp)); p != (Peer{UID: -1}) || p.Privileged() {
		t.Errorf("over TCP: %+v", p)
	}
}

// TestPrivileged: others than root and the process's own user are not.
func TestPrivileged(t *testing.T) {
	for uid, want := range map[int]bool{0: true, os.Geteuid(): true, -1: false, 65534: os.Geteuid() == 65534} {
		if got := (Peer{UID: uid}).Privileged(); got != want {
			t.Errorf("uid %d: %v", uid, got)
		}
	}
}

// TestBounded: a connection beyond the slots is closed and counted, and a slot that is
// left, however often its connection is closed, is one other's.
func TestBounded(t *testing.T) {
	var open, refused atomic.Int64
	b := &Bounded{
		Listener: listen(t, filepath.Join(t.TempDir(), "s")),
		Take: func(net.Conn) (func(), bool) {
			if open.Load() == 1 {
				return nil, false
			}
			open.Add(1)
			return func() { open.Add(-1) }, true
		},
		Refused: func() { refused.Add(1) },
	}
	dial(t, b)
	first, err := b.Accept()
	if err != nil {
		t.Fatal(err)
	}
	beyond := dial(t, b)
	accepted := make(chan net.Conn)
	go func() {
		c, err := b.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	if n, err := beyond.Read(make([]byte, 1)); err == nil {
		t.Errorf("the second connection reads %d bytes", n)
	}
	_ = first.Close()
	_ = first.Close()
	if n := open.Load(); n != 0 {
		t.Errorf("%d slots are taken", n)
	}
	dial(t, b)
	if c := <-accepted; c != nil {
		defer c.Close()
	}
	if refused.Load() != 1 || open.Load() != 1 {
		t.Errorf("%d were refused, %d slots are taken: want 1 and 1", refused.Load(), open.Load())
	}
}

func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
