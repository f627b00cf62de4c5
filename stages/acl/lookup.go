package acl

import "math/bits"

// verdict is what the rules say of a packet: the rule that decides, or the
// number of rules for the default, and the counting rules in front of it.
type verdict struct {
	rule   uint32
	counts [maxCounts]uint32 // from the front; noRule behind
}

// maxCounts is how many counting rules a cached verdict remembers. A packet that
// more of them match is not cached.
const maxCounts = 3

const noRule = ^uint32(0)

// classes looks up the classes of a packet's fields.
func (c *classifier) classes(f *fields, t *tuple) {
	for _, k := range c.active {
		switch k {
		case fieldInPort:
			t[k] = c.direct[fieldInPort][f.inPort]
		case fieldVLAN:
			t[k] = c.direct[fieldVLAN][f.vlan]
		case fieldEtherType:
			t[k] = c.direct[fieldEtherType][f.etherType]
		case fieldProto:
			v := uint32(protoValues - 1)
			if f.proto != anyProto {
				v = uint32(f.proto)
			}
			t[k] = c.direct[fieldProto][v]
		case fieldFlags:
			t[k] = c.direct[fieldFlags][f.flags]
		case fieldSrcPort:
			t[k] = c.direct[fieldSrcPort][portValue(f.srcPort, f.ports)]
		case fieldDstPort:
			t[k] = c.direct[fieldDstPort][portValue(f.dstPort, f.ports)]
		case fieldSrc:
			t[k] = c.src.lookup(f.src)
		case fieldDst:
			t[k] = c.dst.lookup(f.dst)
		case fieldSrcMAC:
			t[k] = c.srcMACs.lookup(f.srcMAC)
		case fieldDstMAC:
			t[k] = c.dstMACs.lookup(f.dstMAC)
		}
	}
	if f.unknown != 0 {
		c.unknownClasses(f.unknown, t)
	}
}

func portValue(port uint16, has bool) uint32 {
	if !has {
		return portValues - 1
	}
	return uint32(port)
}

// find ANDs the rows of the classes, and returns what the rules from a given one on say.
// If more counting rules match than a verdict holds, it ends in front of rule next, which
// is 0 otherwise. pure reports whether the verdict follows from the classes alone.
func (c *classifier) find(f *fields, t *tuple, from int) (v verdict, next int, pure bool) {
	v = verdict{rule: uint32(len(c.rules)), counts: [maxCounts]uint32{noRule, noRule, noRule}}
	pure = true
	counted := 0
	for s := from / (64 * 64); s < c.sums; s++ {
		last := min(64, c.words-64*s)
		sum := ^uint64(0) >> (64 - last)
		if s == from/(64*64) {
			sum &= ^uint64(0) << (from / 64 % 64)
		}
		for _, k := range c.active {
			sum &= c.field[k].sum(int(t[k]), c.sums, s)
		}
		for ; sum != 0; sum &= sum - 1 {
			bit := bits.TrailingZeros64(sum)
			row := ^uint64(0)
			if 64*s+bit == from/64 {
				row <<= from % 64
			}
			for _, k := range c.active {
				if row &= c.field[k].word(int(t[k]), c.sums, s, bit); row == 0 {
					break
				}
			}
			for ; row != 0; row &= row - 1 {
				r := 64*(64*s+bit) + bits.TrailingZeros64(row)
				if r >= len(c.rules) {
					break
				}
				if c.verify[r] {
					pure = false
					if !c.rules[r].mayMatch(f) {
						continue
					}
				}
				if c.rules[r].action != actionCount {
					v.rule = uint32(r)
					return v, 0, pure
				}
				if counted == maxCounts {
					return v, r, pure
				}
				v.counts[counted] = uint32(r)
				counted++
			}
		}
	}
	return v, 0, pure
}
