package lds

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/lds"
)

// shape bounds the records of a module's points. It belongs to the goroutine that collects; the zero value bounds nothing.
//
// What all points of an interval may take is divided by what each took in the interval before, had it left out nothing: none gets more than that while another
// has less (max-min fairness). Where all take more at once, the points that are sent last get what is left.
type shape struct {
	bytes    float64 // that may be sent per second, as the exporter says; 0: all
	interval int64   // that left and wants are of
	left     float64 // bytes
	wants    []int   // bytes of points, as they come
	level    float64 // what a point may take
	points   int     // of the interval before
	demand   float64 // bytes per second of all points in the last whole interval
}

// Demand implements export.Shaper.
func (m *Module) Demand() (all, useful float64) { return m.shape.demand, m.shape.demand }

// Shape implements export.Shaper.
func (m *Module) Shape(bytesPerSecond float64) { m.shape.bytes = bytesPerSecond }

// room is how many bytes the record of a point may take; own is the configuration's bound for an interval, 0: none.
func (s *shape) room(p *lds.Point, own, points int) int {
	if p.Interval() > s.interval || s.level == 0 {
		seconds := float64(p.Config().IntervalNs) / 1e9
		bytes := math.Inf(1)
		if own > 0 {
			bytes = float64(own)
		}
		s.divide(bytes, seconds, points)
		s.interval = p.Interval()
	}
	// Those that come after this one get the least that a record takes.
	after := max(s.points-len(s.wants)-1, 0)
	return int(min(s.level, s.left-float64(after*leastRecord), math.MaxInt32))
}

// leastRecord is what a record takes about of which the cells are all in one.
const leastRecord = 150

// divide ends an interval: so many bytes at the most are for the points of the next one.
func (s *shape) divide(bytes, seconds float64, points int) {
	all := 0.0
	for _, n := range s.wants {
		all += float64(n)
	}
	s.demand = min(all, bytes) / seconds
	if s.bytes > 0 {
		bytes = min(bytes, s.bytes*seconds)
	}
	s.points = max(len(s.wants), points)
	s.level, s.left = level(bytes, s.wants, s.points), bytes
	s.wants = s.wants[:0]
}

// level is the most that one of n points may take, by what some of them wanted to, for all to have at most so many bytes; others want as much as they get.
func level(bytes float64, wants []int, n int) float64 {
	slices.SortFunc(wants, cmp.Compare[int])
	for i, want := range wants {
		if each := bytes / float64(n-i); each <= float64(want) {
			return each
		}
		bytes -= float64(want)
	}
	return bytes / float64(max(n-len(wants), 1))
}

// made notes what the record of a point takes, and how much that would be of all cells.
func (s *shape) made(bytes, want int) {
	s.left -= float64(bytes)
	s.wants = append(s.wants, want)
}
