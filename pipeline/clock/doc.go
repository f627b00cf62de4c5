// Package clock reads CLOCK_TAI, the clock of packets and batches, cheaply, and
// reports its distance from CLOCK_MONOTONIC.
//
// Two clocks cannot be read at the same moment. Between the two readings a thread may
// be interrupted, for milliseconds on a busy machine, and the distance of the clocks
// is wrong by that. So the one is read on both sides of the other, which bounds the
// error, and again where that bound is too wide.
//
// Beside these it reads the processor time of a thread.
package clock
