package oblivious

import "math"

// shape is how much of its samples the module sends. It belongs to the goroutine that collects; the zero value sends all.
type shape struct {
	bytes  float64 // that may be sent per second; 0: all
	demand [2]float64
}

// leastEntries is what a sample keeps in any case.
const leastEntries = 16

// Demand implements export.Shaper.
func (m *Module) Demand() (all, useful float64) {
	all = m.shape.demand[0] + m.shape.demand[1]
	return all, all
}

// Shape implements export.Shaper: samples have the entries of the smallest ranks, as those of a smaller sampler.
func (m *Module) Shape(bytesPerSecond float64) { m.shape.bytes = bytesPerSecond }

// size is how many entries of so many the record of an instance has: 0 of main, 1 of flows.
func (s *shape) size(instance, entries int) int {
	all := s.demand[0] + s.demand[1]
	if s.bytes == 0 || math.IsInf(s.bytes, 1) || s.demand[instance] == 0 || all <= s.bytes {
		return entries
	}
	return max(int(float64(entries)*s.bytes/all), leastEntries)
}

// made notes what a record of whole entries took, of which it has some; it is of a slice of so many ns.
func (s *shape) made(instance int, span int64, whole, entries, bytes int) {
	if entries == 0 || span <= 0 {
		s.demand[instance] = 0
		return
	}
	s.demand[instance] = float64(bytes) / float64(entries) * float64(whole) * 1e9 / float64(span)
}
