package traffic

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// clock reads a kernel clock at the cost of time.Since, which is no system call: it
// adds an offset, measured once, to the runtime's monotonic clock.
type clock struct {
	id     int32
	origin time.Time
	offset int64 // ns
}

func newClock(c Clock) (*clock, error) {
	k := &clock{id: unix.CLOCK_MONOTONIC, origin: time.Now()}
	if c == TAI {
		k.id = unix.CLOCK_TAI
	}
	return k, k.sync()
}

// sync measures the offset, keeping the narrowest of some tries. CLOCK_TAI is slewed,
// so long-running callers call sync from time to time.
func (k *clock) sync() error {
	narrowest := time.Duration(math.MaxInt64)
	for range 8 {
		var ts unix.Timespec
		before := time.Since(k.origin)
		if err := unix.ClockGettime(k.id, &ts); err != nil {
			return fmt.Errorf("read clock %d: %w", k.id, err)
		}
		after := time.Since(k.origin)
		if after-before < narrowest {
			narrowest = after - before
			k.offset = ts.Nano() - int64(before+after)/2
		}
	}
	return nil
}

// now is the time in ns.
func (k *clock) now() uint64 { return uint64(int64(time.Since(k.origin)) + k.offset) }
