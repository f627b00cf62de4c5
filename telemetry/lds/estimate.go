package lds

import (
	"cmp"
	"math"
	"slices"
)

// Rules for picking the cells of a flow: a positive number is the paper's alpha,
// the share of interference that is tolerated in a cell.
const (
	// Balanced picks the cells that weigh interference against sampling.
	Balanced = 0
	// PaperAlpha is what the paper found best (Section 2.3.4).
	PaperAlpha = 0.1
)

// Estimate is what the sketch estimates of a flow in an interval. Each part has
// a trust from 0 to 1: the share of the cells behind it that is expected to be
// the flow's own. A flow that sent nothing has trust near 0, as all of its
// cells are other flows'.
type Estimate struct {
	// Unsent: none of the flow's rows is in both points' records, which a budget cut. Nothing of the flow is known then.
	Unsent bool

	// HasDelay: a cell survived, and MeanNs is its delay, in
	// nanoseconds. It is the mean over Sampled packets in Cells cells; a packet
	// counts once for each row that it was sampled in.
	HasDelay   bool
	MeanNs     float64
	Cells      int
	Sampled    float64
	DelayTrust float64

	// HasVariance: VarianceNs2 could be had from VarianceFreedom
	// degrees of freedom; its relative standard error is about
	// sqrt(2 / VarianceFreedom) for delays without heavy tails.
	HasVariance     bool
	VarianceNs2     float64
	VarianceFreedom int

	// Packets and Bytes are what the sender counted. Where no row samples they are
	// never below the truth.
	Packets      float64
	Bytes        float64
	PacketsTrust float64
	// Arrived is what the receiver counted, as Packets is of the sender; 0: nothing of the flow.
	Arrived float64

	// HasLoss: both points counted the whole interval. Lost counts packets
	// that the receiver did not; duplicates count against them. It is exact if the
	// flow does not share its cells, in a row that does not sample.
	HasLoss   bool
	Lost      float64
	LostTrust float64

	lostRows [maxRows]float64 // of each row, for Losses
	lostOf   uint32           // the rows that have it
}

// Flow estimates a flow by the hash of its key. weight is what its packets were
// added with, 1 by default.
//
// With a positive alpha it follows the paper: the cell with the fewest packets,
// n, is the one that the flow shares least, and all cells up to n(1 + alpha) are
// added up, counts of sampled rows divided by their rate. Balanced does better
// in two ways. It adds up cells only as long as they bring packets of the flow
// that are worth their interference, see pick. And as other flows drag an
// estimate towards the mean of all, it takes out their expected share at that
// mean; this is left out where the flow's share is below a half. Where the picked cells have
// few flows together, their share and their mean vary too much from cell to cell to be
// expected: then only what rows show by their difference is taken out.
func (d *Difference) Flow(flow uint64, weight uint32, alpha float64) Estimate {
	var e Estimate
	w := float64(max(weight, 1))
	count := d.volume(&e, flow, w)
	if e.Unsent {
		return e
	}
	d.delay(&e, flow, w, max(count-d.rowNoise, w), alpha)
	return e
}

// volume fills in packets, bytes and loss, and returns the weighted count. Any
// row bounds the flow from above (Section 4.3), up to the noise of its sampling;
// the row with the least bound is taken. Loss is taken from the rows with the
// highest rate only.
func (d *Difference) volume(e *Estimate, flow uint64, w float64) (count float64) {
	c, k := d.sender.config.Columns, d.sender.config.Virtual
	bound, arrived, lost, lossKnown := math.Inf(1), math.Inf(1), math.Inf(1), false
	e.Unsent = true
	for r, rate := range d.rates {
		var sent, got, length uint64
		base := d.sender.base(flow, r)
		if !d.sent(r, base) {
			continue
		}
		e.Unsent = false
		for off := range k {
			i := r*c + (base+off)%c
			a, b := &d.from[i], &d.to[i]
			sent, got, length = sent+a.Count, got+b.Count, length+a.Bytes
		}
		n := float64(sent)
		arrived = min(arrived, float64(got)/rate)
		if b := w * mostSampledFrom(n/w, rate); b < bound {
			bound, count, e.Bytes = b, n/rate, float64(length)/rate
		}
		// Other flows' losses add to the flow's, their duplicates to its own.
		if rate != d.bestRate {
			continue
		}
		l := float64(int64(sent-got)) / rate
		e.lostRows[r], e.lostOf = l/w, e.lostOf|1<<r
		if math.Abs(l) < math.Abs(lost) {
			lost, lossKnown = l, true
		}
	}
	if e.Unsent {
		return 0
	}
	e.Packets, e.Arrived = count/w, arrived/w
	e.PacketsTrust = share(d.rowNoise, count)
	if e.HasLoss = lossKnown && d.wholeInterval(); e.HasLoss {
		e.Lost, e.LostTrust = lost/w, e.PacketsTrust
	}
	return count
}

// mostSampledFrom is the largest number of packets of which it is not beyond
// three standard deviations that n are sampled: N rate - 3 sqrt(N rate (1 -
// rate)) = n.
func mostSampledFrom(n, rate float64) float64 {
	s := 1.5 * math.Sqrt(1-rate)
	root := s + math.Sqrt(s*s+n)
	return root * root / rate
}

// share is the part of count that noise leaves.
func share(noise, count float64) float64 {
	if count <= noise {
		return 0
	}
	return 1 - noise/count
}

// candidate is a usable cell of a flow.
type candidate struct {
	row     int
	rate    float64
	sum     float64 // of weight * delay
	count   float64 // as counted
	foreign float64 // expected of other flows, of count
	guessed float64 // of foreign: what others leave on average, as no row shows it
}

// delay fills in mean and variance for a flow with the weighted count own.
func (d *Difference) delay(e *Estimate, flow uint64, w, own, alpha float64) {
	var room [64]candidate
	cells := d.candidates(flow, w, own, room[:0])
	if alpha > 0 {
		cells = least(cells, alpha)
	} else {
		// How much the flow's delays vary is seen only in its cells, so they are
		// picked twice.
		picked := d.pick(slices.Clone(cells), w, own, 1)
		cells = d.pick(cells, w, own, d.ratio(picked, w))
	}
	if len(cells) == 0 {
		return
	}
	sum, count, foreign, guessed := 0.0, 0.0, 0.0, 0.0
	for _, c := range cells {
		sum, count, foreign, guessed = sum+c.sum, count+c.count, foreign+c.foreign, guessed+c.guessed
	}
	e.HasDelay, e.Cells, e.Sampled = true, len(cells), count/w
	e.DelayTrust = 1 - foreign/count
	e.MeanNs = sum / count
	if alpha <= 0 && e.DelayTrust >= 0.5 {
		if d.others*float64(len(cells)) < manyOthers {
			foreign -= guessed
		}
		e.MeanNs = (sum - foreign*d.meanNs) / (count - foreign)
	}
	e.VarianceNs2, e.VarianceFreedom = variance(cells, w)
	e.HasVariance = e.VarianceFreedom > 0
}

// candidates lists the flow's usable cells, with what in them is expected to be
// foreign: what the row has beyond the flow's packets, and one standard
// deviation of their sampling, is laid upon its cells by how far each exceeds
// their even share. It is no less than what other flows leave on average.
func (d *Difference) candidates(flow uint64, w, own float64, to []candidate) []candidate {
	c, k := d.sender.config.Columns, d.sender.config.Virtual
	for r, rate := range d.rates {
		cells := d.from[r*c : (r+1)*c]
		base := d.sender.base(flow, r)
		if !d.sent(r, base) {
			continue
		}
		row, beyond := 0.0, 0.0
		even := own * rate / float64(k)
		for off := range k {
			n := float64(cells[(base+off)%c].Count)
			row, beyond = row+n, beyond+max(n-even, 0)
		}
		excess := max(row-own*rate-math.Sqrt(w*own*rate*(1-rate)), 0)
		for off := range k {
			j := (base + off) % c
			if d.states[r*c+j] != Usable {
				continue
			}
			n := float64(cells[j].Count)
			foreign := d.cellNoise * rate
			if n > even {
				foreign = max(foreign, excess*(n-even)/beyond)
			}
			if d.rowNoise < sparse*own {
				// Where rows mostly have one flow, one of the flow's has no other, and how packets scatter says nothing about
				// which cells of a row that is shared are.
				foreign = max(foreign, excess/float64(k))
			}
			sum := float64(d.to[r*c+j].Sum - cells[j].Sum)
			foreign = min(foreign, n)
			to = append(to, candidate{r, rate, sum, n, foreign, min(foreign, max(d.cellNoise, d.rowNoise/float64(k))*rate)})
		}
	}
	return to
}

// sparse is the share of a flow's row that others have, below which rows are taken to be mostly its own.
const sparse = 0.01

// manyOthers is how many flows the picked cells have at least for their mean delay to be near that of all.
const manyOthers = 4

// least is the paper's choice of cells (Fig. 6).
func least(cells []candidate, alpha float64) []candidate {
	n := math.Inf(1)
	for _, c := range cells {
		n = min(n, c.count/c.rate)
	}
	return slices.DeleteFunc(cells, func(c candidate) bool { return c.count/c.rate > (1+alpha)*n })
}

// ratio estimates sigma^2 over delta^2 of pick from cells that were picked
// before: sigma^2 from the differences between them, held towards delta^2 by two
// degrees of freedom of that, and delta^2 from the spread of all cells and how
// far the flow is from the mean of all.
func (d *Difference) ratio(picked []candidate, w float64) float64 {
	if len(picked) == 0 || d.spread == 0 {
		return 1
	}
	sum, count := 0.0, 0.0
	for _, c := range picked {
		sum, count = sum+c.sum, count+c.count
	}
	off := sum/count - d.meanNs
	between := d.spread + off*off
	within, freedom := variance(picked, w)
	return (within*float64(freedom) + 2*between) / float64(freedom+2) / between
}

// pick chooses cells with a small error of their common mean. It has two parts:
// the share s of foreign packets, times the difference delta of a flow's delay
// from others', and the choice of m of the flow's n packets, whose delays have a
// variance of sigma^2. Cells are ordered by their own error, and added up as far
// as the error of all,
//
//	s^2 + sigma^2/delta^2 (1/m - 1/n)
//
// is least. Cells of one row have different packets of the flow; those of
// different rows overlap as independent samples do. So with k = 1 and without
// sampling one cell is taken, as more would add interference and nothing else.
// A flow has a packet in its cell: of cells with less than what others leave on
// average, the one with the least is the best, and not the worst.
func (d *Difference) pick(cells []candidate, w, own, ratio float64) []candidate {
	others := func(c *candidate) float64 { return min(c.foreign, max(c.count-w, 0)) }
	single := func(c candidate) float64 {
		s := others(&c) / c.count
		return s*s + ratio*w/max(c.count-others(&c), 1e-9)
	}
	slices.SortFunc(cells, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(single(a), single(b)), cmp.Compare(a.row, b.row))
	})
	var covered [maxRows]float64 // the share of the flow's packets, by row
	count, foreign := 0.0, 0.0
	best, taken := math.Inf(1), 0
	for i, c := range cells {
		count, foreign = count+c.count, foreign+others(&c)
		covered[c.row] = min(covered[c.row]+(c.count-others(&c))/own, 1)
		missed := 1.0
		for _, part := range covered[:len(d.rates)] {
			missed *= 1 - part
		}
		s := foreign / count
		if e := s*s + ratio*w/own*(1/max(1-missed, 1e-9)-1); e < best {
			best, taken = e, i+1
		}
	}
	cells = cells[:taken]
	slices.SortFunc(cells, func(a, b candidate) int { return cmp.Compare(a.row, b.row) })
	return cells
}

// variance estimates the variance of the delay from the differences between
// cells of one row, whose packets are disjoint random parts of the flow's: a
// mean of n packets has the variance sigma^2 / n, so the sum over a row's cells
// of n * (mean - mean of the row)^2 has the expectation (cells - 1) sigma^2.
func variance(cells []candidate, w float64) (ns2 float64, freedom int) {
	squares := 0.0
	for i := 0; i < len(cells); {
		row := cells[i:]
		n := slices.IndexFunc(row, func(c candidate) bool { return c.row != row[0].row })
		if n > 0 {
			row = row[:n]
		}
		sum, count := 0.0, 0.0
		for _, c := range row {
			sum, count = sum+c.sum, count+c.count
		}
		for _, c := range row {
			off := c.sum/c.count - sum/count
			squares += c.count / w * off * off
		}
		freedom += len(row) - 1
		i += len(row)
	}
	if freedom == 0 {
		return 0, 0
	}
	return squares / float64(freedom), freedom
}
