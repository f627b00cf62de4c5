package shmem

import (
	"encoding/binary"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestPrefetch: addresses of no memory do not fault, and nothing behind the last of n addresses is read: it would fault.
func TestPrefetch(t *testing.T) {
	page := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	if err := unix.Mprotect(memory[page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	end := memory[:page]
	nowhere := []uint64{0, 1, 1 << 40, 1<<64 - 1, uint64(uintptr(unsafe.Pointer(&memory[page])))}
	for i, a := range nowhere {
		binary.NativeEndian.PutUint64(end[page-8*(len(nowhere)-i):], a)
	}
	for n := 1; n <= len(nowhere); n++ {
		at := (*uintptr)(unsafe.Pointer(&end[page-8*n]))
		PrefetchRead(at, n)
		PrefetchWrite(at, n)
		PrefetchReadLine(at, n)
		PrefetchWriteLine(at, n)
		prefetchLines(&end[page-1], n)
		prefetchLinesWrite(&end[page-1], n)
	}
}
