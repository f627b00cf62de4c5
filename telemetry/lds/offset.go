package lds

// Offset is how far the receiver's clock is ahead of the sender's, in nanoseconds,
// as far as delays bound it: no packet arrives before it leaves, so it is at most the
// smallest delay that was measured in one direction, forward, and at least minus the
// smallest one measured in the other, back,
//
//	-back <= offset <= forward
//
// and in the middle if both directions take equally long. A delay that is measured is the
// true one plus the offset.
type Offset struct {
	// HasValue: both directions were measured. Value is the middle, and Low the
	// lower bound.
	HasValue   bool
	Value, Low float64
	// High is the upper bound.
	High float64
	// Moved: no offset fits all delays: the clocks moved against each
	// other while they were measured.
	Moved bool
}

// OffsetBetween bounds the offset by the smallest delay forward, and by the one back
// if hasBack.
func OffsetBetween(forward, back float64, hasBack bool) Offset {
	o := Offset{High: forward}
	if hasBack {
		o.HasValue, o.Value, o.Low = true, (forward-back)/2, 0-back
		o.Moved = o.Low > o.High
	}
	return o
}

// Differ reports whether the clocks are known to differ, and by how much at least.
func (o *Offset) Differ() (byNs float64, known bool) {
	switch {
	case o.Moved:
		return 0, true
	case o.High < 0:
		return -o.High, true
	case o.HasValue && o.Low > 0:
		return o.Low, true
	}
	return 0, false
}

// drowning is the share of a delay from which on an offset makes it worthless:
// twice the error that is promised for flows of 1,000 packets.
const drowning = 0.1

// Drowns reports whether a mean delay may be nothing but the clocks: they are known to
// differ, or an offset in the middle of its bounds is above a tenth of the delay
// without it.
func (o *Offset) Drowns(meanNs float64) bool {
	if _, known := o.Differ(); known {
		return true
	}
	if !o.HasValue {
		return false
	}
	left := meanNs - o.Value
	return max(o.Value, -o.Value) > drowning*max(left, -left)
}
