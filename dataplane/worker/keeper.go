package worker

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline/packet"
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

	slots    []slot        // of the port's queues, by number
	nudge    chan struct{} // something may have changed; holds one
	orders   chan order
	ended    chan struct{} // closed when run has ended
	off      bool          // control has switched the port off
	gone     bool          // control has removed it
	state    port.State    // as reported last
	maxFrame uint32        // as the workers know it
	attached bool
	wait     time.Duration // between two tries

	up       atomic.Bool  // as the kernel reported last
	left     atomic.Bool  // the kernel reported that the interface was removed or moved; it may be back under the same index
	index    atomic.Int64 // of the interface
	unsent   uint64       // packets left in TX rings; guarded by Switch.mu
	rebuilds atomic.Uint64
	changes  atomic.Uint64 // of the link
}

// The time between two tries to restore a port grows from the first to the last.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 10 * time.Second
	// eventWait bounds the wait behind an event.
	eventWait = time.Second
)

// PortEvent is a change of a port's state, for the log.
type PortEvent struct {
	Port  string
	Index int // of the interface, 0 if it is gone
	State port.State
	// Error is why the port cannot do all it should; nil if it can.
	Error error
	Note  string // what the port did about it, if that is worth a line of the log
}

// keepPorts gives keepers to the ports that can be restored, and listens to the
// kernel for them.
func (s *Switch) keepPorts() (err error) {
	kept := false
	for i, old := range s.seats {
		if k := s.newKeeper(old.number, old.port); k != nil {
			info := old.port.Info()
			k.off = info.State == port.StateDisabled
			k.attached = !k.off && (info.Index != 0 || port.InSharedMemory(info.Driver) || port.Deviceless(info.Driver))
			s.seats[i] = &seat{number: i, port: old.port, keeper: k}
			kept = true
		}
	}
	if !kept {
		return nil
	}
	// Not before all seats are taken, which the watch reads. What changed by then is found by a look.
	if s.links, err = port.WatchLinks(s.linkChanged); err != nil {
		return err
	}
	for _, seat := range s.seats {
		if seat.keeper != nil {
			seat.keeper.look()
		}
	}
	return nil
}

// newKeeper returns the keeper of a port, nil if the port cannot be restored.
func (s *Switch) newKeeper(number int, p port.Port) *keeper {
	r, ok := p.(port.Restorable)
	if !ok {
		return nil
	}
	info := p.Info()
	k := &keeper{
		sw: s, number: number, name: info.Interface, port: r, wait: firstWait, slots: s.slots(number, info.Queues),
		nudge: make(chan struct{}, 1), orders: make(chan order), ended: make(chan struct{}), state: info.State, maxFrame: frameLimit(info.MaxFrame),
	}
	k.up.Store(info.Up)
	k.index.Store(int64(info.Index))
	return k
}

// startKeepers runs the keepers that there are, and those that come, by start; nil
// starts none any more.
func (s *Switch) startKeepers(start func(*keeper)) {
	s.table.Lock()
	defer s.table.Unlock()
	s.start = start
	for _, seat := range s.seats {
		if start != nil && seat != nil && seat.keeper != nil {
			start(seat.keeper)
		}
	}
}

// linkChanged passes on link events. It is called by one goroutine.
func (s *Switch) linkChanged(e port.LinkEvent) {
	for _, seat := range s.members() {
		k := seat.keeper
		if k == nil {
			continue
		}
		mine := int64(e.Index) == k.index.Load()
		if mine && k.up.Load() != e.Up {
			k.up.Store(e.Up)
			k.changes.Add(1)
		}
		if mine && e.Gone {
			k.left.Store(true)
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
	var tried, next time.Time // the last try, and when the timer has the next one
	for {
		select {
		case <-stop:
			return
		case <-k.nudge:
			// An interface that was just made is worth a try at once, but a burst of events is not one each, and a try that
			// failed may itself have caused those of an interface that is there, by what it changed and put back.
			if !k.attached && (k.state != port.StateGone || time.Since(tried) < firstWait) {
				if soon := time.Now().Add(min(k.wait, eventWait)); soon.Before(next) {
					next = soon
					retry.Reset(time.Until(next))
				}
				continue
			}
			k.wait = firstWait
		case o := <-k.orders:
			o.done <- o.do()
			k.follow()
		case <-retry.C:
		}
		if k.gone {
			return
		}
		if k.off {
			continue
		}
		if k.attached && (k.left.Swap(false) || k.port.Lost()) {
			k.takeOut(nil)
			k.follow() // before it is back already
		}
		if k.attached {
			k.renew()
		}
		if !k.attached {
			_ = k.restore() // Info says why it cannot be
			tried = time.Now()
		}
		if !k.attached {
			next = time.Now().Add(k.wait)
			retry.Reset(k.wait)
			k.wait = min(2*k.wait, lastWait)
		}
		k.follow()
	}
}

// order is what control wants of a port. do runs on the keeper.
type order struct {
	do   func() error
	done chan error
}

// Why no port can change.
var (
	errClosing    = errors.New("the switch is closing")
	errNotRunning = errors.New("ports change only while the switch runs")
)

func (k *keeper) order(do func() error) error {
	o := order{do, make(chan error, 1)}
	select {
	case k.orders <- o:
		return <-o.done
	case <-k.ended:
		return errClosing
	}
}

// set switches the port on or off. The error says why it is not open.
func (k *keeper) set(on bool) (err error) {
	switch {
	case on:
		if !k.attached {
			err = k.restore()
		}
	case k.attached:
		k.takeOut(port.ErrDisabled)
	default:
		_ = k.port.Detach(port.ErrDisabled) // nothing to let go of
	}
	k.off, k.wait = !on, firstWait
	return err
}

// follow passes another MTU to the workers, and another state to the log.
func (k *keeper) follow() {
	info := k.port.Info()
	if k.attached && info.State == port.StateDown {
		k.doubt()
	}
	if n := frameLimit(info.MaxFrame); k.attached && n != k.maxFrame {
		k.limit(n)
		k.notify(info)
	} else if info.State != k.state {
		k.notify(info)
	}
	k.state = info.State
}

// doubt has the queues ask whether the link is up before they take packets.
func (k *keeper) doubt() {
	for _, s := range k.slots {
		s.w.Do(func() {
			if q, ok := s.w.queues[s.k].queue.(port.Doubter); ok {
				q.LinkDown()
			}
		})
	}
}

func (k *keeper) notify(info port.Info) {
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

// renew puts back what the driver has dropped, and reports it the first time, and where it fails.
func (k *keeper) renew() {
	r, ok := k.port.(port.Renewable)
	if !ok {
		return
	}
	note, err := r.Renew()
	if k.sw.onEvent == nil || note == "" && err == nil {
		return
	}
	info := k.port.Info()
	k.sw.onEvent(PortEvent{Port: info.Name, Index: info.Index, State: info.State, Error: err, Note: note})
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

// takeOut takes the port from the workers. What its queues had received is
// forwarded first; the frames of all else go to the pool.
func (k *keeper) takeOut(why error) {
	k.attached = false
	pauseErr := k.port.Pause()
	var old []port.Queue
	for _, s := range k.slots {
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
	err = errors.Join(err, k.port.GiveBack())
	frames.Close()
	if err != nil && k.sw.onEvent != nil {
		info := k.port.Info()
		k.sw.onEvent(PortEvent{Port: info.Name, State: info.State, Error: fmt.Errorf("let go of its interface: %w", err)})
	}
}

// restore tries to open the port again, all its queues or none. Info says why it
// cannot be.
func (k *keeper) restore() error {
	o, err := k.open()
	if err != nil {
		return err
	}
	k.install(o)
	if err := k.admit(); err != nil {
		return err
	}
	k.rebuilds.Add(1)
	return nil
}

// openQueues are a port's queues that no worker has yet.
type openQueues struct {
	queues []port.Queue
	frames *packet.Cache // with which they fill their rings, rather than on a worker
}

// open opens all queues of a detached port, or none.
func (k *keeper) open() (*openQueues, error) {
	if err := k.port.Restore(); err != nil {
		return nil, err
	}
	o := &openQueues{frames: k.sw.pool.NewCache()}
	for n := range k.slots {
		q, err := k.port.Open(uint16(k.number), n, o.frames)
		if err != nil {
			k.discard(o, err)
			return nil, err
		}
		o.queues = append(o.queues, q)
	}
	return o, nil
}

// discard closes what open opened.
func (k *keeper) discard(o *openQueues, why error) {
	o.frames.Close()
	k.release(o.queues, why, nil)
}

// install gives open queues to the workers, who can send by them from now on.
func (k *keeper) install(o *openQueues) {
	for n, s := range k.slots {
		s.w.Do(func() {
			if r, ok := o.queues[n].(port.Rehomer); ok {
				r.Rehome(s.w.cache)
			}
			s.w.exchange(s.k, o.queues[n])
		})
	}
	o.frames.Close()
	k.limit(frameLimit(k.port.Info().MaxFrame))
}

// admit has packets come to the queues that were installed.
func (k *keeper) admit() error {
	if err := k.port.Restored(); err != nil {
		k.takeOut(err)
		return err
	}
	info := k.port.Info()
	k.left.Store(false)
	k.index.Store(int64(info.Index))
	if info.Up && !k.up.Swap(true) {
		k.changes.Add(1)
	}
	k.attached, k.wait = true, firstWait
	k.look() // it may have vanished already
	return nil
}

// limit passes the workers the length of the longest packet that the port sends.
func (k *keeper) limit(n uint32) {
	k.maxFrame = n
	for _, w := range k.sw.workers {
		w.Do(func() { w.setMaxFrame(uint16(k.number), n) })
	}
}

// exchange replaces the worker's k-th queue, and returns
// the one that was there. It is called on the worker, between two batches.
func (w *Worker) exchange(k int, q port.Queue) (old port.Queue) {
	r := &w.queues[k]
	old, r.queue, r.ended = r.queue, q, false
	r.sleeper, _ = q.(port.Sleeper)
	w.pollFDs[k+1] = pollFD(q)
	o := &w.outlets[r.outlet]
	o.queue, o.drain = q, drain{} // another line, at another speed
	w.exchangeLines(o, q)
	return old
}

func pollFD(q port.Queue) unix.PollFd { return unix.PollFd{Fd: int32(q.FD()), Events: unix.POLLIN} }

func (w *Worker) setMaxFrame(number uint16, n uint32) {
	for k := range w.queues {
		if q := &w.queues[k]; q.port == number {
			w.outlets[q.outlet].maxFrame = n
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
