package lds

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"

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
		if n != 0 && (n < max(c.Virtual, 1) || n*max(c.rows(), 1) > mostCells) {
			fail("%s: %d: choose %d (virtual) to %d, which is what fits into a record", key, n, max(c.Virtual, 1), mostCells/max(c.rows(), 1))
		}
	}
	columns("class_columns", c.ClassColumns)
	if len(c.Classes) > MaxClasses {
		fail("class: %d of them: %d at most", len(c.Classes), MaxClasses)
		return nil
	}
	for i := range c.Classes {
		in := &c.Classes[i]
		out := class{lds.Class{Name: in.Name, VNI: uint32(in.VNI), Edge: uint32(in.Edge)}, cmp.Or(in.Columns, c.classColumns())}
		if len(in.Name) > lds.MaxClassName {
			fail("class[%d].name: %d bytes: %d at most", i, len(in.Name), lds.MaxClassName)
		}
		if in.VNI < 0 || in.VNI > lds.MaxVNI {
			fail("class[%d].vni: %d: choose 1 to %d, or 0 for any packets", i, in.VNI, lds.MaxVNI)
		}
		if in.Edge < 0 || int64(in.Edge)>>min(max(c.EdgeBits, 0), 32) != 0 {
			fail("class[%d].edge: %d: does not fit into edge_bits, %d: give those of the plan of [stages.pint]", i, in.Edge, c.EdgeBits)
		}
		from, to := in.From, in.To
		if in.VNI != 0 || in.Edge != 0 {
			from, to = cmp.Or(from, anyLike(to)), cmp.Or(to, anyLike(from))
		}
		for _, p := range []struct {
			key, text string
			to        *netip.Prefix
		}{{"from", from, &out.From}, {"to", to, &out.To}} {
			prefix, err := netip.ParsePrefix(p.text)
			if err != nil {
				fail("class[%d].%s: %q: write an address and a length, as 10.0.0.0/8", i, p.key, p.text)
			}
			*p.to = prefix.Masked()
		}
		if out.From.IsValid() && out.To.IsValid() && out.From.Addr().Is4() != out.To.Addr().Is4() {
			fail("class[%d]: %s and %s are of two IP versions", i, from, to)
		}
		columns("class.columns", in.Columns)
		for j := range list {
			if list[j].Same(&out.Class) {
				fail("class[%d]: has the prefixes, the vni and the edge of class[%d]: remove one", i, j)
			}
		}
		list = append(list, out)
	}
	return list
}

// anyLike is the prefix of all addresses of a prefix's IP version.
func anyLike(prefix string) string {
	if strings.Contains(prefix, ":") {
		return "::/0"
	}
	return "0.0.0.0/0"
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
	// pairs are, by number of from * width + number of to, the classes that contain both prefixes, in the order in which they decide,
	// down to the first one that needs nothing else; numbers of classes are their places in tags.
	pairs      [][]int16
	tags       []tag
	vnis, edge bool // a class has a VNI, or an edge
}

// tag is what a class wants to know of a packet beside its addresses, and what a packet says of it; 0: nothing.
type tag struct{ vni, edge uint32 }

// has reports whether a packet that says p may be of a class that wants t.
func (t *tag) has(p tag) bool {
	return (t.vni == 0 || t.vni == p.vni) && (t.edge == 0 || t.edge == p.edge)
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
		c.tags = append(c.tags, tag{classes[i].VNI, classes[i].Edge})
		c.vnis, c.edge = c.vnis || classes[i].VNI != 0, c.edge || classes[i].Edge != 0
	}
	c.width = len(to)
	order := make([]int, len(classes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &classes[a], &classes[b]
		return cmp.Or(y.From.Bits()-x.From.Bits(), y.To.Bits()-x.To.Bits(), orderTagged(x.VNI, y.VNI), orderTagged(x.Edge, y.Edge))
	})
	for _, a := range from {
		for _, b := range to {
			var list []int16
			for _, i := range order {
				if contains(classes[i].From, a) && contains(classes[i].To, b) {
					if list = append(list, int16(i)); c.tags[i] == (tag{}) {
						break
					}
				}
			}
			c.pairs = append(c.pairs, list)
		}
	}
	return c
}

// orderTagged puts what is set in front of what is not.
func orderTagged(a, b uint32) int {
	switch {
	case a != 0 && b == 0:
		return -1
	case a == 0 && b != 0:
		return 1
	}
	return 0
}

func contains(a, b netip.Prefix) bool { return a.Bits() <= b.Bits() && a.Contains(b.Addr()) }

func (c *classifier) lookup(from, to netip.Addr, p tag) int16 {
	a, ok := c.from.Lookup(from)
	if !ok {
		return -1
	}
	b, ok := c.to.Lookup(to)
	if !ok {
		return -1
	}
	for _, i := range c.pairs[int(a)*c.width+int(b)] {
		if c.tags[i].has(p) {
			return i
		}
	}
	return -1
}

// Where the VNI of VXLAN and of Geneve is, behind the UDP header, and their ports (RFC 7348, Section 5; RFC 8926, Section 3.4).
const (
	vniAt      = 8 + 4
	vxlanPort  = 4789
	genevePort = 6081
)

// vni is the network identifier of a packet in VXLAN or Geneve, else 0.
func vni(p *packet.Packet, data []byte) uint32 {
	if p.Proto != 17 || p.Flags&packet.FlagL4 == 0 || len(data) < int(p.L4)+vniAt+4 {
		return 0
	}
	udp := data[p.L4:][:vniAt+4]
	if port := binary.BigEndian.Uint16(udp[2:]); port != vxlanPort && port != genevePort {
		return 0
	}
	return binary.BigEndian.Uint32(udp[vniAt:]) >> 8
}

// classCache remembers, for one worker, the classes of the pairs of IPv4 addresses, and of their tags, that it saw last.
type classCache struct {
	of      *classifier
	entries [classCacheSize]classEntry
}

type classEntry struct {
	addresses uint64
	tag       tag
	class     int16
	full      bool
}

const (
	classCacheBits = 11
	classCacheSize = 1 << classCacheBits // 48 KiB
)

// follow empties the cache if its classes are others now.
func (c *classCache) follow(of *classifier) {
	if c.of != of {
		clear(c.entries[:])
		c.of = of
	}
}

// class is the number of the class of a packet with an IP header, -1: of none. edgeBytes is what its shim has for the edge.
func (c *classCache) class(p *packet.Packet, data []byte, edgeBytes int) int16 {
	var t tag
	if c.of.vnis {
		t.vni = vni(p, data)
	}
	if c.of.edge {
		t.edge = shimEdge(data, edgeBytes)
	}
	if p.Flags&packet.FlagIPv4 == 0 {
		a := data[p.L3+8:][:32]
		return c.of.lookup(netip.AddrFrom16([16]byte(a[:16])), netip.AddrFrom16([16]byte(a[16:])), t)
	}
	a := data[p.L3+12:][:8]
	w := binary.LittleEndian.Uint64(a)
	e := &c.entries[(w^uint64(t.vni)^uint64(t.edge)<<32)*0x9e3779b97f4a7c15>>(64-classCacheBits)]
	if e.addresses != w || e.tag != t || !e.full {
		*e = classEntry{w, t, c.of.lookup(netip.AddrFrom4([4]byte(a[:4])), netip.AddrFrom4([4]byte(a[4:])), t), true}
	}
	return e.class
}
