package socket

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Peer is the process at the other end of a unix socket.
type Peer struct {
	UID int // -1: unknown to the kernel, as over TCP
	PID int // 0: of another pid namespace, or unknown
}

// PeerOf asks the kernel who connected, of a connection as it came or from a Bounded.
func PeerOf(c net.Conn) Peer {
	p := Peer{UID: -1}
	_, raw := rawOf(c)
	if _, ok := raw.(*net.UnixConn); !ok {
		return p
	}
	control(raw, func(fd int) {
		if cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			p = Peer{UID: int(cred.Uid), PID: int(cred.Pid)}
		}
	})
	return p
}

// rawOf finds the connection of the kernel in one that a Bounded or TLS wraps, and the Bounded's on the way; nil: there is none.
func rawOf(c net.Conn) (held *bounded, raw net.Conn) {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = wrapped.NetConn()
	}
	if held, ok := c.(*bounded); ok {
		return held, held.Conn
	}
	return nil, c
}

func control(c net.Conn, f func(fd int)) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := s.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

// Asked reports whether the other end of a connection from a Bounded has sent anything, read or not.
func Asked(c net.Conn) bool {
	held, raw := rawOf(c)
	return held != nil && held.asked.Load() || polled(raw, unix.POLLIN)
}

// Left reports whether the other end of a connection has closed it, also where nothing was read since.
func Left(c net.Conn) bool {
	_, raw := rawOf(c)
	return polled(raw, unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR)
}

// polled reports whether the kernel has one of these events of a connection.
func polled(c net.Conn, events int16) (is bool) {
	control(c, func(fd int) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(fds, 0)
		is = err == nil && n == 1 && fds[0].Revents&events != 0
	})
	return is
}

// Privileged reports whether the process is root's, or of the user as whom this one runs.
func (p Peer) Privileged() bool { return p.UID == 0 || p.UID == os.Geteuid() }
