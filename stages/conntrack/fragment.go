package conntrack

import (
	"encoding/binary"
	"time"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// fragments are the datagrams of one port whose first fragment was permitted, by a hash of what identifies them. A flood of
// first fragments displaces those of its own port.
type fragments []fragmentSet

type fragmentSet [fragmentWays]fragment

const (
	fragmentSets = 64
	fragmentWays = 4
)

type fragment struct {
	key      key
	deadline uint32
	least    uint32 // offset that later fragments have at least: they do not overlap the transport header
	src, dst uint32 // IPv4 addresses that the first one left with
	home     uint8  // the worker that the first one went to; for the worker at which the fragments meet
}

// find returns the datagram of a key, or nil.
func (f *fragmentSet) find(k *key) *fragment {
	for i := range f {
		if f[i].key == *k {
			return &f[i]
		}
	}
	return nil
}

// put notes a datagram in the place that it has, an empty one, or that of the oldest.
func (f *fragmentSet) put(d fragment) {
	oldest := 0
	for i := range f {
		if f[i].key == d.key {
			oldest = i
			break
		}
		if f[i].key == (key{}) { // no datagram yet, nor behind it: its deadline is no time
			oldest = i
			break
		}
		if int32(f[i].deadline-f[oldest].deadline) < 0 {
			oldest = i
		}
	}
	f[oldest] = d
}

// fragmentTime is how long later fragments may lag, as in Linux.
const fragmentTime = uint32(30 * time.Second >> tickShift)

// fragmentKey makes the key of a fragment's datagram: its addresses, and the identification in place of the ports.
func (s *stage) fragmentKey(k *key, p *packet.Packet, data []byte, zone uint16) kind {
	if p.Flags.Has(packet.FlagIPv4) {
		ip := header.IPv4At(data, int(p.L3))
		src, dst := ip.Src(), ip.Dst()
		*k = key{word4(src), word4(dst), 0, 0, uint64(p.Proto) | 4<<8 | uint64(zone)<<16 | uint64(ip.ID())<<32}
		return kindLater
	}
	ext, _ := fragmentHeader(p, data)
	if ext == nil {
		return kindInvalid
	}
	ip := header.IPv6At(data, int(p.L3))
	key6(k, ip, header.ProtoFragment, zone, ends{asks: true}) // the source first
	k[4] = uint64(header.ProtoFragment) | 6<<8 | uint64(zone)<<16 | uint64(ext.FragmentID())<<32
	return kindLater
}

func word4(a [4]byte) uint64 {
	return uint64(a[0])<<40 | uint64(a[1])<<32 | uint64(a[2])<<24 | uint64(a[3])<<16
}

// fragmentHeader finds the fragment header of an IPv6 packet, and where it begins.
func fragmentHeader(p *packet.Packet, data []byte) (*header.IPv6Ext, int) {
	at := int(p.L3)
	next := header.IPv6At(data, at).NextHeader()
	for at += header.IPv6Len; header.IsIPv6Ext(next); {
		ext := header.IPv6ExtAt(data, at)
		if ext == nil {
			break
		}
		if next == header.ProtoFragment {
			return ext, at
		}
		at += ext.HeaderLen(next)
		next = ext.NextHeader()
	}
	return nil, 0
}

func (s *stage) set(of []fragments, k *key, port uint16) *fragmentSet {
	return &of[port][k.hash(&s.table.seed)>>32&(fragmentSets-1)]
}

// first notes that the first fragment of a datagram was permitted. It may be translated by now, the key is that from before.
func (s *stage) first(k *key, p *packet.Packet, data []byte) {
	begins := int(p.L4)
	var src, dst uint32
	if p.Flags.Has(packet.FlagIPv4) {
		ip := header.IPv4At(data, int(p.L3))
		begins = int(p.L3) + ip.HeaderLen()
		src, dst = binary.BigEndian.Uint32(ip[12:16]), binary.BigEndian.Uint32(ip[16:20])
	} else if _, at := fragmentHeader(p, data); at != 0 {
		begins = at + fragmentHeaderLen
	}
	s.set(s.fragments, k, p.InPort).put(fragment{key: *k, deadline: s.now + fragmentTime, least: uint32(int(p.Payload) - begins), src: src, dst: dst})
}

const fragmentHeaderLen = 8

// forget notes that the first fragment of a datagram was dropped, and so are the later ones, also where an earlier datagram had the same key.
func (s *stage) forget(k *key, port uint16) {
	if f := s.set(s.fragments, k, port).find(k); f != nil {
		f.deadline = s.now
	}
}

// later decides about a later fragment by what became of the first.
func (s *stage) later(p *packet.Packet, l *look, data []byte) packet.Reason {
	f := s.set(s.fragments, &l.key, p.InPort).find(&l.key)
	if f == nil || int32(f.deadline-s.now) <= 0 || uint32(fragmentOffset(p, data)) < f.least {
		return reasonFragment
	}
	if s.nat != nil && p.Flags.Has(packet.FlagIPv4) {
		s.follow(p, data, f)
	}
	return 0
}

// follow translates a later fragment as the first one was. It has no transport header.
func (s *stage) follow(p *packet.Packet, data []byte, f *fragment) {
	ip := header.IPv4At(data, int(p.L3))
	if binary.BigEndian.Uint32(ip[12:16]) == f.src && binary.BigEndian.Uint32(ip[16:20]) == f.dst {
		return
	}
	rewriteAddresses(ip, f.src, f.dst)
	s.changed.add(p)
}

func fragmentOffset(p *packet.Packet, data []byte) int {
	if p.Flags.Has(packet.FlagIPv4) {
		return header.IPv4At(data, int(p.L3)).FragmentOffset()
	}
	ext, _ := fragmentHeader(p, data)
	if ext == nil {
		return 0
	}
	return ext.FragmentOffset()
}
