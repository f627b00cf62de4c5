package disketch

import (
	"fmt"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch/hyperloglog"
)

// Counter is one copy of a fragment's cells, for one subepoch: what a worker
// writes on the packet path. One goroutine may use it at a time.
type Counter struct {
	id       ID
	unit     Unit
	epochs   Epochs
	schedule Schedule
	subepoch uint64
	rows     rows
	heavy    candidates
	packets  uint64
	value    uint64
	seen     uint64
	open     bool // for the subepoch of the last Begin
	// flows counts the different flows of a slice of an epoch, if sliced; nil: there are no slices. It tells the size of flows, by
	// which n is chosen, where the cells are so crowded that they do not.
	flows  *hyperloglog.Row
	sliced bool

	// What AddBatch found to be counted, before it is added, and where it was.
	counted [batch]uint64
	values  [batch]int64
	index   [batch]uint8
	hashes  [batch]uint64
}

// batch is how many packets AddBatch treats at once.
const batch = 64

// NewCounter returns an empty counter, which counts nothing until Begin.
func (f *Fragment) NewCounter() (*Counter, error) {
	c := &f.config
	r, err := newRows(c.Kind, c.Memory, c.levels(), c.LevelSeed(), c.Hash)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c.ID, err)
	}
	heavy, err := newCandidates(c)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c.ID, err)
	}
	n := &Counter{id: c.ID, unit: c.Unit, epochs: c.Epochs, rows: r, heavy: heavy}
	if f.slices > 0 {
		if n.flows, err = hyperloglog.NewRowBytes(flowsBytes, hash.Uint64x2(c.Seed, c.ID.Switch, 'f')); err != nil {
			return nil, fmt.Errorf("%v: %w", c.ID, err)
		}
		n.flows.Use(c.Hash)
	}
	return n, nil
}

// flowsBytes are the registers by which the flows of slices are counted: with a standard error of 4.6 %.
const flowsBytes = 512

// Begin empties the counter for a subepoch.
func (c *Counter) Begin(s Schedule, subepoch uint64) {
	c.schedule, c.subepoch = s, subepoch
	c.packets, c.value, c.seen = 0, 0, 0
	c.rows.reset(s.cellSeed())
	c.heavy.reset()
	c.open, c.sliced = true, false
}

// BeginSlice empties the counter for a slice of an epoch with n = 1: see Slices.
func (c *Counter) BeginSlice(s Schedule) {
	c.Begin(s, 0)
	if c.sliced = c.flows != nil; c.sliced {
		c.flows.Reset(0)
	}
}

// Close ends the counter's subepoch: the next one begins with Begin or Join. Until
// then the cells hold what they held.
func (c *Counter) Close() { c.open = false }

// IsOpen says that the counter has begun a subepoch and not closed it.
func (c *Counter) IsOpen() bool { return c.open }

// Join is Merge into a counter that begins the other's subepoch if it has none.
// A counter that is closed adds nothing.
func (c *Counter) Join(o *Counter) error {
	if !o.open {
		return nil
	}
	switch {
	case c.open:
	case o.sliced:
		c.BeginSlice(o.schedule)
	default:
		c.Begin(o.schedule, o.subepoch)
	}
	return c.Merge(o)
}

// Add counts a packet of the flow with the value v (1, or its bytes) if the
// subepoch is the flow's. singleHop says that the flow passes no other switch. It
// does not allocate. It makes no candidates: AddBatch does.
func (c *Counter) Add(flow uint64, v int64, singleHop bool) {
	c.seen++
	if !c.schedule.Counts(flow, c.subepoch, singleHop) {
		return
	}
	c.rows.add(flow, v)
	if c.sliced {
		c.flows.AddUniform([]uint64{flow})
	}
	c.packets++
	c.value += uint64(v)
}

// AddBatch does Add(flows[i], values[i], singleHop) for each i. values has at
// least the length of flows, or is nil: each counts 1. Flows that become candidates by it are in Admitted.
// It allocates only for more than 64 flows.
func (c *Counter) AddBatch(flows []uint64, values []int64, singleHop bool) {
	c.heavy.admitted = c.heavy.admitted[:0]
	for base := 0; len(flows) > 0; base += batch {
		n := min(len(flows), batch)
		if values == nil {
			c.addBatch(flows[:n], nil, singleHop, base)
		} else {
			c.addBatch(flows[:n], values[:n], singleHop, base)
			values = values[n:]
		}
		flows = flows[n:]
	}
}

// Admitted lists the flows that the last AddBatch made candidates. Its caller
// sets their keys, in this order and before the next one.
func (c *Counter) Admitted() []Admission { return c.heavy.admitted }

func (c *Counter) addBatch(flows []uint64, values []int64, singleHop bool, base int) {
	c.seen += uint64(len(flows))
	index := (*[batch]uint8)(nil)
	if c.schedule.Log > 0 {
		n := c.choose(flows, singleHop)
		if values != nil {
			for k, i := range c.index[:n] {
				c.values[k] = values[i]
			}
			values = c.values[:n]
		}
		flows, index = c.counted[:n], &c.index
	}
	c.packets += uint64(len(flows))
	if values == nil {
		values = ones[:len(flows)]
		c.value += uint64(len(flows))
	} else {
		for _, v := range values {
			c.value += uint64(v)
		}
	}
	c.rows.addBatch(flows, values)
	if c.sliced {
		c.flows.AddUniform(flows)
	}
	if c.heavy.tables != nil {
		c.heavy.offer(&c.rows, flows, values, index, base)
	}
}

// ones are the values of packets.
var ones = [batch]int64(slices.Repeat([]int64{1}, batch))

// choose notes the flows of this subepoch, and where they are, and returns how many there are.
func (c *Counter) choose(flows []uint64, singleHop bool) (n int) {
	s, hashes := c.schedule, c.hashes[:len(flows)]
	s.Hash.Uint64s(hashes, s.Seed, flows)
	for i, h := range hashes {
		c.counted[n&(batch-1)], c.index[n&(batch-1)] = flows[i], uint8(i) // BCE
		if s.counts(s.of(h), c.subepoch, singleHop) {
			n++
		}
	}
	return n
}

// Merge adds what another copy of the fragment counted in the same subepoch.
func (c *Counter) Merge(o *Counter) error {
	if c.id != o.id || c.open != o.open || c.schedule != o.schedule || c.subepoch != o.subepoch {
		return fmt.Errorf("merge %v, epoch %d, subepoch %d with %v, epoch %d, subepoch %d: not the same subepoch",
			c.id, c.schedule.Epoch, c.subepoch, o.id, o.schedule.Epoch, o.subepoch)
	}
	if err := c.rows.merge(&o.rows); err != nil {
		return fmt.Errorf("%v: %w", c.id, err)
	}
	if err := c.heavy.merge(&o.heavy); err != nil {
		return fmt.Errorf("%v: %w", c.id, err)
	}
	if c.sliced && o.sliced {
		if err := c.flows.Merge(o.flows); err != nil {
			return fmt.Errorf("%v: %w", c.id, err)
		}
	}
	c.packets += o.packets
	c.value += o.value
	c.seen += o.seen
	return nil
}

// Record is what the counter knows of its subepoch. It shares the cells with the
// counter: encode or Clone it before the next Begin.
func (c *Counter) Record() *Record {
	return &Record{
		Fragment: c.id, Unit: c.unit, Epochs: c.epochs, Schedule: c.schedule, Subepoch: c.subepoch,
		Packets: c.packets, Value: c.value, Seen: c.seen, Candidates: c.heavy.list(), Room: c.heavy.room(), rows: c.rows,
	}
}

// Bytes is the memory of the cells.
func (c *Counter) Bytes() int { return c.rows.bytes() }
