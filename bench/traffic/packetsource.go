package traffic

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// packetBatch frames at most go with one sendmmsg.
	packetBatch = 32
	// spinBelow is the wait in ns under which a source spins. A longer one sleeps, and
	// wakes spinBelow/2 early: timer slack is 50 µs.
	spinBelow = 200_000
)

// PacketSource sends through an AF_PACKET socket with sendmmsg, past the queueing
// discipline. It works on each interface, is paced as the live-frame source is, sleeps
// between packets at rates below some thousand per second, and is several times slower.
type PacketSource struct {
	port    Port
	writer  *Writer
	clock   *clock
	frames  *messages
	fd      int
	stopped atomic.Bool
}

// NewPacketSource opens the socket. It needs CAP_NET_RAW.
func NewPacketSource(port Port, w Workload) (*PacketSource, error) {
	writer, err := NewWriter(w)
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
	s := &PacketSource{port: port, writer: writer, clock: clock, frames: newMessages(packetBatch, w.MaxSize()-FCS)}
	err = port.Namespace.Do(func() (err error) {
		s.fd, err = packetSocket(link.Attrs().Index, 0,
			socketOption{unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1},
			socketOption{unix.SOL_SOCKET, unix.SO_SNDBUF, 1 << 20})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("send over %s: %w", port, err)
	}
	return s, nil
}

// Name is "af_packet".
func (s *PacketSource) Name() string { return "af_packet" }

// Close closes the socket.
func (s *PacketSource) Close() error { return unix.Close(s.fd) }

// Run implements [Source].
func (s *PacketSource) Run(ctx context.Context, load Load) (Sent, error) {
	if err := load.Validate(); err != nil {
		return Sent{}, err
	}
	s.stopped.Store(false)
	defer context.AfterFunc(ctx, func() { s.stopped.Store(true) })()
	before, err := s.port.Namespace.Counters(s.port.Interface)
	if err != nil {
		return Sent{}, err
	}
	var sent Sent
	if err = s.port.run(func() error { return s.send(load, &sent) }); err != nil {
		return Sent{}, fmt.Errorf("send over %s: %w", s.port, err)
	}
	after, err := s.port.Namespace.Counters(s.port.Interface)
	if err != nil {
		return Sent{}, err
	}
	sent.Refused += after.TxDropped - before.TxDropped
	sent.finish(load)
	return sent, nil
}

func (s *PacketSource) send(load Load, sent *Sent) error {
	if err := s.clock.sync(); err != nil {
		return err
	}
	pacer, start, last := newPacer(load), s.clock.now(), uint64(0)
	for !s.stopped.Load() {
		elapsed := s.clock.now() - start
		if load.Duration > 0 && elapsed >= uint64(load.Duration) {
			sent.Elapsed = load.Duration
			return nil
		}
		limit := packetBatch
		if load.Count > 0 {
			limit = int(min(packetBatch, load.Count-sent.Packets))
		}
		if limit == 0 {
			break
		}
		n, wait := pacer.due(elapsed, limit)
		if n == 0 {
			s.wait(load, elapsed, wait)
			continue
		}
		if err := s.sendBatch(load.FirstSeq, n, sent); err != nil {
			return err
		}
		last = elapsed
	}
	sent.Elapsed = time.Duration(last + pacer.interval>>rateShift)
	return nil
}

// wait sleeps through the most of a long wait, but not past the end of the run, and
// looks at the stop flag at least ten times a second. A short wait is left to the
// caller's loop.
func (s *PacketSource) wait(load Load, elapsed, ns uint64) {
	if load.Duration > 0 {
		ns = min(ns, uint64(load.Duration)-elapsed)
	}
	if ns < spinBelow {
		return
	}
	ts := unix.NsecToTimespec(int64(min(ns-spinBelow/2, 100e6)))
	_ = unix.Nanosleep(&ts, nil) // a signal only makes the loop look again
}

// sendBatch writes and sends n packets. What the device refuses for want of room is
// counted, not sent again: a source does not wait for its receiver.
func (s *PacketSource) sendBatch(firstSeq uint64, n int, sent *Sent) error {
	for i := range n {
		seq := firstSeq + sent.Packets + uint64(i)
		length := s.writer.Write(s.frames.buffer(i), seq, s.clock.now())
		s.frames.vectors[i].SetLen(length)
		sent.Bytes += uint64(length)
	}
	sent.Packets += uint64(n)
	for done := 0; done < n; {
		went, errno := s.frames.send(s.fd, done, n)
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
