package parse

import (
	"testing"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// withShim puts a shim with a digest of n bytes into a packet whose link header
// ends at l3, as a source does. A packet that ends in its link header stays.
func withShim(data []byte, l3, n int) []byte {
	if l3 > len(data) {
		return data
	}
	grow := header.ShimLen(n)
	out := cat(data[:l3-2], be16(header.TypeShim), zeros(grow-2), data[l3-2:])
	s := header.NewShim(out[l3:], n, 0x0102)
	s.SetHop(3)
	s.SetDigest(0x1122334455667788)
	return out
}

// TestBehindShims: a packet in one shim or two is the packet itself, further
// back: the same id, hash, headers and faults.
func TestBehindShims(t *testing.T) {
	b := newBatch(t, 64)
	_, s := newStage(t, DefaultConfig(), allNeeds)
	for _, c := range packets {
		wire := max(c.wire, len(c.data))
		plain := parseOne(s, b, c.data, wire)
		if plain.Reason != 0 || header.IsVLAN(plain.EtherType) {
			continue // no link header in front of a shim
		}
		for n := 1; n <= header.MaxShimDigest; n++ {
			for _, lens := range [][]int{{n}, {n, 9 - n}} {
				data, grow := c.data, 0
				for _, n := range lens {
					data = withShim(data, int(plain.L3), n)
					grow += header.ShimLen(n)
				}
				want := plain
				want.Flags |= packet.FlagShim
				want.Len += uint32(grow)
				want.WireLen += uint32(grow)
				want.L3 += uint16(grow)
				if want.Flags.Has(packet.FlagL4) {
					want.L4 += uint16(grow)
					want.Payload += uint16(grow)
				}
				if len(lens) == maxShims && want.EtherType == header.TypeShim {
					want.Flags &^= packet.FlagMalformed // beyond MaxShims nobody looks whether one is right
				}
				if got := parseOne(s, b, data, wire+grow); got != want {
					t.Errorf("%s in shims of %d bytes:\n%+v\nnot\n%+v", c.name, lens, got, want)
				}
			}
		}
	}
}

// TestMalformedShims are opaque: their id is of what follows their EtherType,
// also where they stand behind a good shim.
func TestMalformedShims(t *testing.T) {
	b := newBatch(t, 64)
	m, s := newStage(t, DefaultConfig(), allNeeds)
	inner := eth(0x0800, v4(17, 0, nil, udpOf(ramp(18))))
	for _, c := range []struct {
		name  string
		data  []byte
		wire  int
		fault Fault
	}{
		{"version 0", set(withShim(inner, 14, 2), 14, 0x01), 0, ShimVersion},
		{"version 2", set(withShim(inner, 14, 2), 14, 0x21), 0, ShimVersion},
		{"text", eth(header.TypeShim, []byte("hello, world, this is no shim at all")), 0, ShimVersion},
		{"nothing", eth(header.TypeShim), 0, ShimTruncated},
		{"first byte", eth(header.TypeShim, []byte{0x10}), 0, ShimTruncated},
		{"without the type", withShim(inner, 14, 2)[:20], 0, ShimTruncated},
		{"half the type", withShim(inner, 14, 8)[:27], 0, ShimTruncated},
		{"cut by a capture", withShim(inner, 14, 8)[:27], 100, NoFault},
	} {
		before := m.Counters().Malformed[c.fault.String()]
		got := parseOne(s, b, c.data, max(c.wire, len(c.data)))
		if bad := c.fault != NoFault; got.Flags.Has(packet.FlagMalformed) != bad || got.Flags.Has(packet.FlagShim) || got.EtherType != header.TypeShim || got.L3 != 14 {
			t.Errorf("%s: %+v", c.name, got)
		}
		if c.fault != NoFault && m.Counters().Malformed[c.fault.String()] != before+1 {
			t.Errorf("%s: %v", c.name, m.Counters())
		}
		if c.wire != 0 {
			continue
		}
		wrapped := parseOne(s, b, withShim(c.data, 14, 2), len(c.data)+8)
		if wrapped.ID != got.ID || wrapped.FlowHash != got.FlowHash || wrapped.L3 != got.L3+8 || wrapped.EtherType != header.TypeShim {
			t.Errorf("%s behind a shim: %+v", c.name, wrapped)
		}
	}
	// A third shim is opaque.
	three := withShim(withShim(withShim(inner, 14, 2), 14, 2), 14, 2)
	if got := parseOne(s, b, three, len(three)); got.EtherType != header.TypeShim || got.L3 != 30 || got.Flags != packet.FlagShim {
		t.Errorf("three shims: %+v", got)
	}
}
