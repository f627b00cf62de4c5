package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Source is two clocks, in nanoseconds: CLOCK_TAI, which the system may set, and one
// that cannot be set. Tests have other clocks.
type Source struct {
	TAI, Monotonic func() int64
}

// Kernel reads CLOCK_MONOTONIC as the kernel and BPF programs count it, by a system
// call.
var Kernel = Source{TAI: readTAI, Monotonic: func() int64 { return read(unix.CLOCK_MONOTONIC) }}

// runtime reads CLOCK_MONOTONIC from the process's beginning, in user space.
var runtime = Source{TAI: readTAI, Monotonic: func() int64 { return int64(time.Since(base)) }}

var base = time.Now()

func readTAI() int64 { return read(unix.CLOCK_TAI) }

// read reads a clock. Every kernel with AF_XDP has those of the system, so they cannot fail;
// that of a thread which has ended does, and is 0.
func read(id int32) int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(id, &ts)
	return ts.Nano()
}

// Reading is both clocks at one moment: CLOCK_TAI was read between
// CLOCK_MONOTONIC's Before and After.
type Reading struct {
	TAI, Before, After int64
}

// Offset is how far CLOCK_TAI is ahead of CLOCK_MONOTONIC; it is wrong by half of
// Gap at most.
func (r Reading) Offset() int64 { return r.TAI - r.Before - r.Gap()/2 }

// Gap is what passed between the two readings of CLOCK_MONOTONIC.
func (r Reading) Gap() int64 { return r.After - r.Before }

// Follow returns the offset to go on with after another was known: this reading's,
// unless the thread was interrupted in it and it does not contradict the other.
func (r Reading) Follow(known int64) int64 {
	if r.Gap() >= MaxGap && r.TAI-r.After <= known && known <= r.TAI-r.Before {
		return known
	}
	return r.Offset()
}

// MaxGap is what may pass between the two readings, in nanoseconds: many times what a
// system call takes, and far less than a thread that lost its processor waits.
const MaxGap = 50_000

const attempts = 8

// Read reads both clocks, several times if need be, until Gap is below MaxGap. If the
// thread was interrupted each time, that is the reading with the least gap.
func (s Source) Read() (best Reading) {
	for i := range attempts {
		r := Reading{Before: s.Monotonic()}
		r.TAI = s.TAI()
		r.After = s.Monotonic()
		if i == 0 || r.Gap() < best.Gap() {
			best = r
		}
		if best.Gap() < MaxGap {
			break
		}
	}
	return best
}

// UTCOffset is how far CLOCK_TAI, the clock of batches and records, is ahead of UTC, the
// clock of captures and people: whole seconds in ns, 0 where the kernel does not know it.
func UTCOffset() int64 {
	const second = int64(time.Second)
	return (readTAI() - read(unix.CLOCK_REALTIME) + second/2) / second * second
}
