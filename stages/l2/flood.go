package l2

import "github.com/weirswitch/weir/pipeline/packet"

// floodTable knows the ports of each VLAN. VLANs with the same ports share one
// list, so it takes 8 KiB and a list for each kind of VLAN.
type floodTable struct {
	list  [4096]uint16
	lists [][]uint16 // port numbers, ascending
	// routers are, by list, the routed interface where the router has an address; NoPort for none.
	routers []uint16
}

func newFloodTable(ports []portVLANs) (t floodTable) {
	known := map[string]uint16{}
	for vlan := range t.list {
		var members []uint16
		var name []byte
		for port := range ports {
			if ports[port].has(uint16(vlan)) {
				members = append(members, uint16(port))
				name = append(name, byte(port), byte(port>>8))
			}
		}
		n, ok := known[string(name)]
		if !ok {
			n = uint16(len(t.lists))
			known[string(name)] = n
			t.lists = append(t.lists, members)
			router := packet.NoPort
			for _, port := range members {
				if ports[port].routed && ports[port].owned {
					router = port
				}
			}
			t.routers = append(t.routers, router)
		}
		t.list[vlan] = n
	}
	return t
}

func (t *floodTable) members(vlan uint16) []uint16 { return t.lists[t.list[vlan&vidMask]] }

func (t *floodTable) router(vlan uint16) uint16 { return t.routers[t.list[vlan&vidMask]] }

// flood sends the n marked packets of the batch to all ports of their VLANs but
// their own. Copies are next to their original, so the packets of a flow
// leave each port in the order in which they came.
func (s *stage) flood(b *packet.Batch, n int) {
	s.flooded.Add(uint64(n))
	old := b.Rebuild()
	for i := range old {
		p := &old[i]
		if p.Reason == 0 && p.OutPort == flooded {
			s.floodOne(b, p, p.InPort, s.ports[p.InPort].classify(p), len(old)-i)
		} else {
			*b.Append() = *p
		}
	}
}

// floodOne appends a packet of a VLAN from a port, behind the copies of it, to the batch, which must
// keep room for originals packets, this one included. The original goes to the
// last port, as it may get another tag there. The router has what is for a group, and all that is for itself is known.
func (s *stage) floodOne(b *packet.Batch, p *packet.Packet, from, vlan uint16, originals int) {
	last := packet.NoPort
	group := b.Mem[p.Addr]&macGroup != 0
	if group && s.snoop != nil && s.floodGroup(b, p, from, vlan, originals) {
		return
	}
	for _, port := range s.floods.members(vlan) {
		if v := &s.ports[port]; port == from || v.routed && !(v.owned && group) {
			continue
		}
		if last != packet.NoPort {
			s.copyTo(b, p, last, vlan, originals)
		}
		last = port
	}
	o := b.Append()
	*o = *p
	if last == packet.NoPort {
		o.OutPort = packet.NoPort
		b.Drop(o, reasonNoMember)
		return
	}
	s.leave(b, o, last, vlan)
}

func (s *stage) copyTo(b *packet.Batch, p *packet.Packet, port, vlan uint16, originals int) {
	if cap(b.Pkts)-len(b.Pkts) <= originals {
		b.NoRoom++
		return
	}
	var c packet.Packet
	if !b.Copy(&c, p) {
		return
	}
	o := b.Append()
	*o = c
	s.leave(b, o, port, vlan)
}

// leave sends a packet of the batch out of a port, tagged as the port wants it.
func (s *stage) leave(b *packet.Batch, p *packet.Packet, port, vlan uint16) {
	p.OutPort = port
	if !s.ports[port].tag(b, p, vlan) {
		b.Drop(p, packet.ReasonNoHeadroom)
	}
}
