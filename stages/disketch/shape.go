package disketch

import (
	"math"

	"github.com/weirswitch/weir/telemetry/disketch"
)

// shape bounds the records of one fragment. It belongs to the goroutine that collects; the zero value bounds nothing.
type shape struct {
	bytes       float64 // per second; 0: all
	all, useful float64 // bytes per second that the records of the last subepoch take whole, and rounded as far as answers hardly err more by it
}

// Demand implements export.Shaper.
func (m *Module) Demand() (all, useful float64) {
	for _, f := range m.fragments {
		all, useful = all+f.shape.all, useful+f.shape.useful
	}
	return all, useful
}

// Shape implements export.Shaper: cells of records are rounded. Fragments get parts in proportion to what is useful of them.
func (m *Module) Shape(bytesPerSecond float64) {
	_, useful := m.Demand()
	for _, f := range m.fragments {
		switch {
		case math.IsInf(bytesPerSecond, 1):
			f.shape.bytes = 0
		case useful > 0:
			f.shape.bytes = bytesPerSecond * f.shape.useful / useful
		default:
			f.shape.bytes = bytesPerSecond / float64(len(m.fragments))
		}
	}
}

// round rounds the cells of a record of so many ns as far as it takes, and notes what it would take whole.
func (s *shape) round(r *disketch.Record, span int64) {
	seconds := float64(span) / 1e9
	whole := r.Size(disketch.Rounding{})
	s.all = float64(whole) / seconds
	s.useful = min(float64(r.Size(r.Useful()))/seconds, s.all)
	r.Rounding = disketch.Rounding{}
	if s.bytes > 0 {
		r.Round(s.bytes * seconds)
	}
}
