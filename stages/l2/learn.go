package l2

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/pipeline"
)

// event notifies the table's writer that a station was seen on a port.
type event struct {
	key   uint64
	stamp uint32
	port  uint16
}

// ringSize is the number of events that wait for the writer at most. At one
// new address per 64-byte packet of 25 Gbit/s and a writer that comes every
// millisecond, a tenth is learned at once and the rest soon after.
const ringSize = 4096

// recent is a worker's memory of the events that it sent lately, one per hash,
// so that the packets of a station that is not learned yet, or cannot be since
// the table is full, do not fill the ring.
type recent [256]struct {
	key  uint64
	tick uint32
	port uint16
}

// recentTicks is how long the same event is held back, in ticks of 2^20 ns:
// about 17 ms.
const recentTicks, tickShift = 16, 20

// admit reports whether the event is new, and remembers it if so.
func (r *recent) admit(h, key uint64, port uint16, tick uint32) bool {
	e := &r[h>>40%uint64(len(r))]
	if e.key == key && e.port == port && tick-e.tick < recentTicks {
		return false
	}
	e.key, e.port, e.tick = key, port, tick
	return true
}

// shares bounds how many events of each port a worker sends in a tick, so that forged addresses on one
// port do not keep the stations of others from being learned.
type shares struct {
	used []share // by port
	most uint32  // in a tick
}

// share is how many events of a port there were in a tick.
type share struct{ tick, n uint32 }

// leastShare is a port's, however many there are.
const leastShare = 64

func newShares(ports int) shares {
	return shares{make([]share, ports), uint32(max(ringSize/max(2, ports), leastShare))}
}

// take reports whether the port may send another event in this tick.
func (s *shares) take(port uint16, tick uint32) bool {
	u := &s.used[port]
	if u.tick != tick {
		u.tick, u.n = tick, 0
	}
	u.n++
	return u.n <= s.most
}

// The writer sleeps between two looks at the rings: shortly while there is
// something to learn, so that floods are short; longer when all is quiet.
const (
	busyPause = time.Millisecond
	idlePause = 16 * time.Millisecond
)

// Run implements pipeline.Background: it is the one writer of the table, which
// learns what the workers saw and ages what they did not. It returns when
// stop is closed. An inline module has nothing to do here.
func (m *Module) Run(stop <-chan struct{}) {
	if m.inline {
		<-stop
		return
	}
	pause := idlePause
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		if m.write() > 0 {
			pause = busyPause
		} else {
			pause = min(2*pause, idlePause)
		}
		timer.Reset(pause)
	}
}

// write applies the events of all workers, and ageing, once. It returns the
// number of events.
func (m *Module) write() int {
	n, begun, onBlock := m.apply()
	for _, b := range begun { // outside the lock: it may take its time
		onBlock(b)
	}
	return n
}

// apply is write without the reports of blocks that begin. The clock comes first, as the table needs it for the events' stamps.
func (m *Module) apply() (n int, begun []pipeline.Block, onBlock func(pipeline.Block)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := clockTAI()
	m.guards.loops.begin(now, len(m.guards.plan.ports))
	m.fdb.loops = &m.guards.loops
	m.fdb.age(stampOf(now))
	for _, s := range m.stages {
		n += s.ring.Drain(func(e *event) { m.fdb.learn(e.key, e.port, e.stamp) })
	}
	n += m.takeGroups(now)
	m.guard(now)
	begun, m.guards.begun = m.guards.begun, nil
	return n, begun, m.guards.onBlock
}

// clockTAI returns nanoseconds of CLOCK_TAI, the clock of Batch.Now.
func clockTAI() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_TAI, &ts); err != nil {
		panic("l2: CLOCK_TAI: " + err.Error()) // in Linux since 3.10
	}
	return ts.Nano()
}
