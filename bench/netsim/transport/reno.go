package transport

import "github.com/weirswitch/weir/bench/netsim/event"

// Reno are the settings of TCP.
type Reno struct {
	InitialSegments int // of the window
	MinRTO          event.Time
}

// DefaultReno has the initial window of RFC 6928, and a retransmission timeout for networks whose
// round trips take microseconds.
var DefaultReno = Reno{InitialSegments: 10, MinRTO: 5 * event.Millisecond}

// renoState is a flow's; its congestion window is the flow's window.
type renoState struct {
	threshold  float64 // ssthresh
	duplicates int
	recovering bool
	recover    int64 // recovery ends when all before it is acknowledged
	lost       bool  // the segment at una is to be sent again

	rtt, deviation, timeout event.Time
	deadline                event.Time // of the retransmission; 0: none
	timer                   event.Time // of the earliest timer; 0: none
}

// acked takes in an acknowledgement that moves una from before to una. It returns the
// new window.
func (t *renoState) acked(window, segment float64, before, una int64) float64 {
	t.duplicates = 0
	if t.recovering {
		if una >= t.recover {
			t.recovering = false
			return t.threshold
		}
		// A partial acknowledgement: the next hole is lost too, and what left the
		// network makes room for one segment (RFC 6582, 3.2, step 3).
		t.lost = true
		return max(window-float64(una-before)+segment, segment)
	}
	if window < t.threshold {
		return window + min(float64(una-before), segment)
	}
	return window + segment*segment/window
}

// duplicate takes in an acknowledgement that moves nothing.
func (t *renoState) duplicate(window, segment float64, una, next int64) float64 {
	if t.recovering {
		return window + segment
	}
	t.duplicates++
	// What was sent before a timeout does not start another recovery.
	if t.duplicates != 3 || una < t.recover {
		return window
	}
	t.threshold = max(float64(next-una)/2, 2*segment)
	t.recovering, t.recover, t.lost = true, next, true
	return t.threshold + 3*segment
}

// expired is the retransmission timeout: everything from una on is sent again.
func (t *renoState) expired(segment float64, una, next int64) (window float64) {
	t.threshold = max(float64(next-una)/2, 2*segment)
	t.recovering, t.recover, t.duplicates, t.lost = false, next, 0, false
	t.timeout *= 2
	return segment
}

// measured takes in a round trip time (RFC 6298).
func (t *renoState) measured(rtt, least event.Time) {
	if t.rtt == 0 {
		t.rtt, t.deviation = rtt, rtt/2
	} else {
		t.deviation = (3*t.deviation + max(t.rtt-rtt, rtt-t.rtt)) / 4
		t.rtt = (7*t.rtt + rtt) / 8
	}
	t.timeout = max(t.rtt+4*t.deviation, least)
}
