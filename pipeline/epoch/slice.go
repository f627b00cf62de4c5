package epoch

// Slice is a span of the clock: 2^Shift nanoseconds from Start on, a multiple
// of 2^Shift. Shift is in 0..62.
type Slice struct {
	Start int64 // nanoseconds of CLOCK_TAI
	Shift uint8
}

// At returns the slice of 2^shift ns in which now lies.
func At(now int64, shift uint8) Slice { return Slice{now >> shift << shift, shift} }

// End is the start of the next slice.
func (s Slice) End() int64 { return s.Start + s.Length() }

// Length is the slice's length in ns.
func (s Slice) Length() int64 { return 1 << s.Shift }

// Number counts the slices of this length since the clock's zero.
func (s Slice) Number() int64 { return s.Start >> s.Shift }
