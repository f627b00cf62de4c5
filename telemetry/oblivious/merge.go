package oblivious

import "math"

// Simple merges samples into the one that a single sampler of their size would
// have, had it seen each packet (Section III-B). Sizes may differ: the result
// has the smallest.
//
// Both merges are associative, commutative and idempotent, but for the totals and Seen,
// which they add. Merging may be nested, and workers, switches and epochs be
// merged in any order. Samples are not changed, nor shared by the result.
func Simple(samples ...*Sample) (*Sample, error) {
	out, err := empty(samples)
	if err != nil {
		return nil, err
	}
	counted := true
	for _, s := range samples {
		counted = counted && (s.counted() || s.Packets == 0)
		for i, t := range s.Classes {
			out.Classes[i].Packets += t.Packets
			out.Classes[i].Bytes += t.Bytes
		}
	}
	if !counted {
		out.Classes = [classes]Totals{}
	}
	c := newCursors(samples)
	for len(out.Entries) < out.Size && c.next(maxRank) {
		out.Entries = append(out.Entries, c.entry)
		if counted { // below the threshold each sample has all that was seen
			out.Seen = append(out.Seen, uint32(min(c.seen, math.MaxUint32)))
		}
	}
	if len(out.Entries) == out.Size {
		out.Threshold = out.Entries[out.Size-1].Rank
	}
	return out, nil
}

// Improved merges samples into all entries up to the smallest of their
// thresholds (Section III-C, after Cohen and Kaplan): below it each sample has
// all that passed its switch, so nothing in the network is missing. There are at
// least Size of them, if any sample is full, and far more where traffic is
// spread over switches.
func Improved(samples ...*Sample) (*Sample, error) {
	out, err := empty(samples)
	if err != nil {
		return nil, err
	}
	most := 0
	for _, s := range samples {
		if s.Threshold.Compare(out.Threshold) < 0 {
			out.Threshold = s.Threshold
		}
		most = max(most, len(s.Entries))
	}
	out.Entries = make([]Entry, 0, most)
	for c := newCursors(samples); c.next(out.Threshold); {
		out.Entries = append(out.Entries, c.entry)
	}
	return out, nil
}

// empty is the merged sample before it has entries.
func empty(samples []*Sample) (*Sample, error) {
	if err := sameShape(samples); err != nil {
		return nil, err
	}
	first := samples[0]
	out := &Sample{Kind: first.Kind, Unit: first.Unit, Size: first.Size, Seed: first.Seed, Hash: first.Hash, Threshold: maxRank}
	for _, s := range samples {
		out.Size = min(out.Size, s.Size)
		out.Packets += s.Packets
		out.Bytes += s.Bytes
	}
	return out, nil
}

// cursors walk through the entries of many samples in order of rank, each rank
// once: a heap of the ranks at which they are, the smallest on top. Ranks are copied into it, so that it stays in the caches.
type cursors struct {
	heads []head
	left  []cursor
	entry Entry  // where next is
	seen  uint64 // how often it was, of samples that say so
	// limit is the largest threshold of the samples that have it.
	limit Rank
}

// head is where a cursor, by its number, is.
type head struct {
	Rank
	of int32
}

// cursor is what is left of a sample, an entry at least.
type cursor struct {
	entries   []Entry
	seen      []uint32
	threshold Rank
}

func newCursors(samples []*Sample) *cursors {
	c := &cursors{}
	for _, s := range samples {
		if len(s.Entries) > 0 {
			c.heads = append(c.heads, head{s.Entries[0].Rank, int32(len(c.left))})
			c.left = append(c.left, cursor{s.Entries, s.Seen, s.Threshold})
		}
	}
	for i := len(c.heads)/2 - 1; i >= 0; i-- {
		c.down(i)
	}
	return c
}

// next goes to the next rank, and reports false if it is beyond the limit, or
// there is none.
func (c *cursors) next(limit Rank) bool {
	if len(c.heads) == 0 || limit.less(c.heads[0].Rank) {
		return false
	}
	first := &c.left[c.heads[0].of]
	c.entry, c.limit, c.seen = first.entries[0], first.threshold, 0
	c.advance()
	for len(c.heads) > 0 && c.heads[0].Rank == c.entry.Rank {
		also := &c.left[c.heads[0].of]
		if other := &also.entries[0]; *other != c.entry && other.before(&c.entry) {
			c.entry = *other
		}
		if c.limit.less(also.threshold) {
			c.limit = also.threshold
		}
		c.advance()
	}
	return true
}

// before decides between packets of one id, as store.settle does.
func (e *Entry) before(o *Entry) bool {
	return e.Bytes < o.Bytes || e.Bytes == o.Bytes && e.Key.compare(&o.Key) < 0
}

// advance passes the entry on top.
func (c *cursors) advance() {
	top := &c.left[c.heads[0].of]
	if len(top.seen) > 0 {
		c.seen += uint64(top.seen[0])
		top.seen = top.seen[1:]
	}
	if top.entries = top.entries[1:]; len(top.entries) > 0 {
		c.heads[0].Rank = top.entries[0].Rank
	} else {
		last := len(c.heads) - 1
		c.heads[0], c.heads = c.heads[last], c.heads[:last]
	}
	c.down(0)
}

// down moves a head to where those below it are not smaller.
func (c *cursors) down(i int) {
	heads := c.heads
	if i >= len(heads) {
		return
	}
	moved := heads[i]
	for {
		child := 2*i + 1
		if child >= len(heads) {
			break
		}
		if right := child + 1; right < len(heads) && heads[right].less(heads[child].Rank) {
			child = right
		}
		if !heads[child].less(moved.Rank) {
			break
		}
		heads[i] = heads[child]
		i = child
	}
	heads[i] = moved
}
