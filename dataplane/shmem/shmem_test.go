package shmem

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHalves: both halves of a word change alone.
func TestHalves(t *testing.T) {
	b := make([]byte, 8)
	for offset := range uint64(4) {
		h := HalfAt(b, 2*offset)
		if !h.Store(uint16(0x1111 * (offset + 1))) {
			t.Error("a store without a rival gave up")
		}
		if got := h.Load(); got != uint16(0x1111*(offset+1)) {
			t.Errorf("half %d is %#x", offset, got)
		}
	}
	if got := string(b); got != "\x11\x11\x22\x22\x33\x33\x44\x44" {
		t.Errorf("the halves are %x", got)
	}
}

// TestLost: memory that is truncated is a fault that is known by its address; every other panic is ours.
func TestLost(t *testing.T) {
	page := os.Getpagesize()
	fd, err := unix.MemfdCreate("shmem", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(2*page)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Map(fd, uint64(2*page), 1); err == nil {
		t.Error("a mapping beyond the file's end")
	}
	part, whole, err := Map(fd, 10, uint64(page)+5)
	if err != nil || len(part) != 10 || len(whole) != page {
		t.Fatalf("%d bytes in %d: %v", len(part), len(whole), err)
	}
	defer func() { _ = unix.Munmap(whole) }()
	holds := func(a uintptr) bool { return Holds(whole, a) }
	var g Gate
	if g.Enter() {
		t.Fatal("a closed gate was entered")
	}
	g.SetOpen(true)
	for _, c := range []struct {
		name string
		do   func()
		lost bool
	}{
		{"vanished memory", func() { part[0] = 1 }, true},
		{"a fault of ours", func() { _ = part[len(part)*2] }, false},
	} {
		if err := unix.Ftruncate(fd, int64(page)); err != nil {
			t.Fatal(err)
		}
		func() {
			if !g.Enter() {
				t.Fatal("the gate is closed")
			}
			defer func() {
				if r := recover(); r == nil || Lost(r, holds) != c.lost {
					t.Errorf("%s: recovered %v", c.name, r)
				}
				g.Leave()
			}()
			c.do()
		}()
	}
	g.Lock()
	if g.Enter() {
		t.Error("a locked gate was entered")
	}
	g.Unlock()
}

// TestFiles: only eventfds notify, and only memory is mapped.
func TestFiles(t *testing.T) {
	file, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := Eventfd(int(file.Fd())); err == nil || !strings.Contains(err.Error(), "want an eventfd") {
		t.Errorf("a file is taken as an eventfd: %v", err)
	}
	disk, err := os.Open("/sys/devices/system/cpu/online")
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	if _, _, err := Map(int(disk.Fd()), 1, 0); err == nil || !strings.Contains(err.Error(), "online is no memory") {
		t.Errorf("a file of sysfs is mapped: %v", err)
	}
}

// TestBell: each notification makes the descriptor readable once, and the peer's is not read.
func TestBell(t *testing.T) {
	b, err := NewBell()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	kick, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetKick(kick); err != nil {
		t.Fatal(err)
	}
	readable := func() bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(b.FD()), Events: unix.POLLIN}}, 0)
		return err == nil && n == 1
	}
	for _, ring := range []func(){b.Wake, func() { Notify(kick) }} {
		for range 2 {
			if b.Forget(); readable() {
				t.Error("readable without a notification")
			}
			if ring(); !readable() {
				t.Error("not readable behind a notification")
			}
		}
	}
	var count [8]byte
	if _, err := unix.Read(kick, count[:]); err != nil || count[0] != 2 {
		t.Errorf("the peer's eventfd has %d: %v", count[0], err)
	}
}
