package xsk

import "fmt"

// Stats are the socket's counters in the kernel (XDP_STATISTICS), since the bind. The
// ring sizes are too small where RXRingFull or RXFillRingEmpty grow: the first
// means that we pop too rarely, the second that we give frames too late.
type Stats struct {
	RXDropped       uint64 // packets: no frame, or too long for one frame without multi-buffer
	RXInvalidDescs  uint64 // fill addresses outside of the UMEM
	TXInvalidDescs  uint64 // TX descriptors outside of the UMEM, across frames, or of a packet of too many
	RXRingFull      uint64 // packets dropped because we had not popped the RX ring
	RXFillRingEmpty uint64 // times the kernel found the fill ring empty
	TXRingEmpty     uint64 // times the kernel found the TX ring empty
}

// Stats asks the kernel. It is one system call; call it between batches.
func (s *Socket) Stats() (Stats, error) {
	k, err := statistics(s.fd)
	if err != nil {
		return Stats{}, fmt.Errorf("read statistics of queue %d of %s: %w", s.queue, interfaceName(s.ifindex), err)
	}
	return Stats{
		RXDropped:       k.Rx_dropped,
		RXInvalidDescs:  k.Rx_invalid_descs,
		TXInvalidDescs:  k.Tx_invalid_descs,
		RXRingFull:      k.Rx_ring_full,
		RXFillRingEmpty: k.Rx_fill_ring_empty_descs,
		TXRingEmpty:     k.Tx_ring_empty_descs,
	}, nil
}

// Since is what was counted since an earlier time.
func (s Stats) Since(before Stats) Stats {
	s.RXDropped -= before.RXDropped
	s.RXInvalidDescs -= before.RXInvalidDescs
	s.TXInvalidDescs -= before.TXInvalidDescs
	s.RXRingFull -= before.RXRingFull
	s.RXFillRingEmpty -= before.RXFillRingEmpty
	s.TXRingEmpty -= before.TXRingEmpty
	return s
}
