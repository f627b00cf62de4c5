package lds

import "math"

// Losses add up what a flow lost over intervals. The zero value has none.
//
// In the records of one interval a packet that leaves at its end and arrives in the next is lost, and is one too many there,
// unless packets carry the bit of their interval. Of a row both cancel out in the sum, and then the row is chosen that the losses
// of other flows touch least. If a row were chosen in each interval by itself, another flow's packet that is too many could hide the
// one that is lacking in one of the two intervals alone. Where no cell has packets too many, what others add is
// never below 0, and the least row of each interval is at least as good.
type Losses struct {
	known bool
	early bool             // a cell of some interval has more packets at the receiver
	least float64          // the sum of the intervals' least rows
	rows  [maxRows]float64 // the sum of each row; of an interval that has not the row, the least one
	n     int              // rows
}

// Add adds an interval's estimate of the flow.
func (l *Losses) Add(d *Difference, e *Estimate) {
	if !e.HasLoss {
		return
	}
	for ; l.n < len(d.rates); l.n++ {
		l.rows[l.n] = l.least
	}
	l.known, l.early = true, l.early || d.early
	l.least += e.Lost
	for r := range l.n {
		if e.lostOf&(1<<r) != 0 {
			l.rows[r] += e.lostRows[r]
		} else {
			l.rows[r] += e.Lost
		}
	}
}

// Lost is the sum, in packets; duplicates count against it. known: an interval was whole.
func (l *Losses) Lost() (lost float64, known bool) {
	if !l.early {
		return l.least, l.known
	}
	lost = math.Inf(1)
	for _, sum := range l.rows[:l.n] {
		if math.Abs(sum) < math.Abs(lost) {
			lost = sum
		}
	}
	return lost, l.known
}
