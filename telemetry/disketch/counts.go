package disketch

import "fmt"

// Counts are what a fragment counted in a subepoch by the same schedule, but not in a Counter:
// in the registers of a P4 target.
type Counts struct {
	Cells                []int32 // of all levels
	Packets, Value, Seen uint64
}

// Load makes the counter one that has counted these in a subepoch. It refuses cells that cannot be
// what Value was added to: some wrapped, or were read while they changed. Only linear kinds have Counts.
func (c *Counter) Load(s Schedule, subepoch uint64, n *Counts) error {
	c.Begin(s, subepoch)
	if width := c.rows.width() * c.rows.levels(); width != len(n.Cells) || c.rows.other != nil {
		return fmt.Errorf("%v: %d cells do not fit one of %d", c.id, len(n.Cells), width)
	}
	left := n.Cells
	for level := range c.rows.levels() {
		left = left[copy(c.rows.cells(level), left):]
	}
	if c.rows.univ != nil {
		c.rows.univ.SetTotal(int64(n.Value))
	}
	if n.Packets > n.Seen || !c.rows.holds(n.Value) {
		c.Begin(s, subepoch)
		return fmt.Errorf("%v, epoch %d, subepoch %d: its cells do not hold %d packets of %d, a value of %d", c.id, s.Epoch, subepoch, n.Packets, n.Seen, n.Value)
	}
	c.packets, c.value, c.seen = n.Packets, n.Value, n.Seen
	return nil
}
