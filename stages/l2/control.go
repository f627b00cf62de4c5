package l2

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/pipeline"
)

// workerCounters are written by one worker, and only when something out of the
// ordinary happens, so atomic additions do not burden the packet path.
type workerCounters struct {
	flooded       atomic.Uint64
	learnOverflow atomic.Uint64
	stormed       [stormKinds]atomic.Uint64
}

// goneCounters are what stages counted that are no more.
type goneCounters struct {
	flooded, learnOverflow uint64
	stormed                [stormKinds]uint64
}

func (g *goneCounters) add(c *workerCounters) {
	g.flooded += c.flooded.Load()
	g.learnOverflow += c.learnOverflow.Load()
	for kind := range g.stormed {
		g.stormed[kind] += c.stormed[kind].Load()
	}
}

// Counters are the bridge's counters beside the drop reasons, summed over the
// workers.
type Counters struct {
	Flooded uint64 `json:"flooded"` // packets sent to more ports than one, or to none for want of members
	// Storm counts packets that were dropped instead of flooded: broadcasts,
	// multicasts, and those to unknown stations.
	Storm         [stormKinds]uint64 `json:"storm"`
	LearnOverflow uint64             `json:"learn_overflow"` // learn events lost: the worker's ring, or the port's share of it, was full
	FDBFull       uint64             `json:"fdb_full"`       // learn events refused: the table was full of static addresses
	Evicted       uint64             `json:"evicted"`        // stations forgotten for new ones: the table was full
	Learned       uint64             `json:"learned"`        // stations learned
	Moved         uint64             `json:"moved"`          // stations seen on another port than before
	Aged          uint64             `json:"aged"`           // stations forgotten for silence
	Flushed       uint64             `json:"flushed"`        // stations forgotten by command, by a guard, or as their port went down
	Entries       uint64             `json:"entries"`        // addresses in the table now, static ones included
	Static        uint64             `json:"static"`         // static addresses
}

// Counters returns the present counts. It may be called at any time.
func (m *Module) Counters() Counters {
	f := m.fdb
	c := Counters{
		FDBFull: f.full.Load(),
		Evicted: f.evicted.Load(),
		Learned: f.learned.Load(),
		Moved:   f.moved.Load(),
		Aged:    f.aged.Load(),
		Flushed: f.flushed.Load(),
		Entries: f.entries.Load(),
		Static:  f.statics.Load(),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.gone
	for _, s := range m.stages {
		sum.add(&s.workerCounters)
	}
	c.Flooded, c.LearnOverflow, c.Storm = sum.flooded, sum.learnOverflow, sum.stormed
	return c
}

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	c := m.Counters()
	for _, v := range []struct {
		name, help string
		value      uint64
		gauge      bool
	}{
		{"flooded_packets_total", "packets sent to more ports than one, or to none for want of members", c.Flooded, false},
		{"learn_overflow_total", "learn events lost: the worker's ring, or the port's share of it, was full", c.LearnOverflow, false},
		{"fdb_full_total", "learn events refused: the table was full of static addresses", c.FDBFull, false},
		{"evicted_total", "stations forgotten for new ones: the table was full", c.Evicted, false},
		{"learned_stations_total", "stations learned", c.Learned, false},
		{"moved_stations_total", "stations seen on another port than before", c.Moved, false},
		{"aged_stations_total", "stations forgotten for silence", c.Aged, false},
		{"flushed_stations_total", "stations forgotten by command, by a guard, or as their port went down", c.Flushed, false},
		{"fdb_entries", "addresses in the table, static ones included", c.Entries, true},
		{"fdb_static_entries", "static addresses in the table", c.Static, true},
	} {
		emit(pipeline.Metric{Name: v.name, Help: v.help, Value: float64(v.value), Gauge: v.gauge})
	}
	m.mu.Lock()
	m.guards.emit(m.settings.Load().names, emit)
	m.emitGroups(emit)
	m.mu.Unlock()
	for kind, n := range c.Storm {
		emit(pipeline.Metric{
			Name: "storm_packets_total", Help: "packets dropped instead of flooded, beyond a port's limit",
			Labels: [][2]string{{"kind", stormNames[kind]}}, Value: float64(n),
		})
	}
}

// Entry is an address of the table as control sees it.
type Entry struct {
	MAC    MAC           `json:"mac"`
	VLAN   uint16        `json:"vlan"`             // 0 for the untagged VLAN of transparent ports
	Domain string        `json:"domain,omitempty"` // in place of the VLAN
	Port   uint16        `json:"port"`             // port number
	Age    time.Duration `json:"age_ns"`
	Static bool          `json:"static"`
}

// Entries appends the addresses of the table, in no order, to dst. now is the
// present time in nanoseconds of CLOCK_TAI, from which ages count; in whole
// seconds, up to a 64th of Config.Ageing too young. The packet path does not notice.
func (m *Module) Entries(dst []Entry, now int64) []Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.fdb
	t.each(func(b *bucket, i int, at, entry uint64) {
		key := t.key(at, entry)
		e := Entry{MAC: keyMAC(key), VLAN: keyVLAN(key), Port: t.port(entry), Static: entry&t.static != 0}
		if domains := m.settings.Load().domains; domains != nil && int(e.VLAN) < len(domains) {
			e.Domain, e.VLAN = domains[e.VLAN], 0
		}
		if !e.Static {
			e.Age = time.Duration(max(0, int32(stampOf(now)-t.stamp(b, i)-1<<t.granule+1))) * time.Second
		}
		dst = append(dst, e)
	})
	return dst
}

// Flush forgets all learned addresses and returns how many.
func (m *Module) Flush() int {
	return m.flush(func(uint16, uint16) bool { return true })
}

// FollowPorts implements pipeline.PortFollower: what was learned on a port that is down is forgotten, so its stations
// are looked for on all others. The events that workers sent before come first, or they would be learned again.
func (m *Module) FollowPorts(ports []pipeline.Port) {
	if m.inline {
		return
	}
	if slices.ContainsFunc(ports, func(p pipeline.Port) bool { return p.Down }) {
		m.write()
		m.flush(func(_, port uint16) bool { return int(port) < len(ports) && ports[port].Down })
	}
	m.followPorts(ports)
}

// FlushPort forgets the addresses learned on a port.
func (m *Module) FlushPort(port uint16) int {
	return m.flush(func(_, p uint16) bool { return p == port })
}

// FlushVLAN forgets the addresses learned in a VLAN.
func (m *Module) FlushVLAN(vlan uint16) int {
	return m.flush(func(v, _ uint16) bool { return v == vlan })
}

// FlushDomain forgets the addresses learned in a bridge domain; false if there is no such domain.
func (m *Module) FlushDomain(name string) (cleared int, ok bool) {
	m.mu.Lock()
	number, ok := m.guards.plan.domains[name]
	m.mu.Unlock()
	if !ok {
		return 0, false
	}
	return m.FlushVLAN(number), true
}

func (m *Module) flush(match func(vlan, port uint16) bool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fdb.flush(match)
}
