package lds

import (
	"errors"
	"fmt"
	"net/netip"
)

// Class is what both ends of a measurement decide alone from a packet: that it comes from one prefix and goes to another
// (Section 2.1), that it is of a virtual network, and where it entered. The zero Class is of all packets.
type Class struct {
	// Name is for people: classes are equal if all else is.
	Name string
	// From and To contain source and destination. Both are masked; invalid ones are those of the zero Class.
	From, To netip.Prefix
	// VNI is the network identifier of packets in VXLAN or Geneve, whose outer addresses are those of From and To; 0: any packets.
	VNI uint32
	// Edge is the id of the switch at which packets entered, as their shim has it; 0: any.
	Edge uint32
}

// MaxVNI is the largest VNI, of 24 bits (RFC 7348, RFC 8926).
const MaxVNI = 1<<24 - 1

// MaxClassName is the longest name of a class, in bytes.
const MaxClassName = 64

// Same reports whether both classes have the same packets.
func (c *Class) Same(d *Class) bool {
	return c.From == d.From && c.To == d.To && c.VNI == d.VNI && c.Edge == d.Edge
}

// IsZero reports whether the class is of all packets.
func (c *Class) IsZero() bool { return !c.From.IsValid() }

// String is the class's name, or else its Packets.
func (c *Class) String() string {
	switch {
	case c.IsZero():
		return "all packets"
	case c.Name != "":
		return c.Name
	}
	return c.Packets()
}

// Packets says which packets are of the class: "10.0.1.0/24 > 10.0.2.0/24", and " vni 7" or " edge 3" where they have to be.
func (c *Class) Packets() string {
	s := c.From.String() + " > " + c.To.String()
	if c.VNI != 0 {
		s += fmt.Sprint(" vni ", c.VNI)
	}
	if c.Edge != 0 {
		s += fmt.Sprint(" edge ", c.Edge)
	}
	return s
}

// Class in a form: length of the name 7 | has a VNI or an edge 1, all bits for the zero Class | name | from | to | VNI 32 | edge 32, the last two only
// if so; a prefix is its number of bits 8 | length of the address 8 | address.
const (
	noClass     = 255
	classTagged = 128
)

func (c *Class) append(b []byte) []byte {
	if c.IsZero() {
		return append(b, noClass)
	}
	length := byte(len(c.Name))
	tagged := c.VNI != 0 || c.Edge != 0
	if tagged {
		length |= classTagged
	}
	b = append(b, length)
	b = append(b, c.Name...)
	for _, p := range []netip.Prefix{c.From, c.To} {
		a := p.Addr().AsSlice()
		b = append(b, byte(p.Bits()), byte(len(a)))
		b = append(b, a...)
	}
	if tagged {
		b = order.AppendUint32(b, c.VNI)
		b = order.AppendUint32(b, c.Edge)
	}
	return b
}

var errClass = errors.New("the class is cut")

// parseClass reads a class, and returns what is behind it.
func parseClass(b []byte) (c Class, rest []byte, err error) {
	if len(b) == 0 {
		return c, nil, errClass
	}
	n := int(b[0])
	b = b[1:]
	if n == noClass {
		return c, b, nil
	}
	tagged := n&classTagged != 0
	n &^= classTagged
	if n > MaxClassName || len(b) < n {
		return c, nil, errClass
	}
	c.Name, b = string(b[:n]), b[n:]
	for _, p := range []*netip.Prefix{&c.From, &c.To} {
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return c, nil, errClass
		}
		a, ok := netip.AddrFromSlice(b[2:][:b[1]])
		if *p = netip.PrefixFrom(a, int(b[0])); !ok || !p.IsValid() || *p != p.Masked() {
			return c, nil, fmt.Errorf("a class of %d bits of the address %x", b[0], b[2:][:b[1]])
		}
		b = b[2+int(b[1]):]
	}
	if c.From.Addr().Is4() != c.To.Addr().Is4() {
		return c, nil, errors.New("a class of two IP versions")
	}
	if tagged {
		if len(b) < 8 {
			return c, nil, errClass
		}
		if c.VNI, c.Edge = order.Uint32(b), order.Uint32(b[4:]); c.VNI > MaxVNI || c.VNI == 0 && c.Edge == 0 {
			return c, nil, fmt.Errorf("a class of VNI %d and edge %d", c.VNI, c.Edge)
		}
		b = b[8:]
	}
	return c, b, nil
}
