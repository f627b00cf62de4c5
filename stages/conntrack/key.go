package conntrack

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/weirswitch/weir/pipeline/header"
)

// key identifies a connection: both directions have the same one. The two ends are in ascending order; of ICMP queries, the end
// that asks comes first.
//
//	          0          8          16         24         32
//	IPv4    | addr, port | addr, port | 0        | 0        | rest |
//	IPv6    | first address          | second address        | rest |
//
//	rest    63        48 47         32 31   16 15       8 7        0
//	        | IPv6: port | IPv6: port | zone  | version  | protocol |
//
// Protocols without ports have zeros. ICMP queries have the identifier as the first port and the kind of query as the second.
// The version makes every key of a connection differ from the zero key.
type key [5]uint64

// tuple is one direction of a connection, for rules and for people.
type tuple struct {
	src, dst         netip.Addr
	srcPort, dstPort uint16
	proto            uint8
	ports            bool
}

func (k *key) proto() uint8 { return uint8(k[4]) }
func (k *key) is6() bool    { return uint8(k[4]>>8) == 6 }

// hasPorts reports whether the protocol's key has ports in it.
func hasPorts(proto uint8) bool {
	switch proto {
	case header.ProtoTCP, header.ProtoUDP, header.ProtoUDPLite, header.ProtoSCTP, header.ProtoDCCP:
		return true
	}
	return false
}

// tuple returns the direction from the first end to the second, or the other one.
func (k *key) tuple(fromFirst bool) tuple {
	t := tuple{proto: k.proto()}
	if k.is6() {
		t.src, t.dst = addr6(k[0], k[1]), addr6(k[2], k[3])
		t.srcPort, t.dstPort = uint16(k[4]>>32), uint16(k[4]>>48)
	} else {
		t.src, t.dst = addr4(k[0]), addr4(k[1])
		t.srcPort, t.dstPort = uint16(k[0]), uint16(k[1])
	}
	if t.ports = hasPorts(t.proto); !t.ports {
		t.srcPort, t.dstPort = 0, 0
	}
	if !fromFirst {
		t.src, t.dst = t.dst, t.src
		t.srcPort, t.dstPort = t.dstPort, t.srcPort
	}
	return t
}

func addr4(word uint64) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(word >> 40), byte(word >> 32), byte(word >> 24), byte(word >> 16)})
}

func addr6(a, b uint64) netip.Addr {
	var x [16]byte
	binary.BigEndian.PutUint64(x[:8], a)
	binary.BigEndian.PutUint64(x[8:], b)
	return netip.AddrFrom16(x)
}

// ends are the ports of a packet's two ends.
type ends struct {
	src, dst uint16
	asks     bool // the source comes first, whatever the order
	answers  bool // the destination does
}

// key4 makes the key of an IPv4 header's addresses, and reports whether the source is the first end. same: both ends are one.
func key4(k *key, ip *header.IPv4, proto uint8, zone uint16, e ends) (fromFirst, same bool) {
	src := uint64(binary.BigEndian.Uint32(ip[12:16]))<<16 | uint64(e.src)
	dst := uint64(binary.BigEndian.Uint32(ip[16:20]))<<16 | uint64(e.dst)
	rest := uint64(proto) | 4<<8 | uint64(zone)<<16
	if e.asks || e.answers {
		// The identifier goes with the end that asks.
		if e.answers {
			src, dst = src&^0xffff|uint64(e.dst), dst&^0xffff|uint64(e.src)
			*k = key{dst, src, 0, 0, rest}
		} else {
			*k = key{src, dst, 0, 0, rest}
		}
		return e.asks, src>>16 == dst>>16
	}
	*k = key{min(src, dst), max(src, dst), 0, 0, rest} // without a branch: no predictor knows the direction
	return src < dst, src == dst
}

// key6 is key4 for IPv6.
func key6(k *key, ip *header.IPv6, proto uint8, zone uint16, e ends) (fromFirst, same bool) {
	s0, s1 := binary.BigEndian.Uint64(ip[8:16]), binary.BigEndian.Uint64(ip[16:24])
	d0, d1 := binary.BigEndian.Uint64(ip[24:32]), binary.BigEndian.Uint64(ip[32:40])
	_, borrow := bits.Sub64(uint64(e.src), uint64(e.dst), 0)
	_, borrow = bits.Sub64(s1, d1, borrow)
	_, borrow = bits.Sub64(s0, d0, borrow)
	fromFirst, same = borrow == 1, s0 == d0 && s1 == d1
	if e.asks || e.answers {
		fromFirst = e.asks
	} else {
		same = same && e.src == e.dst
	}
	rest := uint64(proto) | 6<<8 | uint64(zone)<<16
	first, second := e.src, e.dst
	if e.asks || e.answers {
		// Of a query, the identifier and the kind do not change ends.
	} else if !fromFirst {
		first, second = second, first
	}
	if fromFirst {
		*k = key{s0, s1, d0, d1, rest | uint64(first)<<32 | uint64(second)<<48}
	} else {
		*k = key{d0, d1, s0, s1, rest | uint64(first)<<32 | uint64(second)<<48}
	}
	return fromFirst, same
}

// hashSeed makes the hash of a table its own.
type hashSeed [4]uint64

// hash spreads keys over 64 bits: products of 128 bits, whose halves are joined, of words under a secret. Senders choose
// addresses and ports, and must not choose what collides. The words of one that is zero add nothing that is not the seed's.
func (k *key) hash(seed *hashSeed) uint64 {
	hi, lo := bits.Mul64(k[0]^seed[0], k[1]^seed[1])
	h := hi ^ lo
	if k.is6() {
		hi, lo = bits.Mul64(k[2]^seed[1]^h, k[3]^seed[2])
		h = hi ^ lo
	}
	hi, lo = bits.Mul64(h^k[4]^seed[2], seed[3]|1)
	h = hi ^ lo
	hi, lo = bits.Mul64(h^seed[0], 0x9e3779b97f4a7c15)
	return hi ^ lo
}

// queryOf sorts an ICMP message: the kind of a query, with its identifier, or none.
func queryOf(v6 bool, typ uint8, id uint16) (e ends, query bool) {
	if v6 {
		switch typ {
		case header.ICMPv6EchoRequest, header.ICMPv6EchoReply:
			return ends{src: id, dst: 1, asks: typ == header.ICMPv6EchoRequest, answers: typ == header.ICMPv6EchoReply}, true
		}
		return e, false
	}
	const timestamp, timestampReply, information, informationReply, mask, maskReply = 13, 14, 15, 16, 17, 18
	switch typ {
	case header.ICMPEchoRequest, header.ICMPEchoReply:
		return ends{src: id, dst: 1, asks: typ == header.ICMPEchoRequest, answers: typ == header.ICMPEchoReply}, true
	case timestamp, timestampReply:
		return ends{src: id, dst: 2, asks: typ == timestamp, answers: typ == timestampReply}, true
	case information, informationReply:
		return ends{src: id, dst: 3, asks: typ == information, answers: typ == informationReply}, true
	case mask, maskReply:
		return ends{src: id, dst: 4, asks: typ == mask, answers: typ == maskReply}, true
	}
	return e, false
}

// look is what a packet is looked up by.
type look struct {
	key       key
	tag       uint32 // the low half of the key's hash
	kind      kind
	fromFirst bool
}

// kind says what is to be done with a packet.
type kind uint8

const (
	kindNone    kind = iota // dropped already
	kindPass                // not tracked
	kindInvalid             // cannot be tracked
	kindFlow                // of a connection, or the first of one
	kindAnswer              // an ICMP answer: it begins none
	kindError               // an ICMP error about a packet of one
	kindLater               // a later fragment
)

// untracked are messages of IPv6's neighbour and multicast listener discovery: hosts cannot do without them, and Linux does not
// track them either.
func untracked(typ uint8) bool {
	const query, done, report2 = 130, 132, 143
	return typ >= query && typ <= done || typ >= header.ICMPv6RouterSolicit && typ <= header.ICMPv6Redirect || typ == report2
}
