package lds

import (
	"math"
	"slices"
)

// Unit is what Volumes measure.
type Unit uint8

const (
	// Packets are counted as often as their flow's weight says.
	Packets Unit = iota
	// Bytes are counted once, whatever packets weigh.
	Bytes
)

func (c *Cell) in(u Unit) float64 {
	if u == Bytes {
		return float64(c.Bytes)
	}
	return float64(c.Count)
}

// Volumes estimates how much flows sent, by one point alone (Section 4.3): each of a
// flow's rows has at least that, and the rows' own cells estimate what others leave there.
type Volumes struct {
	point *Point
	cells []Cell
	unit  Unit
	rates []float64
	total float64
	whole bool // total is counted, not estimated
	// What all flows sent at least and at most.
	least, most float64
	// Of the least of a flow's rows, others have noise in the median, and at most
	// outlier with the confidence asked for.
	noise, outlier float64
}

// Volume is what one flow sent.
type Volume struct {
	// Counted is what was counted in the flow's row, and Most what the flow can have
	// sent at most: the same but for a row that samples, where it is three standard
	// deviations of that above.
	Counted, Most float64
	// Noise is how much of Counted is expected to be others', and Least what the flow sent
	// at least, with the confidence asked for.
	Noise, Least float64
	// Unsent: the point's record has no row of the flow, as a budget cut it: nothing of the flow is known.
	Unsent bool
}

// Volumes readies the point for questions in one unit. Bounds from below hold with the
// confidence, 0 to 1, each. The point must not change meanwhile.
func (p *Point) Volumes(unit Unit, confidence float64) *Volumes {
	v := &Volumes{point: p, cells: p.wide(), unit: unit, rates: p.config.rates()}
	best := slices.Max(v.rates[:p.config.keptRows(p.kept)])
	c, k := p.config.Columns, p.config.Virtual
	var all []float64
	rows, most := 0, 0
	for r, rate := range v.rates {
		if rate != best || r*c >= p.kept {
			continue
		}
		cells := v.cells[r*c : min(r*c+c, p.kept)]
		if len(cells) >= most { // the last row that is whole
			counted, packets := 0.0, 0.0
			most = len(cells)
			for i := range cells {
				counted, packets = counted+cells[i].in(unit), packets+float64(cells[i].Count)
			}
			v.total = counted / rate * float64(c) / float64(most) // the first columns are a sample
			v.whole = most == c && rate == 1
			v.least, v.most = counted, counted
			if !v.whole {
				v.most = max(v.total, counted+max(float64(p.packets)-packets, 0)*largest[unit])
			}
		}
		all = appendWindows(all, cells, k, unit, rate)
		rows++
	}
	slices.Sort(all)
	v.noise, v.outlier = leastOf(rows, all, 0.5), leastOf(rows, all, confidence)
	return v
}

// appendWindows appends what each k adjacent cells of a row have.
func appendWindows(list []float64, cells []Cell, k int, unit Unit, rate float64) []float64 {
	window := 0.0
	for j := range k - 1 {
		window += cells[j].in(unit)
	}
	for j := range cells {
		window += cells[(j+k-1)%len(cells)].in(unit)
		list = append(list, window/rate)
		window -= cells[j].in(unit)
	}
	return list
}

// largest is what a packet has at most, by unit.
var largest = [...]float64{Packets: 1, Bytes: 1<<16 - 1}

// Total is what all flows sent; estimated where no row counts all, or a budget cut those that do.
func (v *Volumes) Total() float64 { return v.total }

// TotalBounds are what all flows sent at least and at most, whatever the chance; whole: both are Total.
func (v *Volumes) TotalBounds() (least, most float64, whole bool) { return v.least, v.most, v.whole }

// Noise is what others have of a flow's row: in the median, and at most, with the confidence
// asked for.
func (v *Volumes) Noise() (median, most float64) { return v.noise, v.outlier }

// Sampled reports whether a row counts only some packets.
func (v *Volumes) Sampled() bool { return slices.Min(v.rates) < 1 }

// Flow estimates a flow by the hash of its key, from the row that bounds it most.
func (v *Volumes) Flow(flow uint64) Volume {
	out := Volume{Most: math.Inf(1), Unsent: true}
	for r, rate := range v.rates {
		if p := v.point; !p.config.keeps(p.kept, r, p.base(flow, r)) {
			continue
		}
		packets, counted := v.row(flow, r)
		if x := v.bounds(packets, counted, rate); x.Most < out.Most {
			out = x
		}
	}
	return out
}

// bounds is what a row says of the flow.
func (v *Volumes) bounds(packets, counted, rate float64) Volume {
	if rate >= 1 {
		return Volume{Counted: counted, Most: counted, Noise: v.noise, Least: max(counted-v.outlier, 0)}
	}
	each := 1.0 // of the unit in a packet
	if v.unit == Bytes {
		each = v.mean(packets, counted)
	}
	own := max(packets-v.outlier*rate/max(each, 1), 0)
	return Volume{Counted: counted / rate, Most: each * mostSampledFrom(packets, rate), Noise: v.noise, Least: each * leastSampledFrom(own, rate)}
}

// row adds up the flow's cells in a row.
func (v *Volumes) row(flow uint64, r int) (packets, counted float64) {
	c, base := v.point.config.Columns, v.point.base(flow, r)
	for off := range v.point.config.Virtual {
		cell := &v.cells[r*c+(base+off)%c]
		packets += float64(cell.Count)
		counted += cell.in(v.unit)
	}
	return packets, counted
}

// mean is the bytes of a packet, those of the point's packets where the row has none.
func (v *Volumes) mean(packets, bytes float64) float64 {
	if packets > 0 {
		return bytes / packets
	}
	return v.total / max(float64(v.point.packets), 1)
}

// leastSampledFrom is the smallest number of packets of which it is not beyond three standard
// deviations that n are sampled: N rate + 3 sqrt(N rate (1 - rate)) = n.
func leastSampledFrom(n, rate float64) float64 {
	s := 1.5 * math.Sqrt(1-rate)
	root := math.Sqrt(s*s+n) - s
	return root * root / rate
}
