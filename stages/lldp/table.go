package lldp

import (
	"cmp"
	"slices"
	"time"
)

// Neighbour is what a port knows of another system on its cable. Texts are printable.
type Neighbour struct {
	Port              uint16 // of the switch, where it was heard
	Chassis           string
	PortID            string
	PortDescription   string
	SystemName        string
	SystemDescription string
	Capabilities      []string // in use: "bridge", "router", ...
	Management        []string // addresses
	TTL               time.Duration
	Age               time.Duration // since its last frame
}

// entry is a neighbour in a table.
type entry struct {
	pdu
	heard int64 // ns of CLOCK_TAI
}

func (e *entry) expires() int64 { return e.heard + int64(e.ttl)*int64(time.Second) }

// counts are a port's, as the standard names them (9.2.6), guarded by Module.mu but for those of workers.
type counts struct {
	received, discarded, inError, discardedTLVs, unrecognisedTLVs, aged, tooMany uint64
}

// portTable is what is known on one port.
type portTable struct {
	entries map[string]*entry
	counts
}

// take applies a frame to the table, at a time, and reports whether it is of a new neighbour.
func (t *portTable) take(frame []byte, now int64, most int) (fresh bool) {
	t.received++
	p, err := parse(frame)
	if err != nil {
		t.discarded++
		t.inError++
		return false
	}
	if p.discardedTLVs != 0 {
		t.inError++
	}
	t.discardedTLVs += uint64(p.discardedTLVs)
	t.unrecognisedTLVs += uint64(p.unrecognisedTLV)
	old := t.entries[p.key]
	switch {
	case p.ttl == 0: // it says goodbye
		delete(t.entries, p.key)
		return false
	case old == nil && len(t.entries) >= most:
		t.tooMany++
		return false
	}
	t.entries[p.key] = &entry{p, now}
	return old == nil
}

// age removes what has not been heard for its time to live. A clock that was set back far makes all be heard now.
func (t *portTable) age(now int64) {
	for key, e := range t.entries {
		if e.heard > now+int64(time.Minute) {
			e.heard = now
		}
		if now >= e.expires() {
			delete(t.entries, key)
			t.aged++
		}
	}
}

// neighbours appends the table's entries, in order.
func (t *portTable) neighbours(dst []Neighbour, port uint16, now int64) []Neighbour {
	from := len(dst)
	for _, e := range t.entries {
		dst = append(dst, Neighbour{
			Port: port, Chassis: e.chassis, PortID: e.port, PortDescription: e.portDescription, SystemName: e.systemName,
			SystemDescription: e.systemDescription, Capabilities: e.capabilities, Management: e.management,
			TTL: time.Duration(e.ttl) * time.Second, Age: max(0, time.Duration(now-e.heard)),
		})
	}
	slices.SortFunc(dst[from:], func(a, b Neighbour) int {
		return cmp.Or(cmp.Compare(a.Chassis, b.Chassis), cmp.Compare(a.PortID, b.PortID))
	})
	return dst
}
