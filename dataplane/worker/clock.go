package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock reads CLOCK_TAI without a system call per reading: Go's monotonic
// clock is read in user space, and its distance to CLOCK_TAI is measured anew
// every resync, so steps and slewing of the system clock are followed.
type clock struct {
	offset int64 // CLOCK_TAI minus since(base)
	synced time.Duration
	last   int64
}

const resync = 10 * time.Millisecond

// slew is how far the clock may seem to step back, in ns, and stands still
// instead: so much may an interruption between two readings falsify the distance.
const slew = int64(resync)

var clockBase = time.Now()

// readTAI reads CLOCK_TAI, in ns. Tests put in its place a clock that jumps.
var readTAI = func() int64 {
	var ts unix.Timespec
	// The clock id is valid on every kernel with AF_XDP, so this cannot fail.
	_ = unix.ClockGettime(unix.CLOCK_TAI, &ts)
	return ts.Nano()
}

func (c *clock) now() int64 {
	mono := time.Since(clockBase)
	if mono-c.synced > resync || c.synced == 0 {
		tai := readTAI()
		mono = time.Since(clockBase)
		c.offset, c.synced = tai-int64(mono), mono
	}
	now := int64(mono) + c.offset
	if now < c.last && c.last-now < slew {
		return c.last
	}
	c.last = now
	return now
}
