package snooping

import (
	"maps"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// Times of RFC 3376, 8, in ns, by its defaults. A querier may make them longer, never shorter: who forges queries would have others forgotten.
const (
	membershipInterval = int64(260 * time.Second)
	querierInterval    = int64(255 * time.Second)
	maxQuerierInterval = int64(time.Hour) // a VLAN without querier is flooded, so it is no harm to believe so soon
	defaultRobustness  = 2
	leastDelay         = time.Second
	slowDelay          = 10 * time.Second // in which hosts answer that have heard a querier of IGMPv1 (RFC 3376, 8.2)
	sweepInterval      = int64(time.Second)
)

// MaxSources is how many sources a port may name of a group, of both modes together. With more it gets the group of all sources.
const MaxSources = 64

// MaxBody is how much of a message an event has, in bytes. What is beyond counts as lost.
const MaxBody = 1480

// Event is what a worker gives to the writer.
type Event struct {
	At     int64 // ns of CLOCK_TAI
	VLAN   uint16
	Port   uint16
	Kind   Kind // Query, Report or Router
	V6     bool
	Cut    bool // the message was longer
	n      uint16
	Source Address
	body   [MaxBody]byte
}

// Set writes an event in place, with a copy of the message.
func (e *Event) Set(at int64, vlan, port uint16, kind Kind, v6 bool, source Address, body []byte) {
	e.At, e.VLAN, e.Port, e.Kind, e.V6, e.Source = at, vlan, port, kind, v6, source
	e.n, e.Cut = uint16(copy(e.body[:], body)), len(body) > MaxBody
}

// key is a group of a VLAN. An IPv4 group has no high word, so its family is in it.
type key struct {
	group Address
	vlan  uint16
}

func (k key) v6() bool { return k.group.Hi != 0 }

// node is an entry of the table that workers read. It is immutable.
type node struct {
	key
	listeners []Listener // by port
	next      *node
}

// View is what workers see of a VLAN in a family. It is immutable.
type View struct {
	from, until int64    // while a querier is believed to be there
	Routers     []uint16 // ports of multicast routers, ascending
	All         []uint16 // ports that get the packets of all groups, ascending; routers among them
}

// Active reports whether the VLAN is snooped.
func (v *View) Active(now int64) bool { return v != nil && now >= v.from && now < v.until }

// Ports are the settings of a switch's ports.
type Ports struct {
	Always    []bool // a multicast router is there
	FastLeave []bool // a single host is there
	Never     []bool // neither a querier nor a multicast router is there
}

// Counters are of events since the start, but Memberships and Used, which are of now.
type Counters struct {
	Queries, Reports, Routers, Invalid uint64
	Lost                               uint64 // messages, or the rest of one, for which there was no room on the way to the table
	Refused                            uint64 // memberships not taken: the table was full, and no port has more
	Displaced                          uint64 // memberships that went for another port's
	TooManySources                     uint64 // memberships made of all sources
	Aged                               uint64 // memberships that were not renewed
	Memberships, Used                  uint64
}

// Table is what is known of all VLANs. Look and View may be called by any goroutine at any time, Lose by workers; all else is the one writer's.
type Table struct {
	seed    uint64
	buckets []atomic.Pointer[node]
	views   [2][4096]atomic.Pointer[View]
	lost    [4096]atomic.Bool // by port
	losses  atomic.Uint64
	invalid atomic.Uint64

	limit   int
	used    int
	groups  map[key][]*membership // by port
	ports   []*portState
	set     Ports
	domains map[domainKey]*domain
	swept   int64
	count   Counters
}

// portState is what the writer keeps of a port.
type portState struct {
	used int
	ring membership // of memberships, the one that was renewed longest ago next
	all  int64      // until when it gets the packets of all groups, as some that it wants may be missing; 0: it does not
}

func newPortState() *portState {
	p := &portState{}
	p.ring.next, p.ring.prev = &p.ring, &p.ring
	return p
}

type domainKey struct {
	vlan uint16
	v6   bool
}

// domain is a VLAN in a family.
type domain struct {
	routers     map[uint16]int64 // until when
	from, until int64
	querier     struct {
		address Address
		port    uint16
		version int
		until   int64
	}
	membership int64 // ns: the group membership interval
	slow       int64 // until when hosts may answer as after a query of IGMPv1, whatever later ones ask for
}

// New makes an empty table for so many memberships, of which each source counts as one more. The seed should be a secret.
func New(limit int, seed uint64) *Table {
	return &Table{
		seed: seed, limit: limit, buckets: make([]atomic.Pointer[node], 1<<bits.Len(uint(max(limit, 2)-1))),
		groups: map[key][]*membership{}, domains: map[domainKey]*domain{},
	}
}

func (t *Table) hash(k key) uint64 {
	return mix(mix(mix(t.seed+k.group.Lo)+k.group.Hi) + uint64(k.vlan))
}

// mix is the finaliser of SplitMix64.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Look returns the listeners of a group in a VLAN, by port; nil if there are none.
func (t *Table) Look(vlan uint16, group Address) []Listener {
	k := key{group, vlan}
	for n := t.buckets[t.hash(k)&uint64(len(t.buckets)-1)].Load(); n != nil; n = n.next {
		if n.key == k {
			return n.listeners
		}
	}
	return nil
}

// View returns what is known of a VLAN, nil if that is nothing.
func (t *Table) View(vlan uint16, v6 bool) *View { return t.views[family(v6)][vlan&4095].Load() }

func family(v6 bool) int {
	if v6 {
		return 1
	}
	return 0
}

// Lose notes that a message which arrived on a port did not come to the writer.
func (t *Table) Lose(port uint16) {
	if int(port) < len(t.lost) && !t.lost[port].Load() {
		t.lost[port].Store(true)
	}
	t.losses.Add(1) // after the flag: who sees the count sees the flag
}

// Reject counts a malformed message.
func (t *Table) Reject() { t.invalid.Add(1) }

// Configure takes other settings, for so many ports, and forgets memberships and routers of VLANs that their port does not carry.
func (t *Table) Configure(limit int, ports Ports, carries func(vlan, port uint16) bool, now int64) {
	t.set = ports
	for len(t.ports) < len(ports.Always) {
		t.ports = append(t.ports, newPortState())
	}
	never := func(port uint16) bool { return int(port) < len(ports.Never) && ports.Never[port] }
	for k, all := range maps.Clone(t.groups) {
		for _, m := range slices.Clone(all) {
			if !carries(k.vlan, m.port) {
				t.remove(m)
			}
		}
		t.publish(k, now)
	}
	for k, d := range t.domains {
		for port := range d.routers {
			if never(port) || !carries(k.vlan, port) {
				delete(d.routers, port)
			}
		}
		if d.querier.until > now && never(d.querier.port) || !carries(k.vlan, d.querier.port) { // the VLAN's number may be another domain's now
			d.until, d.querier.until = now, now
		}
	}
	for t.limit = limit; t.used > t.limit; {
		t.displace(t.most(0), now)
	}
	t.publishViews(now)
}

// PortDown forgets what hosts and routers behind a port said.
func (t *Table) PortDown(port uint16, now int64) {
	if int(port) >= len(t.ports) {
		return
	}
	p := t.ports[port]
	for p.ring.next != &p.ring {
		m := p.ring.next
		t.remove(m)
		t.publish(m.key, now)
	}
	p.all = 0
	for _, d := range t.domains {
		delete(d.routers, port)
	}
	t.publishViews(now)
}

// Take applies what a worker has heard.
func (t *Table) Take(e *Event) {
	if int(e.Port) >= len(t.ports) {
		return // a port about to come
	}
	t.Age(e.At)
	d := t.domain(domainKey{e.VLAN, e.V6})
	body := e.body[:e.n]
	switch e.Kind {
	case Query:
		t.count.Queries++
		t.takeQuery(e, d, body)
	case Report:
		t.count.Reports++
		whole := eachRecord(e.V6, body, func(r *record) { t.takeRecord(e, d, r) })
		switch {
		case e.Cut:
			t.Lose(e.Port)
			t.TakeLosses(e.At)
		case !whole:
			t.Reject()
		}
	case Router:
		t.count.Routers++
		t.markRouter(e, d, querierInterval)
	}
}

func (t *Table) domain(k domainKey) *domain {
	d := t.domains[k]
	if d == nil {
		d = &domain{routers: map[uint16]int64{}, membership: membershipInterval}
		t.domains[k] = d
	}
	return d
}

// markRouter notes that a multicast router is where a message came from, for so long at least.
func (t *Table) markRouter(e *Event, d *domain, interval int64) {
	_, known := d.routers[e.Port]
	d.routers[e.Port] = max(d.routers[e.Port], e.At+interval)
	if !known {
		t.publishView(domainKey{e.VLAN, e.V6}, d, e.At)
	}
}

// takeQuery notes where a querier is, and lowers the timers of what it asks for.
func (t *Table) takeQuery(e *Event, d *domain, body []byte) {
	q := readQuery(e.V6, body)
	if !e.V6 && q.version == 1 {
		d.slow = e.At + maxQuerierInterval
	}
	if q.group != (Address{}) {
		t.markRouter(e, d, querierInterval)
		t.lower(e, d, &q)
		return
	}
	robustness, interval := int64(defaultRobustness), int64(125*time.Second)
	if q.robustness != 0 {
		robustness = int64(q.robustness)
	}
	if q.interval != 0 {
		interval = int64(q.interval)
	}
	if d.until <= e.At { // hosts have not answered yet
		d.from = e.At + min(int64(max(q.maxDelay, leastDelay)), querierInterval)
	}
	present := min(max(robustness*interval+int64(q.maxDelay)/2, querierInterval), maxQuerierInterval)
	t.markRouter(e, d, present)
	// The lowest address is elected; one of zero is a switch's, which is in no election.
	old := &d.querier
	if zero := (Address{}); old.until <= e.At || e.Source == old.address || e.Source != zero && (old.address == zero || e.Source.less(old.address)) {
		old.address, old.port, old.version, old.until = e.Source, e.Port, q.version, e.At+present
		d.membership = max(robustness*interval+int64(q.maxDelay), membershipInterval)
	}
	d.until = e.At + min(present, d.membership) // no longer than what hosts answer now is kept
	t.publishView(domainKey{e.VLAN, e.V6}, d, e.At)
}

// lower has what a specific query asks for end soon, unless hosts answer (RFC 3376, 6.6.1).
func (t *Table) lower(e *Event, d *domain, q *query) {
	if q.suppress {
		return
	}
	robustness := int64(max(q.robustness, defaultRobustness))
	delay := max(q.maxDelay, leastDelay)
	if d.slow > e.At {
		delay = max(delay, slowDelay)
	}
	until := e.At + robustness*int64(delay)
	for _, m := range t.groups[key{q.group, e.VLAN}] {
		if q.sources == 0 {
			if m.exclude {
				m.until = min(m.until, until)
			}
			continue
		}
		each(e.V6, q.list[:min(len(q.list), q.sources*sizeOf(e.V6))], func(a Address) {
			if i, ok := m.find(a); ok && m.sources[i].until > e.At {
				m.sources[i].until = min(m.sources[i].until, until)
			}
		})
	}
}

func sizeOf(v6 bool) int {
	if v6 {
		return 16
	}
	return 4
}

// takeRecord applies a record of a report.
func (t *Table) takeRecord(e *Event, d *domain, r *record) {
	if !r.group.isGroup(e.V6) || r.group.Always(e.V6) || r.kind < isInclude || r.kind > blockOld {
		return
	}
	k, now := key{r.group, e.VLAN}, e.At
	all := t.groups[k]
	i, known := slices.BinarySearchFunc(all, e.Port, func(m *membership, port uint16) int { return int(m.port) - int(port) })
	var before, m membership
	if known {
		before = *all[i]
		m = before
		m.sources = slices.Clone(before.sources)
	} else {
		m = membership{key: k, port: e.Port}
	}
	until := now + d.membership
	if t.set.FastLeave[e.Port] {
		m.replace(e.V6, r, now, until)
	} else {
		m.take(e.V6, r, now, until)
	}
	if _, gone := m.age(now, now); gone {
		if known {
			t.remove(all[i])
			t.publish(k, now)
		}
		return
	}
	if len(m.sources) > MaxSources {
		m.exclude, m.until, m.sources = true, until, nil
		t.count.TooManySources++
	}
	if need := m.cost() - before.charged; !t.makeRoom(e.Port, need, now) {
		t.count.Refused++
		t.giveAll(e.Port, now)
		return
	}
	// makeRoom may have displaced the membership itself.
	all = t.groups[k]
	if i, known = slices.BinarySearchFunc(all, e.Port, func(m *membership, port uint16) int { return int(m.port) - int(port) }); known {
		t.remove(all[i])
		all = t.groups[k]
	}
	t.insert(&m, i, all)
	t.publish(k, now)
}

// insert puts a membership into the table, at its place among those of its group.
func (t *Table) insert(m *membership, i int, all []*membership) {
	t.groups[m.key] = slices.Insert(all, i, m)
	p := t.ports[m.port]
	last := p.ring.prev
	m.prev, m.next = last, &p.ring
	last.next, p.ring.prev = m, m
	m.charged = 0
	t.charge(m, m.cost())
}

// charge accounts for what a membership takes now.
func (t *Table) charge(m *membership, cost int) {
	t.ports[m.port].used += cost - m.charged
	t.used += cost - m.charged
	m.charged = cost
}

// remove takes a membership out of the table. The caller publishes.
func (t *Table) remove(m *membership) {
	all := t.groups[m.key]
	all = slices.DeleteFunc(all, func(o *membership) bool { return o == m })
	if len(all) == 0 {
		delete(t.groups, m.key)
	} else {
		t.groups[m.key] = all
	}
	m.prev.next, m.next.prev = m.next, m.prev
	t.charge(m, 0)
}

// most is the port that takes most of the table; the one given, if that takes as much.
func (t *Table) most(port uint16) uint16 {
	for p := range t.ports {
		if t.ports[p].used > t.ports[port].used {
			port = uint16(p)
		}
	}
	return port
}
