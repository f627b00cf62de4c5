package vectors

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weirswitch/weir/pipeline/header"
)

// Corners are packets that captures have seldom or not at all: each fault of a header, each reason for
// which a stage drops, lengths about the MTU of the setups' ports, and digests as a host would forge them. They
// are the same each time.
func Corners() (frames [][]byte) {
	for _, part := range []func() [][]byte{
		cornerLengths, cornerLinks, cornerTags, cornerShims, cornerIPv4, cornerIPv6, cornerTransports, cornerRoutes,
	} {
		frames = append(frames, part()...)
	}
	return frames
}

// corner is the MAC address of a station; that of 1 and 2 stand in a setup's table.
func corner(n byte) []byte { return []byte{2, 0, 0, 0, 1, n} }

// frame is an Ethernet frame from station 2 to station 1.
func frame(etherType uint16, payload []byte) []byte {
	return frameFrom(corner(1), corner(2), etherType, payload)
}

func frameFrom(dst, src []byte, etherType uint16, payload []byte) []byte {
	return slices.Concat(dst, src, []byte{byte(etherType >> 8), byte(etherType)}, payload)
}

// datagram4 is an IPv4 packet, which change may spoil before the checksum is computed.
type datagram4 struct {
	src, dst string
	proto    uint8
	ttl      uint8
	fragment uint16 // identification's neighbour: flags and offset
	id       uint16
	options  int // bytes
	payload  []byte
}

func (d datagram4) bytes(change ...func(b []byte)) []byte {
	b := make([]byte, header.IPv4Len+d.options, header.IPv4Len+d.options+len(d.payload))
	for i := range d.options {
		b[header.IPv4Len+i] = 1 // no operation
	}
	b[0] = byte(0x40 + len(b)/4)
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)+len(d.payload)))
	binary.BigEndian.PutUint16(b[4:], d.id)
	binary.BigEndian.PutUint16(b[6:], d.fragment)
	b[8], b[9] = d.ttl, d.proto
	copy(b[12:], netip.MustParseAddr(d.src).AsSlice())
	copy(b[16:], netip.MustParseAddr(d.dst).AsSlice())
	for _, f := range change {
		f(b)
	}
	binary.BigEndian.PutUint16(b[10:], ^sum16(b))
	return append(b, d.payload...)
}

// sum16 is the one's complement sum of RFC 1071.
func sum16(b []byte) uint16 {
	n := uint32(0)
	for i := 0; i+2 <= len(b); i += 2 {
		n += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for n > 0xffff {
		n = n&0xffff + n>>16
	}
	return uint16(n)
}

// usual is a datagram of UDP that a router forwards.
func usual() datagram4 {
	return datagram4{src: "10.9.8.7", dst: "10.1.2.3", proto: header.ProtoUDP, ttl: 64, id: 0x1234, payload: udpBytes(20)}
}

// atomic is one that may carry a digest in its identification.
func atomic() datagram4 {
	d := usual()
	d.fragment, d.id = 0x4000, 0
	return d
}

func datagram6(src, dst string, next, hops uint8, payload []byte) []byte {
	b := make([]byte, header.IPv6Len, header.IPv6Len+len(payload))
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	b[6], b[7] = next, hops
	copy(b[8:], netip.MustParseAddr(src).AsSlice())
	copy(b[24:], netip.MustParseAddr(dst).AsSlice())
	return append(b, payload...)
}

// usual6 is a datagram of IPv6 that a router forwards.
func usual6(next uint8, payload []byte) []byte {
	return datagram6("2001:db8::7", "fd00::3", next, 64, payload)
}

// udpBytes is a datagram of n bytes behind its header.
func udpBytes(n int) []byte {
	b := make([]byte, header.UDPLen+n)
	binary.BigEndian.PutUint16(b[0:], 4000)
	binary.BigEndian.PutUint16(b[2:], 53)
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	return b
}

// cornerLengths are frames too short for Ethernet, and such as have about as many bytes as
// the setups' ports send: an MTU of 600, with and without a tag or a shim.
func cornerLengths() (frames [][]byte) {
	whole := frame(header.TypeIPv4, usual().bytes())
	for _, n := range []int{0, 1, 6, 13, 14} {
		frames = append(frames, whole[:n])
	}
	for _, n := range []int{590, 593, 594, 596, 597, 600, 601, 605, 1400, 1401} {
		for _, dst := range []string{"10.1.2.3", "100.1.1.1", "200.1.1.1"} {
			d := atomic()
			d.dst, d.payload = dst, udpBytes(n-header.IPv4Len-header.UDPLen)
			frames = append(frames, frame(header.TypeIPv4, d.bytes()))
		}
		frames = append(frames, frame(header.TypeIPv6, datagram6("2001:db8::7", "2001:db9::1", header.ProtoUDP, 9, udpBytes(n-header.IPv6Len-header.UDPLen))))
	}
	return frames
}

// cornerLinks are addresses of Ethernet, and what is not IP, in all lengths that a parser takes apart.
func cornerLinks() (frames [][]byte) {
	ip := usual().bytes()
	group, broadcast := []byte{1, 0, 0x5e, 1, 2, 3}, slices.Repeat([]byte{0xff}, 6)
	for _, dst := range [][]byte{
		{1, 0x80, 0xc2, 0, 0, 0}, {1, 0x80, 0xc2, 0, 0, 0x0f}, {1, 0x80, 0xc2, 0, 0, 0x10}, group, broadcast, {0x33, 0x33, 0, 0, 0, 1},
		make([]byte, 6), corner(2), corner(3), corner(4),
	} {
		frames = append(frames, frameFrom(dst, corner(2), header.TypeIPv4, ip))
	}
	for n := range byte(6) {
		frames = append(frames, frameFrom(corner(n), corner(n+1), header.TypeIPv4, ip))
	}
	frames = append(frames, frameFrom(corner(1), make([]byte, 6), header.TypeIPv4, ip), frameFrom(corner(1), group, header.TypeIPv4, ip))
	counting := make([]byte, 40)
	for i := range counting {
		counting[i] = byte(i + 1)
	}
	for n := range len(counting) {
		frames = append(frames, frame(0x9999, counting[:n]))
	}
	arp := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, counting[:20]...)
	for _, n := range []int{0, 7, 8, 27, 28} {
		frames = append(frames, frame(header.TypeARP, arp[:n]), frameFrom(broadcast, corner(3), header.TypeARP, arp[:n]))
	}
	return append(frames, frame(header.TypeARP, counting), frame(header.TypeMPLS, counting), frame(header.TypeMPLSMulticast, counting), frame(38, counting))
}

// cornerTags are VLAN tags: of VLANs that ports carry and do not, of a priority alone, up to one more than
// the parser looks behind, and such as the packet ends in.
func cornerTags() (frames [][]byte) {
	ip := usual().bytes()
	tag := func(tci, next uint16) []byte { return []byte{byte(tci >> 8), byte(tci), byte(next >> 8), byte(next)} }
	for _, tci := range []uint16{0, 0xa000, 0x1000, 1, 10, 0x600a, 20, 30, 40, 99, 4094, 4095} {
		for _, outer := range []uint16{header.TypeVLAN, header.TypeServiceVLAN, header.TypeLegacyQinQ} {
			frames = append(frames, frame(outer, slices.Concat(tag(tci, header.TypeIPv4), ip)))
		}
		frames = append(frames, frame(header.TypeServiceVLAN, slices.Concat(tag(tci, header.TypeVLAN), tag(20, header.TypeIPv4), ip)))
	}
	for n := 3; n <= 9; n++ {
		frames = append(frames, frame(header.TypeVLAN, slices.Concat(slices.Repeat(tag(10, header.TypeVLAN), n-1), tag(30, header.TypeIPv4), ip)))
	}
	for n := range 4 {
		frames = append(frames, frame(header.TypeVLAN, tag(10, header.TypeVLAN)[:n]),
			frame(header.TypeVLAN, slices.Concat(tag(10, header.TypeVLAN), tag(20, header.TypeVLAN)[:n])))
	}
	return frames
}

// cornerShims are shims as hosts and strangers send them: of each version, length and plan of the setups,
// with as many hops as there can be, one within another, and cut.
func cornerShims() (frames [][]byte) {
	shim := func(version, length, hop byte, plan uint16, next uint16) []byte {
		b := []byte{version<<4 | (length - 1), hop, byte(plan >> 8), byte(plan)}
		return append(append(b, make([]byte, length)...), byte(next>>8), byte(next))
	}
	ip := atomic().bytes()
	long := atomic()
	long.payload = udpBytes(580 - header.IPv4Len - header.UDPLen)
	for _, plan := range []uint16{0, 10, 12, 99} {
		for _, hop := range []byte{0, 1, 253, 254, 255} {
			frames = append(frames, frame(header.TypeShim, slices.Concat(shim(1, 2, hop, plan, header.TypeIPv4), ip)))
		}
		for _, n := range []int{580, 592, 593, 600, 610, 611} {
			long.payload = udpBytes(n - header.IPv4Len - header.UDPLen)
			frames = append(frames, frame(header.TypeShim, slices.Concat(shim(1, 2, 1, plan, header.TypeIPv4), long.bytes())),
				frame(header.TypeShim, slices.Concat(shim(1, 2, 1, plan, header.TypeShim), shim(1, 3, 1, plan, header.TypeIPv4), long.bytes())))
		}
	}
	for length := byte(1); length <= 8; length++ {
		frames = append(frames, frame(header.TypeShim, slices.Concat(shim(1, length, 3, 10, header.TypeIPv4), ip)),
			frame(header.TypeShim, slices.Concat(shim(1, 2, 3, 10, header.TypeShim), shim(1, length, 3, 10, header.TypeIPv4), ip)),
			frame(header.TypeVLAN, slices.Concat([]byte{0, 10, 0x88, 0xb5}, shim(1, length, 3, 10, header.TypeIPv4), ip)))
	}
	for _, version := range []byte{0, 2, 15} {
		frames = append(frames, frame(header.TypeShim, slices.Concat(shim(version, 2, 3, 10, header.TypeIPv4), ip)),
			frame(header.TypeShim, slices.Concat(shim(1, 2, 3, 10, header.TypeShim), shim(version, 2, 3, 10, header.TypeIPv4), ip)))
	}
	whole := shim(1, 2, 3, 10, header.TypeShim)
	for n := range len(whole) {
		frames = append(frames, frame(header.TypeShim, whole[:n]), frame(header.TypeShim, slices.Concat(whole, whole[:n])))
	}
	three := slices.Concat(whole, whole, shim(1, 2, 3, 10, header.TypeIPv4), ip)
	return append(frames, frame(header.TypeShim, three))
}

// cornerIPv4 are faults of IPv4 headers, checksums, fragments, options, and identifications that a
// host chose as the network would.
func cornerIPv4() (frames [][]byte) {
	add := func(b []byte) { frames = append(frames, frame(header.TypeIPv4, b)) }
	ip := usual().bytes()
	for _, n := range []int{0, 1, 19} {
		add(ip[:n])
	}
	for _, change := range []func([]byte){
		func(b []byte) { b[0] = 0x55 },                                          // version
		func(b []byte) { b[0] = 0x44 },                                          // header length
		func(b []byte) { b[0] = 0x4f },                                          // that exceeds the packet
		func(b []byte) { binary.BigEndian.PutUint16(b[2:], 19) },                // total length
		func(b []byte) { binary.BigEndian.PutUint16(b[2:], uint16(len(ip)+1)) }, //
		func(b []byte) { binary.BigEndian.PutUint16(b[6:], 0x1fff) },            // fragment beyond the end
		func(b []byte) { binary.BigEndian.PutUint16(b[6:], 0x1ff9) },            // fragment that ends within the longest datagram
		func(b []byte) { binary.BigEndian.PutUint16(b[6:], 0x1ffa) },            //
		func(b []byte) { binary.BigEndian.PutUint16(b[6:], 0x2000) },            // first fragment
		func(b []byte) { binary.BigEndian.PutUint16(b[6:], 0x0010) },            // last
		func(b []byte) { binary.BigEndian.PutUint16(b[6:], 0xc000) },            // the network's mark
		func(b []byte) { binary.BigEndian.PutUint32(b[4:], 0x0000c000) },        //
		func(b []byte) { binary.BigEndian.PutUint32(b[4:], 0xbeef4000) },        // don't fragment, with a number
		func(b []byte) { binary.BigEndian.PutUint32(b[4:], 0x00004000) },        // without
		zeroSum, // checksum 0
	} {
		add(usual().bytes(change))
		options := usual()
		options.options = 8
		add(options.bytes(change))
	}
	wrong := usual().bytes()
	wrong[11] ^= 1
	add(wrong)
	minus := usual().bytes(zeroSum)
	minus[10], minus[11] = 0xff, 0xff // the other zero
	add(minus)
	options := usual()
	options.options = 40
	wrong = options.bytes()
	add(slices.Clone(wrong))
	wrong[30] ^= 1
	add(wrong)
	return frames
}

// zeroSum chooses the identification such that the checksum is 0.
func zeroSum(b []byte) {
	b[4], b[5] = 0, 0
	binary.BigEndian.PutUint16(b[4:], ^sum16(b))
}

// cornerIPv6 are faults of IPv6 headers and of those behind them.
func cornerIPv6() (frames [][]byte) {
	add := func(b []byte) { frames = append(frames, frame(header.TypeIPv6, b)) }
	ip := usual6(header.ProtoUDP, udpBytes(10))
	for _, n := range []int{0, 1, 39} {
		add(ip[:n])
	}
	version := slices.Clone(ip)
	version[0] = 0x40
	add(version)
	add(ip[:len(ip)-1]) // payload length
	add(ip)
	next := func(kind, self byte) []byte { return []byte{kind, 0, self, 0, 0, 0, 0, 0} }
	for _, first := range []byte{header.ProtoHopByHop, header.ProtoRouting, header.ProtoDestination, header.ProtoFragment, header.ProtoAH, header.ProtoMobility, header.ProtoHIP, header.ProtoShim6} {
		add(usual6(first, slices.Concat(next(header.ProtoUDP, 0), udpBytes(10))))
		add(usual6(first, next(header.ProtoUDP, 0)[:7]))
		long := next(header.ProtoUDP, 0)
		long[1] = 200
		add(usual6(first, slices.Concat(long, udpBytes(10))))
		add(usual6(first, next(header.ProtoNoNext, 0)))
	}
	for _, offset := range []uint16{0, 1, 8, 0xfff8, 0xfff9} {
		f := next(header.ProtoUDP, 0)
		binary.BigEndian.PutUint16(f[2:], offset)
		add(usual6(header.ProtoFragment, slices.Concat(f, udpBytes(10))))
		add(usual6(header.ProtoHopByHop, slices.Concat(next(header.ProtoFragment, 0), f, udpBytes(10))))
	}
	for n := 5; n <= 9; n++ { // bytes behind the header of the last possible fragment: 65,528 and 7 are the longest datagram
		f := next(header.ProtoUDP, 0)
		binary.BigEndian.PutUint16(f[2:], 0xfff8)
		add(usual6(header.ProtoFragment, slices.Concat(f, make([]byte, n))))
		d := usual()
		d.fragment, d.payload = 0x1ffd, make([]byte, n-4) // 65,512 and 23
		frames = append(frames, frame(header.TypeIPv4, d.bytes()))
	}
	for n := 15; n <= 18; n++ {
		add(usual6(header.ProtoDestination, slices.Concat(slices.Repeat(next(header.ProtoDestination, 0), n-1), next(header.ProtoUDP, 0), udpBytes(10))))
	}
	return frames
}

// cornerTransports are faults of the headers behind IP, in both versions and in fragments.
func cornerTransports() (frames [][]byte) {
	field := func(n, at int, value byte) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i)
		}
		if at >= 0 {
			b[at] = value
		}
		return b
	}
	length := func(n int) []byte {
		b := udpBytes(10)
		binary.BigEndian.PutUint16(b[4:], uint16(n))
		return b
	}
	for _, c := range []struct {
		proto   uint8
		payload [][]byte
	}{
		{header.ProtoTCP, [][]byte{field(19, -1, 0), field(20, 12, 0x50), field(20, 12, 0x40), field(20, 12, 0x60), field(40, 12, 0x80), field(0, -1, 0)}},
		{header.ProtoUDP, [][]byte{field(7, -1, 0), length(18), length(7), length(19), length(12)}},
		{header.ProtoUDPLite, [][]byte{field(7, -1, 0), length(0), length(7), length(8), length(18), length(19)}},
		{header.ProtoICMP, [][]byte{field(7, -1, 0), field(8, 0, 8), field(30, 0, 0)}},
		{header.ProtoICMPv6, [][]byte{field(7, -1, 0), field(8, 0, 128), field(24, 0, 135), field(24, 0, 136)}},
		{header.ProtoSCTP, [][]byte{field(11, -1, 0), field(12, -1, 0), field(30, -1, 0)}},
		{header.ProtoDCCP, [][]byte{
			field(11, -1, 0), field(12, 8, 0), field(16, 4, 3), field(16, 4, 4), field(16, 4, 9), field(24, 4, 5), field(20, 4, 2),
		}},
		{header.ProtoNoNext, [][]byte{nil, field(9, -1, 0)}},
		{header.ProtoESP, [][]byte{nil, field(5, -1, 0), field(40, -1, 0)}},
	} {
		for _, payload := range c.payload {
			d := usual()
			d.proto, d.payload = c.proto, payload
			frames = append(frames, frame(header.TypeIPv4, d.bytes()), frame(header.TypeIPv6, usual6(c.proto, payload)))
			d.fragment = 0x2000
			frames = append(frames, frame(header.TypeIPv4, d.bytes()))
		}
	}
	return frames
}

// cornerRoutes are what a router drops, answers or leaves to its control plane: addresses, hops, neighbours.
func cornerRoutes() (frames [][]byte) {
	for _, ttl := range []uint8{0, 1, 2, 32, 33, 64, 128, 129, 255} {
		d := atomic()
		d.ttl = ttl
		frames = append(frames, frame(header.TypeIPv4, d.bytes()),
			frame(header.TypeIPv6, datagram6("2001:db8::7", "fd00::3", header.ProtoUDP, ttl, udpBytes(4))))
	}
	for _, a := range [][2]string{
		{"0.1.2.3", "10.1.2.3"}, {"127.0.0.1", "10.1.2.3"}, {"224.0.0.1", "10.1.2.3"}, {"255.255.255.255", "10.1.2.3"},
		{"10.9.8.7", "0.0.0.0"}, {"10.9.8.7", "127.0.0.1"}, {"10.9.8.7", "224.0.0.1"}, {"10.9.8.7", "240.0.0.1"}, {"10.9.8.7", "255.255.255.255"},
		{"10.9.8.7", "1.2.3.4"}, {"10.9.8.7", "100.1.1.1"}, {"10.9.8.7", "200.1.1.1"}, {"10.9.8.7", "192.168.1.1"},
		{"10.9.8.7", "198.18.0.1"}, {"10.9.8.7", "198.18.0.2"}, {"10.9.8.7", "198.18.0.9"}, {"10.9.8.7", "198.18.3.1"}, {"10.9.8.7", "198.18.0.255"},
	} {
		d := usual()
		d.src, d.dst = a[0], a[1]
		frames = append(frames, frame(header.TypeIPv4, d.bytes()))
	}
	for _, a := range [][2]string{
		{"::", "fd00::3"}, {"::1", "fd00::3"}, {"::ffff:1.2.3.4", "fd00::3"}, {"ff02::1", "fd00::3"}, {"fe80::1", "fd00::3"},
		{"2001:db8::7", "::"}, {"2001:db8::7", "::1"}, {"2001:db8::7", "ff02::1"}, {"2001:db8::7", "fe80::1"}, {"fe80::1", "fe80::2"},
		{"2001:db8::7", "fe80::ff:fe00:700"}, {"2001:db8::7", "2001:db9::1"}, {"2001:db8::7", "9000::1"}, {"2001:db8::7", "2001:2::1"},
		{"2001:db8::7", "2001:2::2"}, {"2001:db8::7", "2001:2::9"}, {"2001:db8::7", "fd00::77"},
	} {
		frames = append(frames, frame(header.TypeIPv6, datagram6(a[0], a[1], header.ProtoUDP, 64, udpBytes(4))),
			frame(header.TypeIPv6, discovery(a[0], a[1], 135)))
	}
	for _, a := range [][2]string{{"2001:2::9", "ff02::1:ff00:1"}, {"2001:2::9", "2001:2::1"}, {"2001:2::9", "2001:2::2"}} {
		whole := discovery(a[0], a[1], 136)
		for _, at := range []int{len(whole) - 1, header.IPv6Len + 2, len(whole)} { // the message, its checksum, none
			wrong := append(slices.Clone(whole), 0)
			wrong[at] ^= 1
			frames = append(frames, frameFrom([]byte{0x33, 0x33, 0xff, 0, 0, 1}, corner(4), header.TypeIPv6, wrong[:len(whole)]),
				frame(header.TypeIPv6, wrong[:len(whole)]))
		}
	}
	return append(frames, cornerChecksums()...)
}

// cornerChecksums are datagrams whose checksum carries where it is updated: when the TTL falls, and when a digest comes into
// the identification, or is taken out of it, twice in a row.
func cornerChecksums() (frames [][]byte) {
	add := func(d datagram4, like func(sum uint16) bool) {
		for n := range 1 << 16 {
			d.src = fmt.Sprintf("10.9.%d.%d", n>>8, n&255)
			if b := d.bytes(); like(binary.BigEndian.Uint16(b[10:])) {
				frames = append(frames, frame(header.TypeIPv4, b))
				return
			}
		}
	}
	for _, sum := range []uint16{0xfefe, 0xfeff, 0xff00, 0xff01, 0xffff - 1, 0x0100, 0} {
		add(usual(), func(s uint16) bool { return s == sum })
	}
	// RFC 1624, equation 3, of the sum behind the TTL's fall and of that before it.
	for _, falls := range []uint16{0, 0x0100} {
		for _, id := range []uint16{1, 0x7fff, 0x8000, 0xfffe, 0xffff} {
			for _, mark := range []uint16{0x4000, 0xc000} {
				d := atomic()
				d.id, d.fragment = id, mark
				add(d, func(s uint16) bool {
					s += falls
					sum := uint32(^s) + uint32(^id) + uint32(^mark) + 0x4000
					return sum&0xffff+sum>>16 > 0xffff
				})
			}
		}
	}
	return frames
}

// discovery is a message of neighbour discovery of a type, without options. Its checksum is right: those
// that are wrong are the control plane's to find.
func discovery(src, dst string, kind byte) []byte {
	message := make([]byte, 24)
	message[0] = kind
	b := datagram6(src, dst, header.ProtoICMPv6, 255, message)
	pseudo := slices.Concat(b[8:40], []byte{0, 0, 0, byte(len(message)), 0, 0, 0, header.ProtoICMPv6}, message)
	binary.BigEndian.PutUint16(b[header.IPv6Len+2:], ^sum16(pseudo))
	return b
}
