// Package records makes of what a P4 switch measured the records that a Weir switch makes of
// the same packets, so that queries need not know which of both a switch is.
//
//	registers ── differences ──> fragments of sketches, measurement points ─┐
//	                                                                        ├─> the stages' own records
//	CPU port ─── cpu_t, packet ──> samples, digests ────────────────────────┘
//
// The program never resets what it counts: a subepoch or an interval has the bank of its parity,
// which is read when it is over and before its next turn, and what it counted is the difference to
// the reading before, modulo the register's width. What is read too late cannot be told apart: it
// is missed, and counted as such.
//
// Schedules of epochs and thresholds of samples are this package's to write, since they follow from the
// records: those of the next epoch while the present one runs.
package records
