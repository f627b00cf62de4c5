package traffic

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Load says how fast and for how long a source sends.
type Load struct {
	// Rate in packets per second; 0 means as fast as the source can.
	Rate float64
	// Duration and Count end the run, whichever comes first; 0 means no limit.
	Duration time.Duration
	Count    uint64
	// FirstSeq is the first sequence number. A run in several parts goes on where
	// the last part stopped.
	FirstSeq uint64
	// CatchUp bounds the packets that are sent in one go after the source was held
	// up, for example by another task on its core; what it would have sent beyond
	// is given up and makes the run source-limited. 0 means DefaultCatchUp.
	CatchUp int
}

// DefaultCatchUp packets may be sent in one go after a hold-up.
const DefaultCatchUp = 32

// limitedBelow is the share of the asked rate below which a run counts as limited by
// its source.
const limitedBelow = 0.995

// Validate reports all faults at once.
func (l Load) Validate() error {
	var faults []error
	if !(l.Rate >= 0 && l.Rate <= 1e9) {
		faults = append(faults, fmt.Errorf("rate: %v is not between 0 and 10^9 packets per second", l.Rate))
	}
	if l.Rate > 0 && l.Rate < 0.01 {
		faults = append(faults, fmt.Errorf("rate: %v is below 0.01 packets per second", l.Rate))
	}
	if l.Duration < 0 {
		faults = append(faults, fmt.Errorf("duration: %v is negative", l.Duration))
	}
	if l.CatchUp < 0 || l.CatchUp > 1<<16 {
		faults = append(faults, fmt.Errorf("catch-up: %d is not between 0 and 65536 packets", l.CatchUp))
	}
	return errors.Join(faults...)
}

// Sent counts what a source sent.
type Sent struct {
	// Packets and Bytes handed to the device, bytes without the frame check
	// sequence. A veth whose peer's ring is full then refuses a packet without
	// notifying the live-frame source: Refused counts those where the device says so.
	Packets, Bytes uint64
	// Refused packets, of Packets, were dropped by the sending device itself.
	Refused uint64
	// NextSeq is the sequence number after the last one used.
	NextSeq uint64
	// Elapsed is the time from the first packet to the end of the run.
	Elapsed time.Duration
	// Offered is the rate asked for and Rate the one reached, in packets per second.
	Offered, Rate float64
	// SourceLimited is set when the rate fell short of the one asked for by more than
	// 0.5 %, and always when no rate was asked for.
	SourceLimited bool
	// Restarts counts the interruptions of the sending system call, each of which
	// leaves a gap of about 25 ms in the stream.
	Restarts int
}

func (s *Sent) finish(load Load) {
	s.NextSeq = load.FirstSeq + s.Packets
	s.Offered = load.Rate
	if seconds := s.Elapsed.Seconds(); seconds > 0 {
		s.Rate = float64(s.Packets) / seconds
	}
	s.SourceLimited = load.Rate == 0 || s.Rate < load.Rate*limitedBelow
}

// Source sends a workload out of one interface.
type Source interface {
	// Run sends until the load's duration or count is reached or the context ends,
	// which is no error. Sources may run one after the other but not twice at a time.
	Run(ctx context.Context, load Load) (Sent, error)
	// Name is what a report calls the source: "live-frames", "af_packet".
	Name() string
	// Close frees everything; Run must have returned.
	Close() error
}
