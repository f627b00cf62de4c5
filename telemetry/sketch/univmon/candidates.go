package univmon

import (
	"fmt"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
	"github.com/weirswitch/weir/telemetry/sketch/topk"
)

// Candidates keeps, beside a fragment, the keys of the heaviest flows of each
// level. One goroutine may use it at a time. Memory: levels tables of
// entries each.
type Candidates[K any] struct {
	levels []*topk.Table[K]
}

// NewCandidates returns empty tables for 1 to MaxLevels levels, of entries each:
// twice the k of the sample that will be drawn, since half of a substream's heavy
// flows are of its first level and sets fill unevenly.
func NewCandidates[K any](levels, entries int, seed uint64) (*Candidates[K], error) {
	if levels < 1 || levels > MaxLevels {
		return nil, fmt.Errorf("univmon: %d levels; the range is 1 to %d", levels, MaxLevels)
	}
	c := &Candidates[K]{}
	for l := range levels {
		t, err := topk.New[K](entries, hash.Uint64(seed, uint64(l)))
		if err != nil {
			return nil, fmt.Errorf("univmon: %w", err)
		}
		c.levels = append(c.levels, t)
	}
	return c, nil
}

// Offer counts v for a flow of the level, or considers to admit it. See
// topk.Table.Offer.
func (c *Candidates[K]) Offer(level int, h uint64, key *K, v int64) {
	c.levels[level].Offer(h, key, v)
}

// Table returns the table of a level.
func (c *Candidates[K]) Table(level int) *topk.Table[K] { return c.levels[level] }

// AppendEntries appends the candidates of all levels.
func (c *Candidates[K]) AppendEntries(dst []topk.Entry[K]) []topk.Entry[K] {
	for _, t := range c.levels {
		dst = t.AppendEntries(dst)
	}
	return dst
}

// Merge adds the counts of o, which has the same shape.
func (c *Candidates[K]) Merge(o *Candidates[K]) error {
	if len(c.levels) != len(o.levels) {
		return fmt.Errorf("merge candidates: %w: %d and %d levels", sketch.ErrShape, len(c.levels), len(o.levels))
	}
	for l, t := range c.levels {
		if err := t.Merge(o.levels[l]); err != nil {
			return err
		}
	}
	return nil
}

// Reset forgets all candidates.
func (c *Candidates[K]) Reset() {
	for _, t := range c.levels {
		t.Reset()
	}
}

// Clone returns a copy that shares nothing.
func (c *Candidates[K]) Clone() *Candidates[K] {
	n := &Candidates[K]{}
	for _, t := range c.levels {
		n.levels = append(n.levels, t.Clone())
	}
	return n
}
