package clock

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Readings follow CLOCK_TAI and come in order, but for what the system clock is
// slewed by.
func TestClock(t *testing.T) {
	var c Clock
	var before, after unix.Timespec
	last := int64(0)
	for range 200 {
		_ = unix.ClockGettime(unix.CLOCK_TAI, &before)
		now := c.Now()
		_ = unix.ClockGettime(unix.CLOCK_TAI, &after)
		const slack = int64(time.Millisecond) // the machine may have been taken away between two readings
		if now < before.Nano()-slack || now > after.Nano()+slack {
			t.Fatalf("read %d between %d and %d", now, before.Nano(), after.Nano())
		}
		if now < last-slack {
			t.Fatalf("read %d behind %d", now, last)
		}
		last = now
		time.Sleep(100 * time.Microsecond)
	}
	if n := testing.AllocsPerRun(100, func() { c.Now() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
