package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestListenModes: with any umask, the group may talk, others may not, and
// all may pass the directory.
func TestListenModes(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077} {
		t.Run(fmt.Sprintf("%03o", umask), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "weir")
			path := filepath.Join(dir, "s1.sock")
			before := unix.Umask(umask)
			l, err := Listen(path, "")
			unix.Umask(before)
			if err != nil {
				t.Fatal(err)
			}
			checkMode(t, path, os.ModeSocket|0o660)
			checkMode(t, dir, os.ModeDir|0o755)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				left, _ := os.ReadDir(dir)
				t.Errorf("left behind: the directory, with %v; %v", left, err)
			}
		})
	}
}

func checkMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != want {
		t.Errorf("%s has the mode %v, want %v", filepath.Base(path), info.Mode(), want)
	}
}

// TestListenReplacesStale: the socket of a process that was killed is in
// nobody's way.
func TestListenReplacesStale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s1.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false) // as after kill -9
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	checkMode(t, path, os.ModeSocket|0o660)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

func TestListenErrors(t *testing.T) {
	dir := t.TempDir()
	live := filepath.Join(dir, "live.sock")
	l, err := Listen(live, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	datagrams := filepath.Join(dir, "datagrams")
	other, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: datagrams, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tests := []struct{ path, want string }{
		{live, "a running switch listens there: stop it, or give this one another switch.name or control.socket"},
		{datagrams, "see whether a switch listens there: dial unix " + datagrams},
		{file, "a file that is no socket has its path: remove it, or set control.socket to another path"},
		{filepath.Join(file, "s.sock"), "set control.socket to a path in a directory that can be made"},
		{"/proc/none/of/this/s.sock", "set control.socket to a path in a directory that can be made"},
	}
	for _, tt := range tests {
		_, err := Listen(tt.path, "")
		if err == nil || !strings.HasPrefix(err.Error(), "control socket "+tt.path+": ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.path, err, tt.want)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("the file became %q, %v", data, err)
	}
	if c, err := net.Dial("unix", live); err != nil {
		t.Errorf("the live socket was harmed: %v", err)
	} else {
		_ = c.Close()
	}
}

// TestListenAccess: the error tells an unprivileged user what to do.
func TestListenAccess(t *testing.T) {
	if err := accessRemedy(fmt.Errorf("mkdir: %w", unix.EACCES)); !strings.HasPrefix(err.Error(), "no permission: run as root, or set control.socket") || !errors.Is(err, unix.EACCES) {
		t.Error(err)
	}
	if err := accessRemedy(unix.EIO); !errors.Is(err, unix.EIO) || err.Error() != unix.EIO.Error() {
		t.Error(err)
	}
}

// TestListenDirectory: what was made for a socket goes with the last one there,
// and what was there before stays.
func TestListenDirectory(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	first, err := Listen(filepath.Join(dir, "1.sock"), "")
	if err != nil {
		t.Fatal(err)
	}
	second, err := Listen(filepath.Join(dir, "2.sock"), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("unix", filepath.Join(dir, "2.sock")); err != nil {
		t.Errorf("the second socket went with the first: %v", err)
	} else {
		_ = c.Close()
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	third, err := Listen(filepath.Join(root, "3.sock"), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := third.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(root); err != nil {
		t.Error(err)
	}
}

// TestListenDirectoryRace: switches that end while others start take no
// directory from under them.
func TestListenDirectoryRace(t *testing.T) {
	root := t.TempDir()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 100 {
				l, err := Listen(filepath.Join(root, "weir", fmt.Sprintf("%d.sock", i)), "")
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestListenRace: of switches that find the same stale socket at once, one
// gets it.
func TestListenRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s1.sock")
	for range 20 {
		if err := unix.Mknod(path, unix.S_IFSOCK|0o600, 0); err != nil && !errors.Is(err, unix.EEXIST) {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		listeners := make([]net.Listener, 8)
		for i := range listeners {
			all.Go(func() { listeners[i], _ = Listen(path, "") })
		}
		all.Wait()
		won := 0
		for _, l := range listeners {
			if l != nil {
				won++
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		if won != 1 {
			t.Fatalf("%d switches listen, want 1", won)
		}
	}
}

func TestConfig(t *testing.T) {
	tests := []struct{ socket, want string }{
		{"/run/weir/s1.sock", ""},
		{DefaultSocket("s1"), ""},
		{"s1.sock", `socket: "s1.sock" is not an absolute path: begin it with a slash`},
		{"", `socket: "" is not an absolute path: begin it with a slash`},
		{"/run/../s1.sock", `socket: "/run/../s1.sock" is not in its shortest form: write "/s1.sock"`},
		{"/" + strings.Repeat("a", 106), ""},
		{"/" + strings.Repeat("a", 107), `socket: the path has 108 bytes, a unix socket's has at most 107: choose a shorter one`},
	}
	for _, tt := range tests {
		c := Config{Socket: tt.socket}
		got := ""
		if err := c.Validate(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.socket, got, tt.want)
		}
	}
}
