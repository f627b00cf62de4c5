package worker

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Worker is one thread of a switch. Its fields belong to that thread while it
// runs, but for those marked shared.
type Worker struct {
	id    int
	core  int // -1: not pinned
	sw    *Switch
	graph *pipeline.Graph // always the same, whatever becomes of it
	wants wants           // of its modules
	cache *packet.Cache
	batch *packet.Batch
	taken *packet.Batch // packets taken over from other workers

	queues  []rxQueue
	names   []string   // of the queues: port/queue
	rings   []*handoff // incoming, by producing worker; nil from itself
	steered []*handoff // as rings, of packets that this worker is the home of; empty if none have one
	homes   []homeward // by worker: the way to those that are the home of others
	choices []uint8    // by packet of the batch: its home
	steers  bool       // packets of the graph have homes
	touched byte       // see touch
	outlets []outlet
	route   []uint16           // (out port << queueBits | in queue) -> outlet
	far     []*line            // as route, of packets that are handed over: where they will wait; only if a stage needs it
	shows   bool               // other workers need to know of this one's lines
	peers   map[*Worker]uint16 // the outlets to other workers

	clock    clock.Clock
	now      int64          // of the last batch, or the last look while idle
	counters []portCounters // by port
	loop     LoopCounters
	inGraph  bool    // a batch is in the stages' hands
	cutter   *cutter // nil where no large packets come
	classed  int     // how many outlets have queues with classes, and want their lines told
	past     []pastClass
	spins    int
	thread   int
	left     bool          // another process has the worker's queues
	pollFDs  []unix.PollFd // the event descriptor, then the queues'

	_        [64]byte     // others read what follows while the owner counts above
	state    atomic.Int32 // shared: running, draining
	sleeping atomic.Bool  // shared: in poll, or about to be
	event    int          // shared: eventfd that ends a sleep

	mu      sync.Mutex // serialises Do
	begun   bool       // the thread runs, or did; guarded by mu
	call    atomic.Pointer[call]
	stopped chan struct{} // closed when the thread has ended
	err     error         // why it ended, valid once stopped
}

// rxQueue is a queue that the worker owns.
type rxQueue struct {
	queue port.Queue
	// sleeper is the queue, if its other end must be asked for notifications.
	sleeper port.Sleeper
	port    uint16
	number  uint8
	ended   bool
	outlet  uint16 // what is sent by it
}

type call struct {
	fn   func()
	done chan struct{}
}

// run answers the caller also if fn panics, which ends the worker.
func (c *call) run() {
	defer close(c.done)
	c.fn()
}

// queueBits is the width of a queue number in Worker.route.
const queueBits = 8

const (
	stateRunning int32 = iota
	stateDraining
)

// Do runs fn on the worker between two batches, or here while the worker does not run,
// and returns when fn has. fn must be short: packets wait meanwhile.
func (w *Worker) Do(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun {
		fn()
		return
	}
	c := &call{fn: fn, done: make(chan struct{})}
	w.call.Store(c)
	w.wake()
	select {
	case <-c.done:
	case <-w.stopped:
		if w.call.Swap(nil) != nil {
			fn()
		} else {
			<-c.done
		}
	}
}

// wake ends the worker's sleep, if it sleeps. Any thread may call it.
func (w *Worker) wake() {
	if w.sleeping.Load() && w.sleeping.CompareAndSwap(true, false) {
		one := [8]byte{1}
		_, _ = unix.Write(w.event, one[:]) // an eventfd takes this unless it is about to overflow, which wakes as well
	}
}

// run is the thread. It returns when the switch drains or all input ended, or
// with an error if a stage panicked.
func (w *Worker) run(started *sync.WaitGroup) {
	// Not unlocked: the thread's affinity must not leak to other goroutines,
	// so the thread ends with the goroutine.
	runtime.LockOSThread()
	defer close(w.stopped)
	defer func() {
		if r := recover(); r != nil {
			w.err = fmt.Errorf("worker %d: %v\n%s", w.id, r, debug.Stack())
		}
	}()
	w.thread = unix.Gettid()
	w.err = w.pin()
	started.Done()
	if w.err != nil {
		return
	}
	w.work()
	w.graph.Finish(w.now)
}

func (w *Worker) pin() error {
	if w.core < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(w.core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin worker %d to core %d: %w: choose cores that the process may use, or pin = false", w.id, w.core, err)
	}
	return nil
}

// work is the loop, rx to tx. Nothing in it blocks but sleep.
func (w *Worker) work() {
	quiet := 0
	for {
		w.loop.Rounds++
		got, open := 0, 0
		for k := range w.queues {
			q := &w.queues[k]
			if q.ended {
				continue
			}
			n := w.receive(q)
			got += n
			if n == 0 && q.queue.Ended() {
				q.ended = true
				continue
			}
			open++
		}
		if got == 0 {
			w.tick() // also while other workers' packets keep this one busy
		}
		if w.graph.Emitting() {
			w.emit()
		}
		got += w.takeHome()
		got += w.takeOver()
		pending := w.service()
		if c := w.call.Load(); c != nil && w.call.CompareAndSwap(c, nil) {
			c.run()
			if w.left {
				return
			}
		}
		if got != 0 {
			quiet = 0
			continue
		}
		quiet++
		draining := w.state.Load() == stateDraining
		if (open == 0 || draining) && w.drained(pending, draining) {
			return
		}
		if !draining && open != 0 && quiet > w.spins {
			w.share()
			w.sleep(pending)
			quiet = 0
		}
	}
}

// tick does the stages' work by the clock while no packet comes, and at once if
// the clock was set back. A replay has no clock but its packets'.
func (w *Worker) tick() {
	if w.sw.arrival || w.graph.NextTick() == math.MaxInt64 {
		return
	}
	before := w.now
	if w.now = w.clock.Now(); w.now >= w.graph.NextTick() || w.now < before {
		w.graph.Tick(w.now)
	}
}

// emit sends what the stages have to send by themselves.
func (w *Worker) emit() {
	b := w.batch
	b.Now = w.now
	w.graph.Emit(b)
	for i := range b.Pkts {
		w.counters[b.Pkts[i].InPort].copied++
	}
	w.dispatch(b, true)
}

// receive runs one batch of a queue through the graph and sends it on.
func (w *Worker) receive(q *rxQueue) int {
	b := w.batch
	n := q.queue.Receive(b)
	if n == 0 {
		return 0
	}
	w.begin(b, q.number)
	c := &w.counters[q.port]
	c.received += uint64(n)
	for i := range b.Pkts {
		c.receivedBytes += uint64(b.Pkts[i].WireLen)
	}
	w.inGraph = true
	if !w.steers {
		w.graph.Run(b)
	} else {
		w.graph.Front(b)
		w.steer(b, q.port, w.id)
		if len(b.Pkts) != 0 {
			w.graph.Back(b)
		}
	}
	w.inGraph = false
	w.loop.Batches++
	w.loop.Packets += uint64(n)
	w.finish(b, q.port)
	return n
}

// begin gives a batch, which came by one queue, the clock and what its packets would wait for.
func (w *Worker) begin(b *packet.Batch, inQueue uint8) {
	if b.Now = b.Pkts[0].Arrival; !w.sw.arrival {
		b.Now = w.clock.Now()
	} else if b.Now == 0 {
		b.Now = w.now // the beginning of time, or a record without one: the clock stops
	}
	w.now = b.Now
	if len(b.Depth) != 0 {
		w.depths(b, inQueue)
	}
	if len(b.Wait) != 0 {
		w.waits(b, inQueue)
	}
	if len(b.Lines) != 0 {
		w.lines(b, inQueue)
	}
}

// finish gives each packet of a batch that the stages are done with its fate. port is that of the batch.
func (w *Worker) finish(b *packet.Batch, port uint16) {
	w.counters[port].addCopies(b)
	if b.Entered != 0 {
		for i := range b.Pkts {
			if p := &b.Pkts[i]; p.InPort != port {
				w.enterAt(p, port)
			}
		}
	}
	w.dispatch(b, false)
	if w.shows {
		w.show(w.now)
	}
}

// enterAt moves the books of a packet that a stage gave another port than that of the batch: its own port consumed it, the
// other one received it. Copies have a fate at their port alone.
func (w *Worker) enterAt(p *packet.Packet, port uint16) {
	if int(p.InPort) >= len(w.counters) {
		return
	}
	from, to := &w.counters[port], &w.counters[p.InPort]
	if p.Flags.Has(packet.FlagCopy) {
		from.copied--
		to.copied++
		return
	}
	from.fate[0].reasons[packet.Consumed]++
	to.received++
	to.receivedBytes += uint64(p.WireLen)
}

// takeOver sends what other workers handed over.
func (w *Worker) takeOver() int {
	total, now := 0, int64(0)
	for _, h := range w.rings {
		if h == nil {
			continue
		}
		if n := h.pop(w.taken); n != 0 {
			if w.shows {
				now = w.clock.Now()
				w.look(now)
			}
			total += n
			w.loop.TakenOver += uint64(n)
			w.dispatch(w.taken, true)
		}
	}
	if now != 0 {
		w.show(now)
	}
	return total
}

func (w *Worker) service() (pending bool) {
	for k := range w.queues {
		if w.queues[k].queue.Service() {
			pending = true
		}
	}
	w.share()
	return pending
}

// share gives frames to the other workers: those of packets that were handed
// over pile up where they are transmitted.
func (w *Worker) share() {
	if len(w.sw.workers) > 1 {
		w.cache.Spill()
	}
}

// How long a worker sleeps at most, in milliseconds.
const (
	idleSleep    = 1000 // bounds what a lost device could cost
	pendingSleep = 1
)

// sleep waits in poll for packets or for a wake. The flag is raised before the
// last look at the rings and the mailbox: who pushes later, sees it and wakes.
// Nothing wakes it when a device that was busy can send again, or when another
// worker gives the frames that a fill ring lacks, so then it sleeps only briefly.
func (w *Worker) sleep(pending bool) {
	w.sleeping.Store(true)
	for _, h := range w.rings {
		if h != nil && !h.empty() {
			w.sleeping.Store(false)
			return
		}
	}
	if !w.homesEmpty() || w.call.Load() != nil || w.state.Load() != stateRunning {
		w.sleeping.Store(false)
		return
	}
	for k := range w.queues {
		if s := w.queues[k].sleeper; s != nil && s.Sleep() {
			w.sleeping.Store(false)
			return
		}
	}
	w.loop.Sleeps++
	timeout := idleSleep
	if pending || w.cache.Short() {
		timeout = pendingSleep
	}
	if next := w.graph.NextTick(); next != math.MaxInt64 {
		// Rounded up: a millisecond late is early enough for the edge of an epoch.
		timeout = int(min(int64(timeout), max(next-w.now, 0)/1e6+1))
	}
	n, err := unix.Poll(w.pollFDs, timeout)
	w.sleeping.Store(false)
	if (err == nil || errors.Is(err, unix.EINTR)) && n > 0 && w.pollFDs[0].Revents != 0 {
		var buf [8]byte
		_, _ = unix.Read(w.event, buf[:])
	}
}

// drainLimit bounds how long a closing worker waits for the kernel to confirm
// what it transmitted.
const drainLimit = 2 * time.Second

// drained says whether the worker may end. It first declares that it receives
// nothing more; once all workers have, no packet can be handed over any more, but for those that were handed over in front of a stage: these may be once more, as
// may what is then sent by other workers' queues. So the workers agree on each step.
func (w *Worker) drained(pending, draining bool) bool {
	for step := range drainSteps {
		if step != 0 && !w.homesEmpty() || !w.sw.stepDone(step, w.id) {
			return false
		}
	}
	for _, h := range w.rings {
		if h != nil && !h.empty() {
			return false
		}
	}
	if !pending {
		return true
	}
	return draining && time.Since(w.sw.drainStart()) > drainLimit
}
