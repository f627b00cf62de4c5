package traffic

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/xsk"
)

const (
	// xskFrames is the number of frames of an AF_XDP source, enough for all rings.
	xskFrames = 2048
	// maxXSKFrame is the largest frame of a UMEM, in bytes.
	maxXSKFrame = 4096
	// maxKicks in a row without an empty ring mean that the device is stuck.
	maxKicks = 1_000_000
)

// XSKSource sends through an AF_XDP socket: the portable fast source, in
// zero-copy mode where the driver has it. It needs no XDP program on its interface.
type XSKSource struct {
	sender *sender
	out    *xskOut
}

// NewXSKSource opens the socket on the interface's queue in the given mode. It needs CAP_NET_RAW and CAP_NET_ADMIN.
func NewXSKSource(port Port, queue int, w Workload, mode xsk.Mode) (*XSKSource, error) {
	sender, ifindex, err := newSender(port, w)
	if err != nil {
		return nil, err
	}
	out, err := newXSKOut(port, ifindex, queue, w.MaxSize()-FCS, mode)
	if err != nil {
		return nil, err
	}
	return &XSKSource{sender, out}, nil
}

// Name is "af_xdp" with the mode granted, as "af_xdp (copy, need_wakeup)".
func (s *XSKSource) Name() string { return s.out.name() }

// Close closes the socket and frees its memory.
func (s *XSKSource) Close() error { return s.out.close() }

// Run implements [Source].
func (s *XSKSource) Run(ctx context.Context, load Load) (Sent, error) {
	return s.sender.run(ctx, load, func(seq uint64, n int, sent *Sent) error { return s.out.send(s.sender.write, seq, n, sent) })
}

// xskOut sends frames through an AF_XDP socket.
type xskOut struct {
	memory []byte
	umem   *xsk.UMEM
	socket *xsk.Socket
	free   []uint64 // addresses of frames that are ours
	back   []uint64
	descs  []xsk.Desc
}

// newXSKOut opens the socket, for frames up to a length in bytes.
func newXSKOut(port Port, ifindex, queue, longest int, mode xsk.Mode) (_ *xskOut, err error) {
	shape := xsk.DefaultUMEMConfig()
	if longest > shape.FrameSize {
		shape.FrameSize = maxXSKFrame
	}
	if longest > maxXSKFrame {
		return nil, fmt.Errorf("an AF_XDP source sends %d bytes at most, not %d: use source packet", maxXSKFrame+FCS, longest+FCS)
	}
	s := &xskOut{back: make([]uint64, 2*sendBatch), descs: make([]xsk.Desc, sendBatch)}
	s.memory, err = unix.Mmap(-1, 0, xskFrames*shape.FrameSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d frames: %w", xskFrames, err)
	}
	if s.umem, err = xsk.NewUMEM(s.memory, shape); err != nil {
		return nil, errors.Join(err, unix.Munmap(s.memory))
	}
	for i := range xskFrames {
		s.free = append(s.free, uint64(i*shape.FrameSize))
	}
	config := xsk.DefaultConfig()
	config.Mode = mode
	err = port.Namespace.Do(func() (err error) {
		s.socket, err = s.umem.Open(ifindex, queue, config)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("send over queue %d of %s: %w", queue, port, err), unix.Munmap(s.memory))
	}
	return s, nil
}

func (s *xskOut) name() string { return fmt.Sprintf("af_xdp (%s)", s.socket.Granted()) }

func (s *xskOut) close() error {
	if err := s.socket.Close(); err != nil {
		return err // the kernel may still use the memory
	}
	return unix.Munmap(s.memory)
}

// send writes and sends n packets.
func (s *xskOut) send(write fill, seq uint64, n int, sent *Sent) error {
	for s.reclaim(); len(s.free) < n; s.reclaim() {
		if err := s.kick(sent); err != nil {
			return err
		}
	}
	mine := s.free[len(s.free)-n:]
	for i, addr := range mine {
		frame := s.memory[addr : addr+uint64(s.umem.FrameSize())]
		length := write(frame, seq+uint64(i))
		s.descs[i] = xsk.Desc{Addr: addr, Len: uint32(length)}
		sent.Bytes += uint64(length)
	}
	for pushed := 0; pushed < n; {
		pushed += s.socket.TX.Push(s.descs[pushed:n])
		if err := s.kick(sent); err != nil {
			return err
		}
	}
	s.free = s.free[:len(s.free)-n]
	sent.Packets += uint64(n)
	return nil
}

// reclaim takes sent frames back.
func (s *xskOut) reclaim() {
	n := s.socket.Completion.Pop(s.back)
	for _, addr := range s.back[:n] {
		s.free = append(s.free, s.umem.Frame(addr)) // within the capacity: the frames come back
	}
}

// kick has the kernel send all that is in the ring, unless it has to wait for completions.
func (s *xskOut) kick(sent *Sent) error {
	for range maxKicks {
		switch result := s.socket.TX.Kick(); result {
		case xsk.KickDone:
			return nil
		case xsk.KickDropped:
			sent.Refused++
		case xsk.KickAgain, xsk.KickNoMemory:
			s.reclaim()
			runtime.Gosched()
		default:
			return fmt.Errorf("wake the AF_XDP transmitter: %v", result)
		}
		if s.socket.TX.Unsent() == 0 {
			return nil
		}
	}
	return errors.New("the device takes no packets from the AF_XDP ring")
}
