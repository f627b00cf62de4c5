package acl

import (
	"cmp"
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
// field's own values is one for packets that lack the field.
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
// rule matches the class's values. Rules that match all values are in wild, once
// for all classes. Of what is particular to a class, only words that are not zero are
// kept: its summary has a bit per word, and the words are in a row from start
// on. A class takes 12 bytes per 4,096 rules of the set and 8 per word kept,
// where a whole row would take 512 per 4,096: with one value in each of
// 65,536 rules, a field takes 13 MB instead of 540. Dense are only ranges of
// ports that overlap each other by the thousand.
type rows struct {
	wild, wildSums []uint64
	sums           []uint64 // by class and 64 words
	start          []uint32 // index of the first of these words
	packed         []uint64
	byRow          map[uint64]uint32 // while building: class by the row's hash, or the next that is free
}

// sum is the summary of 64 words of a class's row.
func (r *rows) sum(class, sums, s int) uint64 { return r.wildSums[s] | r.sums[class*sums+s] }

// word is word 64*s+bit of a class's row.
func (r *rows) word(class, sums, s, bit int) uint64 {
	own := r.sums[class*sums+s]
	if own>>bit&1 == 0 {
		return r.wild[64*s+bit]
	}
	before := bits.OnesCount64(own & (1<<bit - 1))
	return r.wild[64*s+bit] | r.packed[int(r.start[class*sums+s])+before]
}

// classifier finds the first rule that matches. It is immutable once built.
type classifier struct {
	ruleSet
	words, sums int // of a row and of its summary
	field       [numFields]rows
	unknown     [numFields]uint32 // class of packets of which the field could not be parsed
	active      []int             // fields that have more than one class

	direct           [fieldSrc][]uint32 // class by value
	src, dst         addressTable
	srcMACs, dstMACs macTable
	// verify marks rules of which the classes say less than the whole.
	verify  []bool
	denies  []bool  // by rule; the default behind the rules
	hits    [][]hit // by worker, by rule; the default behind the rules
	looksIn bool    // a rule has ports or flags
	// caches are the workers', where they pay; else there are none.
	caches   []cache
	keyShift [numFields]uint8 // where a field's class is in a key

	shortlists []shortlist // none: all packets are left to the rows
	filters    []filter    // by rule
	listed     []int       // the shortlists' fields
	counting   bool        // there are rules that only count
	candidates float64     // of a packet, in all shortlists together
	flowMask   uint64      // see flowKey
}

// hit counts what a rule matched. One worker writes it.
type hit struct{ packets, bytes uint64 }

// newClassifier builds the classes of a rule set for a switch with the given
// numbers of ports and workers.
func newClassifier(set *ruleSet, ports, workers int) *classifier {
	words := (len(set.rules) + 63) / 64
	c := &classifier{
		ruleSet: *set, words: words, sums: (words + 63) / 64,
		verify: make([]bool, len(set.rules)), hits: make([][]hit, workers), looksIn: set.inspects(),
	}
	for i := range set.rules {
		c.denies = append(c.denies, set.rules[i].action == actionDeny)
	}
	c.denies = append(c.denies, !set.permit)
	for w := range c.hits {
		n := len(set.rules) + 1
		c.hits[w] = make([]hit, n, (n+3)&^3) // whole cache lines, not shared with the next worker's
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
		if unknownOf[f] != 0 {
			c.unknown[f] = c.class(f, c.blindRow(f))
		}
		if len(c.field[f].byRow) > 1 { // fields of one class distinguish nothing
			c.active = append(c.active, f)
		}
		c.field[f].byRow = nil
		c.field[f].packed = slices.Clip(slices.Clone(c.field[f].packed)) // without the room for growth
	}
	// The AND of the rows ends the sooner the fewer rules the first of them leave.
	slices.SortStableFunc(c.active, func(a, b int) int { return cmp.Compare(c.density(a), c.density(b)) })
	c.shorten()
	if c.cachePays() {
		c.remember(workers, cacheSets)
	}
	return c
}

// density is the share of the rules that a class of a field leaves, on average over the
// classes, times the number of rules.
func (c *classifier) density(field int) float64 {
	r := &c.field[field]
	classes := max(len(r.start)/max(c.sums, 1), 1)
	return float64(count(r.packed))/float64(classes) + float64(count(r.wild))
}

func (r portRange) interval() (low, high uint32) {
	if !r.needed {
		return 0, portValues - 1
	}
	return uint32(r.low), uint32(r.high)
}

// begin sets the rules that match all values of a field. The rows of its classes
// are without them.
func (c *classifier) begin(field int, wild func(*match) bool) {
	r := &c.field[field]
	r.wild, r.wildSums = c.rowWhere(wild), make([]uint64, c.sums)
	for i, w := range r.wild {
		if w != 0 {
			setBit(r.wildSums, i)
		}
	}
	r.byRow = map[uint64]uint32{}
}

// class returns the class of the row, which is new or was there before.
func (c *classifier) class(field int, row []uint64) uint32 {
	r := &c.field[field]
	h := uint64(rowSeed)
	for i, w := range row {
		if w != 0 {
			h = hash.Uint64x2(h, uint64(i), w)
		}
	}
	for ; ; h++ {
		id, ok := r.byRow[h]
		if !ok {
			break
		}
		if c.same(field, id, row) {
			return id
		}
	}
	id := uint32(len(r.byRow))
	r.byRow[h] = id
	for s := range c.sums {
		r.start = append(r.start, uint32(len(r.packed)))
		sum := uint64(0)
		for i, w := range row[64*s : min(64*s+64, len(row))] {
			if w != 0 {
				sum |= 1 << i
				r.packed = append(r.packed, w)
			}
		}
		r.sums = append(r.sums, sum)
	}
	return id
}

// rowSeed is any member of the hash family, like macSeed.
const rowSeed = 0x726f77

// same reports whether the row is the class's.
func (c *classifier) same(field int, class uint32, row []uint64) bool {
	r := &c.field[field]
	for s := range c.sums {
		own, at := r.sums[int(class)*c.sums+s], r.start[int(class)*c.sums+s]
		for i, w := range row[64*s : min(64*s+64, len(row))] {
			switch {
			case own>>i&1 == 0:
				if w != 0 {
					return false
				}
			case r.packed[at] != w:
				return false
			default:
				at++
			}
		}
	}
	return true
}

// unpack writes the row of a class, without the rules that match all values.
func (c *classifier) unpack(field int, class uint32, row []uint64) {
	r := &c.field[field]
	for w := range row {
		s, bit := w/64, w%64
		row[w] = 0
		if own := r.sums[int(class)*c.sums+s]; own>>bit&1 != 0 {
			row[w] = r.packed[int(r.start[int(class)*c.sums+s])+bits.OnesCount64(own&(1<<bit-1))]
		}
	}
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
	c.begin(fieldInPort, func(m *match) bool { return len(m.inPorts) == 0 })
	for p := range c.direct[fieldInPort] {
		c.direct[fieldInPort][p] = c.class(fieldInPort, c.rowWhere(func(m *match) bool {
			return slices.Contains(m.inPorts, uint16(p))
		}))
	}
}

func (c *classifier) buildFlags() {
	c.direct[fieldFlags] = make([]uint32, flagValues)
	any := func(m *match) bool { return m.flagsSet|m.flagsClear == 0 }
	c.begin(fieldFlags, any)
	for v := range c.direct[fieldFlags] {
		c.direct[fieldFlags][v] = c.class(fieldFlags, c.rowWhere(func(m *match) bool { return !any(m) && m.matchesFlags(uint16(v)) }))
	}
}

// buildIntervals sweeps over a field's values, of which every rule matches one
// interval.
func (c *classifier) buildIntervals(field, values int, interval func(*match) (low, high uint32)) {
	any := func(m *match) bool {
		low, high := interval(m)
		return low == 0 && int(high) == values-1
	}
	c.begin(field, any)
	begins, ends := make(map[uint32][]int), make(map[uint32][]int) // by value: rules
	for i := range c.rules {
		if any(&c.rules[i]) {
			continue
		}
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

// buildPrefixes gives every prefix its rules and those of the prefixes
// around it. Class 0 is of the addresses, and of packets without any, that no
// prefix holds.
func (c *classifier) buildPrefixes(field int, prefix func(*match) netip.Prefix) addressTable {
	c.begin(field, func(m *match) bool { return !prefix(m).IsValid() })
	row := make([]uint64, c.words)
	c.class(field, row)
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
	table := addressTable{all: &bart.Table[uint32]{}}
	if len(order) >= trieFrom {
		table.four = newTrie()
	}
	for _, p := range order {
		around, _ := table.all.LookupPrefix(p) // class 0 if there is none
		c.unpack(field, around, row)
		for _, i := range rules[p] {
			setBit(row, i)
		}
		class := c.class(field, row)
		table.all.Insert(p, class)
		if table.four != nil && p.Addr().Is4() && !table.four.insert(p, class) {
			table.four = nil
		}
	}
	return table
}

// addressTable maps addresses to classes.
type addressTable struct {
	all  *bart.Table[uint32]
	four *trie // of IPv4 alone; nil: all has to do
}

// lookup returns the class of an address, 0 if it is none, or no rule names it.
func (t *addressTable) lookup(a netip.Addr) uint32 {
	if t.four != nil && a.Is4() {
		return t.four.lookup(a)
	}
	if !a.IsValid() {
		return 0
	}
	class, _ := t.all.Lookup(a)
	return class
}

// macTable maps addresses to classes: open addressing, half empty.
type macTable struct {
	keys    []uint64 // address + 1; 0: empty
	classes []uint32
	shift   uint
}

// macSeed is any member of the hash family: rules come from control, which
// collisions are no attack.
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
	c.begin(field, func(m *match) bool { return mac(m).mask != whole })
	row := make([]uint64, c.words)
	c.class(field, row)
	if len(exact) == 0 {
		return t
	}
	t.shift = uint(64 - bits.Len(uint(2*len(exact))))
	t.keys = make([]uint64, 1<<(64-t.shift))
	t.classes = make([]uint32, len(t.keys))
	mask := uint64(len(t.keys) - 1)
	for address, rules := range exact {
		clear(row)
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
