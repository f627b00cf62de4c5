// Package epoch hands what a worker measured in an epoch to a goroutine beside
// the packet path, without a lock and without copying.
//
// An epoch is a slice of the clock: 2^k nanoseconds of CLOCK_TAI, from a
// multiple of 2^k on, so that its number is a slice of the clock's bits and all
// switches of a network agree on it.
//
//	worker                                       collecting goroutine
//	  Current ── cells ──┐
//	  Tick: edge ────────┴── Handed ──> Collect: merge the workers' cells, emit, clear
//	  goes on with the other copy  <── given back ──┘
//
// A Worker has two copies of its cells. At the edge of an epoch it hands over
// the one that it filled and goes on with the other. If the other is not back
// yet, the stage measures nothing until it is: what it missed is counted with
// the epoch, nothing blocks, and no epoch gets the cells of another.
//
// A Merger collects from all workers of a switch. An epoch is emitted once every
// worker has handed it over, or has gone on to a later one.
package epoch
