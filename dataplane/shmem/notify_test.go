package shmem

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNotify: notifications add up, also many more than are taken at once, and a peer that makes its eventfd block and fills it
// does not block us.
func TestNotify(t *testing.T) {
	if notifier() == nil {
		t.Skip("no asynchronous I/O here: fs.aio-max-nr is used up, or it is forbidden")
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const n = 10 * aioEvents
	for range n {
		Notify(fd)
	}
	var b [8]byte
	if _, err := unix.Read(fd, b[:]); err != nil || binary.NativeEndian.Uint64(b[:]) != n {
		t.Errorf("%d notifications, want %d: %v", binary.NativeEndian.Uint64(b[:]), n, err)
	}
	if allocs := testing.AllocsPerRun(100, func() { Notify(fd) }); allocs != 0 {
		t.Errorf("%v allocations for each notification", allocs)
	}
	if _, err := unix.Read(fd, b[:]); err != nil {
		t.Fatal(err)
	}
	binary.NativeEndian.PutUint64(b[:], 1<<64-2)
	if _, err := unix.Write(fd, b[:]); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		Notify(fd) // a write would wait here without end
	}
}
