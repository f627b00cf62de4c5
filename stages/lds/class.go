package lds

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/lds"
)

// class is a Class in numbers.
type class struct {
	lds.Class
	columns int
}

func (c *Config) classColumns() int { return cmp.Or(c.ClassColumns, c.Columns) }

// compileClasses returns the listed classes, and passes fail what is wrong with them.
func (c *Config) compileClasses(fail func(format string, args ...any)) (list []class) {
	columns := func(key string, n int) {
		if n != 0 && (n < max(c.Virtual, 1) || n*max(c.Rows, 1) > mostCells) {
			fail("%s: %d: choose %d (virtual) to %d, which is what fits into a record", key, n, max(c.Virtual, 1), mostCells/max(c.Rows, 1))
		}
	}
	columns("class_columns", c.ClassColumns)
	if len(c.Classes) > MaxClasses {
		fail("class: %d of them: %d at most", len(c.Classes), MaxClasses)
		return nil
	}
	for i := range c.Classes {
		in := &c.Classes[i]
		out := class{lds.Class{Name: in.Name}, cmp.Or(in.Columns, c.classColumns())}
		if len(in.Name) > lds.MaxClassName {
			fail("class[%d].name: %d bytes: %d at most", i, len(in.Name), lds.MaxClassName)
		}
		for _, p := range []struct {
			key, text string
			to        *netip.Prefix
		}{{"from", in.From, &out.From}, {"to", in.To, &out.To}} {
			prefix, err := netip.ParsePrefix(p.text)
			if err != nil {
				fail("class[%d].%s: %q: write an address and a length, as 10.0.0.0/8", i, p.key, p.text)
			}
			*p.to = prefix.Masked()
		}
		if out.From.IsValid() && out.To.IsValid() && out.From.Addr().Is4() != out.To.Addr().Is4() {
			fail("class[%d]: %s and %s are of two IP versions", i, in.From, in.To)
		}
		columns("class.columns", in.Columns)
		for j := range list {
			if list[j].Same(&out.Class) {
				fail("class[%d]: has the prefixes of class[%d]: remove one", i, j)
			}
		}
		list = append(list, out)
	}
	return list
}

// edges are the pairs of a prefix that is near, behind ports that are not measured, and one that is far, behind measured ones, by a
// router's table: for egress from near to far. A default route is no edge, as the other end cannot know of it.
func edges(routes []pipeline.Route, measured func(port uint16) bool, egress bool) (list []lds.Class) {
	var near, far []netip.Prefix
	for _, r := range routes {
		if r.Prefix.Bits() == 0 || len(r.Ports) == 0 {
			continue
		}
		switch n := countMeasured(r.Ports, measured); n {
		case len(r.Ports):
			if r.Gateway {
				far = append(far, r.Prefix)
			}
		case 0:
			near = append(near, r.Prefix)
		}
	}
	for _, a := range near {
		for _, b := range far {
			if a.Addr().Is4() != b.Addr().Is4() {
				continue
			}
			if egress {
				list = append(list, lds.Class{From: a, To: b})
			} else {
				list = append(list, lds.Class{From: b, To: a})
			}
		}
	}
	return list
}

func countMeasured(ports []uint16, measured func(port uint16) bool) (n int) {
	for _, p := range ports {
		if measured(p) {
			n++
		}
	}
	return n
}

// classifier finds the class of a packet. It does not change.
type classifier struct {
	from, to bart.Fast[uint16] // numbers of prefixes
	width    int
	pairs    []int16 // by number of from * width + number of to: the class, -1: none
}

func newClassifier(classes []class) *classifier {
	c := &classifier{}
	number := func(t *bart.Fast[uint16], list *[]netip.Prefix, p netip.Prefix) {
		if _, ok := t.Get(p); !ok {
			t.Insert(p, uint16(len(*list)))
			*list = append(*list, p)
		}
	}
	var from, to []netip.Prefix
	for i := range classes {
		number(&c.from, &from, classes[i].From)
		number(&c.to, &to, classes[i].To)
	}
	c.width = len(to)
	// In the order in which they decide, so that the first that contains both prefixes is right.
	order := make([]int, len(classes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(classes[b].From.Bits()-classes[a].From.Bits(), classes[b].To.Bits()-classes[a].To.Bits())
	})
	for _, a := range from {
		for _, b := range to {
			at := int16(-1)
			for _, i := range order {
				if contains(classes[i].From, a) && contains(classes[i].To, b) {
					at = int16(i)
					break
				}
			}
			c.pairs = append(c.pairs, at)
		}
	}
	return c
}

func contains(a, b netip.Prefix) bool { return a.Bits() <= b.Bits() && a.Contains(b.Addr()) }

func (c *classifier) lookup(from, to netip.Addr) int16 {
	a, ok := c.from.Lookup(from)
	if !ok {
		return -1
	}
	b, ok := c.to.Lookup(to)
	if !ok {
		return -1
	}
	return c.pairs[int(a)*c.width+int(b)]
}

// classCache remembers, for one worker, the classes of the pairs of IPv4 addresses that it saw last.
type classCache struct {
	of      *classifier
	entries [classCacheSize]classEntry
}

type classEntry struct {
	addresses uint64
	class     int16
	full      bool
}

const (
	classCacheBits = 11
	classCacheSize = 1 << classCacheBits // 32 KiB
)

// follow empties the cache if its classes are others now.
func (c *classCache) follow(of *classifier) {
	if c.of != of {
		clear(c.entries[:])
		c.of = of
	}
}

// class is the number of the class of a packet with an IP header, -1: of none.
func (c *classCache) class(p *packet.Packet, data []byte) int16 {
	if p.Flags&packet.FlagIPv4 == 0 {
		a := data[p.L3+8:][:32]
		return c.of.lookup(netip.AddrFrom16([16]byte(a[:16])), netip.AddrFrom16([16]byte(a[16:])))
	}
	a := data[p.L3+12:][:8]
	w := binary.LittleEndian.Uint64(a)
	e := &c.entries[w*0x9e3779b97f4a7c15>>(64-classCacheBits)]
	if e.addresses != w || !e.full {
		*e = classEntry{w, c.of.lookup(netip.AddrFrom4([4]byte(a[:4])), netip.AddrFrom4([4]byte(a[4:]))), true}
	}
	return e.class
}
