package acl

import (
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// A shortlist has, for each combination of the classes of a few fields, the rules that match them, in order. A packet's rule is
// then found by comparing these with its other fields, one by one. It is the first step of recursive flow classification (Gupta
// and McKeown, "Packet Classification on Multiple Fields", SIGCOMM 1999); the steps behind it would take tables of the products
// of thousands of classes, where a few comparisons do.
//
// A rule is in one shortlist: in that of a field that it looks at. Rules that leave out the first shortlist's field are in the
// second one, and so on. A set of rules whose shortlists would be long has none.
type shortlist struct {
	fields []int // whose classes are combined, the one that tells most first
	// starts has the beginning of each combination's rules, the end of the one in front; the number of a combination is
	// class[0] + n[0] * (class[1] + n[1] * ...). tooLong marks those that are left to the rows.
	starts  []uint32
	strides []uint32 // by field: what one class more adds to the number
	rules   []uint32
	left    int // the number of combinations that are left to the rows
}

const (
	maxShortlists = 3
	// maxCombinations of a shortlist take 256 KiB.
	maxCombinations = 1 << 16
	// maxListed rules of all combinations take 4 MiB.
	maxListed = 1 << 20
	// longest is the largest number of rules of a combination, and longestMean of all combinations together on average, for
	// which comparing takes less than the rows.
	longest     = 48
	longestMean = 24

	tooLong = 1 << 31
)

// filter is a rule in the fields that are compared. Of the others, classes say all, or verify is set.
type filter struct {
	src, srcMask, dst, dstMask         uint32
	srcPort, srcSpan, dstPort, dstSpan uint16 // the lowest, and how many more
	needs                              uint32
	verify                             bool
}

// probe is a packet in the fields that are compared.
type probe struct {
	src, dst         uint32
	srcPort, dstPort uint16
	has              uint32
}

// What a packet has, and a rule needs.
const (
	hasIPv4 = 1 << iota
	hasIPv6
	hasPorts
	// hasCount is had by no packet that is decided about, and needed by the rules that only count.
	hasCount
)

func (f *fields) probe() (p probe) {
	p.srcPort, p.dstPort = f.srcPort, f.dstPort
	if f.ports {
		p.has = hasPorts
	}
	switch {
	case f.src.Is4():
		src, dst := f.src.As4(), f.dst.As4()
		p.src, p.dst = binary.BigEndian.Uint32(src[:]), binary.BigEndian.Uint32(dst[:])
		p.has |= hasIPv4
	case f.src.IsValid():
		p.has |= hasIPv6
	}
	return p
}

// fails returns 1 if a rule does not match, and 0 if it does. It has no branch: most rules of a shortlist do not match, and no
// processor could know which.
func (q *filter) fails(p *probe) uint32 {
	differs := (p.src^q.src)&q.srcMask | (p.dst^q.dst)&q.dstMask | q.needs&^p.has
	outside := (int32(q.srcSpan) - int32(p.srcPort-q.srcPort)) | (int32(q.dstSpan) - int32(p.dstPort-q.dstPort))
	return (differs | -differs | uint32(outside)) >> 31
}

// shorten makes the shortlists, or none if they would not pay.
func (c *classifier) shorten() {
	left := make([]uint64, c.words)
	for i := range c.rules {
		setBit(left, i)
	}
	c.filters = make([]filter, len(c.rules))
	mean, rows := 0.0, 0.0 // of candidates, and of lists that are too long, per packet
	for n := len(c.rules); n > 0; {
		field := c.sharpest(left)
		if len(c.shortlists) == maxShortlists || field < 0 {
			c.shortlists = nil
			break
		}
		own, rest, others := make([]uint64, c.words), make([]uint64, c.words), 0
		for w := range left {
			own[w], rest[w] = left[w]&^c.field[field].wild[w], left[w]&c.field[field].wild[w]
			others += bits.OnesCount64(rest[w])
		}
		if others <= longest/4 { // they are in all lists
			own, rest, others = left, make([]uint64, c.words), 0
		}
		l := c.newShortlist(field, own)
		combinations := float64(len(l.starts) - 1)
		mean += float64(len(l.rules)) / combinations
		rows += float64(l.left) / combinations
		if len(l.rules) > maxListed || mean+rows*longest > longestMean { // a list that is too long counts as the longest
			c.shortlists = nil
			break
		}
		c.shortlists = append(c.shortlists, l)
		left, n = rest, others
	}
	if c.shortlists == nil {
		c.filters = nil
		return
	}
	c.candidates = mean
	for i := range c.rules {
		c.counting = c.counting || c.rules[i].action == actionCount
	}
	for i := range c.shortlists {
		for _, f := range c.shortlists[i].fields {
			if !slices.Contains(c.listed, f) {
				c.listed = append(c.listed, f)
			}
		}
	}
}

// sharpest is the field of which a class leaves the fewest of the rules of a set, on average; -1: no field tells any of them.
func (c *classifier) sharpest(set []uint64) (field int) {
	field, least := -1, math.Inf(1)
	for _, f := range c.active {
		r, wild, own, all := &c.field[f], 0, 0, 0
		for w := range set {
			wild += bits.OnesCount64(set[w] & r.wild[w])
			all += bits.OnesCount64(set[w])
		}
		if wild == all {
			continue
		}
		classes := len(r.start) / c.sums
		for i, sum := range r.sums {
			for at := r.start[i]; sum != 0; sum &= sum - 1 {
				own += bits.OnesCount64(r.packed[at] & set[64*(i%c.sums)+bits.TrailingZeros64(sum)])
				at++
			}
		}
		if mean := float64(wild) + float64(own)/float64(classes); mean < least {
			field, least = f, mean
		}
	}
	return field
}

// count is how many rules words of rows have.
func count(row []uint64) (n int) {
	for _, w := range row {
		n += bits.OnesCount64(w)
	}
	return n
}

// compared are the fields that filters compare; of addresses, those of IPv4.
func compared(field int) bool {
	switch field {
	case fieldSrcPort, fieldDstPort, fieldSrc, fieldDst:
		return true
	}
	return false
}

// newShortlist makes the shortlist of a set of rules by a field, and by those of the fields which filters do not compare for
// which there is room.
func (c *classifier) newShortlist(field int, set []uint64) (l shortlist) {
	looksAt := func(rule, field int) bool { return c.field[field].wild[rule/64]>>(rule%64)&1 == 0 }
	l.fields, l.strides = []int{field}, []uint32{1}
	combinations := len(c.field[field].start) / c.sums
	var members []int
	for w, word := range set {
		for ; word != 0; word &= word - 1 {
			members = append(members, 64*w+bits.TrailingZeros64(word))
		}
	}
	for _, f := range c.active {
		n := len(c.field[f].start) / c.sums
		if f == field || compared(f) || combinations*n > maxCombinations || !slices.ContainsFunc(members, func(r int) bool { return looksAt(r, f) }) {
			continue
		}
		l.fields, l.strides = append(l.fields, f), append(l.strides, uint32(combinations))
		combinations *= n
	}
	for _, r := range members {
		c.filters[r] = newFilter(&c.rules[r])
		for _, f := range c.active {
			if looksAt(r, f) && !compared(f) && !slices.Contains(l.fields, f) {
				c.filters[r].verify = true
			}
		}
		c.filters[r].verify = c.filters[r].verify || c.verify[r]
	}
	c.list(&l, set, combinations)
	return l
}

// list writes the rules of each combination, in the order of combinations: the first field's classes vary the fastest.
func (c *classifier) list(l *shortlist, set []uint64, combinations int) {
	first := make([][]uint32, len(c.field[l.fields[0]].start)/c.sums) // by class; nil: too many
	// The other fields' classes part a class's rules, so it may have more of them than a list. The bounds are of memory and time: of
	// ranges of ports that overlap, each class may have tens of thousands of rules.
	most := min(longest*longest, 4*longest*(combinations/len(first)))
	row, found := make([]uint64, c.words), make([]uint32, 0, most)
	for class := range first {
		c.unpack(l.fields[0], uint32(class), row)
		for w := range row {
			row[w] = (row[w] | c.field[l.fields[0]].wild[w]) & set[w]
		}
		if count(row) <= most {
			found = found[:0]
			for w, word := range row {
				for ; word != 0; word &= word - 1 {
					found = append(found, uint32(64*w+bits.TrailingZeros64(word)))
				}
			}
			first[class] = append([]uint32{}, found...)
		}
	}
	l.starts = make([]uint32, 0, combinations+1)
	for at := 0; at < combinations; at += len(first) {
		for w := range row {
			row[w] = set[w]
		}
		one := make([]uint64, c.words)
		for i, f := range l.fields[1:] {
			n := len(c.field[f].start) / c.sums
			c.unpack(f, uint32(at/int(l.strides[i+1])%n), one)
			for w := range row {
				row[w] &= one[w] | c.field[f].wild[w]
			}
		}
		for _, rules := range first {
			start := len(l.rules)
			for _, r := range rules {
				if row[r/64]>>(r%64)&1 != 0 {
					l.rules = append(l.rules, r)
				}
			}
			if rules == nil || len(l.rules)-start > longest {
				l.rules = l.rules[:start]
				start |= tooLong
				l.left++
			}
			l.starts = append(l.starts, uint32(start))
		}
	}
	l.starts = append(l.starts, uint32(len(l.rules)))
	l.rules = slices.Clip(l.rules)
}

func newFilter(m *match) filter {
	q := filter{srcSpan: math.MaxUint16, dstSpan: math.MaxUint16}
	if m.action == actionCount {
		q.needs = hasCount
	}
	address := func(p netip.Prefix, at, mask *uint32) {
		switch {
		case !p.IsValid():
		case p.Addr().Is4():
			four := p.Addr().As4()
			*at, *mask = binary.BigEndian.Uint32(four[:]), ^uint32(0)<<(32-p.Bits())
			q.needs |= hasIPv4
		default:
			q.needs |= hasIPv6
			q.verify = true
		}
	}
	address(m.src, &q.src, &q.srcMask)
	address(m.dst, &q.dst, &q.dstMask)
	if m.srcPort.needed {
		q.srcPort, q.srcSpan = m.srcPort.low, m.srcPort.high-m.srcPort.low
		q.needs |= hasPorts
	}
	if m.dstPort.needed {
		q.dstPort, q.dstSpan = m.dstPort.low, m.dstPort.high-m.dstPort.low
		q.needs |= hasPorts
	}
	return q
}

// span are the candidates of a packet in a shortlist.
type span struct{ at, end uint32 }

// flowKey is the key of a packet of IPv4 with ports by all that the rules look at, or the zero key of any other packet.
func (c *classifier) flowKey(f *fields, p *probe) (k key) {
	if p.has != hasIPv4|hasPorts || f.unknown != 0 || f.etherType != header.TypeIPv4 || f.inPort >= 1<<14 {
		return k
	}
	k.low = uint64(p.src)<<32 | uint64(p.dst)
	k.high = (uint64(p.srcPort)<<16|uint64(p.dstPort)|uint64(uint8(f.proto))<<32|uint64(f.flags)<<40|uint64(f.inPort)<<49)&c.flowMask | keyUsed
	return k
}

// layOutFlowKey chooses what flowKey has, and reports whether it can have all that the rules look at. A cache knows no rules that only
// count.
func (c *classifier) layOutFlowKey() bool {
	for i := range c.rules {
		if c.rules[i].srcMAC.mask|c.rules[i].dstMAC.mask != 0 {
			return false
		}
	}
	c.flowMask = 1<<40 - 1
	for _, f := range c.active {
		switch f {
		case fieldVLAN:
			return false
		case fieldFlags:
			c.flowMask |= (1<<9 - 1) << 40
		case fieldInPort:
			c.flowMask |= (1<<14 - 1) << 49
		}
	}
	return !c.counting
}

// look decides about packets by the shortlists, and returns those that are left to the rows.
func (s *stage) look(c *classifier, lives []uint8) (rest []uint8) {
	for _, i := range lives {
		s.probes[i&maxLook] = s.fields[i&maxLook].probe()
	}
	cached := len(s.cache) != 0 && s.worthwhile()
	if cached {
		lives = s.recall(c, lives)
	}
	rest = c.spans(&s.looks, lives)
	listed := lives[:len(lives)-len(rest)]
	if c.counting {
		s.counted = s.spans
	}
	c.decideListed(&s.looks, listed)
	if cached {
		for _, i := range listed {
			if at := s.keys[i&maxLook]; at.high != 0 {
				s.cache[int(s.sets[i&maxLook])&(len(s.cache)-1)].insert(at, verdict{rule: s.decides[i&maxLook]})
			}
		}
	}
	return rest
}

// recall decides about packets by the cache, and returns those that it does not know.
func (s *stage) recall(c *classifier, lives []uint8) (unknown []uint8) {
	for _, i := range lives {
		s.keys[i&maxLook] = c.flowKey(&s.fields[i&maxLook], &s.probes[i&maxLook])
		s.sets[i&maxLook] = s.cache.index(s.keys[i&maxLook])
		s.asked += uint32(s.keys[i&maxLook].high >> 63) // keyUsed
	}
	s.touched += s.touch(lives)
	n := 0
	for at, i := range lives {
		v := s.cache[int(s.sets[i&maxLook])&(len(s.cache)-1)].lookup(s.keys[i&maxLook])
		if v != nil && s.keys[i&maxLook].high != 0 {
			s.decides[i&maxLook], s.short[i&maxLook] = v.rule, true
			continue
		}
		lives[at], lives[n] = lives[n], i
		n++
	}
	s.known += uint32(len(lives) - n)
	return lives[:n]
}

// worthwhile reports whether the cache is to be asked about a batch: one batch in sampledBatches if it knew fewer than one packet
// in four of the last ones.
func (s *stage) worthwhile() bool {
	if s.asked >= 1<<14 {
		s.futile = s.known < s.asked/4
		s.asked, s.known = 0, 0
	}
	s.batches++
	return !s.futile || s.batches%sampledBatches == 0
}

const sampledBatches = 16

// spans finds the candidates of the packets, and returns those that the rows have to find the rules of: packets of which a part
// could not be parsed, and of combinations with too many rules. It reorders lives.
func (c *classifier) spans(l *looks, lives []uint8) (rest []uint8) {
	c.classes(l, lives, c.listed)
	for k := range c.shortlists {
		list := &c.shortlists[k]
		for _, i := range lives {
			n := uint32(0)
			for j, f := range list.fields {
				n += l.tuples[i&maxLook][f] * list.strides[j]
			}
			l.spans[k][i&maxLook] = span{list.starts[n], list.starts[n+1] &^ tooLong}
		}
	}
	listed := 0
	for at, i := range lives {
		marks := uint32(0)
		for k := range c.shortlists {
			marks |= l.spans[k][i&maxLook].at
		}
		l.short[i&maxLook] = marks&tooLong == 0 && l.fields[i&maxLook].unknown == 0
		if l.short[i&maxLook] {
			lives[at], lives[listed] = lives[listed], i
			listed++
		}
	}
	return lives[listed:]
}

// decideListed finds the rules that decide about packets. It compares one candidate of each packet, then the next one of those that
// are still undecided: no branch depends on a packet, so the loads of tens of packets are in flight.
func (c *classifier) decideListed(l *looks, lives []uint8) {
	for _, i := range lives {
		l.decides[i&maxLook] = uint32(len(c.rules))
	}
	var undecided [packet.BatchSize]uint8
	for k := range c.shortlists {
		rules := c.shortlists[k].rules
		n := 0
		for _, i := range lives {
			if s := &l.spans[k][i&maxLook]; s.at != s.end {
				undecided[n&maxLook] = i
				n++
			}
		}
		for n != 0 {
			next := 0
			for _, i := range undecided[:n] {
				s, decides := &l.spans[k][i&maxLook], l.decides[i&maxLook]
				r := rules[s.at]
				q := &c.filters[r]
				fails := q.fails(&l.probes[i&maxLook])
				if fails == 0 && q.verify && !c.rules[r].matches(&l.fields[i&maxLook]) {
					fails = 1
				}
				s.at++
				l.decides[i&maxLook] = min(decides, r|-fails)
				undecided[next&maxLook] = i
				next += int(fails & ((s.at - s.end) & (r - decides) >> 31))
			}
			n = next
		}
	}
}

// countListed counts packet i for the rules in front of the deciding one that only count.
func (s *stage) countListed(c *classifier, i int, bytes uint64) {
	p := s.probes[i]
	p.has |= hasCount
	for k := range c.shortlists {
		own := s.counted[k][i]
		for _, r := range c.shortlists[k].rules[own.at:own.end] {
			if r >= s.decides[i] {
				break
			}
			if q := &c.filters[r]; q.needs&hasCount != 0 && q.fails(&p) == 0 && (!q.verify || c.rules[r].matches(&s.fields[i])) {
				s.hits[r].packets++
				s.hits[r].bytes += bytes
			}
		}
	}
}
