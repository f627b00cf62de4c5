package l3

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/pipeline/packet"
)

// neighbourKey is a station's address and the port on whose link it is.
type neighbourKey struct {
	addr netip.Addr // without zone
	port uint16
}

// neighbour is a station on a link: a gateway, or a host.
//
//	         asked, held                 answer                  silent for Reachable
//	unknown ────────────> looked for ────────────> reachable ──────────────────────> stale
//	   ^                      │                        ^                               │ used: asked
//	   └── 3 times unanswered ┘                        └──────────── answer ───────────┤
//	   ^                                                                               │
//	   └────────────────────────── 3 times unanswered ─────────────────────────────────┘
type neighbour struct {
	neighbourKey
	// fixed entries belong to the configuration (gateways, static neighbours)
	// and stay while they are in it.
	fixed  bool
	static bool // the MAC address is configured
	// link is the MAC address, as the first six bytes of a little-endian load,
	// and the flags beside it; zero while it is not known. Workers read it for
	// every packet.
	link atomic.Uint64
	// asked is when the last request was sent and probes how many went
	// unanswered, up to now. Any worker may send one.
	asked  atomic.Int64
	probes atomic.Int32

	// The rest is guarded by Module.mu.
	confirmed int64   // when it last answered, in the batch's clock
	held      []int32 // slots of the packets that wait, in order
}

const (
	macMask   = 1<<48 - 1
	linkKnown = 1 << 48 // the MAC address is known
	linkStale = 1 << 49 // and was not confirmed for long
	macGroup  = 1       // the group bit of the first byte
)

const (
	askEvery  = uint64(time.Second) // between requests to one neighbour (RFC 4861, RETRANS_TIMER)
	maxProbes = 3                   // unanswered ones (RFC 4861, MAX_UNICAST_SOLICIT)
	tickEvery = uint64(250 * time.Millisecond)
	// forgetAfter times Reachable is how long a silent neighbour is kept. One in
	// use does not get there: it answers, or is given up.
	forgetAfter = 10
)

// since returns how long ago a moment was, in nanoseconds. Batches of different
// workers overlap, so a moment less than a second ahead is now; one farther ahead
// is of a clock that jumped back since, and counts as long ago.
func since(then, now int64) uint64 {
	d := now - then
	if d < 0 && d > -int64(time.Second) {
		return 0
	}
	return uint64(d)
}

// due reports whether a request to the neighbour may be sent, and notes it as
// sent. A clock that jumped back makes it due.
func (n *neighbour) due(now int64) bool {
	last := n.asked.Load()
	if last != 0 && since(last, now) < askEvery {
		return false
	}
	if !n.asked.CompareAndSwap(last, now) {
		return false
	}
	n.probes.Add(1)
	return true
}

// lock takes the module's lock for a worker, which must not sleep: it tries for
// about as long as another worker has it, and gives up if that one was preempted.
func (m *Module) lock() bool {
	const tries = 4096
	for range tries {
		if m.mu.TryLock() {
			return true
		}
	}
	m.counters.busy.Add(1)
	return false
}

// find returns the neighbour of a key, made if there is room, else nil. The
// caller has the lock.
func (m *Module) find(k neighbourKey) *neighbour {
	if n := m.known[k]; n != nil {
		return n
	}
	if len(m.list) >= m.config.NeighbourTable && !m.evict(k.port) {
		m.counters.full.Add(1)
		return nil
	}
	n := &neighbour{neighbourKey: k}
	m.add(n)
	m.tables.Store(m.tables.Load().withHost(n))
	return n
}

// share is how many of the neighbours on a port are neither gateways nor static.
func (m *Module) share(port uint16) *int {
	for int(port) >= len(m.shares) {
		m.shares = append(m.shares, 0)
	}
	return &m.shares[port]
}

// countShares counts them anew.
func (m *Module) countShares() {
	clear(m.shares)
	for _, n := range m.list {
		if !n.fixed {
			*m.share(n.port)++
		}
	}
}

// evictSample is how many neighbours of a port are compared for the one that matters least.
const evictSample = 8

// evict makes room in a full table for a neighbour on a port: one on the port that has most is forgotten, so a
// flood displaces its own. Of some of them one that is only looked for goes, or
// the one that was silent for longest. It reports false if packets wait for all that could go.
func (m *Module) evict(port uint16) bool {
	most := port
	m.share(port)
	for p, n := range m.shares {
		if n > m.shares[most] {
			most = uint16(p)
		}
	}
	victim, seen := -1, 0
	for range m.list {
		m.hand = (m.hand + 1) % len(m.list)
		n := m.list[m.hand]
		if n.fixed || n.port != most || len(n.held) > 0 {
			continue
		}
		if victim < 0 || n.lessUseful(m.list[victim]) {
			victim = m.hand
		}
		if seen++; seen == evictSample {
			break
		}
	}
	if victim < 0 {
		return false
	}
	m.counters.evicted.Add(1)
	m.forget(victim)
	return true
}

// lessUseful reports whether a neighbour is to go before another: it is not known, or was silent for longer.
func (n *neighbour) lessUseful(than *neighbour) bool {
	if known, other := n.link.Load() != 0, than.link.Load() != 0; known != other {
		return other
	}
	return n.confirmed < than.confirmed
}

func (m *Module) add(n *neighbour) {
	*m.share(n.port)++
	m.known[n.neighbourKey] = n
	m.list = append(m.list, n)
}

// forget removes the i-th neighbour of the list, which no packet waits for.
func (m *Module) forget(i int) {
	n := m.list[i]
	*m.share(n.port)--
	m.list[i] = m.list[len(m.list)-1]
	m.list = m.list[:len(m.list)-1]
	delete(m.known, n.neighbourKey)
	m.tables.Store(m.tables.Load().withoutHost(n))
}

// tick looks after all neighbours, four times a second, on the worker that gets
// there first.
func (s *stage) tick(b *packet.Batch) {
	m := s.module
	last := m.ticked.Load()
	if since(last, b.Now) < tickEvery || !m.ticked.CompareAndSwap(last, b.Now) {
		return
	}
	if !m.lock() {
		return
	}
	defer m.mu.Unlock()
	reachable := uint64(m.config.Reachable)
	for i := len(m.list) - 1; i >= 0; i-- {
		n := m.list[i]
		switch v := n.link.Load(); {
		case n.static:
		case v == 0:
			s.lookAfter(b, n, i)
		case since(n.confirmed, b.Now) > forgetAfter*reachable && !n.fixed:
			m.forget(i)
		case since(n.confirmed, b.Now) > reachable && v&linkStale == 0:
			n.link.CompareAndSwap(v, v|linkStale)
		}
	}
}

// lookAfter asks again for a neighbour that is looked for, or gives it up.
func (s *stage) lookAfter(b *packet.Batch, n *neighbour, i int) {
	if n.probes.Load() >= maxProbes && since(n.asked.Load(), b.Now) >= askEvery {
		s.giveUp(b, n)
	}
	switch {
	case len(n.held) > 0:
		if n.due(b.Now) {
			s.request(b, n, 0)
		}
	case !n.fixed && since(n.asked.Load(), b.Now) >= askEvery:
		s.module.forget(i)
	}
}
