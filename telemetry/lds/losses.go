package lds

import "math"

// Losses add up what a flow lost over intervals, which come in the order of time. The zero value has none.
//
// In the records of one interval a packet that leaves at its end and arrives in the next is lost, and is one too many there,
// unless packets carry the bit of their interval. Of a row both cancel out in the sum, and then the row is chosen that the losses
// of other flows touch least. If a row were chosen in each interval by itself, another flow's packet that is too many could hide the
// one that is lacking in one of the two intervals alone. So an interval that is shifted is joined with the one before and the one after
// it. In other intervals what other flows add is never below 0, and the least row of each one is at least as good.
type Losses struct {
	known   bool
	shifted bool             // of the last interval
	done    float64          // the sum of the intervals before the joined ones
	least   float64          // of those that are joined, the sum of the intervals' least rows
	rows    [maxRows]float64 // and of each row; of an interval that has not the row, the least one
	n       int              // rows
}

// Add adds the next interval's estimate of the flow.
func (l *Losses) Add(d *Difference, e *Estimate) {
	if !e.HasLoss {
		return
	}
	if !l.shifted && !d.shifted() {
		l.done, l.least, l.n = l.done+l.joined(), 0, 0
	}
	for ; l.n < len(d.rates); l.n++ {
		l.rows[l.n] = l.least
	}
	l.known, l.shifted = true, d.shifted()
	l.least += e.Lost
	for r := range l.n {
		if e.lostOf&(1<<r) != 0 {
			l.rows[r] += e.lostRows[r]
		} else {
			l.rows[r] += e.Lost
		}
	}
}

// joined is the loss in the intervals that are joined: that of the least row.
func (l *Losses) joined() float64 {
	if l.n == 0 {
		return 0
	}
	lost := math.Inf(1)
	for _, sum := range l.rows[:l.n] {
		if math.Abs(sum) < math.Abs(lost) {
			lost = sum
		}
	}
	return lost
}

// Lost is the sum, in packets; duplicates count against it. known: an interval was whole.
func (l *Losses) Lost() (lost float64, known bool) { return l.done + l.joined(), l.known }
