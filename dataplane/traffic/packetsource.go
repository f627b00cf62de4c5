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
	out    *packetOut
}

// NewPacketSource opens the socket. It needs CAP_NET_RAW.
func NewPacketSource(port Port, w Workload) (*PacketSource, error) {
	sender, ifindex, err := newSender(port, w)
	if err != nil {
		return nil, err
	}
	out, err := newPacketOut(port, ifindex, w.MaxSize()-FCS)
	if err != nil {
		return nil, err
	}
	return &PacketSource{sender, out}, nil
}

// fill writes packet seq to the start of a buffer, and returns its length.
type fill func(buf []byte, seq uint64) int

// packetOut sends frames through a socket, past the queueing discipline.
type packetOut struct {
	frames *Frames
	fd     int
}

// newPacketOut opens the socket, for frames up to a length in bytes.
func newPacketOut(port Port, ifindex, longest int) (*packetOut, error) {
	out := &packetOut{frames: NewFrames(sendBatch, longest)}
	err := port.Namespace.Do(func() (err error) {
		out.fd, err = PacketSocket(ifindex, 0,
			SocketOption{unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1},
			SocketOption{unix.SOL_SOCKET, unix.SO_SNDBUF, 1 << 20})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("send over %s: %w", port, err)
	}
	return out, nil
}

func (o *packetOut) name() string { return "af_packet" }

func (o *packetOut) close() error { return unix.Close(o.fd) }

// send writes and sends n packets.
func (o *packetOut) send(write fill, seq uint64, n int, sent *Sent) error {
	for i := range n {
		length := write(o.frames.Buffer(i), seq+uint64(i))
		o.frames.setLength(i, length)
		sent.Bytes += uint64(length)
	}
	sent.Packets += uint64(n)
	return o.frames.sendAll(o.fd, n, sent)
}

// Name is "af_packet".
func (s *PacketSource) Name() string { return s.out.name() }

// Close closes the socket.
func (s *PacketSource) Close() error { return s.out.close() }

// Run implements [Source].
func (s *PacketSource) Run(ctx context.Context, load Load) (Sent, error) {
	return s.sender.run(ctx, load, func(seq uint64, n int, sent *Sent) error { return s.out.send(s.sender.write, seq, n, sent) })
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
