package snooping

import (
	"maps"
	"slices"
)

// makeRoom has the table take so much more for a port. What must go is of the port that has most, unless that is this one, or would be.
func (t *Table) makeRoom(port uint16, need int, now int64) bool {
	if need <= 0 {
		return true
	}
	for t.used+need > t.limit {
		most := t.most(port)
		if t.ports[most].used <= t.ports[port].used+need {
			return false
		}
		t.displace(most, now)
	}
	return true
}

// displace removes the membership of a port that was renewed longest ago.
func (t *Table) displace(port uint16, now int64) {
	m := t.ports[port].ring.next
	t.remove(m)
	t.publish(m.key, now)
	t.count.Displaced++
	t.giveAll(port, now)
}

// Widen has a port get the packets of all groups for as long as its hosts may take to report anew: they may have joined some without its notice.
func (t *Table) Widen(port uint16, now int64) {
	if int(port) < len(t.ports) {
		t.giveAll(port, now)
	}
}

// giveAll has a port get the packets of all groups, until its hosts have said anew which ones they want.
func (t *Table) giveAll(port uint16, now int64) {
	p := t.ports[port]
	before := p.all
	p.all = now + membershipInterval
	if before <= now { // what is over may not be swept yet
		t.publishViews(now)
	}
}

// TakeLosses looks for ports of which messages were lost. The writer calls it as often as it looks for events.
func (t *Table) TakeLosses(now int64) {
	n := t.losses.Load()
	if n == t.count.Lost {
		return
	}
	t.count.Lost = n
	for port := range t.ports {
		if port < len(t.lost) && t.lost[port].Swap(false) {
			t.giveAll(uint16(port), now)
		}
	}
}

// Age ends what was not renewed, once a second at most.
func (t *Table) Age(now int64) {
	if t.swept == 0 {
		t.swept = now
	}
	passed := now - t.swept
	if passed > -sweepInterval && passed < sweepInterval { // workers' events come out of order
		return
	}
	if passed < 0 {
		t.shift(passed)
	}
	before := t.swept
	t.swept = now
	for k, all := range t.groups {
		changed := false
		for i := len(all) - 1; i >= 0; i-- {
			c, gone := all[i].age(now, before)
			if changed = changed || c; gone {
				t.remove(all[i])
				all = t.groups[k]
				t.count.Aged++
			} else if c {
				t.charge(all[i], all[i].cost())
			}
		}
		if changed {
			t.publish(k, now)
		}
	}
	t.ageViews(now)
}

// ageViews ends queriers, routers, and the times in which ports get all groups.
func (t *Table) ageViews(now int64) {
	every := false
	for i := range t.ports {
		if p := t.ports[i]; p.all != 0 && p.all <= now {
			p.all, every = 0, true
		}
	}
	for k, d := range t.domains {
		n := len(d.routers)
		maps.DeleteFunc(d.routers, func(_ uint16, until int64) bool { return until <= now })
		if every || n != len(d.routers) || d.until <= now {
			t.publishView(k, d, now)
		}
	}
}

// shift adds to all times: the clock was set back.
func (t *Table) shift(by int64) {
	for _, all := range t.groups {
		for _, m := range all {
			m.until += by
			for v := range m.old {
				m.old[v] += by
			}
			for i := range m.sources {
				m.sources[i].until += by
			}
		}
	}
	for i := range t.ports {
		if t.ports[i].all != 0 {
			t.ports[i].all = max(1, t.ports[i].all+by)
		}
	}
	for k, d := range t.domains {
		for port := range d.routers {
			d.routers[port] += by
		}
		d.from += by
		d.until += by
		d.slow += by
		d.querier.until += by
		t.publishView(k, d, t.swept+by)
	}
}

// publish shows workers who listens to a group.
func (t *Table) publish(k key, now int64) {
	bucket := &t.buckets[t.hash(k)&uint64(len(t.buckets)-1)]
	first := bucket.Load()
	var listeners []Listener
	for _, m := range t.groups[k] {
		listeners = append(listeners, m.listener(now))
	}
	for n := first; n != nil; n = n.next {
		if n.key == k && slices.EqualFunc(n.listeners, listeners, func(a, b Listener) bool { return a.equal(&b) }) {
			return
		}
	}
	var chain *node
	for n := first; n != nil; n = n.next {
		if n.key != k {
			chain = &node{n.key, n.listeners, chain}
		}
	}
	if listeners != nil {
		chain = &node{k, listeners, chain}
	}
	bucket.Store(chain)
}

// publishViews shows workers all VLANs anew.
func (t *Table) publishViews(now int64) {
	for k, d := range t.domains {
		t.publishView(k, d, now)
	}
}

// publishView shows workers what is known of a VLAN, and forgets it if that is nothing.
func (t *Table) publishView(k domainKey, d *domain, now int64) {
	at := &t.views[family(k.v6)][k.vlan&4095]
	if d.until <= now && len(d.routers) == 0 {
		delete(t.domains, k)
		at.Store(nil)
		return
	}
	v := &View{from: d.from, until: d.until}
	for i := range t.ports {
		_, learned := d.routers[uint16(i)]
		if learned = learned || t.set.Always[i]; learned {
			v.Routers = append(v.Routers, uint16(i))
		}
		if learned || t.ports[i].all > now {
			v.All = append(v.All, uint16(i))
		}
	}
	at.Store(v)
}
