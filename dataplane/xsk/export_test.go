package xsk

import "golang.org/x/sys/unix"

// Probe is for tests of a kernel whose drivers have no zero-copy.
type Probe struct{ *probe }

func NewProbe(ifindex, queue int) (Probe, error) {
	p, err := newProbe(ifindex, queue)
	return Probe{p}, err
}

// Try binds once.
func (p Probe) Try() error {
	return unix.Bind(p.socket.fd, &unix.SockaddrXDP{Flags: unix.XDP_ZEROCOPY | unix.XDP_USE_SG, Ifindex: uint32(p.socket.ifindex), QueueID: uint32(p.socket.queue)})
}

func (p Probe) Await() error { return p.await() }
