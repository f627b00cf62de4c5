package shmem

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Bell is one descriptor for a worker to wait for, whatever peers come and go: an epoll descriptor that has the peer's
// notifications. Its events are edge-triggered, so that the peer's descriptor, which belongs to others as well, is never
// read.
type Bell struct {
	poll int
	wake int // our own event in poll
	kick int // the peer's; -1 without
}

// NewBell returns a bell without a peer.
func NewBell() (*Bell, error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a descriptor to wait for notifications: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(poll)
		return nil, fmt.Errorf("make a descriptor to wake a worker: %w", err)
	}
	b := &Bell{poll: poll, wake: wake, kick: -1}
	if err := b.add(wake); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *Bell) add(fd int) error {
	return unix.EpollCtl(b.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET})
}

// FD is readable once there was a notification since Forget.
func (b *Bell) FD() int { return b.poll }

// Forget makes FD wait for the next notification.
func (b *Bell) Forget() {
	var events [2]unix.EpollEvent
	_, _ = unix.EpollWait(b.poll, events[:], 0)
}

// Wake makes FD readable.
func (b *Bell) Wake() {
	one := [8]byte{1}
	_, _ = unix.Write(b.wake, one[:]) // fails only where so many wakes are pending already
}

// SetKick replaces the descriptor by which the peer notifies; -1 is none. It belongs to the bell then, also on failure.
func (b *Bell) SetKick(fd int) error {
	if b.kick >= 0 {
		_ = unix.EpollCtl(b.poll, unix.EPOLL_CTL_DEL, b.kick, nil)
		_ = unix.Close(b.kick)
	}
	if b.kick = fd; fd < 0 {
		return nil
	}
	return b.add(fd)
}

// Kick returns the descriptor by which the peer notifies, which stays the bell's; -1 without.
func (b *Bell) Kick() int { return b.kick }

// Close closes all three.
func (b *Bell) Close() {
	_ = b.SetKick(-1)
	_ = unix.Close(b.wake)
	_ = unix.Close(b.poll)
}
