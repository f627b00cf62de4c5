package socket

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestBound: the kernel knows a process's socket by the path that it has since it was renamed.
func TestBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "edge.1.sock")
	if Listens(path) {
		t.Error("before")
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: Hidden(path), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	if err := os.Rename(Hidden(path), path); err != nil {
		t.Fatal(err)
	}
	if got := Bound(strconv.Itoa(os.Getpid())); got != path || !Listens(path) {
		t.Errorf("bound to %q, listens %v", got, Listens(path))
	}
	if got := Bound("1"); got == path {
		t.Errorf("process 1 is bound to %q", got)
	}
	if long := "/tmp/" + strings.Repeat("n", 100); len(Hidden(long)) > maxPath {
		t.Errorf("%q is too long for a socket", Hidden(long))
	}
}
