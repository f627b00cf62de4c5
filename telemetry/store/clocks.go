package store

import (
	"math"
	"slices"
	"time"
)

// unknownArrival is the arrival of a record of which it is not known.
const unknownArrival = math.MaxInt64

// noOffset is by how much such a record is ahead.
const noOffset = math.MinInt64

// ClockTolerance is by how much the end of a slice may be behind its record's arrival, by the collector's clock:
// a record is sent when its slice is over, so more of it means that the switch's clock is ahead.
const ClockTolerance = 2 * time.Second

// offsets estimate a switch's clock: of its last records, by how much the end of the slice was ahead of the
// arrival. The largest is the offset of the clock less the shortest delay of a record, so a clock that is ahead
// shows, and one that is behind looks like records that are late.
type offsets struct {
	last [32]int64
	n    int // that were noted in all
}

func (o *offsets) add(ahead int64) {
	if ahead == noOffset {
		return
	}
	o.last[o.n%len(o.last)] = ahead
	o.n++
}

// estimate is the largest of the last offsets.
func (o *offsets) estimate() (ahead int64, known bool) {
	if o.n == 0 {
		return 0, false
	}
	return slices.Max(o.last[:min(o.n, len(o.last))]), true
}

// judgment is by what clocks are judged.
type judgment struct {
	// reference is by how much most switches' clocks are ahead, 0 if they are not: the collector's own is
	// behind then.
	reference int64
}

// judgeClocks finds the reference: the median of the switches, the lower one of two, so that one switch
// does not move it.
func (l *Live) judgeClocks() judgment {
	var all []int64
	for _, of := range l.switches {
		if ahead, known := of.clock.estimate(); known {
			all = append(all, ahead)
		}
	}
	if len(all) == 0 {
		return judgment{}
	}
	slices.Sort(all)
	j := judgment{all[(len(all)-1)/2]}
	if j.reference <= int64(ClockTolerance) {
		j.reference = 0
	}
	return j
}

// limit is by how much a record may be ahead.
func (j judgment) limit() int64 { return j.reference + int64(ClockTolerance) }

// Clock is what is known of a switch's clock.
type Clock struct {
	Switch uint32
	// Offset of the end of its slices to their arrival: above 0 the clock is ahead by that or more; below, the
	// clock is behind, or its records are late.
	Offset time.Duration
	// Skewed says that the switch's records are left out of answers until its clock is right.
	Skewed bool
}

// Clocks lists what is known of the clocks of switches, by number, and by how much most of them are ahead of the
// own one, 0 if they are not.
func (l *Live) Clocks() (list []Clock, ahead time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.judgeClocks()
	for sw, of := range l.switches {
		if offset, known := of.clock.estimate(); known {
			list = append(list, Clock{sw, time.Duration(offset), offset > j.limit()})
		}
	}
	slices.SortFunc(list, func(a, b Clock) int { return int(int64(a.Switch) - int64(b.Switch)) })
	return list, time.Duration(j.reference)
}
