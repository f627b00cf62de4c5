package worker

import (
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline/clock"
)

// JumpingClock has the workers of all switches read a clock that is ahead of CLOCK_TAI
// by so many ns. It is called while no switch runs, and so is undo.
func JumpingClock(ahead *atomic.Int64) (undo func()) {
	before := clockSource
	clockSource = clock.Source{
		TAI:       func() int64 { return clock.Kernel.TAI() + ahead.Load() },
		Monotonic: clock.Kernel.Monotonic,
	}
	return func() { clockSource = before }
}
