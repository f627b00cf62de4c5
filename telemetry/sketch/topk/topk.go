package topk

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
)

// ways is the number of entries of a set: with 8 bytes of hash and 8 of count
// each, a set is one cache line.
const ways = 4

// maxEntries bounds the entries of a table.
const maxEntries = 1 << 24

// Key is a flow's key as opaque bytes, long enough for the addresses of two IPv6
// hosts, their ports, protocol and version. A table holds any other type as well.
type Key [40]byte

// Entry is a candidate: a flow's hash under the flow seed, its key, and what the
// table counted for it.
type Entry[K any] struct {
	Hash  uint64
	Key   K
	Count int64
}

// Table holds candidates for the heaviest flows. One goroutine may use it at a
// time. Memory: 16 bytes and a key for each entry.
type Table[K any] struct {
	sets   []set
	keys   []K // Those of set i are keys[ways*i:].
	seed   uint64
	offers uint64 // Numbers the decisions about admission, so that a run can be repeated.
}

// set has a count of zero for an empty entry.
type set struct {
	h [ways]uint64
	n [ways]int64
}

// New returns an empty table of at least the given number of entries, 1 to
// maxEntries, in sets of four. The seed is that of its decisions about admission.
func New[K any](entries int, seed uint64) (*Table[K], error) {
	if entries < 1 || entries > maxEntries {
		return nil, fmt.Errorf("a table of %d candidates; the range is 1 to %d", entries, maxEntries)
	}
	sets := (entries + ways - 1) / ways
	return &Table[K]{sets: make([]set, sets), keys: make([]K, sets*ways), seed: seed}, nil
}

// Offer counts v for the flow whose key hashes to h under the flow seed, or
// considers to admit it. Values of zero and below are ignored, and a hash of zero
// is taken as 1. The key is copied if the flow is admitted, and not kept.
func (t *Table[K]) Offer(h uint64, key *K, v int64) {
	if slot := t.Count(h, v); slot != nil {
		*slot = *key
	}
}

// Count is Offer for who makes keys only when they are needed: if the flow is
// admitted, it returns where its key belongs, else nil. The slot holds another
// flow's key until it is set, and is valid until the next Count.
//
// Whether a packet's flow is in the table, and where, no branch predictor can
// know, so the only branch on it is the one that admits, which is rare. (With the
// obvious loop, it costs twice as much.)
func (t *Table[K]) Count(h uint64, v int64) (slot *K) {
	if v <= 0 {
		return nil
	}
	if h == 0 { // Empty entries have it.
		h = 1
	}
	i := hash.Reduce(h, uint64(len(t.sets)))
	s := &t.sets[i]
	// Bit j is set if entry j is the flow's.
	found := isZero(s.h[0]^h) | isZero(s.h[1]^h)<<1 | isZero(s.h[2]^h)<<2 | isZero(s.h[3]^h)<<3
	// The smallest count, with its entry in the low bits.
	low := min(s.n[0]<<2, s.n[1]<<2|1, s.n[2]<<2|2, s.n[3]<<2|3)
	t.offers++
	draw := hash.Reduce(hash.Uint64(t.seed, t.offers), uint64(low>>2+v))
	s.n[bits.TrailingZeros64(found)&(ways-1)] += v & -int64(isZero(found)^1)
	if isZero(found)&((draw-uint64(v))>>63) != 0 {
		return t.admit(i, uint64(low&(ways-1)), h, v)
	}
	return nil
}

// isZero returns 1 for zero, else 0.
func isZero(x uint64) uint64 { return (x|-x)>>63 ^ 1 }

// admit gives the flow entry j of set i.
//
//go:noinline
func (t *Table[K]) admit(i, j, h uint64, v int64) *K {
	s := &t.sets[i]
	s.h[j], s.n[j] = h, s.n[j]+v
	return &t.keys[i*ways+j]
}

// Entries returns how many candidates the table has room for.
func (t *Table[K]) Entries() int { return len(t.keys) }

// AppendEntries appends all candidates, in no particular order.
func (t *Table[K]) AppendEntries(dst []Entry[K]) []Entry[K] {
	for i := range t.sets {
		dst = t.appendSet(dst, i)
	}
	return dst
}

// Top returns the k candidates of the highest counts, the highest first; equal
// counts are ordered by hash.
func (t *Table[K]) Top(k int) []Entry[K] {
	return Top(t.AppendEntries(nil), k)
}

// Top sorts entries, the highest count first and equal counts by hash, and
// returns the first k of them.
func Top[K any](entries []Entry[K], k int) []Entry[K] {
	slices.SortFunc(entries, func(a, b Entry[K]) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Hash, b.Hash))
	})
	return entries[:min(k, len(entries))]
}

// Merge adds the counts of o, another worker's table of the same size: of each
// set, the four highest counts remain.
func (t *Table[K]) Merge(o *Table[K]) error {
	if len(t.sets) != len(o.sets) {
		return fmt.Errorf("merge candidates: %w: %d and %d entries", sketch.ErrShape, len(t.keys), len(o.keys))
	}
	var all, theirs []Entry[K]
	for i := range t.sets {
		all = t.appendSet(all[:0], i)
		theirs = o.appendSet(theirs[:0], i)
		for _, e := range theirs {
			all = addEntry(all, e)
		}
		t.setSet(i, Top(all, ways))
	}
	return nil
}

func (t *Table[K]) appendSet(dst []Entry[K], i int) []Entry[K] {
	for j, n := range t.sets[i].n {
		if n > 0 {
			dst = append(dst, Entry[K]{t.sets[i].h[j], t.keys[i*ways+j], n})
		}
	}
	return dst
}

// addEntry adds e to the entry of its hash, or appends it.
func addEntry[K any](all []Entry[K], e Entry[K]) []Entry[K] {
	for i := range all {
		if all[i].Hash == e.Hash {
			all[i].Count += e.Count
			return all
		}
	}
	return append(all, e)
}

func (t *Table[K]) setSet(i int, entries []Entry[K]) {
	t.sets[i] = set{}
	for j, e := range entries {
		t.sets[i].h[j], t.sets[i].n[j], t.keys[i*ways+j] = e.Hash, e.Count, e.Key
	}
}

// Reset forgets all candidates.
func (t *Table[K]) Reset() {
	clear(t.sets)
	clear(t.keys)
	t.offers = 0
}

// Clone returns a copy that shares nothing.
func (t *Table[K]) Clone() *Table[K] {
	return &Table[K]{slices.Clone(t.sets), slices.Clone(t.keys), t.seed, t.offers}
}
