package packet

import "testing"

// TestClassifier: the DSCP decides of IPv4 and IPv6 where it has a class, else the priority of the tag, 0 without.
func TestClassifier(t *testing.T) {
	c := NewClassifier(7)
	c.DSCP(46, 1)
	c.DSCP(0, 2)
	c.PCP(5, 3)
	mem := make([]byte, 128)
	for _, test := range []struct {
		name  string
		flags Flags
		bytes [2]byte
		vlan  uint16
		want  uint8
	}{
		{"IPv4", FlagIPv4, [2]byte{0x45, 46<<2 | 3}, 0, 1},
		{"IPv4, best effort", FlagIPv4, [2]byte{0x45, 1}, 5 << 13, 2},
		{"IPv6", FlagIPv6, [2]byte{0x60 | 46>>2, 46&3<<6 | 0x3f}, 0, 1},
		{"IPv6, flow label and ECN", FlagIPv6, [2]byte{0x60, 0x3f}, 0, 2},
		{"IPv4, a DSCP without class", FlagIPv4, [2]byte{0x45, 8 << 2}, 5<<13 | 100, 3},
		{"IPv6, neither", FlagIPv6, [2]byte{0x62, 0}, 6<<13 | 100, 7},
		{"a tag", FlagVLAN, [2]byte{0x45, 46 << 2}, 5<<13 | 1, 3},
		{"nothing", 0, [2]byte{0x45, 46 << 2}, 0, 7},
	} {
		p := Packet{Addr: 20, L3: 18, Flags: test.flags, VLAN: test.vlan}
		copy(mem[38:], test.bytes[:])
		if got := c.Class(mem, &p); got != test.want {
			t.Errorf("%s: class %d, want %d", test.name, got, test.want)
		}
	}
}
