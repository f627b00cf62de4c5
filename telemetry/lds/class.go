package lds

import (
	"errors"
	"fmt"
	"net/netip"
)

// Class is what both ends of a measurement decide alone from a packet: that it comes from one prefix and goes to another
// (Section 2.1). The zero Class is of all packets.
type Class struct {
	// Name is for people: classes are equal if their prefixes are.
	Name string
	// From and To contain source and destination. Both are masked; invalid ones are those of the zero Class.
	From, To netip.Prefix
}

// MaxClassName is the longest name of a class, in bytes.
const MaxClassName = 64

// Same reports whether both classes have the same packets.
func (c *Class) Same(d *Class) bool { return c.From == d.From && c.To == d.To }

// IsZero reports whether the class is of all packets.
func (c *Class) IsZero() bool { return !c.From.IsValid() }

// String is the class's name, or its prefixes.
func (c *Class) String() string {
	switch {
	case c.IsZero():
		return "all packets"
	case c.Name != "":
		return c.Name
	}
	return c.From.String() + " > " + c.To.String()
}

// Class in a form: length of the name 8, 255 for the zero Class | name | from | to; a prefix is its number of bits 8 |
// length of the address 8 | address.
const noClass = 255

func (c *Class) append(b []byte) []byte {
	if c.IsZero() {
		return append(b, noClass)
	}
	b = append(b, byte(len(c.Name)))
	b = append(b, c.Name...)
	for _, p := range []netip.Prefix{c.From, c.To} {
		a := p.Addr().AsSlice()
		b = append(b, byte(p.Bits()), byte(len(a)))
		b = append(b, a...)
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
	return c, b, nil
}
