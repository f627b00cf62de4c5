package query

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"strings"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// Key is the key of a flow.
type Key = oblivious.Key

var protocols = map[string]uint8{"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132}

// ParseKey reads a flow's key, as in "10.0.0.1:1234 > 10.0.0.2:80 udp" and
// "[fd00::1]:1 > [fd00::2]:80 tcp". Without ports and protocol, as in "10.0.0.1 > 10.0.0.2", it is
// the key of switches whose flows are pairs of addresses.
func ParseKey(text string) (k Key, err error) {
	fail := func(what string) (Key, error) {
		return Key{}, fmt.Errorf("flow %q: %s: write it as \"10.0.0.1:1234 > 10.0.0.2:80 udp\"", text, what)
	}
	source, rest, ok := strings.Cut(text, ">")
	if !ok {
		return fail("no > between source and destination")
	}
	fields := strings.Fields(rest)
	if len(fields) < 1 || len(fields) > 2 {
		return fail("a destination and a protocol must follow the >")
	}
	src, srcPort, err := parseEnd(strings.TrimSpace(source))
	if err != nil {
		return fail(err.Error())
	}
	dst, dstPort, err := parseEnd(fields[0])
	if err != nil {
		return fail(err.Error())
	}
	if src.Is4() != dst.Is4() {
		return fail("the addresses are of two IP versions")
	}
	k.Version = 6
	if src.Is4() {
		k.Version = 4
	}
	copy(k.Src[:], src.AsSlice())
	copy(k.Dst[:], dst.AsSlice())
	k.SrcPort, k.DstPort = srcPort, dstPort
	if len(fields) == 2 {
		if k.Proto, err = ParseProto(fields[1]); err != nil {
			return fail(err.Error())
		}
	} else if srcPort != 0 || dstPort != 0 {
		return fail("ports need a protocol")
	}
	return k, nil
}

func parseEnd(text string) (netip.Addr, uint16, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap().WithZone(""), 0, nil
	}
	p, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.Addr{}, 0, fmt.Errorf("%q is no address", text)
	}
	return p.Addr().Unmap().WithZone(""), p.Port(), nil
}

// NotIP is the name of the flow of all packets that are not IP, where they are one.
const NotIP = "not IP"

// FormatKey writes a key as ParseKey reads it. PINT's flows of packets that are not IP, which ParseKey does
// not read, are addresses and an EtherType, in the place of the destination's port; in other systems all of
// them are one flow.
func FormatKey(k Key) string {
	switch {
	case k == Key{}:
		return NotIP
	case k.Version == 0:
		return fmt.Sprintf("%s > %s type 0x%04x", net.HardwareAddr(k.Src[:6]), net.HardwareAddr(k.Dst[:6]), k.DstPort)
	}
	if k.Proto == 0 && k.SrcPort == 0 && k.DstPort == 0 {
		return fmt.Sprintf("%s > %s", k.SrcAddr(), k.DstAddr())
	}
	return fmt.Sprintf("%s > %s %s", netip.AddrPortFrom(k.SrcAddr(), k.SrcPort), netip.AddrPortFrom(k.DstAddr(), k.DstPort), formatProto(k.Proto))
}

// Words packs a key as the switches' pipeline does before hashing; n of the
// words are in use. A test holds it equal to the pipeline's.
func Words(k Key) (w [5]uint64, n int) {
	last := uint64(bits.ReverseBytes16(k.SrcPort)) | uint64(bits.ReverseBytes16(k.DstPort))<<16 | uint64(k.Proto)<<32 | uint64(k.Version)<<40
	if k.Version == 4 {
		w[0] = uint64(binary.LittleEndian.Uint32(k.Src[:])) | uint64(binary.LittleEndian.Uint32(k.Dst[:]))<<32
		w[1] = last
		return w, 2
	}
	w[0], w[1] = binary.LittleEndian.Uint64(k.Src[:]), binary.LittleEndian.Uint64(k.Src[8:])
	w[2], w[3] = binary.LittleEndian.Uint64(k.Dst[:]), binary.LittleEndian.Uint64(k.Dst[8:])
	w[4] = last
	return w, 5
}

// Hash is the hash of a key by a family under a seed: with those of parse the flow
// hash, whose lower 32 bits ECMP has; with other seeds what sketches know flows by.
func Hash(f hash.Family, k Key, seed uint64) uint64 {
	w, n := Words(k)
	if n == 2 {
		return f.Uint64x2(seed, w[0], w[1])
	}
	return f.Uint64x5(seed, w[0], w[1], w[2], w[3], w[4])
}
