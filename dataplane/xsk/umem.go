package xsk

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// KernelHeadroom is the space that the kernel leaves in front of each received
// packet, in bytes (XDP_PACKET_HEADROOM of include/uapi/linux/bpf.h). UMEMConfig.Headroom
// comes on top of it. Both are ours once the packet is received: room for tags and shims.
const KernelHeadroom = 256

// MinFrameSize is the smallest frame, in bytes (XDP_UMEM_MIN_CHUNK_SIZE of
// include/net/xdp_sock.h). The largest is a page, in the aligned mode used here.
const MinFrameSize = 2048

// UMEMConfig shapes the frames.
type UMEMConfig struct {
	FrameSize int // bytes; a power of two from MinFrameSize to the page size
	Headroom  int // bytes in front of a received packet besides KernelHeadroom
}

// DefaultUMEMConfig has frames of 4096 bytes, which hold a packet of 1500 bytes and a
// jumbo packet of 9000 in three, and no headroom of our own.
func DefaultUMEMConfig() UMEMConfig { return UMEMConfig{FrameSize: 4096} }

// Validate returns all faults at once.
func (c UMEMConfig) Validate() error {
	var faults []error
	page := os.Getpagesize()
	if c.FrameSize < MinFrameSize || c.FrameSize > page || c.FrameSize&(c.FrameSize-1) != 0 {
		faults = append(faults, fmt.Errorf("frame size %d: want a power of two from %d to the page size %d", c.FrameSize, MinFrameSize, page))
	}
	if c.Headroom < 0 || c.FrameSize-KernelHeadroom-c.Headroom <= 0 {
		faults = append(faults, fmt.Errorf("headroom %d: want 0 or more, and room for a packet behind %d bytes of the kernel in a frame of %d",
			c.Headroom, KernelHeadroom, c.FrameSize))
	}
	return errors.Join(faults...)
}

// UMEM is packet memory that several sockets share. Its frames are numbered by
// their offset in the memory, in bytes: such an offset is called an address here,
// as in the kernel's documents.
//
// The kernel ties the registration of the memory to sockets: the first one registers
// it and binds with the mode's flags, and each further one names a bound socket to
// share with (XDP_SHARED_UMEM) and inherits zero-copy, need_wakeup and multi-buffer;
// own flags are refused (xsk_bind in net/xdp/xsk.c). So the memory is registered once for
// zero-copy and once for copy mode, as far as there are sockets of both, which pins it twice;
// frames pass between them all the same, for an address means the same in both. There is
// no descriptor for the UMEM itself, and an unbound socket cannot lend it (EBADF). So UMEM
// keeps its bound sockets: any of a mode lends the registration, they may be closed in
// any order, and when the last is gone the next Open registers anew.
//
// Open and Close may be called by any goroutine. The frames' contents have the
// owner's rules.
type UMEM struct {
	memory []byte
	config UMEMConfig
	mask   uint64 // clears the offset within a frame

	mu      sync.Mutex
	sockets []*Socket // bound, in the order of their opening
}

// NewUMEM describes the memory, which stays the caller's: it must begin at a page, as
// memory from mmap does, and live until the last socket is closed. Whole frames only; a rest
// at the end is refused. Nothing is asked of the kernel before the first Open.
func NewUMEM(memory []byte, config UMEMConfig) (*UMEM, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if len(memory) == 0 || len(memory)%config.FrameSize != 0 {
		return nil, fmt.Errorf("packet memory of %d bytes: want a multiple of the frame size %d", len(memory), config.FrameSize)
	}
	if address(memory)%uint64(os.Getpagesize()) != 0 {
		return nil, errors.New("packet memory does not begin at a page: allocate it with mmap")
	}
	return &UMEM{memory: memory, config: config, mask: ^uint64(config.FrameSize - 1)}, nil
}

// Frames is the number of frames.
func (u *UMEM) Frames() int { return len(u.memory) / u.config.FrameSize }

// FrameSize is the size of a frame in bytes.
func (u *UMEM) FrameSize() int { return u.config.FrameSize }

// Memory is all the memory; an address is an index into it.
func (u *UMEM) Memory() []byte { return u.memory }

// Frame returns the address of the first byte of the frame that holds addr.
func (u *UMEM) Frame(addr uint64) uint64 { return addr & u.mask }

// Bytes returns the packet bytes of a descriptor, which must lie within the memory.
// Writing beyond the slice's end up to the frame's end is allowed: its capacity says so.
func (u *UMEM) Bytes(d Desc) []byte {
	end := u.Frame(d.Addr) + uint64(u.config.FrameSize)
	return u.memory[d.Addr : d.Addr+uint64(d.Len) : end]
}

// PacketRoom is how many bytes of a received packet one frame holds, at most. Longer
// packets come in several descriptors with multi-buffer, and are dropped without.
func (u *UMEM) PacketRoom() int { return u.config.FrameSize - KernelHeadroom - u.config.Headroom }

// register makes the socket the owner of a new registration.
func (u *UMEM) register(fd int) error {
	reg := unix.XDPUmemReg{
		Addr:     address(u.memory),
		Len:      uint64(len(u.memory)),
		Size:     uint32(u.config.FrameSize),
		Headroom: uint32(u.config.Headroom),
	}
	err := registerUMEM(fd, &reg)
	if errors.Is(err, unix.ENOBUFS) && lockable(reg.Len) {
		err = Patiently(unix.ENOBUFS, func() error { return registerUMEM(fd, &reg) })
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("register %d MiB of packet memory: too little locked memory is allowed; "+
			"raise the limit (ulimit -l, LimitMEMLOCK), grant CAP_IPC_LOCK, or use fewer frames: %w", len(u.memory)>>20, err)
	default:
		return fmt.Errorf("register %d MiB of packet memory with frames of %d bytes: %w", len(u.memory)>>20, u.config.FrameSize, err)
	}
}

// lockable reports whether so many bytes could be locked if nothing else were.
func lockable(size uint64) bool {
	var limit unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil || size <= limit.Cur
}

// forget takes a closing socket off the list.
func (u *UMEM) forget(s *Socket) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sockets = slices.DeleteFunc(u.sockets, func(other *Socket) bool { return other == s })
}
