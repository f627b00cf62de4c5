package tunnel

import (
	"encoding/binary"
	"errors"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Encap is the stage encap of one switch. Its tables are those of the stage tunnel.
type Encap struct {
	module *Module
	needs  packet.Needs // of the stages behind it
}

// NewEncap makes the module.
func NewEncap(_ EncapConfig, env pipeline.Env) (*Encap, error) { return &Encap{needs: env.Needs}, nil }

// Join implements pipeline.Joined.
func (e *Encap) Join(chain []pipeline.Named) error {
	for _, n := range chain {
		if _, ok := n.Module.(*Module); ok {
			return nil
		}
	}
	return errors.New("has no tunnels: add \"tunnel\" in front of the forwarding stage")
}

// Role implements pipeline.Module: stages in front of it see inner packets, those behind it outer ones.
func (e *Encap) Role() pipeline.Role { return pipeline.RoleEgress }

// Needs implements pipeline.Module: the flow hash chooses the source port.
func (e *Encap) Needs() packet.Needs { return packet.NeedFlowHash }

// Copies implements pipeline.Copier: a packet to all goes to each remote end.
func (e *Encap) Copies() int { return maxEnds }

// Stage implements pipeline.Module.
func (e *Encap) Stage(w int) pipeline.Stage {
	s := &encap{needs: e.needs}
	if e.module != nil { // nil only where a module is made without a graph
		s.worker = e.module.workers[w]
	}
	return s
}

// FollowNeeds implements pipeline.NeedsFollower.
func (s *encap) FollowNeeds(n packet.Needs) { s.needs = n }

// encap is the stage of one worker.
type encap struct {
	*worker
	needs packet.Needs
	asks  [8]*hop
	nAsks int
}

// Process implements pipeline.Stage. What has several ends needs room for copies between the packets, in a second pass that
// most batches do not need.
func (s *encap) Process(b *packet.Batch) {
	s.tables = s.module.tables.Load()
	floods, done := 0, 0
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 || int(p.OutPort) >= len(s.roles) {
			continue
		}
		r := s.roles[p.OutPort]
		if r.kind == other {
			continue
		}
		if r.kind == isUnderlay {
			b.Drop(p, ReasonUnderlay)
			continue
		}
		t := &s.tunnels[r.index]
		if t.erspan {
			done += s.sendCopy(b, p, t)
			continue
		}
		d := (*[8]byte)(b.Mem[p.Addr:])
		dst := binary.LittleEndian.Uint64(d[:]) & (1<<48 - 1)
		if dst&1 == 0 {
			if slot, v := s.module.fdb.find(stationKey(t.port, dst)); slot != nil && int(valueEnd(v)) < len(s.ends) {
				done += s.send(b, p, t, valueEnd(v))
				continue
			}
		}
		switch len(t.floods) {
		case 0:
			b.Drop(p, ReasonNoEnd)
		case 1:
			s.flooded.Add(1)
			done += s.send(b, p, t, t.floods[0])
		default:
			floods++
		}
	}
	if floods != 0 {
		done += s.replicate(b, floods)
	}
	if done != 0 {
		s.encapsulated.Add(uint64(done))
		if s.needs != 0 {
			s.read(b)
		}
	}
	for i := range s.replies {
		if o := b.Append(); o != nil {
			*o = s.replies[i]
		} else {
			b.Frames.FreePacket(&s.replies[i])
			b.NoRoom++
			b.Copied--
		}
	}
	s.replies = s.replies[:0]
	for _, h := range s.asks[:s.nAsks] {
		n := len(b.Pkts)
		s.ask(b, h)
		if len(b.Pkts) == n { // no frame, or no room: it was not asked for
			h.probes.Add(-1)
			h.asked.Store(0)
			continue
		}
		s.requests.Add(1)
	}
	s.nAsks = 0
}

// replicate sends the marked packets to all ends of their tunnels (head-end replication). Copies are next to their originals.
func (s *encap) replicate(b *packet.Batch, n int) (done int) {
	s.flooded.Add(uint64(n))
	old := b.Rebuild()
	for i := range old {
		p := &old[i]
		var t *tunnel
		if p.Reason == 0 && int(p.OutPort) < len(s.roles) && s.roles[p.OutPort].kind == isTunnel {
			t = &s.tunnels[s.roles[p.OutPort].index]
		}
		if t == nil { // of no tunnel, or on its way to one end already
			*b.Append() = *p
			continue
		}
		for _, e := range t.floods[:len(t.floods)-1] {
			if cap(b.Pkts)-len(b.Pkts) <= len(old)-i+len(s.replies)+len(s.asks) { // these have to leave, too
				b.NoRoom++
				continue
			}
			var c packet.Packet
			if !b.Copy(&c, p) {
				continue
			}
			o := b.Append()
			*o = c
			s.copies.Add(1)
			done += s.send(b, o, t, e)
		}
		o := b.Append()
		*o = *p
		done += s.send(b, o, t, t.floods[len(t.floods)-1])
	}
	return done
}

// send puts a packet into a tunnel to an end, and returns 1 if it could.
//
//	| Ethernet 14 | IPv4 20 or IPv6 40 | UDP 8 | VXLAN or Geneve 8 | the packet
func (s *encap) send(b *packet.Batch, p *packet.Packet, t *tunnel, number uint32) int {
	e := &s.ends[number]
	if e.hop == nil {
		b.Drop(p, ReasonNoEnd)
		return 0
	}
	ipLen := header.IPv4Len
	if e.six {
		ipLen = header.IPv6Len
	}
	const behind = header.UDPLen + header.TunnelLen
	total := ipLen + behind + int(p.WireLen)
	if total > e.mtu {
		s.tooLong(b, p, e.mtu-ipLen-behind)
		b.Drop(p, ReasonTooLong)
		return 0
	}
	mac := e.hop.mac.Load()
	if mac == 0 || b.Now-e.hop.confirmed.Load() > confirmEvery {
		if s.want(e.hop, b.Now); mac == 0 {
			b.Drop(p, ReasonUnresolved)
			return 0
		}
	}
	n := header.EthernetLen + ipLen + behind
	if b.Headroom(p) < n {
		b.Drop(p, ReasonHeadroom)
		return 0
	}
	tos := uint8(t.dscp << 2)
	if p.Flags.Has(packet.FlagIP) {
		w := binary.BigEndian.Uint16(b.Mem[p.Addr+uint64(p.L3):])
		inner := uint8(w)
		if p.Flags.Has(packet.FlagIPv6) {
			inner = uint8(w >> 4)
		}
		tos |= inner & 3 // RFC 6040, 4.1: normal mode
		if t.dscp < 0 {
			tos = inner
		}
	} else if t.dscp < 0 {
		tos = 0
	}
	entropy := p.FlowHash
	p.Addr -= uint64(n)
	p.Len += uint32(n)
	p.WireLen += uint32(n)
	d := b.Mem[p.Addr : p.Addr+uint64(p.Len)]
	hw := macBytes(mac)
	copy(d[0:6], hw[:])
	copy(d[6:12], e.hw[:])
	size := total - ipLen
	if e.six {
		d[12], d[13] = header.TypeIPv6>>8, header.TypeIPv6&0xff
		h := (*[header.IPv6Len]byte)(d[14:])
		binary.BigEndian.PutUint32(h[0:], 6<<28|uint32(tos)<<20|entropy&0xfffff)
		binary.BigEndian.PutUint16(h[4:], uint16(size))
		h[6], h[7] = header.ProtoUDP, t.ttl
		*(*[16]byte)(h[8:]), *(*[16]byte)(h[24:]) = e.src, e.dst
	} else {
		d[12], d[13] = header.TypeIPv4>>8, header.TypeIPv4&0xff
		h := (*[header.IPv4Len]byte)(d[14:])
		// DF is set, so the identification means nothing (RFC 6864).
		binary.BigEndian.PutUint16(h[0:], 0x4500|uint16(tos))
		binary.BigEndian.PutUint16(h[2:], uint16(total))
		binary.BigEndian.PutUint32(h[4:], 0x4000)
		h[8], h[9] = t.ttl, header.ProtoUDP
		sum := e.sum4 + 0x4500 + uint32(tos) + uint32(total) + 0x4000 + uint32(t.ttl)<<8 + header.ProtoUDP
		sum = sum>>16 + sum&0xffff
		binary.BigEndian.PutUint16(h[10:], ^uint16(sum>>16+sum))
		*(*[4]byte)(h[12:]), *(*[4]byte)(h[16:]) = [4]byte(e.src[:4]), [4]byte(e.dst[:4])
	}
	l4 := header.EthernetLen + ipLen
	u := (*[behind]byte)(d[l4:])
	// 49152 to 65535, as RFC 7348, 4.1 wants: the packets of a flow agree, and flows spread over paths and queues.
	p.SrcPort = 0xc000 | uint16(entropy^entropy>>16)
	p.DstPort = s.vxlanPort
	if t.geneve {
		p.DstPort = s.geneve
	}
	binary.BigEndian.PutUint16(u[0:], p.SrcPort)
	binary.BigEndian.PutUint16(u[2:], p.DstPort)
	binary.BigEndian.PutUint16(u[4:], uint16(size))
	u[6], u[7] = 0, 0
	*(*header.Tunnel)(u[8:]) = t.header
	p.OutPort = e.port
	p.Flags = p.Flags&packet.FlagCopy | packet.FlagIPv4 | packet.FlagL4 | packet.FlagPorts
	p.EtherType, p.Proto, p.TTL, p.VLAN = header.TypeIPv4, header.ProtoUDP, t.ttl, 0
	if e.six {
		p.Flags ^= packet.FlagIPv4 | packet.FlagIPv6
		p.EtherType = header.TypeIPv6
		if !s.zero6 {
			sum := sumPacket(b, p, l4, l4+size, header.Sum([]byte{0, header.ProtoUDP, byte(size >> 8), byte(size)}, e.pseudo))
			if sum = ^sum; sum == 0 {
				sum = 0xffff
			}
			binary.BigEndian.PutUint16(u[6:], sum)
		}
	}
	p.L3, p.L4, p.Payload = header.EthernetLen, uint16(l4), uint16(l4+header.UDPLen)
	return 1
}

// read computes flow hashes and packet ids of outer packets for the stages behind.
func (s *encap) read(b *packet.Batch) {
	for first := 0; first < len(b.Pkts); {
		s.scratch.Pkts = s.scratch.Pkts[:0]
		for ; first < len(b.Pkts) && len(s.scratch.Pkts) < packet.BatchSize; first++ {
			p := &b.Pkts[first]
			if p.Reason == 0 && int(p.OutPort) < len(s.roles) && s.roles[p.OutPort].kind == isUnderlay {
				s.at[len(s.scratch.Pkts)] = uint16(first)
				s.scratch.Pkts = append(s.scratch.Pkts, *p)
			}
		}
		if len(s.scratch.Pkts) == 0 {
			continue
		}
		b.Flows = b.Flows[:0] // of the inner packets
		s.scratch.Mem, s.scratch.Now, s.scratch.Dropped = b.Mem, b.Now, 0
		s.parse.Process(&s.scratch)
		for k := range s.scratch.Pkts {
			p := &b.Pkts[s.at[k]]
			flags := p.Flags & packet.FlagCopy
			*p = s.scratch.Pkts[k]
			p.Flags |= flags
		}
	}
}
