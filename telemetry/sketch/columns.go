package sketch

import "github.com/weirswitch/weir/telemetry/hash"

// AddBlock adds v[i] to the cell of each of up to Block flows: what Add of a Count-Min row does for many, and with signs 1 that of
// a Count Sketch, where the lowest bit of a mixed flow turns the sign. v has at least the length of h. Where cells are is
// random, and other stages of a switch have pushed them out of the first caches: so, on processors with AVX-512, all
// are asked for before the first is needed.
func (r *Row) AddBlock(h []uint64, v []int64, signs uint64) {
	if len(h) == 0 {
		return
	}
	h = h[:min(len(h), Block)]
	v = v[:len(h)]
	if r.member.Family() != r.family || r.member.Seed() != r.seed {
		r.member = r.family.Member(r.seed)
	}
	if r.block == nil {
		r.block = new(block)
	}
	mixed := &r.block.mixed
	r.member.Uint64s(mixed[:len(h)], h)
	if wide {
		r.addWide(r.block, v, signs)
		return
	}
	cells := r.cells.c
	for i, m := range mixed[:len(v)] {
		s := -int64(m & signs)
		d := (v[i] ^ s) - s
		c := hash.Reduce(m, uint64(len(cells)))
		if sum, ok := Sum(cells[c], d); ok {
			cells[c] = sum
		} else {
			r.Count(c, d)
		}
	}
}

// block is what AddBlock works with. A row keeps it, as clearing it takes as long as filling it.
type block struct {
	mixed, columns [Block]uint64
	add            [Block]int64
}

// addWide adds v to the cells of as many mixed flows, at least one.
func (r *Row) addWide(b *block, v []int64, signs uint64) {
	cells := r.cells.c
	wideColumns(&b.columns, &b.add, &b.mixed, &v[0], &cells[0], uint64(len(cells)), signs, len(v))
	for i := 0; ; i++ {
		if i = wideAdd(&cells[0], &b.columns, &b.add, i, len(v)); i == len(v) {
			return
		}
		r.Count(b.columns[i], b.add[i])
	}
}
