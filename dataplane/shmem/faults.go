package shmem

import "sync/atomic"

// maxFaults is how many kinds of faults a protocol may have.
const maxFaults = 16

// Faults counts what was refused of a peer, by fault: F has values below maxFaults. The zero value has counted nothing. One goroutine at a
// time writes to it, any may read.
type Faults[F ~uint8] struct {
	counts [maxFaults]atomic.Uint64
	broken atomic.Uint64
}

// Add counts a fault that costs at most a packet.
func (c *Faults[F]) Add(f F) { c.counts[f].Add(1) }

// Break counts a fault after which a ring cannot be followed any more.
func (c *Faults[F]) Break(f F) {
	c.counts[f].Add(1)
	c.broken.Add(1)
}

// Count returns how often a fault has happened.
func (c *Faults[F]) Count(f F) uint64 { return c.counts[f].Load() }

// Each calls f for the faults that have happened.
func (c *Faults[F]) Each(f func(F, uint64)) {
	for i := range c.counts {
		if n := c.counts[i].Load(); n != 0 {
			f(F(i), n)
		}
	}
}

// Broken returns how often a ring could not be followed any more. Such a fault costs the connection, and no packet that was counted.
func (c *Faults[F]) Broken() uint64 { return c.broken.Load() }

// Packets returns how many packets were refused and cost nothing else.
func (c *Faults[F]) Packets() (sum uint64) {
	broken := c.Broken() // before: it is counted last
	for i := range c.counts {
		sum += c.counts[i].Load()
	}
	return sum - min(sum, broken)
}
