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

// fake is two clocks that move by what reading them takes, and by a pause for which
// the thread loses its processor in front of a reading.
type fake struct {
	now    int64 // CLOCK_MONOTONIC
	offset int64 // CLOCK_TAI minus CLOCK_MONOTONIC
	pauses []int64
}

const readingTakes = 200

func (f *fake) pass() {
	f.now += readingTakes
	if len(f.pauses) > 0 {
		f.now += f.pauses[0]
		f.pauses = f.pauses[1:]
	}
}

func (f *fake) source() Source {
	return Source{
		TAI:       func() int64 { f.pass(); return f.now + f.offset },
		Monotonic: func() int64 { f.pass(); return f.now },
	}
}

// TestInterrupted: a thread that loses its processor between the readings of a
// resync does not shift the readings behind it.
func TestInterrupted(t *testing.T) {
	const ms, offset = int64(time.Millisecond), int64(1e18)
	always := func(where int) (pauses []int64) { // the first reading decides whether to resync
		pauses = []int64{0}
		for range attempts {
			attempt := make([]int64, 3)
			attempt[where] = 40 * ms
			pauses = append(pauses, attempt...)
		}
		return pauses
	}
	for _, test := range []struct {
		name   string
		pauses []int64
		step   int64 // of CLOCK_TAI
		within int64 // ns of the truth
	}{
		{"undisturbed", nil, 0, readingTakes},
		{"behind the first of the three", []int64{0, 0, 40 * ms}, 0, readingTakes},
		{"in front of the last", []int64{0, 0, 0, 40 * ms}, 0, readingTakes},
		{"before them", []int64{0, 40 * ms}, 0, readingTakes},
		{"twice", []int64{0, 0, 40 * ms, 0, 0, 0, 3 * ms}, 0, readingTakes},
		{"each time behind the first: what was known stays", always(1), 0, readingTakes},
		{"each time in front of the last: likewise", always(2), 0, readingTakes},
		{"the clock is set", nil, -1e15, readingTakes},
		{"the clock is set, and each time interrupted: half of the gap", always(1), -1e15, 20*ms + readingTakes},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fake{now: 5, offset: offset}
			c := Of(f.source())
			c.Now()
			f.now += 20 * ms
			f.offset += test.step
			f.pauses = test.pauses
			for range 10 {
				now := c.Now()
				if off := now - f.now - f.offset; off > test.within || off < -test.within {
					t.Errorf("%d ns from the truth", off)
				}
			}
		})
	}
}

// TestInterruptedAtTheBeginning: the best of the readings is all that is known.
func TestInterruptedAtTheBeginning(t *testing.T) {
	f := &fake{offset: 1e18}
	for i := range attempts {
		f.pauses = append(f.pauses, 0, int64(attempts-i)*1e6, 0)
	}
	c := Of(f.source())
	now := c.Now()
	if off := now - f.now - f.offset; off < -5e5-readingTakes || off > 5e5+readingTakes {
		t.Errorf("%d ns from the truth, of a gap of 1 ms", off)
	}
}

// TestStandsStill: a clock set back by little stands still, one set back by much
// follows.
func TestStandsStill(t *testing.T) {
	f := &fake{offset: 1e18}
	c := Of(f.source())
	last := c.Now()
	f.now += resync + 1
	f.offset -= resync + Slew/2
	if now := c.Now(); now != last {
		t.Errorf("went on by %d ns", now-last)
	}
	f.now += resync + 1
	f.offset -= resync + 2*Slew
	if now := c.Now(); now >= last {
		t.Errorf("went on by %d ns, though set back", now-last)
	}
}

// TestKernel: the kernel's clocks differ by the same, however they are read.
func TestKernel(t *testing.T) {
	r := Kernel.Read()
	var mono, tai unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono)
	_ = unix.ClockGettime(unix.CLOCK_TAI, &tai)
	later := tai.Nano() - mono.Nano() // no less than the truth
	if r.Gap() < 0 || r.TAI-r.After > later {
		t.Errorf("%+v, then %d apart", r, later)
	}
}
