package acl

import (
	"math/bits"

	"github.com/weirswitch/weir/pipeline/packet"
)

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

// looks are what a batch's packets are looked up by. All packets are looked up by a field before the next one, and in the cache
// at the end: in so short loops tens of loads are in flight.
type looks struct {
	fields [packet.BatchSize]fields
	tuples [packet.BatchSize]tuple
	keys   [packet.BatchSize]key
	sets   [packet.BatchSize]uint32
	lives  [packet.BatchSize]uint8 // the numbers of packets that are looked up

	short   [packet.BatchSize]bool // the shortlists have the packet's rule
	spans   [maxShortlists][packet.BatchSize]span
	counted [maxShortlists][packet.BatchSize]span // the same, whole; not filled if no rule only counts
	probes  [packet.BatchSize]probe
	decides [packet.BatchSize]uint32
}

// classes looks up the classes of some fields of the packets.
func (c *classifier) classes(l *looks, lives []uint8, of []int) {
	for _, k := range of {
		switch k {
		case fieldInPort:
			for _, i := range lives {
				l.tuples[i&maxLook][k] = c.direct[fieldInPort][l.fields[i&maxLook].inPort]
			}
		case fieldVLAN:
			for _, i := range lives {
				l.tuples[i&maxLook][k] = c.direct[fieldVLAN][l.fields[i&maxLook].vlan]
			}
		case fieldEtherType:
			for _, i := range lives {
				l.tuples[i&maxLook][k] = c.direct[fieldEtherType][l.fields[i&maxLook].etherType]
			}
		case fieldProto:
			for _, i := range lives {
				v := uint32(protoValues - 1)
				if proto := l.fields[i&maxLook].proto; proto != anyProto {
					v = uint32(proto)
				}
				l.tuples[i&maxLook][k] = c.direct[fieldProto][v]
			}
		case fieldFlags:
			for _, i := range lives {
				l.tuples[i&maxLook][k] = c.direct[fieldFlags][l.fields[i&maxLook].flags]
			}
		case fieldSrcPort:
			for _, i := range lives {
				f := &l.fields[i&maxLook]
				l.tuples[i&maxLook][k] = c.direct[fieldSrcPort][portValue(f.srcPort, f.ports)]
			}
		case fieldDstPort:
			for _, i := range lives {
				f := &l.fields[i&maxLook]
				l.tuples[i&maxLook][k] = c.direct[fieldDstPort][portValue(f.dstPort, f.ports)]
			}
		case fieldSrc:
			for _, i := range lives {
				l.tuples[i&maxLook][k] = c.src.lookup(l.fields[i&maxLook].src)
			}
		case fieldDst:
			for _, i := range lives {
				l.tuples[i&maxLook][k] = c.dst.lookup(l.fields[i&maxLook].dst)
			}
		case fieldSrcMAC:
			for _, i := range lives {
				l.tuples[i&maxLook][k] = c.srcMACs.lookup(l.fields[i&maxLook].srcMAC)
			}
		case fieldDstMAC:
			for _, i := range lives {
				l.tuples[i&maxLook][k] = c.dstMACs.lookup(l.fields[i&maxLook].dstMAC)
			}
		}
	}
	for _, i := range lives {
		if f := &l.fields[i&maxLook]; f.unknown != 0 {
			c.unknownClasses(f.unknown, &l.tuples[i&maxLook])
		}
	}
}

// maxLook is the largest number of a packet in looks, and a mask.
const maxLook = packet.BatchSize - 1

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
