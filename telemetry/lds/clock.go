package lds

// StepDetector detects when the clock of the timestamps steps, by a second clock
// that never does (on Linux CLOCK_TAI beside CLOCK_MONOTONIC). The zero value
// has a tolerance of 0; set it. It has one user.
type StepDetector struct {
	// ToleranceNs is how far the clocks may drift apart between two observations
	// without a step: what slewing (500 ppm at most on Linux) and the time between
	// two readings make.
	ToleranceNs int64

	offset int64
	begun  bool
}

// Observe takes a reading of both clocks, in nanoseconds, and reports whether
// the first has stepped since the reading before.
func (d *StepDetector) Observe(clockNs, steadyNs int64) bool {
	moved := clockNs - steadyNs - d.offset
	d.offset += moved
	stepped := d.begun && (moved > d.ToleranceNs || moved < -d.ToleranceNs)
	d.begun = true
	return stepped
}
