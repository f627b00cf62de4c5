package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Switch is the ports and the workers of one switch. New makes it inert, Run
// runs it once.
type Switch struct {
	name    string
	id      uint32
	pool    *packet.Pool
	chain   atomic.Pointer[[]pipeline.Named]
	workers []*Worker
	handoff int             // Config.HandoffRing
	nice    int             // Config.BackgroundNice
	arrival bool            // Parts.ArrivalTime
	links   *port.LinkWatch // nil if no port was one that a keeper could restore
	onEvent func(PortEvent)
	opened  int // queues that have their workers

	running  atomic.Bool // the workers' threads run, or did
	changing sync.Mutex  // one change of the ports at a time, and none once the switch ends
	ending   bool        // written under changing and regraph, so either guards it
	regraph  sync.Mutex  // one change of the graph at a time, and none once the switch ends
	// backgrounds are the work of modules beside the packet path, while the switch runs; guarded by regraph.
	backgrounds map[pipeline.Module]background
	table       sync.RWMutex  // guards what follows
	seats       []*seat       // by port number; nil for one that no port has had yet
	start       func(*keeper) // starts a keeper; nil unless the switch runs

	done         [drainSteps]atomic.Uint64 // a bit per worker that is done with a step (Worker.drained)
	drainStarted atomic.Int64              // nanoseconds since clockBase
	mu           sync.Mutex                // Report against close
	rest         port.Rest                 // what was left in the queues at the end
	closed       bool
	last         map[*seat]port.Info // of the ports when the switch closed
}

// Parts are what a switch is made of. The switch owns the ports from New on,
// and closes them, also when New fails; the pool stays the caller's.
type Parts struct {
	Name  string
	ID    uint32
	Pool  *packet.Pool
	Ports []port.Port // by port number
	Chain []pipeline.Named
	// ArrivalTime makes a batch's clock the arrival of its first packet, for
	// ports that know it: a capture is then measured by its own time.
	ArrivalTime bool
	// OnTick, if set, is called on a worker behind each round of its stages'
	// work by the clock (Graph.OnTick). For switches of one worker.
	OnTick func(now int64)
	// OnEvent, if set, is called when a port changes its state. It may be called
	// by several goroutines beside the packet path, and should be short.
	OnEvent func(PortEvent)
}

// New opens all queues and gives each to a worker.
func New(c Config, parts Parts) (*Switch, error) {
	s := &Switch{name: parts.Name, id: parts.ID, pool: parts.Pool, backgrounds: map[pipeline.Module]background{},
		handoff: c.HandoffRing, nice: c.BackgroundNice, arrival: parts.ArrivalTime, onEvent: parts.OnEvent}
	s.chain.Store(&parts.Chain)
	for i, p := range parts.Ports {
		s.seats = append(s.seats, &seat{number: i, port: p})
	}
	if err := s.build(c, parts); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Switch) build(c Config, parts Parts) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if err := pipeline.Check(s.Chain()); err != nil {
		return err
	}
	cores, err := coresFor(c, s.id)
	if err != nil {
		return err
	}
	for _, seat := range s.seats {
		if err := s.prepare(seat.port); err != nil {
			return err
		}
	}
	s.workers = make([]*Worker, c.Count)
	for i := range s.workers {
		w, err := s.newWorker(i, cores[i], c)
		if err != nil {
			return err
		}
		s.workers[i] = w
	}
	if s.steers(s.workers[0].graph) {
		s.joinHomes()
		for _, w := range s.workers {
			w.steers = true
		}
	}
	if parts.OnTick != nil {
		for _, w := range s.workers {
			w.graph.OnTick(parts.OnTick)
		}
	}
	if err := s.openQueues(); err != nil {
		return err
	}
	return s.keepPorts()
}

// maxCopies is how many copies per received packet a batch has room for: a
// flood to as many ports, or a burst of mirrored packets.
const maxCopies = 64

func (s *Switch) newWorker(i, core int, c Config) (*Worker, error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("event descriptor of worker %d: %w", i, err)
	}
	cache := s.pool.NewCache()
	w := &Worker{
		id:      i,
		core:    core,
		sw:      s,
		graph:   pipeline.NewGraph(s.Chain(), i),
		wants:   wantsOf(s.Chain()),
		cache:   cache,
		taken:   packet.NewBatch(cache, packet.BatchSize),
		peers:   map[*Worker]uint16{},
		event:   event,
		clock:   clock.Of(clockSource),
		stopped: make(chan struct{}),
		pollFDs: []unix.PollFd{{Fd: int32(event), Events: unix.POLLIN}},
	}
	if w.wants.large {
		w.cutter = newCutter(cache)
	}
	w.seat(len(s.seats), s.cacheBound(c.Count, 0))
	switch c.Poll {
	case PollBusy:
		w.spins = int(^uint(0) >> 1)
	case PollAdaptive:
		w.spins = c.SpinRounds
	}
	return w, nil
}

// cacheBound is what may lie idle in a worker's cache: all caches together hold
// at most half of one queue's share of the frames. So a queue whose packets all
// end in other workers' caches still has frames to receive into. more is how many
// queues there will be beyond those that there are.
func (s *Switch) cacheBound(workers, more int) int {
	queues := more
	for _, seat := range s.seats {
		if seat != nil && !seat.removed {
			queues += seat.port.Info().Queues
		}
	}
	return s.pool.Frames() / (2 * max(queues, 1) * workers)
}

// openQueues gives each queue of each port to a worker.
func (s *Switch) openQueues() error {
	for _, seat := range s.seats {
		queues := seat.port.Info().Queues
		if err := s.connect(seat.number, queues, seat.port.Info().Name); err != nil {
			return err
		}
		for q, slot := range s.slots(seat.number, queues) {
			queue, err := seat.port.Open(uint16(seat.number), q, slot.w.cache)
			if err != nil {
				return err
			}
			slot.w.exchange(slot.k, queue)
			slot.w.setMaxFrame(uint16(seat.number), s.maxFrame(seat))
		}
	}
	return s.checkOwners()
}

// checkOwners refuses workers that would have nothing to do.
func (s *Switch) checkOwners() error {
	busy := 0
	for _, w := range s.workers {
		if len(w.queues) != 0 {
			busy++
		}
	}
	return idleWorkers(busy, len(s.workers))
}

// CheckQueues reports workers that would have nothing to do with ports of so many queues each.
func CheckQueues(workers int, queues []int) error {
	busy, opened := map[int]bool{}, 0
	for _, n := range queues {
		for q := range n {
			busy[ownerOf(q, n, opened, workers)] = true
		}
		opened += n
	}
	return idleWorkers(len(busy), workers)
}

func idleWorkers(busy, workers int) error {
	if busy < workers {
		return fmt.Errorf("workers.count: the queues of the ports keep %d of %d workers busy: set count = %d, or give the interfaces more queues (ethtool -L)",
			busy, workers, busy)
	}
	return nil
}

func (s *Switch) maxFrame(seat *seat) uint32 {
	return frameLimit(seat.port.Info().MaxFrame)
}

// Run forwards until ctx ends, all input ended, or a worker fails; then it
// drains the ports, closes all and reports the first failure. ready is called
// once all workers run.
func (s *Switch) Run(ctx context.Context, ready func()) error {
	// Each spinning worker occupies a processor of the Go scheduler; control
	// and the collector of garbage need one more.
	runtime.GOMAXPROCS(max(runtime.NumCPU(), len(s.workers)+2))
	stop := make(chan struct{})
	var background sync.WaitGroup
	s.regraph.Lock()
	for _, n := range s.Chain() {
		s.runBackground(n.Module)
	}
	s.running.Store(true)
	s.regraph.Unlock()
	var started sync.WaitGroup
	started.Add(len(s.workers))
	for _, w := range s.workers {
		w.mu.Lock()
		w.begun = true
		w.mu.Unlock()
		go w.run(&started)
	}
	started.Wait()
	s.startKeepers(func(k *keeper) { background.Go(func() { k.run(stop) }) })
	if ready != nil {
		ready()
	}
	err := s.supervise(ctx)
	s.end()
	s.startKeepers(nil)
	close(stop)
	s.endBackgrounds(slices.Collect(maps.Keys(s.backgrounds))) // no graph comes any more
	background.Wait()
	return errors.Join(err, s.Close())
}

// supervise waits for the end and begins the drain.
func (s *Switch) supervise(ctx context.Context) error {
	ended := make(chan *Worker, len(s.workers))
	for _, w := range s.workers {
		go func() { <-w.stopped; ended <- w }()
	}
	var err error
	cancel := ctx.Done()
	for left := len(s.workers); left > 0; {
		select {
		case <-cancel:
			cancel = nil
			err = errors.Join(err, s.drain())
		case w := <-ended:
			left--
			if w.err != nil {
				// A switch without one of its workers would forward wrongly.
				err = errors.Join(err, w.err, s.drain())
				for step := range drainSteps {
					s.stepDone(step, w.id)
				}
			}
		}
	}
	return err
}

// drain makes the ports receive nothing more and lets the workers finish. A change
// of the ports or the graph that is in progress ends first.
func (s *Switch) drain() error {
	s.end()
	var errs []error
	for _, seat := range s.members() {
		errs = append(errs, seat.port.StopReceive())
	}
	s.drainStarted.Store(int64(time.Since(clockBase)))
	for _, w := range s.workers {
		w.state.Store(stateDraining)
		w.wake()
	}
	return errors.Join(errs...)
}

// end lets no change of the ports or the graph begin any more.
func (s *Switch) end() {
	s.changing.Lock() // in this order, as a change of both has its ports first (node.Change)
	defer s.changing.Unlock()
	s.regraph.Lock()
	defer s.regraph.Unlock()
	s.ending = true
}

func (s *Switch) drainStart() time.Time {
	return clockBase.Add(time.Duration(s.drainStarted.Load()))
}

// The steps in which workers end: a worker receives nothing more, has handed over once more what others received, and has
// run all that was handed over through the graph.
const drainSteps = 3

// stepDone declares that a worker is done with a step of the end, and reports whether all are.
func (s *Switch) stepDone(step, worker int) bool {
	all := uint64(1)<<len(s.workers) - 1
	bit := uint64(1) << worker
	if done := s.done[step].Load(); done&bit != 0 {
		return done == all
	}
	return s.done[step].Or(bit)|bit == all
}

// Close frees everything, in the order of use: queues, caches, ports. Run does so at its
// end; a switch that never runs needs it. Nearly all of its time is spent waiting for the
// kernel's grace periods, so workers, and then ports, close side by side.
func (s *Switch) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	seats := s.members()
	s.last = make(map[*seat]port.Info, len(seats))
	for _, seat := range seats {
		s.last[seat] = seat.port.Info()
	}
	if s.links != nil {
		s.links.Close()
	}
	rests := make([]port.Rest, len(s.workers))
	err := sideBySide(len(s.workers), func(i int) (err error) {
		rests[i], err = s.workers[i].close()
		return err
	})
	for _, r := range rests {
		s.rest.Add(r)
	}
	return errors.Join(err, sideBySide(len(seats), func(i int) error { return seats[i].port.Close() }))
}

// sideBySide runs f for each of n, and joins the errors in their order.
func sideBySide(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// close frees what the worker has, once no worker runs. A nil worker, of a
// switch that was not built, has nothing.
func (w *Worker) close() (rest port.Rest, err error) {
	if w == nil {
		return rest, nil
	}
	for _, h := range slices.Concat(w.rings, w.steered) {
		// Only a worker that failed leaves packets here.
		for h != nil && h.pop(w.taken) != 0 {
			w.dropAll(w.taken, packet.ReasonShutdown)
		}
	}
	w.abandon()
	w.graph.Release(nil, func(p *packet.Packet) { w.drop(w.batch, p, packet.ReasonShutdown) })
	for k := range w.outlets {
		w.retireLines(&w.outlets[k])
	}
	var errs []error
	for _, q := range w.queues {
		r, err := q.queue.Close()
		rest.Add(r)
		errs = append(errs, err)
	}
	w.queues = nil
	w.cache.Close()
	return rest, errors.Join(append(errs, unix.Close(w.event))...)
}

// abandon ends the batch in which a stage panicked. A batch that was already
// being dispatched is left alone: which of its frames were sent is not known.
func (w *Worker) abandon() {
	if !w.inGraph {
		return
	}
	b := w.batch
	if len(b.Pkts) != 0 {
		w.counters[b.Pkts[0].InPort].addCopies(b)
	}
	w.dropAll(b, packet.ReasonShutdown)
}

func (w *Worker) dropAll(b *packet.Batch, r packet.Reason) {
	for i := range b.Pkts {
		w.drop(b, &b.Pkts[i], r)
	}
	b.Reset()
}

// Workers returns the workers.
func (s *Switch) Workers() []*Worker { return s.workers }

// SetTracer traces packets in all workers; nil ends it.
func (s *Switch) SetTracer(t *pipeline.Tracer) {
	for _, w := range s.workers {
		w.graph.SetTracer(t)
	}
}

// CheckCores reports the cores of a configuration that the process may not use here, each beginning with its full key.
func CheckCores(c Config) error {
	_, err := coresFor(c, 0)
	return err
}

// coresFor chooses a core for each worker, or -1.
func coresFor(c Config, id uint32) ([]int, error) {
	cores := make([]int, c.Count)
	if !c.Pin {
		for i := range cores {
			cores[i] = -1
		}
		return cores, nil
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("ask which cores the process may use: %w", err)
	}
	var allowed []int
	for core := 0; len(allowed) < set.Count(); core++ {
		if set.IsSet(core) {
			allowed = append(allowed, core)
		}
	}
	if len(c.Cores) != 0 {
		var errs []error
		for i, core := range c.Cores[:c.Count] {
			if !slices.Contains(allowed, core) {
				errs = append(errs, fmt.Errorf("workers.cores[%d]: core %d is not one that the process may use: choose among %v, or set pin = false", i, core, allowed))
			}
		}
		return c.Cores[:c.Count], errors.Join(errs...)
	}
	for i := range cores {
		cores[i] = allowed[(int(id)+i)%len(allowed)]
	}
	return cores, nil
}
