package snooping

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Membership is what a port wants of a group, as reports show it.
type Membership struct {
	VLAN    uint16
	Group   netip.Addr
	Port    uint16
	Exclude bool          // all sources but Sources; else these alone
	Sources []netip.Addr  // ascending
	Version int           // of IGMP or MLD, that of the oldest host of late
	Left    time.Duration // until it ends, unless renewed
}

// Memberships returns all, by VLAN, group and port.
func (t *Table) Memberships(now int64) (all []Membership) {
	for k, ports := range t.groups {
		for _, m := range ports {
			l, until := m.listener(now), m.until
			if !m.exclude {
				until = 0
				for i := range m.sources {
					until = max(until, m.sources[i].until)
				}
			}
			s := Membership{
				VLAN: k.vlan, Group: k.group.IP(k.v6()), Port: m.port, Exclude: m.exclude, Version: m.version(now), Left: max(0, time.Duration(until-now)),
			}
			if k.v6() {
				s.Version-- // of MLD
			}
			for _, a := range l.sources {
				s.Sources = append(s.Sources, a.IP(k.v6()))
			}
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Membership) int {
		return cmp.Or(cmp.Compare(a.VLAN, b.VLAN), a.Group.Compare(b.Group), cmp.Compare(a.Port, b.Port))
	})
	return all
}

// Snooped is what is known of a VLAN in a family.
type Snooped struct {
	VLAN        uint16
	V6          bool
	Active      bool       // else groups are flooded
	Querier     netip.Addr // the elected one, invalid if none was heard of late
	QuerierPort uint16
	Version     int
	Left        time.Duration // until the VLAN is flooded again, unless a querier is heard
	Routers     []uint16      // ports
	All         []uint16      // ports that get all groups, routers among them
}

// Snooped returns what is known of VLANs, in their order.
func (t *Table) Snooped(now int64) (all []Snooped) {
	for k, d := range t.domains {
		v := t.View(k.vlan, k.v6)
		if v == nil {
			continue
		}
		s := Snooped{VLAN: k.vlan, V6: k.v6, Active: v.Active(now), Left: max(0, time.Duration(d.until-now)), Routers: v.Routers, All: v.All}
		if q := &d.querier; q.until > now {
			s.Querier, s.QuerierPort, s.Version = q.address.IP(k.v6), q.port, q.version
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Snooped) int {
		return cmp.Or(cmp.Compare(a.VLAN, b.VLAN), cmp.Compare(family(a.V6), family(b.V6)))
	})
	return all
}

// Counters returns the counts.
func (t *Table) Counters() Counters {
	c := t.count
	c.Lost, c.Invalid, c.Used = t.losses.Load(), t.invalid.Load(), uint64(t.used)
	for _, all := range t.groups {
		c.Memberships += uint64(len(all))
	}
	return c
}
