package lds

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
)

// State is what the comparison of a cell's two copies came to.
type State uint8

const (
	// Usable: both points have the same packets in the cell, at least one.
	Usable State = iota
	// Empty: neither point has a packet in it.
	Empty
	// CountDiffers: packets were lost, duplicated, or fell into another interval
	// at one point.
	CountDiffers
	// DigestDiffers: as many packets, but not the same.
	DigestDiffers
	// Overfull: more packets than sums are exact for, or than a point has room for.
	Overfull
	// Implausible: the mean delay is outside the limits given to Subtract.
	Implausible
	// ClockStepped: a point knows that its clock stepped in the interval.
	ClockStepped
	// Unsent: a point's record does not have the cell, to keep within a budget.
	Unsent

	states
)

var stateNames = [states]string{"usable", "empty", "count_differs", "digest_differs", "overfull", "implausible", "clock_stepped", "unsent"}

// String is the state's name as records and metrics have it.
func (s State) String() string {
	if s < states {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Limits bound the mean delay that a cell may show, in nanoseconds. What is
// outside comes from a clock, not from the network.
type Limits struct {
	MinNs, MaxNs int64
}

// AnyDelay refuses no delay.
func AnyDelay() Limits { return Limits{MinNs: math.MinInt64, MaxNs: math.MaxInt64} }

// Difference is what two points measured in one interval. It refers to the
// points, which must not change while it is in use, and is itself immutable.
type Difference struct {
	sender, receiver *Point
	from, to         []Cell // of sender and receiver
	rates            []float64
	states           []State // by cell
	kept             int     // cells that both points have
	early            bool    // the receiver counted more than the sender in one of them
	tally            [states]int
	// What other flows leave in the cleanest of a flow's cells: in one cell, and
	// in all of a row.
	cellNoise, rowNoise float64
	others              float64 // flows in a cell, see flowsPerCell
	bestRate            float64
	counted             float64 // weighted packets in usable cells, of all rows
	meanNs              float64 // of all packets
	leastNs             float64 // of the cells' means
	hasMean             bool
	spread              float64
}

// Subtract compares the points of a sender and a receiver over one interval.
// Their configs and intervals must be equal; if one is folded more than the other, that is folded as much. Only cells in which both counted
// the same packets will ever be used for delays; the others are refused whole.
func Subtract(sender, receiver *Point, limits Limits) (*Difference, error) {
	points := Alike(sender, receiver)
	sender, receiver = points[0], points[1]
	if err := compatible(sender, receiver); err != nil {
		return nil, fmt.Errorf("subtract LDS points: %w", err)
	}
	d := &Difference{sender: sender, receiver: receiver, from: sender.wide(), to: receiver.wide(), rates: sender.config.rates(),
		states: make([]State, len(sender.cells)), kept: min(sender.kept, receiver.kept), leastNs: math.Inf(1)}
	d.bestRate = slices.Max(d.rates[:sender.config.keptRows(d.kept)])
	capacity := sender.config.capacity()
	stepped := (sender.flags|receiver.flags)&Stepped != 0
	sum, count := 0.0, 0.0
	var means moments // of the cells' mean delays
	for i := range d.states {
		a, b := &d.from[i], &d.to[i]
		if i >= d.kept {
			d.states[i] = Unsent
			d.tally[Unsent]++
			continue
		}
		d.early = d.early || a.Count < b.Count
		s := compare(a, b, capacity, limits)
		if sender.spill.overfull(i) || receiver.spill.overfull(i) {
			s = Overfull
		}
		if stepped && s == Usable {
			s = ClockStepped
		}
		d.states[i] = s
		d.tally[s]++
		if s == Usable {
			sum += float64(b.Sum - a.Sum)
			count += float64(a.Count)
			mean := float64(b.Sum-a.Sum) / float64(a.Count)
			means.add(mean)
			d.leastNs = min(d.leastNs, mean)
		}
	}
	if count > 0 {
		d.meanNs, d.hasMean, d.counted = sum/count, true, count
		d.spread = means.variance()
	}
	d.cellNoise, d.rowNoise = noise(sender.config, d.kept, d.from, d.rates, d.bestRate)
	d.others = d.flowsPerCell()
	return d, nil
}

// moments adds up a variance, by Welford's recurrence.
type moments struct {
	n, mean, squares float64
}

func (m *moments) add(x float64) {
	m.n++
	off := x - m.mean
	m.mean += off / m.n
	m.squares += off * (x - m.mean)
}

func (m *moments) variance() float64 { return m.squares / m.n }

func compare(a, b *Cell, capacity uint64, limits Limits) State {
	switch {
	case a.Count != b.Count:
		return CountDiffers
	case a.Digest != b.Digest:
		return DigestDiffers
	case a.Count == 0:
		return Empty
	case a.Count > capacity:
		return Overfull
	}
	// Integer division would let a mean just beyond a limit pass.
	if mean := float64(b.Sum-a.Sum) / float64(a.Count); mean < float64(limits.MinNs) || mean > float64(limits.MaxNs) {
		return Implausible
	}
	return Usable
}

// noise estimates how many packets of other flows a flow meets: in the cleanest
// of its R cells, and of its R rows of k cells each. As a flow's place is
// random, the cells that the point has show what it meets in one of them; the
// least of R is below that distribution's quantile of 1 - 2^(-1/R) every other
// time. Only rows with the highest rate are looked at.
func noise(config Config, kept int, of []Cell, rates []float64, best float64) (cell, row float64) {
	c, k := config.Columns, config.Virtual
	one := make([]float64, 0, kept)
	all := make([]float64, 0, kept)
	rows := 0
	for r, rate := range rates {
		if rate != best || r*c >= kept {
			continue
		}
		rows++
		cells := of[r*c : min(r*c+c, kept)]
		one = appendWindows(one, cells, 1, Packets, rate)
		all = appendWindows(all, cells, k, Packets, rate)
	}
	slices.Sort(one)
	slices.Sort(all)
	return leastOf(config.keptRows(kept), one, 0.5), leastOf(rows, all, 0.5)
}

// flowsPerCell estimates how many flows have packets in a cell, from the share of cells that are empty (linear counting, Whang et
// al., 1990), in the rows with the highest rate.
func (d *Difference) flowsPerCell() float64 {
	c, cells, empty := d.sender.config.Columns, 0, 0
	for r, rate := range d.rates {
		if rate != d.bestRate || r*c >= d.kept {
			continue
		}
		for _, cell := range d.from[r*c : min(r*c+c, d.kept)] {
			if cells++; cell.Count == 0 {
				empty++
			}
		}
	}
	return math.Log(float64(cells) / max(float64(empty), 0.5))
}

// leastOf is a quantile, such as 0.5, of the least of n draws.
func leastOf(n int, sorted []float64, quantile float64) float64 {
	i := int((1 - math.Pow(1-quantile, 1/float64(n))) * float64(len(sorted)))
	return sorted[min(i, len(sorted)-1)]
}

// Rows returns how many rows the points have in the interval.
func (d *Difference) Rows() int { return d.sender.config.Rows }

// Family returns the family by which the points hash flows.
func (d *Difference) Family() hash.Family { return d.sender.config.Hash }

// Cells returns how many cells are in the state.
func (d *Difference) Cells(s State) int { return d.tally[s] }

// Refused returns the number of cells that hold packets and may not be used.
func (d *Difference) Refused() int {
	return len(d.states) - d.tally[Usable] - d.tally[Empty] - d.tally[Unsent]
}

// Kept is how many cells both points' records have, as a share of those that they counted in: less than 1 where these are folded, or some left out, to
// keep records short.
func (d *Difference) Kept() float64 {
	if d.sender.blank() && d.receiver.blank() {
		return 1
	}
	return float64(d.kept) / float64(d.sender.counted.Rows*d.sender.counted.Columns)
}

// sent reports whether both points have all cells that a flow has in a row, of which the first is in the column base.
func (d *Difference) sent(row, base int) bool { return d.sender.config.keeps(d.kept, row, base) }

func (c *Config) keeps(kept, row, base int) bool {
	return (row+1)*c.Columns <= kept || row*c.Columns+base+c.Virtual <= kept
}

// MeanNs returns the mean delay over all usable cells, in which packets with
// higher weights count more; false if there is none.
func (d *Difference) MeanNs() (float64, bool) { return d.meanNs, d.hasMean }

// Counted returns the number of packets behind MeanNs: a packet counts as often as its
// weight says, once for each row in which its cell is usable.
func (d *Difference) Counted() float64 { return d.counted }

// LeastNs returns the smallest mean delay of a usable cell; false if there is none.
// No packet of the cell was faster than the network's smallest delay, so it is no
// less than that, and near it where some cell has few packets.
func (d *Difference) LeastNs() (float64, bool) { return d.leastNs, d.hasMean }

// Lost returns the number of packets of all flows that the sender counted and
// the receiver did not; below zero if duplicates outnumber the losses. It is
// known if both points counted the whole interval.
func (d *Difference) Lost() (lost int64, known bool) {
	return int64(d.sender.packets - d.receiver.packets), d.wholeInterval()
}

// Sent returns the number of packets that the sender counted, whatever they weigh.
func (d *Difference) Sent() uint64 { return d.sender.packets }

// shifted reports whether packets may be counted in another interval by one point than by the other: the receiver has more of them in a cell, or
// less than half of all, as where it was held up over intervals.
func (d *Difference) shifted() bool { return d.early || d.receiver.packets < d.sender.packets/2 }

// wholeInterval reports whether both points counted all packets of the interval: they saw it from its beginning to its
// end, and refused none for its timestamp. One that is refused at one end alone would be a loss, or the reverse of one.
func (d *Difference) wholeInterval() bool {
	return (d.sender.flags|d.receiver.flags)&Partial == 0 && d.sender.outside == 0 && d.receiver.outside == 0
}

// State returns what became of a cell.
func (d *Difference) State(row, column int) State {
	return d.states[row*d.sender.config.Columns+column]
}
