package socket

import (
	"net"
	"os"

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
	if held, ok := c.(*bounded); ok {
		c = held.Conn
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return p
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return p
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			p = Peer{UID: int(cred.Uid), PID: int(cred.Pid)}
		}
	})
	return p
}

// Privileged reports whether the process is root's, or of the user as whom this one runs.
func (p Peer) Privileged() bool { return p.UID == 0 || p.UID == os.Geteuid() }
