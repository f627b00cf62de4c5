package lds

import (
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/lds"
)

// Tolerances of a step: what slewing moves the clock by in a while (500 ppm at most on
// Linux), and what passes between two readings.
const (
	slewPerMillion = 500
	readingNs      = clock.MaxGap
)

// steps watches the clock of the timestamps at the edges of intervals: CLOCK_TAI,
// which the system may set, next to CLOCK_MONOTONIC, which cannot be set. Timestamps from
// before and behind a step must not be added up.
type steps struct {
	detector lds.StepDetector
	read     func() (taiNs, monotonicNs int64, ok bool)
	last     int64 // CLOCK_MONOTONIC when it was looked at
}

func newSteps() steps { return steps{read: readClocks} }

// seen reports whether the clock stepped since it was last asked.
func (s *steps) seen() bool {
	tai, monotonic, ok := s.read()
	if !ok {
		return false // the next time covers this one too
	}
	s.detector.ToleranceNs = 2*readingNs + (monotonic-s.last)/1e6*slewPerMillion
	s.last = monotonic
	return s.detector.Observe(tai, monotonic)
}

// readClocks reads both clocks at the same time; false if the thread was interrupted
// each time it tried.
func readClocks() (taiNs, monotonicNs int64, ok bool) {
	r := clock.Kernel.Read()
	return r.TAI, r.Before, r.Gap() < clock.MaxGap
}
