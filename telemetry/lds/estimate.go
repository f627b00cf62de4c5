package lds

import (
	"cmp"
	"math"
	"slices"
)

// DefaultAlpha is the share of interference that the paper tolerates when it
// picks cells (Section 2.3.4).
const DefaultAlpha = 0.1

// Estimate is what the sketch tells about a flow in an interval. Each part has
// a trust from 0 to 1: the share of the cells behind it that is expected to be
// the flow's own. A flow that sent nothing has trust near 0, as all of its
// cells are other flows'.
type Estimate struct {
	// HasDelay tells that a cell survived, and MeanNs is its delay, in
	// nanoseconds. It is the mean over Sampled packets in Cells cells; a packet
	// counts once for each row that it was sampled in.
	HasDelay   bool
	MeanNs     float64
	Cells      int
	Sampled    float64
	DelayTrust float64

	// HasVariance tells that VarianceNs2 could be had from VarianceFreedom
	// degrees of freedom; its relative standard error is about
	// sqrt(2 / VarianceFreedom) for delays without heavy tails.
	HasVariance     bool
	VarianceNs2     float64
	VarianceFreedom int

	// Packets and Bytes are what the sender counted. Without sampled rows they are
	// never below the truth.
	Packets      float64
	Bytes        float64
	PacketsTrust float64

	// HasLoss tells that both points saw the whole interval. Lost counts packets
	// that the receiver did not; duplicates count against them. It is exact if the
	// flow does not share its cells, in a row that does not sample.
	HasLoss   bool
	Lost      float64
	LostTrust float64
}

// StdNs is the standard deviation of the delay, in nanoseconds.
func (e *Estimate) StdNs() float64 { return math.Sqrt(max(e.VarianceNs2, 0)) }

// Flow estimates a flow by the hash of its key. weight is what its packets were
// added with, 1 by default.
//
// The cell with the fewest packets, n, is the one that the flow shares least,
// and all cells up to n(1 + alpha) are added up (Section 2.3.4), counts of
// sampled rows divided by their rate. Where rows sample, n alone would favour
// cells that happened to sample few packets, and so those with the least
// knowledge; see pick.
func (d *Difference) Flow(flow uint64, weight uint32, alpha float64) Estimate {
	var e Estimate
	w := float64(max(weight, 1))
	d.volume(&e, flow, w)
	d.delay(&e, flow, w, alpha)
	return e
}

// volume fills in packets, bytes and loss, from the rows with the highest rate:
// the least row bounds the flow from above (Section 4.3).
func (d *Difference) volume(e *Estimate, flow uint64, w float64) {
	c, k := d.sender.config.Columns, d.sender.config.Virtual
	count, bytes, lost := math.Inf(1), math.Inf(1), math.Inf(1)
	for r, rate := range d.rates {
		if rate != d.bestRate {
			continue
		}
		var sent, got, length uint64
		j := d.sender.base(flow, r)
		for range k {
			a, b := &d.sender.cells[r*c+j], &d.receiver.cells[r*c+j]
			sent, got, length = sent+a.Count, got+b.Count, length+a.Bytes
			if j++; j == c {
				j = 0
			}
		}
		count = min(count, float64(sent)/rate)
		bytes = min(bytes, float64(length)/rate)
		// Other flows' losses add to the flow's, their duplicates to its own.
		if l := float64(int64(sent-got)) / rate; math.Abs(l) < math.Abs(lost) {
			lost = l
		}
	}
	e.Packets, e.Bytes = count/w, bytes
	e.PacketsTrust = share(d.rowNoise, count)
	if e.HasLoss = d.wholeInterval(); e.HasLoss {
		e.Lost, e.LostTrust = lost/w, e.PacketsTrust
	}
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
	row      int
	sum      float64
	count    float64 // as counted
	inverted float64 // divided by the row's rate
}

// delay fills in mean and variance.
func (d *Difference) delay(e *Estimate, flow uint64, w, alpha float64) {
	var room [64]candidate
	cells := d.pick(d.candidates(flow, room[:0]), w, alpha)
	if len(cells) == 0 {
		return
	}
	sum, count, inverted := 0.0, 0.0, 0.0
	for _, c := range cells {
		sum, count, inverted = sum+c.sum, count+c.count, inverted+c.inverted
	}
	e.HasDelay, e.Cells, e.Sampled = true, len(cells), count/w
	e.MeanNs = sum / count
	e.DelayTrust = share(d.cellNoise, inverted/float64(len(cells)))
	e.VarianceNs2, e.VarianceFreedom = variance(cells, w)
	e.HasVariance = e.VarianceFreedom > 0
}

func (d *Difference) candidates(flow uint64, to []candidate) []candidate {
	c := d.sender.config.Columns
	for r, rate := range d.rates {
		j := d.sender.base(flow, r)
		for range d.sender.config.Virtual {
			if i := r*c + j; d.states[i] == Usable {
				a, b := &d.sender.cells[i], &d.receiver.cells[i]
				n := float64(a.Count)
				to = append(to, candidate{r, float64(b.Sum - a.Sum), n, n / rate})
			}
			if j++; j == c {
				j = 0
			}
		}
	}
	return to
}

// pick keeps the cells that the flow shares least.
func (d *Difference) pick(cells []candidate, w, alpha float64) []candidate {
	least := math.Inf(1)
	for _, c := range cells {
		least = min(least, c.inverted)
	}
	return slices.DeleteFunc(cells, func(c candidate) bool { return c.inverted > (1+alpha)*least })
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

// Heavy is a flow with its estimate.
type Heavy struct {
	Flow uint64
	Estimate
}

// HeavyHitters returns those of the flows that sent at least the given number
// of packets and of bytes, the one with the most packets first. A sketch knows
// no keys: candidates come from elsewhere, a sample of packets for instance. No
// candidate that reaches both is left out, unless all rows sample.
func (d *Difference) HeavyHitters(flows []uint64, packets, bytes float64) []Heavy {
	var heavy []Heavy
	for _, f := range flows {
		if e := d.Flow(f, 1, DefaultAlpha); e.Packets >= packets && e.Bytes >= bytes {
			heavy = append(heavy, Heavy{f, e})
		}
	}
	slices.SortFunc(heavy, func(a, b Heavy) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Flow, b.Flow))
	})
	return heavy
}
