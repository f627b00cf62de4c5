package oblivious

import (
	"cmp"
	"net/netip"
	"slices"
)

// Key is the flow key of an entry. It has the fields of the pipeline's flow
// key, so that one converts into the other; a coarser key (addresses only, a
// prefix) leaves the other fields zero.
type Key struct {
	// Src and Dst are the addresses, an IPv4 address in the first four bytes.
	Src, Dst [16]byte
	// SrcPort and DstPort are the ports, host byte order.
	SrcPort, DstPort uint16
	Proto            uint8
	// Version is 4 or 6; 0: no IP packet.
	Version uint8
}

// SrcAddr returns the source address, the zero Addr for other than IP.
func (k *Key) SrcAddr() netip.Addr { return k.addr(&k.Src) }

// DstAddr returns the destination address.
func (k *Key) DstAddr() netip.Addr { return k.addr(&k.Dst) }

func (k *Key) addr(a *[16]byte) netip.Addr {
	switch k.Version {
	case 4:
		return netip.AddrFrom4([4]byte(a[:4]))
	case 6:
		return netip.AddrFrom16(*a)
	}
	return netip.Addr{}
}

// compare orders keys, for what must not depend on the order of arrival.
func (k *Key) compare(o *Key) int {
	return cmp.Or(
		cmp.Compare(k.Version, o.Version), cmp.Compare(k.Proto, o.Proto),
		slices.Compare(k.Src[:], o.Src[:]), slices.Compare(k.Dst[:], o.Dst[:]),
		cmp.Compare(k.SrcPort, o.SrcPort), cmp.Compare(k.DstPort, o.DstPort))
}

// In is a set of flows, for Sample.Subset.
type In func(*Key) bool

// SrcIn holds flows from addresses of a prefix.
func SrcIn(p netip.Prefix) In { return func(k *Key) bool { return p.Contains(k.SrcAddr()) } }

// DstIn holds flows to addresses of a prefix.
func DstIn(p netip.Prefix) In { return func(k *Key) bool { return p.Contains(k.DstAddr()) } }

// HasProto holds flows of a protocol.
func HasProto(proto uint8) In { return func(k *Key) bool { return k.Proto == proto } }

// HasPort holds flows from or to a port.
func HasPort(port uint16) In {
	return func(k *Key) bool { return k.SrcPort == port || k.DstPort == port }
}
