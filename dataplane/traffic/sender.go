package traffic

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sendBatch packets at most go with one system call.
	sendBatch = 32
	// spinBelow is the wait in ns under which a source spins. A longer one sleeps, and
	// wakes spinBelow/2 early: timer slack is 50 µs.
	spinBelow = 200_000
)

// sender is the sending loop of the sources in user space.
type sender struct {
	port    Port
	writer  *Writer
	clock   *clock
	stopped atomic.Bool
}

func newSender(port Port, w Workload) (*sender, int, error) {
	writer, err := NewWriter(w)
	if err != nil {
		return nil, 0, err
	}
	clock, err := newClock(w.Clock)
	if err != nil {
		return nil, 0, err
	}
	link, err := port.Namespace.Link(port.Interface)
	if err != nil {
		return nil, 0, err
	}
	return &sender{port: port, writer: writer, clock: clock}, link.Attrs().Index, nil
}

// write writes packet seq of the workload, sent now.
func (s *sender) write(buf []byte, seq uint64) int { return s.writer.Write(buf, seq, s.clock.now()) }

// pace computes when a sending loop's packets are due.
type pace interface {
	// Due is as [Pacer.Due].
	Due(elapsed uint64, limit int) (n int, wait uint64)
	// gap is the mean time between packets.
	gap() time.Duration
}

// run does what [Source.Run] promises, at the load's rate.
func (s *sender) run(ctx context.Context, load Load, batch func(seq uint64, n int, sent *Sent) error) (Sent, error) {
	p := NewPacer(load)
	return s.runPaced(ctx, load, &p, batch)
}

// runPaced does what [Source.Run] promises. Function batch sends n packets from a sequence number on and
// counts them, once per call; it runs on the port's core in its namespace.
func (s *sender) runPaced(ctx context.Context, load Load, pacer pace, batch func(seq uint64, n int, sent *Sent) error) (Sent, error) {
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
	if err = s.port.run(func() error { return s.loop(load, pacer, batch, &sent) }); err != nil {
		return Sent{}, fmt.Errorf("send over %s: %w", s.port, err)
	}
	after, err := s.port.Namespace.Counters(s.port.Interface)
	if err != nil {
		return Sent{}, err
	}
	// A veth both counts a refusal and reports it, other devices do one of them.
	sent.Refused = max(sent.Refused, after.TxDropped-before.TxDropped)
	sent.finish(load)
	return sent, nil
}

func (s *sender) loop(load Load, pacer pace, batch func(uint64, int, *Sent) error, sent *Sent) error {
	if err := s.clock.sync(); err != nil {
		return err
	}
	start, last := s.clock.now(), uint64(0)
	for !s.stopped.Load() {
		elapsed := s.clock.now() - start
		if load.Duration > 0 && elapsed >= uint64(load.Duration) {
			sent.Elapsed = load.Duration
			return nil
		}
		limit := sendBatch
		if load.Count > 0 {
			limit = int(min(sendBatch, load.Count-sent.Packets))
		}
		if limit == 0 {
			break
		}
		n, wait := pacer.Due(elapsed, limit)
		if n == 0 {
			s.wait(load, elapsed, wait)
			continue
		}
		if err := batch(load.FirstSeq+sent.Packets, n, sent); err != nil {
			return err
		}
		last = elapsed
	}
	sent.Elapsed = time.Duration(last) + pacer.gap()
	if load.Rate == 0 && pacer.gap() == 0 { // without slots, the last batch takes the time that it takes to send
		sent.Elapsed = time.Duration(s.clock.now() - start)
	}
	return nil
}

// wait sleeps through the most of a long wait, but not past the end of the run, and
// looks at the stop flag at least ten times a second. A short wait is left to the
// caller's loop.
func (s *sender) wait(load Load, elapsed, ns uint64) {
	if load.Duration > 0 {
		ns = min(ns, uint64(load.Duration)-elapsed)
	}
	if ns < spinBelow {
		return
	}
	ts := unix.NsecToTimespec(int64(min(ns-spinBelow/2, 100e6)))
	_ = unix.Nanosleep(&ts, nil) // a signal only makes the loop look again
}

// Pacer computes how many packets are due. It is the twin of the pacing in bpf/live.c.
// Times are ns << rateShift after the start.
type Pacer struct {
	interval uint64 // 0: always due
	maxLag   uint64
	next     uint64
}

// NewPacer paces a load. The zero Pacer does not: packets are always due.
func NewPacer(load Load) Pacer {
	if load.Rate == 0 {
		return Pacer{}
	}
	interval := 1e9 * (1 << rateShift) / load.Rate
	return Pacer{interval: uint64(interval + 0.5), maxLag: uint64(interval * float64(cmp.Or(load.CatchUp, DefaultCatchUp)))}
}

// gap implements pace.
func (p *Pacer) gap() time.Duration { return time.Duration(p.interval >> rateShift) }

// Due is the number of packets to send at the given time in ns after the start, at most limit, which count
// as sent from then on. If there is none, wait is the time until the next, in ns.
func (p *Pacer) Due(elapsedNs uint64, limit int) (n int, wait uint64) {
	if p.interval == 0 {
		return limit, 0
	}
	at := elapsedNs << rateShift
	if at < p.next {
		return 0, (p.next - at + 1<<rateShift - 1) >> rateShift
	}
	if lag := at - p.next; lag > p.maxLag {
		p.next = at - p.maxLag
	}
	n = min(limit, int((at-p.next)/p.interval)+1)
	p.next += uint64(n) * p.interval
	return n, 0
}
