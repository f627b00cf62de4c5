package lds

import "math"

// Overlap is how far two points counted the same packets in an interval, by the cells of the rows with the highest rate, in packets
// as they are weighed there, on average over these rows.
type Overlap struct {
	Sent, Arrived float64 // of the sender and the receiver
	// Same are in cells that have the same packets at both points, as counts and digests say; SameCells is the number of these, of all rows.
	Same      float64
	SameCells int
	// Common is the sum of the lesser count of each cell, and Chance what it is between cells that have nothing to do with each other.
	Common, Chance float64
	// Absent are the sender's packets in cells of which the receiver has nothing, Foreign those by which a cell has more at the receiver.
	Absent, Foreign float64
}

// Overlap compares the points without regard to times.
func (d *Difference) Overlap() (o Overlap) {
	c, rows := d.sender.config.Columns, 0.0
	for r, rate := range d.rates {
		if rate != d.bestRate || r*c >= d.kept {
			continue
		}
		rows++
		end := min(r*c+c, d.kept)
		from, to := d.from[r*c:end], d.to[r*c:end]
		far := len(to) / 2 // a flow's cells are next to each other
		for i := range from {
			a, b, other := float64(from[i].Count), float64(to[i].Count), float64(to[(i+far)%len(to)].Count)
			o.Sent, o.Arrived = o.Sent+a/rate, o.Arrived+b/rate
			o.Common, o.Foreign = o.Common+min(a, b)/rate, o.Foreign+max(b-a, 0)/rate
			if far > 0 {
				o.Chance += min(a, other) / rate
			}
			switch {
			case b == 0:
				o.Absent += a / rate
			case from[i].Count == to[i].Count && from[i].Digest == to[i].Digest:
				o.Same += a / rate
				o.SameCells++
			}
		}
	}
	if rows > 0 {
		for _, x := range []*float64{&o.Sent, &o.Arrived, &o.Same, &o.Common, &o.Chance, &o.Absent, &o.Foreign} {
			*x /= rows
		}
	}
	return o
}

// Add adds what two points have in common in another interval, or by another way.
func (o *Overlap) Add(p Overlap) {
	o.Sent, o.Arrived, o.Same, o.SameCells = o.Sent+p.Sent, o.Arrived+p.Arrived, o.Same+p.Same, o.SameCells+p.SameCells
	o.Common, o.Chance, o.Absent, o.Foreign = o.Common+p.Common, o.Chance+p.Chance, o.Absent+p.Absent, o.Foreign+p.Foreign
}

const (
	// leastSame is the share of the packets that one cell alone must have for its digest, of 32 bits, to prove that points have packets in common.
	leastSame = 0.01
	// leastCommon is the share, beyond chance, of the packets of the point with fewer that must be in cells of both, where no cell is the same.
	leastCommon = 0.5
)

// Joined reports whether some packets passed both points: a digest says so, or, where losses or clocks that differ spoil all cells, the flows
// that are in the cells.
func (o *Overlap) Joined() bool {
	fewer := math.Min(o.Sent, o.Arrived)
	if o.SameCells > 1 || o.SameCells > 0 && o.Same >= leastSame*fewer {
		return true
	}
	return fewer > o.Chance && o.Common-o.Chance >= leastCommon*(fewer-o.Chance)
}
