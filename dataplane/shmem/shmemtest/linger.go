// Package shmemtest has what hostile peers of ports in shared memory pass, for tests of these ports.
package shmemtest

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Linger returns a descriptor of a socket that takes an hour to close, if no other one is left of it: it waits for the other end to take what was
// sent. It belongs to the caller. The test's end lets it go.
func Linger(t testing.TB) (file int) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer l.Close()
	near, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	must(t, err)
	defer near.Close()
	far, err := l.AcceptTCP()
	must(t, err)
	t.Cleanup(func() {
		_ = far.SetLinger(0) // ends the connection at once
		_ = far.Close()
	})
	raw, err := near.SyscallConn()
	must(t, err)
	var failed error
	must(t, raw.Control(func(fd uintptr) {
		if file, failed = unix.Dup(int(fd)); failed != nil {
			return
		}
		for failed == nil {
			_, failed = unix.Write(file, make([]byte, 1<<16)) // until the buffer is full
		}
		if errors.Is(failed, unix.EAGAIN) {
			failed = unix.SetsockoptLinger(file, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600})
		}
	}))
	must(t, failed)
	return file
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
