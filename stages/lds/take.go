package lds

import "github.com/weirswitch/weir/pipeline/packet"

// taking is how take looks at packets, and what it says of them. Its layout is that of take_amd64.s.
type taking struct {
	mask, ports uint64 // the bits of OutPort to TTL that are alike, the port's and the reason's, and what they are
	ip          uint64 // flags of which a packet has one
	now         int64
	egress      uint64 // all ones at egress, else 0

	unnamed uint64 // 0: names are the packets'
	differ  uint64 // 0: all arrived now
	waited  int64  // ns
}

// takeAlike notes packets, at least one, if they are all alive, of IP, and of one port, and reports whether they are, and whether names
// are theirs. Where they are not alike, what it noted is of no use. Where there is no assembly its loops have few enough variables for the
// processor's registers, which takeEach has not.
func (s *stage) takeAlike(pkts []packet.Packet, names []packet.FlowName, now int64) (taken, named bool) {
	n, block, egress := len(pkts), &s.block, s.module.egress
	names = names[:n]
	how := taking{mask: 0xff00_ffff_0000, ports: uint64(pkts[0].InPort) << 16, ip: uint64(packet.FlagIP), now: now}
	if egress {
		how.mask, how.ports, how.egress = 0xff00_0000_ffff, uint64(pkts[0].OutPort), ^uint64(0)
	}
	if takes {
		if take(&how, &pkts[0], &names[0], n, &block.ID[0], &block.Flow[0], &block.Time[0], &block.Bytes[0]) < n {
			return false, false
		}
	} else {
		if !alike(pkts, egress) {
			return false, false
		}
		s.takeAll(&how, pkts, names)
	}
	timed := 0
	if how.differ != 0 {
		for i := range pkts {
			if pkts[i].Arrival != now {
				timed++
			}
		}
	}
	add(&s.timed, timed)
	add(&s.waited, int(how.waited))
	return true, how.unnamed == 0
}

func alike(pkts []packet.Packet, egress bool) bool {
	port := [2]uint16{pkts[0].InPort, pkts[0].OutPort}
	for i := range pkts {
		p := &pkts[i]
		if p.Reason != 0 || p.Flags&packet.FlagIP == 0 || egress && p.OutPort != port[1] || !egress && p.InPort != port[0] {
			return false
		}
	}
	return true
}

func (s *stage) takeAll(how *taking, pkts []packet.Packet, names []packet.FlowName) {
	n, block := len(pkts), &s.block
	ids, flows, at, bytes := block.ID[:n], block.Flow[:n], block.Time[:n], block.Bytes[:n]
	names = names[:n]
	unnamed := uint64(0)
	for i := range pkts {
		p, name := &pkts[i], &names[i]
		ids[i], flows[i], bytes[i] = p.ID, name.Name, p.WireLen
		unnamed |= name.ID ^ p.ID
	}
	how.unnamed = unnamed
	differ, waited, now, egress := uint64(0), int64(0), how.now, int64(how.egress)
	for i := range pkts {
		wait := now - pkts[i].Arrival
		differ |= uint64(wait)
		wait &^= wait >> 63 // no less than 0
		wait &= egress
		at[i] = pkts[i].Arrival + wait
		waited += wait
	}
	how.differ, how.waited = differ, waited
}
