package xsk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Share is what another process needs beside the descriptor to go on with a bound socket (UMEM.Adopt).
type Share struct {
	Queue int `json:"queue"`
	// The sizes of the rings in descriptors, as in Config.
	FillSize       int `json:"fill"`
	RXSize         int `json:"rx"`
	TXSize         int `json:"tx"`
	CompletionSize int `json:"completion"`

	ZeroCopy    bool   `json:"zero_copy"`
	NoZeroCopy  string `json:"no_zero_copy,omitempty"`
	NeedWakeup  bool   `json:"need_wakeup"`
	MultiBuffer bool   `json:"multi_buffer"`
	TXBudget    int    `json:"tx_budget"`
	BusyPoll    bool   `json:"busy_poll"`
}

// Share describes the socket for another process.
func (s *Socket) Share() Share {
	g := s.granted
	h := Share{Queue: s.queue, FillSize: s.Fill.Size(), RXSize: s.RX.Size(), TXSize: s.TX.Size(), CompletionSize: s.Completion.Size(),
		ZeroCopy: g.ZeroCopy, NeedWakeup: g.NeedWakeup, MultiBuffer: g.MultiBuffer, TXBudget: g.TXBudget, BusyPoll: g.BusyPoll}
	if g.NoZeroCopy != nil {
		h.NoZeroCopy = g.NoZeroCopy.Error()
	}
	return h
}

// Adopt makes a socket of the descriptor of a bound one that another process has, whose packet memory this is too. The rings are
// mapped and otherwise left alone: the other process uses them until it leaves (Leave), and this one from Sync on. The descriptor is the socket's, also
// where Adopt fails. Linux maps the fill and completion rings of a bound socket from 6.4 on (xsk_mmap in net/xdp/xsk.c).
func (u *UMEM) Adopt(fd, ifindex int, h Share) (*Socket, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &Socket{umem: u, fd: fd, ifindex: ifindex, queue: h.Queue, left: true}
	s.granted = Granted{ZeroCopy: h.ZeroCopy, NeedWakeup: h.NeedWakeup, MultiBuffer: h.MultiBuffer, TXBudget: h.TXBudget, BusyPoll: h.BusyPoll}
	if h.NoZeroCopy != "" {
		s.granted.NoZeroCopy = errors.New(h.NoZeroCopy)
	}
	if err := s.adopt(h); err != nil {
		return nil, errors.Join(fmt.Errorf("take over the AF_XDP socket of queue %d of %s: %w", h.Queue, interfaceName(ifindex), err), s.release())
	}
	u.sockets = append(u.sockets, s)
	return s, nil
}

func (s *Socket) adopt(h Share) error {
	config := Config{FillSize: h.FillSize, RXSize: h.RXSize, TXSize: h.TXSize, CompletionSize: h.CompletionSize, Mode: Copy}
	if err := config.Validate(); err != nil { // the kernel refuses to map more than there is
		return err
	}
	err := s.mapRings(config)
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("the kernel maps the rings of a bound socket from Linux 6.4 on: stop the old switch and start the new one: %w", err)
	}
	if err == nil && h.ZeroCopy {
		s.probe, err = newProbe(s.ifindex, s.queue)
	}
	return err
}

// Sync takes over our ends of the rings where the process before has left them. Between Adopt and Sync, Close leaves the socket to that process.
func (s *Socket) Sync() {
	s.left = false
	s.Fill.head, s.Fill.tail = s.Fill.produced.Load(), s.Fill.consumed.Load()
	s.TX.head, s.TX.tail = s.TX.produced.Load(), s.TX.consumed.Load()
	s.RX.tail = s.RX.consumed.Load()
	s.Completion.tail = s.Completion.consumed.Load()
}

// Outstanding counts the frames that were pushed and not popped: those to receive into (Fill and RX), and those to transmit (TX and completion). It is
// exact while neither end of the caller's side moves; the kernel's ends do not matter.
func (s *Socket) Outstanding() (rx, tx int) {
	return int(s.Fill.produced.Load() - s.RX.consumed.Load()), int(s.TX.produced.Load() - s.Completion.consumed.Load())
}

// Leave leaves the socket to another process, which has adopted it: Close then ends nothing but this process's share of it.
func (s *Socket) Leave() { s.left = true }

// Left reports whether another process has the socket, or has it still: between Leave, or Adopt, and Sync.
func (s *Socket) Left() bool { return s.left }
