package xsk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// probe finds out when the kernel has let go of a queue in zero-copy mode. Closing the socket only schedules that
// (xp_put_pool and xp_release_deferred in net/xdp/xsk_buff_pool.c), and until the driver has reset the queue its device
// writes arriving packets into the frames that it was given. (The Intel drivers reset it earlier, when the XDP program goes; virtio_net
// does not.)
//
// It binds to the queue, which is EBUSY until then, with what the driver refuses behind that test: zero-copy of several frames. A driver that
// has it grants a socket without a frame, which is closed at once. Its socket is made early, in the namespace of the interface.
type probe struct {
	socket *Socket
	memory []byte
}

const probeFrame = 4096

func newProbe(ifindex, queue int) (*probe, error) {
	memory, err := unix.Mmap(-1, 0, probeFrame, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	p := &probe{memory: memory}
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(socketError(err), p.close())
	}
	u := &UMEM{memory: memory}
	u.config.FrameSize = probeFrame
	p.socket = &Socket{umem: u, fd: fd, ifindex: ifindex, queue: queue}
	errs := []error{u.register(fd)}
	for _, ring := range []int{unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_RX_RING} {
		errs = append(errs, unix.SetsockoptInt(fd, unix.SOL_XDP, ring, 2))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// await returns once the kernel has let go of the queue, or its interface has gone, and closes the probe.
func (p *probe) await() error {
	err := p.socket.bind(unix.XDP_ZEROCOPY|unix.XDP_USE_SG, 0)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.6, which does not know packets of several frames
		err = p.socket.bind(unix.XDP_ZEROCOPY, 0)
	}
	if errors.Is(err, unix.EBUSY) {
		err = fmt.Errorf("the kernel has not let go of queue %d of interface %d for %v: its device may write into frames that others have now", p.socket.queue, p.socket.ifindex, patience)
	} else {
		err = nil
	}
	return errors.Join(err, p.close())
}

func (p *probe) close() error {
	var err error
	if p.socket != nil {
		err = unix.Close(p.socket.fd)
	}
	return errors.Join(err, unix.Munmap(p.memory))
}
