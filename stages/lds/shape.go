package lds

import (
	"math"

	"github.com/weirswitch/weir/telemetry/lds"
)

// shape is how much of its points the module sends. It belongs to the goroutine that collects; the zero value sends all.
type shape struct {
	bytes    float64 // that may be sent per second; 0: all
	demand   float64 // bytes per second of all points in the last whole interval
	interval int64   // that sum is of
	sum      float64 // bytes
}

// Demand implements export.Shaper.
func (m *Module) Demand() (all, useful float64) { return m.shape.demand, m.shape.demand }

// Shape implements export.Shaper: points keep their first cells, the same share of each, and so of the same flows
// at both ends of a way.
func (m *Module) Shape(bytesPerSecond float64) { m.shape.bytes = bytesPerSecond }

// cut has a point keep its share.
func (s *shape) cut(p *lds.Point) {
	cells := cellsOf(p)
	if s.bytes == 0 || math.IsInf(s.bytes, 1) || s.demand <= s.bytes {
		p.Keep(cells)
		return
	}
	p.Keep(int(float64(cells) * s.bytes / s.demand))
}

// made notes what the record of a point took. Its cells take most of that.
func (s *shape) made(p *lds.Point, bytes int) {
	if p.Interval() > s.interval {
		s.demand = s.sum * 1e9 / float64(p.Config().IntervalNs)
		s.interval, s.sum = p.Interval(), 0
	}
	s.sum += float64(bytes) * float64(cellsOf(p)) / float64(p.Kept())
}

func cellsOf(p *lds.Point) int {
	c := p.Config()
	return c.Rows * c.Columns
}
