package l3

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"github.com/weirswitch/weir/internal/hugepage"
	"github.com/weirswitch/weir/pipeline/packet"
)

// flat is the IPv4 table that workers read where routes are many: an array of what becomes of each /24, as in
// Gupta, Lin and McKeown, Routing Lookups in Hardware at Memory Access Speeds (INFOCOM 1998), and DPDK's
// rte_lpm. A lookup is one load that depends on nothing but the address, so those of a batch are in flight at once; in
// a tree of a million routes each takes several, one after the other.
//
//	first[address >> 8]:  number of a result
//	                      grouped | number of a group, where longer prefixes are
//	groups[group << 8 | address & 255]:  number of a result
//
// It is made with the tables and never changes. Neighbours come and go without new ones: to addresses on a link the result is kind
// connected, and the tree knows the rest.
type flat struct {
	first  []uint32
	groups []uint32
	// results are few, however many the routes are: those alike are one. The first is nil: no route.
	results []*target
}

const (
	grouped   = 1 << 31
	groupSize = 1 << 8
	// flatFrom is the number of IPv4 prefixes from which the 64 MiB of first are worth it: below it the tree is in
	// the second-level cache.
	flatFrom = 4096
	// maxGroups bounds the memory of groups to 128 MiB. Real tables have few prefixes longer than /24.
	maxGroups = 1 << 17
)

// newFlat returns the flat table of the tree's IPv4 prefixes, nil if they are few, or need more than maxGroups.
func newFlat(prefixes *bart.Fast[*target]) *flat {
	if prefixes.Size4() < flatFrom {
		return nil
	}
	f := &flat{first: hugepage.Make[uint32](1 << 24), results: []*target{nil}}
	type entry struct {
		prefix netip.Prefix
		number uint32
	}
	entries := make([]entry, 0, prefixes.Size4())
	numbers := map[alike][]uint32{}
	for prefix, v := range prefixes.All4() {
		if v.kind == forward && !v.route {
			continue // a neighbour's, which may go
		}
		entries = append(entries, entry{prefix, f.number(numbers, v)})
	}
	// Longer prefixes come later, and overwrite what shorter ones have set.
	slices.SortFunc(entries, func(a, b entry) int { return a.prefix.Bits() - b.prefix.Bits() })
	for _, e := range entries {
		if !f.set(e.prefix, e.number) {
			return nil
		}
	}
	return f
}

// alike is what targets that may be one have in common, but for the hops after the first.
type alike struct {
	kind   targetKind
	reason packet.Reason
	port   uint16
	hops   int
	first  *neighbour
}

// number returns the number of a target's result.
func (f *flat) number(numbers map[alike][]uint32, v *target) uint32 {
	key := alike{kind: v.kind, reason: v.reason, port: v.port, hops: len(v.hops)}
	if len(v.hops) > 0 {
		key.first = v.hops[0]
	}
	for _, n := range numbers[key] {
		if slices.Equal(f.results[n].hops, v.hops) {
			return n
		}
	}
	n := uint32(len(f.results))
	f.results = append(f.results, v)
	numbers[key] = append(numbers[key], n)
	return n
}

// set gives the addresses of a prefix their result. Prefixes come in the order of their lengths. It reports false if there
// are too many groups.
func (f *flat) set(prefix netip.Prefix, number uint32) bool {
	a := prefix.Addr().As4()
	address := binary.BigEndian.Uint32(a[:])
	if prefix.Bits() <= 24 {
		fill(f.first[address>>8:][:1<<(24-prefix.Bits())], number)
		return true
	}
	e := &f.first[address>>8]
	if *e&grouped == 0 {
		n := uint32(len(f.groups) / groupSize)
		if n == maxGroups {
			return false
		}
		f.groups = append(f.groups, make([]uint32, groupSize)...)
		fill(f.groups[n*groupSize:], *e)
		*e = grouped | n
	}
	fill(f.groups[*e&^grouped*groupSize|address&(groupSize-1):][:1<<(32-prefix.Bits())], number)
	return true
}

func fill(entries []uint32, number uint32) {
	for i := range entries {
		entries[i] = number
	}
}
