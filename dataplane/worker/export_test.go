package worker

import "sync/atomic"

// JumpingClock has the workers of all switches read a clock that is ahead of CLOCK_TAI
// by so many ns. It is called while no switch runs, and so is undo.
func JumpingClock(ahead *atomic.Int64) (undo func()) {
	read := readTAI
	readTAI = func() int64 { return read() + ahead.Load() }
	return func() { readTAI = read }
}
