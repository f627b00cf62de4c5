package worker

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
)

// keeper restores one port: when its interface vanishes it takes the queues
// from their workers, and opens them again when an interface of the name is back.
// All that blocks is done here, on a goroutine beside the packet path; workers
// only exchange one queue for another between two batches.
type keeper struct {
	sw     *Switch
	number int
	name   string // of the interface
	port   port.Restorable

	nudge    chan struct{} // something may have changed; holds one
	orders   chan order
	ended    chan struct{} // closed when run has ended
	off      bool          // control has switched the port off
	state    port.State    // as told last
	maxFrame uint32        // as the workers know it
	attached bool
	wait     time.Duration // between two tries

	up       atomic.Bool  // as the kernel told last
	index    atomic.Int64 // of the interface
	unsent   uint64       // packets left in TX rings; guarded by Switch.mu
	rebuilds atomic.Uint64
	changes  atomic.Uint64 // of the link
}

// The time between two tries to restore a port grows from the first to the last.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 10 * time.Second
)

// PortEvent is a change of a port's state, for the log.
type PortEvent struct {
	Port  string
	Index int // of the interface, 0 if it is gone
	State port.State
	// Error is why the port cannot do all it should; nil if it can.
	Error error
}

// keepPorts prepares the keepers of the ports that can be restored, and
// listens to the kernel for them.
func (s *Switch) keepPorts() (err error) {
	for i, p := range s.ports {
		r, ok := p.(port.Restorable)
		if !ok {
			continue
		}
		info := p.Info()
		k := &keeper{
			sw: s, number: i, name: info.Interface, port: r, attached: info.Index != 0, wait: firstWait,
			nudge: make(chan struct{}, 1), orders: make(chan order), ended: make(chan struct{}), state: info.State, maxFrame: s.maxFrame(i),
		}
		k.up.Store(info.Up)
		k.index.Store(int64(info.Index))
		s.keepers = append(s.keepers, k)
	}
	if len(s.keepers) != 0 {
		s.links, err = port.WatchLinks(s.linkChanged)
	}
	return err
}

// linkChanged passes on what the kernel tells. It is called by one goroutine.
func (s *Switch) linkChanged(e port.LinkEvent) {
	for _, k := range s.keepers {
		mine := int64(e.Index) == k.index.Load()
		if mine && k.up.Load() != e.Up {
			k.up.Store(e.Up)
			k.changes.Add(1)
		}
		if mine || e.Missed || e.Name == k.name {
			k.look()
		}
	}
}

// look makes the keeper look at its port soon.
func (k *keeper) look() {
	select {
	case k.nudge <- struct{}{}:
	default:
	}
}

// run works until stop is closed.
func (k *keeper) run(stop <-chan struct{}) {
	retry := time.NewTimer(0) // what changed since the port was opened
	defer retry.Stop()
	defer close(k.ended)
	var tried time.Time
	for {
		select {
		case <-stop:
			return
		case <-k.nudge:
			// An interface that was just made is worth a try at once, but a burst
			// of events is not one each.
			if k.wait = firstWait; !k.attached && time.Since(tried) < firstWait {
				retry.Reset(firstWait)
				continue
			}
		case o := <-k.orders:
			k.obey(o)
		case <-retry.C:
		}
		if k.off {
			continue
		}
		if k.attached && k.port.Lost() {
			k.takeOut(nil)
			k.follow() // before it is back already
		}
		if !k.attached {
			tried = time.Now()
			k.restore()
		}
		if !k.attached {
			retry.Reset(k.wait)
			k.wait = min(2*k.wait, lastWait)
		}
		k.follow()
	}
}

// order is what control wants of a port.
type order struct {
	on   bool
	done chan struct{}
}

// SetPort switches a port on or off while the switch runs. What arrives at one
// that is off stays with the kernel, as if the switch did not have it; what is
// to leave there is dropped (port_down). It returns once the workers do
// so; a port that cannot be switched on at once is tried again, as after a fault.
func (s *Switch) SetPort(name string, on bool) error {
	for i, p := range s.ports {
		if p.Info().Name != name {
			continue
		}
		for _, k := range s.keepers {
			if k.number == i {
				return k.order(on)
			}
		}
		return fmt.Errorf("port %s cannot be switched: only ports of the driver %s can", name, port.DriverXSK)
	}
	return fmt.Errorf("there is no port %s", name)
}

func (k *keeper) order(on bool) error {
	o := order{on, make(chan struct{})}
	select {
	case k.orders <- o:
		<-o.done
		return nil
	case <-k.ended:
		return errors.New("the switch is closing")
	}
}

func (k *keeper) obey(o order) {
	defer close(o.done)
	switch {
	case o.on:
		if k.off && !k.attached {
			k.restore()
		}
	case k.attached:
		k.takeOut(port.ErrDisabled)
	default:
		_ = k.port.Detach(port.ErrDisabled) // nothing to let go of
	}
	k.off, k.wait = !o.on, firstWait
	k.follow()
}

// follow tells the workers of another MTU, and the log of another state.
func (k *keeper) follow() {
	info := k.port.Info()
	if n := frameLimit(info.MaxFrame); k.attached && n != k.maxFrame {
		k.maxFrame = n
		for _, w := range k.sw.workers {
			w.Do(func() { w.setMaxFrame(uint16(k.number), n) })
		}
		k.tell(info)
	} else if info.State != k.state {
		k.tell(info)
	}
	k.state = info.State
}

func (k *keeper) tell(info port.Info) {
	if k.sw.onEvent == nil {
		return
	}
	e := PortEvent{Port: info.Name, Index: info.Index, State: info.State}
	if info.Error != "" {
		e.Error = errors.New(info.Error)
	}
	if !k.attached {
		e.Index = 0
	}
	k.sw.onEvent(e)
}

// hasEnded reports whether the worker's thread has ended.
func (w *Worker) hasEnded() bool {
	select {
	case <-w.stopped:
		return true
	default:
		return false
	}
}

// slot is where a worker keeps a queue of the port.
type slot struct {
	w *Worker
	k int
}

// slots finds the port's queues, by their numbers.
func (k *keeper) slots() []slot {
	slots := make([]slot, k.port.Info().Queues)
	for _, w := range k.sw.workers {
		for i := range w.queues {
			if q := &w.queues[i]; int(q.port) == k.number {
				slots[q.number] = slot{w, i}
			}
		}
	}
	return slots
}

// takeOut takes the port from the workers. What its queues had received is
// forwarded first; the frames of all else go to the pool.
func (k *keeper) takeOut(why error) {
	k.attached = false
	pauseErr := k.port.Pause()
	var old []port.Queue
	for _, s := range k.slots() {
		s.w.Do(func() {
			for !s.w.hasEnded() && s.w.receive(&s.w.queues[s.k]) != 0 {
				// No more arrives, so this ends with the ring.
			}
			old = append(old, s.w.exchange(s.k, port.Down()))
		})
	}
	k.release(old, why, pauseErr)
	k.index.Store(0)
	if k.up.Swap(false) {
		k.changes.Add(1)
	}
}

// release closes queues that no worker has any more. err is what went wrong before.
func (k *keeper) release(queues []port.Queue, why, err error) {
	err = errors.Join(err, k.port.Detach(why))
	frames := k.sw.pool.NewCache()
	for _, q := range queues {
		if r, ok := q.(port.Rehomer); ok {
			r.Rehome(frames)
		}
		rest, closeErr := q.Close()
		err = errors.Join(err, closeErr)
		k.sw.mu.Lock()
		k.unsent += uint64(rest.Unsent)
		k.sw.rest.Add(rest)
		k.sw.mu.Unlock()
	}
	frames.Close()
	if err != nil && k.sw.onEvent != nil {
		info := k.port.Info()
		k.sw.onEvent(PortEvent{Port: info.Name, State: info.State, Error: fmt.Errorf("let go of its interface: %w", err)})
	}
}

// restore tries to open the port again, all its queues or none.
func (k *keeper) restore() {
	if k.port.Restore() != nil {
		return // Info tells why
	}
	slots := k.slots()
	fresh := make([]port.Queue, 0, len(slots))
	// The queues fill their rings here, not on the worker.
	frames := k.sw.pool.NewCache()
	for n := range slots {
		q, err := k.port.Open(uint16(k.number), n, frames)
		if err != nil {
			frames.Close()
			k.release(fresh, err, nil)
			return
		}
		fresh = append(fresh, q)
	}
	for n, s := range slots {
		s.w.Do(func() {
			if r, ok := fresh[n].(port.Rehomer); ok {
				r.Rehome(s.w.cache)
			}
			s.w.exchange(s.k, fresh[n])
		})
	}
	frames.Close()
	if err := k.port.Restored(); err != nil {
		k.takeOut(err)
		return
	}
	info := k.port.Info()
	k.index.Store(int64(info.Index))
	if info.Up && !k.up.Swap(true) {
		k.changes.Add(1)
	}
	k.attached, k.wait = true, firstWait
	k.rebuilds.Add(1)
	k.look() // it may have vanished already
}

// exchange puts another queue in the place of the worker's k-th, and returns
// the one that was there. It is called on the worker, between two batches.
func (w *Worker) exchange(k int, q port.Queue) (old port.Queue) {
	r := &w.queues[k]
	old, r.queue, r.ended = r.queue, q, false
	w.pollFDs[k+1].Fd = int32(q.FD())
	w.outlets[k].queue = q // the queues' outlets come first, in their order
	return old
}

func (w *Worker) setMaxFrame(number uint16, n uint32) {
	for k := range w.queues {
		if o := &w.outlets[k]; o.port == number {
			o.maxFrame = n
		}
	}
}

// frameLimit is a port's longest packet as dispatch compares it.
func frameLimit(n int) uint32 {
	if n > 0 {
		return uint32(n)
	}
	return ^uint32(0)
}
