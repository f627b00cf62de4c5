package snooping

import "slices"

// membership is what the hosts behind a port want of a group: the state of a router in RFC 3376, 6.2, of RFC 3810, 7.2, for that port.
type membership struct {
	key
	port       uint16
	exclude    bool
	until      int64    // of mode exclude; all times are ns of CLOCK_TAI
	old        [3]int64 // by version: until when such a host is believed to be there
	sources    []source // by address
	charged    int      // what it takes of the table, in the books
	next, prev *membership
}

// source is an address in a membership. In mode exclude one whose time is over is not wanted; in mode include it goes.
type source struct {
	address Address
	until   int64
}

func (m *membership) find(a Address) (int, bool) {
	return slices.BinarySearchFunc(m.sources, a, func(s source, a Address) int {
		switch {
		case s.address.less(a):
			return -1
		case a.less(s.address):
			return 1
		}
		return 0
	})
}

// set gives a source a time.
func (m *membership) set(a Address, until int64) {
	i, ok := m.find(a)
	if !ok {
		m.sources = slices.Insert(m.sources, i, source{a, 0})
	}
	m.sources[i].until = until
}

// cost is what a membership takes of the table.
func (m *membership) cost() int { return 1 + len(m.sources) }

// version is that of the oldest host of late. MLD's 1 is 2 here.
func (m *membership) version(now int64) int {
	for v := 1; v <= 2; v++ {
		if m.old[v] > now {
			return v
		}
	}
	return 3
}

// take applies a record at a time, of hosts that will speak again until the other. It is RFC 3376, 6.4, without what a querier sends.
func (m *membership) take(v6 bool, r *record, now, until int64) {
	list := r.sources
	if v := m.version(now); v < 3 && r.version == 3 { // 7.3.2
		switch r.kind {
		case toExclude, isExclude:
			list = nil
		case blockOld:
			return
		}
	}
	if r.version < 3 && r.kind == isExclude {
		m.old[r.version] = until
	}
	switch r.kind {
	case isInclude, allowNew, toInclude:
		each(v6, list, func(a Address) { m.set(a, until) })
	case isExclude, toExclude:
		m.becomeExclude(v6, r.kind, list, now, until)
	case blockOld:
		if m.exclude {
			each(v6, list, func(a Address) {
				if _, ok := m.find(a); !ok {
					m.set(a, m.until)
				}
			})
		}
	}
}

// becomeExclude has the membership exclude a list of sources. What was wanted of them is so until its time is over.
func (m *membership) becomeExclude(v6 bool, kind uint8, list []byte, now, until int64) {
	before := *m
	m.sources = nil
	each(v6, list, func(a Address) {
		at := int64(0)
		if i, ok := before.find(a); ok {
			at = before.sources[i].until
		} else if before.exclude {
			if at = until; kind == toExclude {
				at = before.until
			}
		}
		m.set(a, at)
	})
	m.exclude, m.until = true, until
}

// replace applies a record of a port's only host, which wants what it says and nothing else.
func (m *membership) replace(v6 bool, r *record, now, until int64) {
	if r.kind != toInclude && r.kind != toExclude && r.kind != blockOld {
		m.take(v6, r, now, until)
		return
	}
	switch r.kind {
	case toInclude:
		m.exclude, m.sources, m.old = false, nil, [3]int64{}
		each(v6, r.sources, func(a Address) { m.set(a, until) })
	case toExclude:
		m.exclude, m.sources, m.until = true, nil, until
		each(v6, r.sources, func(a Address) { m.set(a, 0) })
	case blockOld:
		each(v6, r.sources, func(a Address) {
			if i, ok := m.find(a); m.exclude {
				m.set(a, 0)
			} else if ok {
				m.sources = slices.Delete(m.sources, i, i+1)
			}
		})
	}
}

// age ends what is over. It reports whether other packets are wanted than before; nothing is wanted any more if gone.
func (m *membership) age(now, before int64) (changed, gone bool) {
	if m.exclude && m.until <= now { // 6.5
		m.exclude, changed = false, true
	}
	if !m.exclude {
		n := len(m.sources)
		m.sources = slices.DeleteFunc(m.sources, func(s source) bool { return s.until <= now })
		return changed || len(m.sources) != n, len(m.sources) == 0
	}
	for i := range m.sources {
		if u := m.sources[i].until; u <= now && u > before {
			changed = true
		}
	}
	return changed, false
}

// listener is what workers see of it.
func (m *membership) listener(now int64) Listener {
	l := Listener{Port: m.port, exclude: m.exclude}
	for i := range m.sources {
		if s := &m.sources[i]; (s.until <= now) == m.exclude {
			l.sources = append(l.sources, s.address)
		}
	}
	return l
}

// Listener is a port that wants packets of a group.
type Listener struct {
	Port    uint16
	exclude bool      // all but those of sources; else these alone
	sources []Address // ascending
}

// Wants reports whether the port wants the group's packets of a source.
func (l *Listener) Wants(source Address) bool {
	return len(l.sources) == 0 && l.exclude || l.has(source) != l.exclude
}

func (l *Listener) has(source Address) bool {
	low, high := 0, len(l.sources)
	for low < high {
		if mid := int(uint(low+high) / 2); l.sources[mid].less(source) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low < len(l.sources) && l.sources[low] == source
}

func (l *Listener) equal(o *Listener) bool {
	return l.Port == o.Port && l.exclude == o.exclude && slices.Equal(l.sources, o.sources)
}
