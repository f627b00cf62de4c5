package path

import (
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// walkFilter computes what nodes contribute to digests, for many nodes at once.
type walkFilter struct {
	values [laneCount]uint64
	basis  [64]uint64 // what each bit of a value contributes, where that is linear
	table  [(64 + 3) / 4][16]uint64
}

// keep keeps the nodes that contribute the digest.
func (f *walkFilter) keep(d *walkSolver, hop int, e *equation, nodes []int32) []int32 {
	if d.s.Values == pint.Linear {
		clear(f.basis[:d.s.ValueBits])
		f.addBasis(d, hop, e, 0)
		f.tabulate(d.s)
	}
	kept := nodes[:0]
	for len(nodes) > 0 {
		n := min(len(nodes), laneCount)
		for i, c := range f.contributions(d, hop, e, nodes[:n]) {
			if c&lowBits(d.s.Bits) == e.digest {
				kept = append(kept, nodes[i])
			}
		}
		nodes = nodes[n:]
	}
	return kept
}

// pack sets the words of nodes to what they contribute to the digests, side by side.
func (f *walkFilter) pack(words []uint64, d *walkSolver, hop int, digests []*equation, nodes []int32) {
	if d.s.Values == pint.Linear {
		clear(f.basis[:d.s.ValueBits])
		for i, e := range digests {
			if e.writers.Has(hop) {
				f.addBasis(d, hop, e, i*d.s.Bits)
			}
		}
		f.tabulate(d.s)
		for _, n := range nodes {
			words[n] = f.product(d.t.values[n] & lowBits(d.s.ValueBits))
		}
		return
	}
	for _, n := range nodes {
		words[n] = 0
	}
	for i, e := range digests {
		if e.writers.Has(hop) {
			f.add(words, d, hop, e, nodes, i*d.s.Bits)
		}
	}
}

// add adds what the nodes contribute to a digest to their words, from a bit on.
func (f *walkFilter) add(words []uint64, d *walkSolver, hop int, e *equation, nodes []int32, bit int) {
	for len(nodes) > 0 {
		n := min(len(nodes), laneCount)
		for i, c := range f.contributions(d, hop, e, nodes[:n]) {
			words[nodes[i]] |= c & lowBits(d.s.Bits) << (bit & 63)
		}
		nodes = nodes[n:]
	}
}

// contributions are those of at most laneCount nodes; of linear values, those that the
// table has. Bits beyond the digest's may be garbage.
func (f *walkFilter) contributions(d *walkSolver, hop int, e *equation, nodes []int32) []uint64 {
	values := f.values[:len(nodes)]
	for i, n := range nodes {
		values[i] = d.t.values[n]
	}
	if d.s.Values != pint.Linear {
		return d.s.Contributions(&d.lanes, e.id, e.instance, hop, values)
	}
	for i, v := range values {
		values[i] = f.product(v & lowBits(d.s.ValueBits))
	}
	return values
}

// addBasis adds a digest of linear values to the basis, from a bit on.
func (f *walkFilter) addBasis(d *walkSolver, hop int, e *equation, bit int) {
	key := d.s.Keys(&d.lanes, e.id, e.instance, hop, 1)[0]
	for t := range f.basis[:d.s.ValueBits] {
		f.basis[t] |= key >> (t & 63) & lowBits(d.s.Bits) << (bit & 63)
	}
}

// tabulate prepares product: the sums of the basis for each four bits of a value.
func (f *walkFilter) tabulate(s *encode.Static) {
	for t, x := range f.basis[:s.ValueBits] {
		of4, bit := &f.table[t/4], 1<<(t%4)
		for v := range bit {
			of4[(v|bit)&15] = of4[v&15] ^ x
		}
	}
}

// product is what a value contributes, by the table.
func (f *walkFilter) product(value uint64) (sum uint64) {
	for j := 0; value != 0; j, value = j+1, value>>4 {
		sum ^= f.table[j&15][value&15]
	}
	return sum
}
