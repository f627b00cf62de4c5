package shmem

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Turn is what the goroutines that speak with a peer have while they act on what it says, and give up while they wait for it. Another process can
// go on with a device whose goroutines are frozen: nothing of the peer's sockets is read, and nothing changes, until Thaw or Leave. A nil
// Turn is had always.
type Turn struct {
	mu     sync.Mutex
	change *sync.Cond
	acting int // goroutines that have it
	frozen int // calls of Freeze without Thaw
	left   bool
}

// NewTurn returns a Turn that no goroutine has.
func NewTurn() *Turn {
	t := new(Turn)
	t.change = sync.NewCond(&t.mu)
	return t
}

// ErrLeft is why a goroutine ends whose device another process has now: what is shared with the peer stays as it is.
var ErrLeft = errors.New("another process has the device")

// Take waits until nothing is frozen. It reports false if the device was left, and then also has the turn. Give follows.
func (t *Turn) Take() bool {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.frozen != 0 && !t.left {
		t.change.Wait()
	}
	t.acting++
	return !t.left
}

// Give gives the turn up.
func (t *Turn) Give() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.acting--; t.acting == 0 {
		t.change.Broadcast()
	}
}

// Freeze returns once no goroutine acts, and none will. Where one does so for longer than the limit, all go on, and an error is returned. Several
// calls are undone by as many of Thaw.
func (t *Turn) Freeze(limit time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frozen++
	late := false
	timer := time.AfterFunc(limit, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		late = true
		t.change.Broadcast()
	})
	defer timer.Stop()
	for t.acting != 0 {
		if late {
			t.thaw()
			return fmt.Errorf("its peer has not taken what was sent to it for %v: try again", limit)
		}
		t.change.Wait()
	}
	return nil
}

// Thaw undoes Freeze.
func (t *Turn) Thaw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.thaw()
}

func (t *Turn) thaw() {
	t.frozen--
	t.change.Broadcast()
}

// Leave has all goroutines go on and find that another process has the device.
func (t *Turn) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = true
	t.change.Broadcast()
}

// Left reports whether Leave was called.
func (t *Turn) Left() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left
}

// Wait waits for a channel without the turn, which the caller has, and reports false if the device was left.
func (t *Turn) Wait(done <-chan struct{}) bool {
	t.Give()
	<-done
	return t.Take()
}

// act calls f whenever a descriptor may be readable, until it does not return EAGAIN. The caller has the turn, and f has it; what waits has not.
func (t *Turn) act(file syscall.RawConn, f func(fd int) error) error {
	t.Give()
	had := false
	var err error
	failed := file.Read(func(fd uintptr) bool {
		if had = true; !t.Take() {
			err = ErrLeft
			return true
		}
		for err = f(int(fd)); errors.Is(err, unix.EINTR); err = f(int(fd)) {
		}
		if errors.Is(err, unix.EAGAIN) {
			t.Give()
			had = false
		}
		return had
	})
	if !had && !t.Take() {
		return ErrLeft
	}
	return errors.Join(failed, err)
}

// Listener is a Unix socket that peers connect to. It differs from the one of package net in that a connection is accepted with the Turn alone.
type Listener struct {
	*os.File
}

// Listen makes the socket of a network ("unix" or "unixpacket") at a path, which stays when it is closed.
func Listen(network, path string) (*Listener, error) {
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	f, err := l.File()
	if err != nil {
		return nil, err
	}
	return AdoptListener(f)
}

// AdoptListener takes the socket of another process.
func AdoptListener(f *os.File) (*Listener, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	err = errors.Join(err, f.Close())
	if err != nil {
		return nil, err
	}
	accepts, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err == nil && accepts == 0 {
		err = errors.New("the socket does not listen")
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("a listening socket: %w", err)
	}
	return &Listener{os.NewFile(uintptr(fd), "listener")}, nil
}

// Share returns another descriptor of the socket.
func (l *Listener) Share() (*os.File, error) { return Share(l) }

// Accept waits for a connection. The caller has the turn, also behind it.
func (l *Listener) Accept(t *Turn) (*net.UnixConn, error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil, err
	}
	accepted := -1
	if err := t.act(raw, func(fd int) (err error) {
		accepted, _, err = unix.Accept4(fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return err
	}); err != nil {
		if accepted >= 0 {
			_ = unix.Close(accepted)
		}
		return nil, err
	}
	return AdoptConn(os.NewFile(uintptr(accepted), "connection"))
}

// AdoptConn makes a connection of its descriptor, which it takes.
func AdoptConn(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	err = errors.Join(err, f.Close())
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, errors.New("a connection that is not by a Unix socket")
	}
	return u, nil
}

// Share returns another descriptor of a socket, for another process.
func Share(c syscall.Conn) (*os.File, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var f *os.File
	failed := raw.Control(func(fd uintptr) { f, err = ShareFD(int(fd)) })
	return f, errors.Join(failed, err)
}

// ShareFD is Share for a plain descriptor.
func ShareFD(fd int) (*os.File, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("copy a descriptor: %w", err)
	}
	return os.NewFile(uintptr(dup), "shared"), nil
}
