package traffic

import "net/netip"

// The functions below are the twins of those in bpf/live.c.

const (
	golden64    = 0x9e3779b97f4a7c15 // 2^64 / golden ratio, odd
	golden32    = 0x9e3779b1         // 2^32 / golden ratio, prime
	firstPort   = 1024
	maxHostBits = 24
	maxSizes    = 16
)

// mix64 is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, OOPSLA 2014).
func mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// scale maps the upper 32 bits to [0, n).
func scale(bits uint64, n uint32) uint32 {
	return uint32((bits >> 32) * uint64(n) >> 32)
}

// drawer draws the flow of a packet of a part, among the part's, from its number there.
type drawer struct {
	order   Order
	seed    uint64
	flows   uint32
	columns []column
}

func newDrawer(w Workload) drawer {
	d := drawer{order: w.Order, seed: w.Seed + uint64(w.Part)*golden32, flows: uint32(w.ownFlows())}
	if w.Order == Zipf {
		d.columns = zipfColumns(w.ownFlows(), w.Exponent)
	}
	return d
}

func (d *drawer) flow(seq uint64) uint32 {
	if d.order == RoundRobin {
		return uint32(seq % uint64(d.flows))
	}
	bits := mix64(d.seed + seq*golden64)
	if d.order == Uniform {
		return scale(bits, d.flows)
	}
	c := &d.columns[scale(bits, uint32(len(d.columns)))]
	b := c.own
	if uint32(bits) >= c.threshold {
		b = c.alias
	}
	if b.width == 1 {
		return b.base
	}
	return b.base + scale(mix64(bits), b.width)
}

// tuple is one side of a flow: low 48 bits of mac, low 32 bits of the address.
type tuple struct {
	mac  uint64
	addr uint32
	port uint16
}

// sides precomputes what turns a flow number into addresses.
type sides struct {
	srcMAC, dstMAC   uint64
	srcMACs, dstMACs uint32
	srcNet, dstNet   uint32
	srcBits, dstBits uint
}

func newSides(w Workload) sides {
	return sides{
		srcMAC: macNumber(w.Source.MAC), dstMAC: macNumber(w.Destination.MAC),
		srcMACs: uint32(w.Source.MACs), dstMACs: uint32(w.Destination.MACs),
		srcNet: addrWords(w.Source.Net.Addr())[3], dstNet: addrWords(w.Destination.Net.Addr())[3],
		srcBits: uint(w.Source.hostBits()), dstBits: uint(w.Destination.hostBits()),
	}
}

// of gives both sides of a flow. Source address and port together are a bijection
// of the flow number, see number.
func (s *sides) of(flow uint32) (src, dst tuple) {
	spun := flow * golden32
	src = tuple{
		s.srcMAC + uint64(flow%s.srcMACs),
		s.srcNet + flow&(1<<s.srcBits-1),
		uint16(firstPort + flow>>s.srcBits),
	}
	dst = tuple{
		s.dstMAC + uint64(flow%s.dstMACs),
		s.dstNet + spun>>8&(1<<s.dstBits-1),
		uint16(firstPort + spun>>17),
	}
	return src, dst
}

// number is the inverse of of.
func (s *sides) number(addr uint32, port uint16) uint32 {
	return uint32(port-firstPort)<<s.srcBits + addr - s.srcNet
}

func macNumber(mac []byte) (n uint64) {
	for _, b := range mac {
		n = n<<8 | uint64(b)
	}
	return n
}

// addrWords gives an address as four words; an IPv4 address is the last one.
func addrWords(a netip.Addr) (words [4]uint32) {
	b := a.As16()
	if a.Is4() {
		clear(b[:12])
	}
	for i, x := range b {
		words[i/4] = words[i/4]<<8 | uint32(x)
	}
	return words
}
