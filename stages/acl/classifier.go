package acl

import (
	"math/bits"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"github.com/weirswitch/weir/telemetry/hash"
)

// The fields of a packet that have classes.
const (
	fieldInPort = iota
	fieldVLAN
	fieldEtherType
	fieldProto
	fieldFlags
	fieldSrcPort
	fieldDstPort
	fieldSrc
	fieldDst
	fieldSrcMAC
	fieldDstMAC
	numFields
)

// The number of values of the fields that are looked up directly. Behind the
// field's own values stands one for packets that lack the field.
const (
	vlanValues  = vlanNone + 1
	typeValues  = 1 << 16
	protoValues = 256 + 1
	flagValues  = noFlags + 1
	portValues  = 1<<16 + 1
)

// tuple is the class of each field of a packet, 0 for fields that no rule
// looks at.
type tuple [numFields]uint32

// rows are the classes of one field. A class's row has a bit per rule, set if the
// rule matches the class's values; its summary a bit per word of the row.
type rows struct {
	rows, sums []uint64
	byRow      map[string]uint32 // while building: class of each row
}

// classifier finds the first rule that matches. It is immutable once built.
type classifier struct {
	ruleSet
	words, sums int // of a row and of its summary
	field       [numFields]rows
	active      []int // fields that have more than one class

	direct           [fieldSrc][]uint32 // class by value
	src, dst         *bart.Table[uint32]
	srcMACs, dstMACs macTable
	// verify marks rules of which the classes tell less than the whole.
	verify []bool
	hits   [][]hit // by worker, by rule; the default behind the rules
	cached bool    // the set is large enough for the workers' caches to pay
}

// hit counts what a rule matched. One worker writes it.
type hit struct{ packets, bytes uint64 }

// cacheFrom is the number of words of a row from which the AND of the rows costs
// more than a look into the cache.
const cacheFrom = 4

// newClassifier builds the classes of a rule set for a switch with the given
// numbers of ports and workers.
func newClassifier(set *ruleSet, ports, workers int) *classifier {
	words := (len(set.rules) + 63) / 64
	c := &classifier{
		ruleSet: *set, words: words, sums: (words + 63) / 64,
		verify: make([]bool, len(set.rules)), hits: make([][]hit, workers), cached: words > cacheFrom,
	}
	for w := range c.hits {
		c.hits[w] = make([]hit, len(set.rules)+1)
	}
	c.buildPorts(ports)
	c.buildIntervals(fieldVLAN, vlanValues, func(m *match) (uint32, uint32) { return uint32(m.vlanLow), uint32(m.vlanHigh) })
	c.buildIntervals(fieldEtherType, typeValues, func(m *match) (uint32, uint32) {
		if m.anyType {
			return 0, typeValues - 1
		}
		return uint32(m.etherType), uint32(m.etherType)
	})
	c.buildIntervals(fieldProto, protoValues, func(m *match) (uint32, uint32) {
		if m.proto == anyProto {
			return 0, protoValues - 1
		}
		return uint32(m.proto), uint32(m.proto)
	})
	c.buildFlags()
	c.buildIntervals(fieldSrcPort, portValues, func(m *match) (uint32, uint32) { return m.srcPort.interval() })
	c.buildIntervals(fieldDstPort, portValues, func(m *match) (uint32, uint32) { return m.dstPort.interval() })
	c.src = c.buildPrefixes(fieldSrc, func(m *match) netip.Prefix { return m.src })
	c.dst = c.buildPrefixes(fieldDst, func(m *match) netip.Prefix { return m.dst })
	c.srcMACs = c.buildMACs(fieldSrcMAC, func(m *match) maskedMAC { return m.srcMAC })
	c.dstMACs = c.buildMACs(fieldDstMAC, func(m *match) maskedMAC { return m.dstMAC })
	for f := range c.field {
		if len(c.field[f].byRow) > 1 {
			c.active = append(c.active, f)
		}
		c.field[f].byRow = nil
	}
	return c
}

func (r portRange) interval() (low, high uint32) {
	if !r.needed {
		return 0, portValues - 1
	}
	return uint32(r.low), uint32(r.high)
}

// class returns the class of the row, which is new or was there before.
func (c *classifier) class(field int, row []uint64) uint32 {
	r := &c.field[field]
	if r.byRow == nil {
		r.byRow = map[string]uint32{}
	}
	key := make([]byte, 0, 8*len(row))
	for _, w := range row {
		key = append(key, byte(w), byte(w>>8), byte(w>>16), byte(w>>24), byte(w>>32), byte(w>>40), byte(w>>48), byte(w>>56))
	}
	if id, ok := r.byRow[string(key)]; ok {
		return id
	}
	id := uint32(len(r.byRow))
	r.byRow[string(key)] = id
	r.rows = append(r.rows, row...)
	sum := make([]uint64, c.sums)
	for i, w := range row {
		if w != 0 {
			sum[i/64] |= 1 << (i % 64)
		}
	}
	r.sums = append(r.sums, sum...)
	return id
}

func setBit(row []uint64, i int)   { row[i/64] |= 1 << (i % 64) }
func clearBit(row []uint64, i int) { row[i/64] &^= 1 << (i % 64) }

// rowWhere is the row of the rules for which f says yes.
func (c *classifier) rowWhere(f func(*match) bool) []uint64 {
	row := make([]uint64, c.words)
	for i := range c.rules {
		if f(&c.rules[i]) {
			setBit(row, i)
		}
	}
	return row
}

func (c *classifier) buildPorts(ports int) {
	c.direct[fieldInPort] = make([]uint32, ports)
	for p := range c.direct[fieldInPort] {
		c.direct[fieldInPort][p] = c.class(fieldInPort, c.rowWhere(func(m *match) bool {
			return len(m.inPorts) == 0 || slices.Contains(m.inPorts, uint16(p))
		}))
	}
}

func (c *classifier) buildFlags() {
	c.direct[fieldFlags] = make([]uint32, flagValues)
	for v := range c.direct[fieldFlags] {
		c.direct[fieldFlags][v] = c.class(fieldFlags, c.rowWhere(func(m *match) bool { return m.matchesFlags(uint16(v)) }))
	}
}

// buildIntervals sweeps over a field's values, of which every rule matches one
// interval.
func (c *classifier) buildIntervals(field, values int, interval func(*match) (low, high uint32)) {
	begins, ends := make(map[uint32][]int), make(map[uint32][]int) // by value: rules
	for i := range c.rules {
		low, high := interval(&c.rules[i])
		begins[low] = append(begins[low], i)
		ends[high+1] = append(ends[high+1], i)
	}
	table, row, class := make([]uint32, values), make([]uint64, c.words), uint32(0)
	for v := range table {
		b, e := begins[uint32(v)], ends[uint32(v)]
		for _, i := range e {
			clearBit(row, i)
		}
		for _, i := range b {
			setBit(row, i)
		}
		if v == 0 || len(b)+len(e) > 0 {
			class = c.class(field, row)
		}
		table[v] = class
	}
	c.direct[field] = table
}

// buildPrefixes gives every prefix the rules of its own and of the prefixes
// around it. Class 0 is of the addresses, and of packets without any, that no
// prefix holds.
func (c *classifier) buildPrefixes(field int, prefix func(*match) netip.Prefix) *bart.Table[uint32] {
	any := c.rowWhere(func(m *match) bool { return !prefix(m).IsValid() })
	c.class(field, any)
	rules := map[netip.Prefix][]int{}
	var order []netip.Prefix
	for i := range c.rules {
		if p := prefix(&c.rules[i]); p.IsValid() {
			if rules[p] == nil {
				order = append(order, p)
			}
			rules[p] = append(rules[p], i)
		}
	}
	slices.SortFunc(order, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() }) // outer ones first
	table := &bart.Table[uint32]{}
	row := make([]uint64, c.words)
	for _, p := range order {
		around, _ := table.LookupPrefix(p) // class 0 if there is none
		copy(row, c.field[field].rows[int(around)*c.words:])
		for _, i := range rules[p] {
			setBit(row, i)
		}
		table.Insert(p, c.class(field, row))
	}
	return table
}

// macTable maps addresses to classes: open addressing, half empty.
type macTable struct {
	keys    []uint64 // address + 1; 0: empty
	classes []uint32
	shift   uint
}

// macSeed is any member of the hash family: rules come from control, which
// nobody attacks by collisions.
const macSeed = 0x6d6163

func (t *macTable) slot(mac uint64) uint64 { return hash.Uint64(macSeed, mac) >> t.shift }

// lookup returns the class of an address, 0 if no rule names it.
func (t *macTable) lookup(mac uint64) uint32 {
	if len(t.keys) == 0 {
		return 0
	}
	mask := uint64(len(t.keys) - 1)
	for i := t.slot(mac); ; i++ {
		switch t.keys[i&mask] {
		case mac + 1:
			return t.classes[i&mask]
		case 0:
			return 0
		}
	}
}

// buildMACs gives every whole address the rules that match it. Rules that mask
// a part are left to verification: they are in all classes.
func (c *classifier) buildMACs(field int, mac func(*match) maskedMAC) (t macTable) {
	const whole = 1<<48 - 1
	exact := map[uint64][]int{}
	for i := range c.rules {
		switch m := mac(&c.rules[i]); m.mask {
		case 0:
		case whole:
			exact[m.bits] = append(exact[m.bits], i)
		default:
			c.verify[i] = true
		}
	}
	any := c.rowWhere(func(m *match) bool { return mac(m).mask != whole })
	c.class(field, any)
	if len(exact) == 0 {
		return t
	}
	t.shift = uint(64 - bits.Len(uint(2*len(exact))))
	t.keys = make([]uint64, 1<<(64-t.shift))
	t.classes = make([]uint32, len(t.keys))
	mask := uint64(len(t.keys) - 1)
	row := make([]uint64, c.words)
	for address, rules := range exact {
		copy(row, any)
		for _, r := range rules {
			setBit(row, r)
		}
		i := t.slot(address)
		for t.keys[i&mask] != 0 {
			i++
		}
		t.keys[i&mask], t.classes[i&mask] = address+1, c.class(field, row)
	}
	return t
}
