package clock

import "time"

// Clock reads CLOCK_TAI without a system call per reading: Go's monotonic clock
// is read in user space, and its distance to CLOCK_TAI is measured anew every
// 10 ms, so steps and slewing of the system clock are followed. The zero value
// is ready. It belongs to one goroutine.
type Clock struct {
	source Source
	offset int64 // CLOCK_TAI minus CLOCK_MONOTONIC
	synced int64 // CLOCK_MONOTONIC when offset was measured
	ready  bool
	last   int64
}

// Of returns a clock that reads other clocks than the system's.
func Of(s Source) Clock { return Clock{source: s} }

const resync = int64(10 * time.Millisecond)

// Slew is how far back a clock stops instead of following, in ns: a resync
// moves by as much as one measurement of the distance and the next differ.
const Slew = int64(10 * time.Millisecond)

// Now returns nanoseconds of CLOCK_TAI. It goes back only where the system clock was
// set back, by Slew or more.
func (c *Clock) Now() int64 {
	if !c.ready {
		c.begin()
	}
	mono := c.source.Monotonic()
	if mono-c.synced > resync {
		mono = c.sync()
	}
	now := mono + c.offset
	if now < c.last && c.last-now < Slew {
		return c.last
	}
	c.last = now
	return now
}

func (c *Clock) begin() {
	if c.source.Monotonic == nil {
		c.source = runtime
	}
	r := c.source.Read()
	c.offset, c.synced, c.ready = r.Offset(), r.After, true
}

// sync measures the distance of the clocks and returns CLOCK_MONOTONIC, read anew:
// the reading that counts may be an early one of several.
func (c *Clock) sync() int64 {
	r := c.source.Read()
	c.offset, c.synced = r.Follow(c.offset), r.After
	return c.source.Monotonic()
}
