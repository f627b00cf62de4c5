package xsk

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Socket is an AF_XDP socket on one queue of one interface, with its four rings.
type Socket struct {
	Fill Fill
	RX   RX

	_ [64]byte // the goroutines of both directions write their own cache lines

	TX         TX
	Completion Completion

	_ [64]byte

	umem     *UMEM
	fd       int
	ifindex  int
	queue    int
	granted  Granted
	mappings [4]mapping
	probe    *probe // of a socket in zero-copy mode
	left     bool   // another process has the socket (Leave)
}

// Open makes the socket of a queue. The interface must be in the network namespace
// of the calling thread. On failure everything is undone.
func (u *UMEM) Open(ifindex, queue int, config Config) (*Socket, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s, err := u.open(ifindex, queue, config)
	if config.Mode == ZeroCopy && errors.Is(err, ErrNotSupported) {
		err = fmt.Errorf("%w: use copy mode, or auto", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open AF_XDP socket on queue %d of %s: %w", queue, interfaceName(ifindex), err)
	}
	u.sockets = append(u.sockets, s)
	return s, nil
}

func (u *UMEM) open(ifindex, queue int, config Config) (*Socket, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if err := u.admit(ifindex, queue, config); err != nil {
		return nil, err
	}
	if config.Mode != Auto {
		return u.openAs(ifindex, queue, config)
	}
	refused := u.refused(ifindex)
	if refused == nil {
		config.Mode = ZeroCopy
		s, err := u.openAs(ifindex, queue, config)
		if err == nil || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) {
			return s, err // copy mode would fail too
		}
		refused = err
	}
	config.Mode = Copy
	s, err := u.openAs(ifindex, queue, config)
	if err != nil {
		return nil, err
	}
	s.granted.NoZeroCopy = refused
	return s, nil
}

// refused is why another queue of the interface has no zero-copy.
func (u *UMEM) refused(ifindex int) error {
	for _, s := range u.sockets {
		if s.ifindex == ifindex && s.granted.NoZeroCopy != nil {
			return s.granted.NoZeroCopy
		}
	}
	return nil
}

// openAs opens a socket in one mode, ZeroCopy or Copy, on a registration of that mode.
func (u *UMEM) openAs(ifindex, queue int, config Config) (*Socket, error) {
	for _, lender := range u.sockets {
		if lender.granted.ZeroCopy != (config.Mode == ZeroCopy) {
			continue
		}
		s, err := u.setup(ifindex, queue, config, lender)
		if !errors.Is(err, unix.EBADF) {
			return s, err
		}
		// The lender's interface was removed, which unbinds it (xsk_notifier). Ask the next.
	}
	return u.setup(ifindex, queue, config, nil)
}

// admit rejects what the shared bind would reject with a bare EINVAL, or accept silently.
func (u *UMEM) admit(ifindex, queue int, config Config) error {
	for _, s := range u.sockets {
		if s.ifindex == ifindex && s.queue == queue {
			return fmt.Errorf("this packet memory has a socket there already: %w", unix.EBUSY)
		}
	}
	if len(u.sockets) == 0 {
		return nil
	}
	g := u.sockets[0].granted
	switch {
	case config.NeedWakeup != g.NeedWakeup:
		return errors.New("need_wakeup differs from that of the other sockets: all sockets of one packet memory agree on it")
	case config.MultiBuffer != g.MultiBuffer:
		return errors.New("multi-buffer differs from that of the other sockets: all sockets of one packet memory agree on it")
	}
	return nil
}

// setup makes the socket, its rings, and binds it, on the lender's registration or,
// without a lender, on its own.
func (u *UMEM) setup(ifindex, queue int, config Config, lender *Socket) (*Socket, error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, socketError(err)
	}
	s := &Socket{umem: u, fd: fd, ifindex: ifindex, queue: queue}
	if err := s.configure(config, lender); err != nil {
		return nil, errors.Join(err, s.release())
	}
	if s.granted.ZeroCopy {
		if s.probe, err = newProbe(ifindex, queue); err != nil {
			return nil, errors.Join(fmt.Errorf("make a socket to tell when the kernel has let go of the queue: %w", err), s.release())
		}
	}
	return s, nil
}

func (s *Socket) configure(config Config, lender *Socket) error {
	if lender == nil {
		if err := s.umem.register(s.fd); err != nil {
			return err
		}
	}
	if err := s.makeRings(config); err != nil {
		return err
	}
	s.tune(config)
	if lender != nil {
		return s.bindShared(config, lender)
	}
	return s.bindFirst(config)
}

// makeRings sizes and maps the four rings, which must precede the bind.
func (s *Socket) makeRings(config Config) error {
	for _, ring := range []struct{ option, size int }{
		{unix.XDP_UMEM_FILL_RING, config.FillSize},
		{unix.XDP_UMEM_COMPLETION_RING, config.CompletionSize},
		{unix.XDP_RX_RING, config.RXSize},
		{unix.XDP_TX_RING, config.TXSize},
	} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_XDP, ring.option, ring.size); err != nil {
			return fmt.Errorf("make rings: %w", err)
		}
	}
	return s.mapRings(config)
}

// mapRings maps rings of the sizes that the socket has.
func (s *Socket) mapRings(config Config) error {
	off, err := mmapOffsets(s.fd)
	if err != nil {
		return fmt.Errorf("ask for the rings' layout: %w", err)
	}
	var errs [4]error
	s.mappings[0], s.Fill.shared, errs[0] = mapRing[uint64](s.fd, unix.XDP_UMEM_PGOFF_FILL_RING, off.Fr, config.FillSize)
	s.mappings[1], s.Completion.shared, errs[1] = mapRing[uint64](s.fd, unix.XDP_UMEM_PGOFF_COMPLETION_RING, off.Cr, config.CompletionSize)
	s.mappings[2], s.RX.shared, errs[2] = mapRing[Desc](s.fd, unix.XDP_PGOFF_RX_RING, off.Rx, config.RXSize)
	s.mappings[3], s.TX.shared, errs[3] = mapRing[Desc](s.fd, unix.XDP_PGOFF_TX_RING, off.Tx, config.TXSize)
	s.TX.fd = s.fd
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("map rings: %w", err)
	}
	return nil
}

// tune sets what is good to have; what the kernel refuses is missing from Granted.
func (s *Socket) tune(config Config) {
	if config.TXBudget > 0 && unix.SetsockoptInt(s.fd, unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, config.TXBudget) == nil {
		s.granted.TXBudget = config.TXBudget
	}
	if config.BusyPoll > 0 {
		budget := config.BusyPollBudget
		s.granted.BusyPoll = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_PREFER_BUSY_POLL, 1) == nil &&
			unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_BUSY_POLL, config.BusyPoll) == nil &&
			(budget == 0 || unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_BUSY_POLL_BUDGET, budget) == nil)
	}
}

// bindFirst binds with the flags that all later sockets inherit.
func (s *Socket) bindFirst(config Config) error {
	flags := uint16(0)
	switch config.Mode {
	case ZeroCopy:
		flags |= unix.XDP_ZEROCOPY
	case Copy:
		flags |= unix.XDP_COPY
	}
	if config.NeedWakeup {
		flags |= unix.XDP_USE_NEED_WAKEUP
	}
	if config.MultiBuffer {
		flags |= unix.XDP_USE_SG
	}
	err := s.bind(flags, 0)
	if errors.Is(err, unix.EINVAL) && config.MultiBuffer && config.Mode == Copy && s.bind(flags&^unix.XDP_USE_SG, 0) == nil {
		// An older kernel does not know the flag. A wrong queue gives EINVAL too, so ask without it.
		return fmt.Errorf("multi-buffer packets are %w by this kernel: Linux 6.6 has them; else keep the MTU within one frame", ErrNotSupported)
	}
	if err != nil {
		return bindError(err, config)
	}
	s.granted.NeedWakeup, s.granted.MultiBuffer = config.NeedWakeup, config.MultiBuffer
	return s.askMode()
}

// bindShared binds to the registration of a bound socket.
func (s *Socket) bindShared(config Config, lender *Socket) error {
	if err := s.bind(unix.XDP_SHARED_UMEM, lender.fd); err != nil {
		return bindError(err, config)
	}
	s.granted.NeedWakeup, s.granted.MultiBuffer = lender.granted.NeedWakeup, lender.granted.MultiBuffer
	return s.askMode()
}

func (s *Socket) bind(flags uint16, sharedFD int) error {
	return Patiently(unix.EBUSY, func() error {
		return unix.Bind(s.fd, &unix.SockaddrXDP{
			Flags: flags, Ifindex: uint32(s.ifindex), QueueID: uint32(s.queue), SharedUmemFD: uint32(sharedFD),
		})
	})
}

// patience is how long the remains of a closed socket may block the queue: on cores that
// are full of receive work, work items have been seen to wait for more than a second.
const patience = 5 * time.Second

// Patiently repeats what fails with the given errno for a while: the kernel frees the queue
// and the locked memory of a closed socket in a work item (xp_put_pool in
// net/xdp/xsk_buff_pool.c), so right after the end of another process both can still be taken.
func Patiently(busy unix.Errno, try func() error) error {
	deadline := time.Now().Add(patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := try()
		if !errors.Is(err, busy) || time.Now().Add(wait).After(deadline) {
			return err
		}
		time.Sleep(wait)
	}
}

func (s *Socket) askMode() error {
	flags, err := options(s.fd)
	if err != nil {
		return fmt.Errorf("ask for the mode granted: %w", err)
	}
	s.granted.ZeroCopy = flags&unix.XDP_OPTIONS_ZEROCOPY != 0
	return nil
}

// Granted returns what the kernel granted.
func (s *Socket) Granted() Granted { return s.granted }

// FD is the descriptor, for the XSKMAP and for poll. Poll reports POLLIN with packets
// in the RX ring, POLLOUT while the TX ring is at least half empty, and, in copy mode,
// sends what is in the TX ring (xsk_poll in net/xdp/xsk.c).
func (s *Socket) FD() int { return s.fd }

// WakeRX makes the driver look at the fill ring again, when Fill.NeedsWakeup says so.
func (s *Socket) WakeRX() KickResult { return kickResult(recvfromNothing(s.fd)) }

// Close unmaps the rings and closes the descriptor, and the kernel drops every frame of
// this socket that it still had (see Reclaim). When it returns, neither the kernel nor
// a device touches any of them anymore; in zero-copy mode it may wait for that. A second Close does nothing.
func (s *Socket) Close() error {
	if s.fd < 0 {
		return nil
	}
	s.umem.forget(s)
	err := s.release()
	if s.probe != nil && s.left {
		return errors.Join(err, s.probe.close())
	}
	if s.probe != nil {
		err = errors.Join(err, s.probe.await())
	}
	return err
}

// release undoes setup, however far it came. The descriptor is closed last: a mapped
// ring holds a reference to it, so the socket ends with the last unmap or the close.
func (s *Socket) release() error {
	var errs []error
	s.Fill.shared, s.Completion.shared = shared[uint64]{}, shared[uint64]{}
	s.RX.shared, s.TX.shared = shared[Desc]{}, shared[Desc]{}
	for i := range s.mappings {
		errs = append(errs, s.mappings[i].unmap())
	}
	errs = append(errs, unix.Close(s.fd))
	s.fd, s.TX.fd = -1, -1
	return errors.Join(errs...)
}
