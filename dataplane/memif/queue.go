package memif

import (
	"errors"
	"fmt"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/shmem"
)

// Queue is one direction of a pair of rings of a Device. It stays when peers come and go.
type Queue struct {
	// Faults counts what was refused of the peers' rings.
	Faults Faults

	device *Device
	name   string
	bell   *shmem.Bell

	gate   shmem.Gate // open while there is a ring; guards what follows
	ring   *Ring
	notify int // descriptor, -1 without
}

func newQueue(d *Device, name string) (*Queue, error) {
	bell, err := shmem.NewBell()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Queue{device: d, name: name, bell: bell, notify: -1}, nil
}

// FD is readable once the ring has started, or its sender has notified us, since Sleep.
func (q *Queue) FD() int { return q.bell.FD() }

// Running reports whether there is a ring to acquire.
func (q *Queue) Running() bool { return q.gate.Open() }

// Acquire returns the ring if it runs, else nil. Release follows, deferred, if it is not nil. Several workers may share a
// ring to transmit.
func (q *Queue) Acquire() *Ring {
	if !q.gate.Enter() {
		return nil
	}
	if q.ring == nil || q.ring.Broken() {
		q.gate.Leave()
		return nil
	}
	return q.ring
}

// Release ends the use of the ring. It must be deferred directly: it recovers the fault of memory that is not there any
// more, and then the connection ends.
func (q *Queue) Release() {
	if r := recover(); r != nil {
		if !shmem.Lost(r, q.ring.memory.holds) {
			q.gate.Leave()
			panic(r) // a fault of ours
		}
		q.ring.Break(FaultMemory)
	}
	if q.ring.Broken() {
		q.gate.SetOpen(false) // else its worker would not sleep until the connection has ended
		q.device.fail(fmt.Errorf("%s cannot be followed any more (the counts of faults say why)", q.name))
	}
	q.gate.Leave()
}

// Notify notifies the peer. The ring is acquired.
func (q *Queue) Notify() {
	if q.notify >= 0 {
		shmem.Notify(q.notify)
	}
}

// Sleep asks the sender for a notification, and reports whether packets wait already, or the ring was locked, so that it could not ask.
func (q *Queue) Sleep() (ready bool) {
	q.bell.Forget()
	r := q.Acquire()
	if r == nil {
		return q.gate.Open()
	}
	defer q.Release()
	return r.Arm()
}

// prepare makes the ring, which touches memory that may be gone.
func (q *Queue) prepare(m *memory, l layout) (r *Ring, err error) {
	err = q.guard(m, func() error {
		r, err = newRing(m, l, &q.Faults)
		return err
	})
	return r, err
}

// start begins the use of a ring. The descriptor, by which the receiver of its packets is notified, is the queue's then, also on failure.
func (q *Queue) start(r *Ring, fd int) error {
	defer q.bell.Wake() // behind the unlock, which a worker would wait for
	q.gate.Lock()
	defer q.gate.Unlock()
	if r.layout.sends {
		q.notify = fd
	} else if err := q.bell.SetKick(fd); err != nil {
		return err
	}
	q.ring = r
	err := q.guard(r.memory, func() error {
		r.start()
		return nil
	})
	if err != nil {
		return err
	}
	q.gate.SetOpen(true)
	return nil
}

func (q *Queue) guard(m *memory, f func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(before)
	defer func() {
		if p := recover(); p != nil {
			if !shmem.Lost(p, m.holds) {
				panic(p)
			}
			q.Faults.Break(FaultMemory)
			err = errors.New("the memory was taken away")
		}
	}()
	return f()
}

// reset forgets a peer. No worker uses its memory any more.
func (q *Queue) reset() {
	q.gate.Lock()
	defer q.gate.Unlock()
	q.gate.SetOpen(false)
	q.ring = nil
	_ = q.bell.SetKick(-1)
	if q.notify >= 0 {
		_ = unix.Close(q.notify)
		q.notify = -1
	}
}

func (q *Queue) close() {
	q.reset()
	q.bell.Close()
}
