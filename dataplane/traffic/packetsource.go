package traffic

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// PacketSource sends through an AF_PACKET socket with sendmmsg, past the queueing
// discipline. It works on each interface and with each frame size, is paced as the
// live-frame source is, sleeps between packets at rates below some thousand per
// second, and is several times slower.
type PacketSource struct {
	sender *sender
	frames *Frames
	fd     int
}

// NewPacketSource opens the socket. It needs CAP_NET_RAW.
func NewPacketSource(port Port, w Workload) (*PacketSource, error) {
	sender, ifindex, err := newSender(port, w)
	if err != nil {
		return nil, err
	}
	s := &PacketSource{sender: sender, frames: NewFrames(sendBatch, w.MaxSize()-FCS)}
	if s.fd, err = openPacketSender(port, ifindex); err != nil {
		return nil, fmt.Errorf("send over %s: %w", port, err)
	}
	return s, nil
}

// openPacketSender opens a socket that sends past the queueing discipline.
func openPacketSender(port Port, ifindex int) (fd int, err error) {
	err = port.Namespace.Do(func() (err error) {
		fd, err = PacketSocket(ifindex, 0,
			SocketOption{unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1},
			SocketOption{unix.SOL_SOCKET, unix.SO_SNDBUF, 1 << 20})
		return err
	})
	return fd, err
}

// Name is "af_packet".
func (s *PacketSource) Name() string { return "af_packet" }

// Close closes the socket.
func (s *PacketSource) Close() error { return unix.Close(s.fd) }

// Run implements [Source].
func (s *PacketSource) Run(ctx context.Context, load Load) (Sent, error) {
	return s.sender.run(ctx, load, s.send)
}

// send writes and sends n packets.
func (s *PacketSource) send(seq uint64, n int, sent *Sent) error {
	for i := range n {
		length := s.sender.writer.Write(s.frames.Buffer(i), seq+uint64(i), s.sender.clock.now())
		s.frames.setLength(i, length)
		sent.Bytes += uint64(length)
	}
	sent.Packets += uint64(n)
	return s.frames.sendAll(s.fd, n, sent)
}

// sendAll sends the first n frames. What the device refuses for want of room is
// counted, not sent again: a source does not wait for its receiver.
func (m *Frames) sendAll(fd, n int, sent *Sent) error {
	for done := 0; done < n; {
		went, errno := m.Send(fd, done, n)
		switch errno {
		case 0:
			done += went
		case unix.EINTR, unix.EAGAIN:
		case unix.ENOBUFS:
			sent.Refused++
			done++
		default:
			return fmt.Errorf("sendmmsg: %w", errno)
		}
	}
	return nil
}
