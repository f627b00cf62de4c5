package traffic

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	sinkBatch    = 64
	sinkSnapshot = 192      // bytes kept of each frame; the mark ends at byte 150 at the latest
	sinkBuffer   = 64 << 20 // bytes of socket buffer
	sinkWakeUs   = 50_000   // how often an idle sink looks whether it has been closed
)

// PacketSink receives on an AF_PACKET socket. All its numbers are exact, for any number of
// receive queues, as long as Overflow is zero. It costs about a microsecond per packet;
// arrival is when user space has the packet, so latency includes its wait in the socket.
// The kernel's stack sees the packets too: give the interface no address.
type PacketSink struct {
	port    Port
	fd      int
	reader  *Reader
	clock   *clock
	frames  *Frames
	closing atomic.Bool
	done    chan error

	mu      sync.Mutex // taken once per batch
	tracker *tracker
}

// NewPacketSink opens the socket and begins to receive. It needs CAP_NET_RAW and CAP_NET_ADMIN.
func NewPacketSink(port Port, w Workload, options SinkOptions) (*PacketSink, error) {
	reader, err := newReader(w)
	if err != nil {
		return nil, err
	}
	clock, err := newClock(w.Clock)
	if err != nil {
		return nil, err
	}
	link, err := port.Namespace.Link(port.Interface)
	if err != nil {
		return nil, err
	}
	s := &PacketSink{
		port: port, reader: reader, clock: clock, done: make(chan error, 1),
		frames: NewFrames(sinkBatch, sinkSnapshot), tracker: newTracker(w.Flows, options),
	}
	err = port.Namespace.Do(func() (err error) {
		s.fd, err = PacketSocket(link.Attrs().Index, unix.ETH_P_ALL,
			SocketOption{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1},
			SocketOption{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, sinkBuffer})
		if err != nil {
			return err
		}
		wake := unix.Timeval{Usec: sinkWakeUs}
		return unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wake)
	})
	if err != nil {
		return nil, fmt.Errorf("receive on %s: %w", port, err)
	}
	go func() { s.done <- port.run(s.receive) }()
	return s, nil
}

// Name is "af_packet".
func (s *PacketSink) Name() string { return "af_packet" }

// Close stops receiving. It returns what stopped the sink before, if anything did.
func (s *PacketSink) Close() error {
	s.closing.Store(true)
	return errors.Join(<-s.done, unix.Close(s.fd))
}

// Report implements [Sink].
func (s *PacketSink) Report() (*Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return nil, fmt.Errorf("read the drops of a packet socket: %w", err)
	}
	s.tracker.report.Overflow += uint64(stats.Drops) // the kernel clears it with each reading
	return s.tracker.snapshot(), nil
}

func (s *PacketSink) receive() error {
	for !s.closing.Load() {
		n, errno := s.frames.Receive(s.fd)
		switch errno {
		case 0:
			s.count(n)
		case unix.EAGAIN, unix.EINTR, unix.ENETDOWN:
		default:
			return fmt.Errorf("receive on %s: recvmmsg: %w", s.port, errno)
		}
	}
	return nil
}

// count looks at one batch. Its packets share one arrival time: they were all there when
// the system call returned.
func (s *PacketSink) count(n int) {
	now := s.clock.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		length := s.frames.Length(i)
		mark, ok := s.reader.Read(s.frames.Buffer(i)[:min(length, sinkSnapshot)])
		if !ok {
			s.tracker.report.Foreign++
			continue
		}
		s.tracker.add(mark, length, now)
	}
}
