package path

import (
	"cmp"
	"fmt"
	"slices"
)

// Topology is what a decoder may know of the network: the values that hops can
// have (the switches' ids) and which of them can follow each other. It is
// immutable, and safe for concurrent use.
type Topology struct {
	values []uint64
	index  map[uint64]int32
	// Directed links, sorted by where they start: those of node v are
	// first[v] to first[v+1].
	first          []int32
	from, to, back []int32 // back is the link in the other direction
}

// NewTopology makes a topology of links between values, usable both ways.
// Links given twice, or from a value to itself, count once, or not at all.
func NewTopology(values []uint64, links [][2]uint64) (*Topology, error) {
	t := &Topology{values: slices.Clone(values), index: make(map[uint64]int32, len(values))}
	for i, v := range t.values {
		if _, twice := t.index[v]; twice {
			return nil, fmt.Errorf("topology: value %d occurs twice", v)
		}
		t.index[v] = int32(i)
	}
	var directed [][2]int32
	for _, l := range links {
		a, known := t.index[l[0]]
		b, known2 := t.index[l[1]]
		if !known || !known2 {
			return nil, fmt.Errorf("topology: link %d-%d leads to an unknown value", l[0], l[1])
		}
		if a != b {
			directed = append(directed, [2]int32{a, b}, [2]int32{b, a})
		}
	}
	order := func(x, y [2]int32) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) }
	slices.SortFunc(directed, order)
	directed = slices.Compact(directed)
	t.first = make([]int32, len(values)+1)
	for _, d := range directed {
		t.first[d[0]+1]++
		t.from, t.to = append(t.from, d[0]), append(t.to, d[1])
	}
	for v := range values {
		t.first[v+1] += t.first[v]
	}
	for _, d := range directed {
		i, _ := slices.BinarySearchFunc(directed, [2]int32{d[1], d[0]}, order)
		t.back = append(t.back, int32(i))
	}
	return t, nil
}

// Values returns the values of all nodes; the caller must not change them.
func (t *Topology) Values() []uint64 { return t.values }

// out are the links that leave node v: out(v) <= link < end.
func (t *Topology) out(v int32) (start, end int32) { return t.first[v], t.first[v+1] }
