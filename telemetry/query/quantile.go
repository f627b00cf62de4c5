package query

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/pint/sink"
)

// coding is what the codes of a plan's query stand for, in the unit of its answers.
type coding struct {
	*pint.Query
	reader *sink.Reader
	number int           // of the query
	codec  *encode.Codec // nil: codes are registers that count
	unit   string
	scale  float64
	hops   int // of the longest path of a packet so far: roundings of counts add up
}

// codingOf is that of the query that a question asks.
func codingOf(d *digests) *coding {
	c := &coding{Query: &d.reader.Plan().Queries[d.query], reader: d.reader, number: d.query, codec: d.reader.Codec(d.query), unit: "packets", scale: 1}
	switch {
	case c.Aggregation == pint.SlowHops:
		c.unit = "hops"
	case c.Aggregation == pint.Product:
		c.unit = "product"
	case c.Value == pint.HopLatency || c.Value == pint.IngressTime:
		c.unit = "ns"
	case c.Value == pint.EgressUtilisation:
		c.unit, c.scale = "share of the link", 1./pint.UtilisationOne
	case c.Value == pint.QueueCongestion:
		c.unit = "percent"
	}
	return c
}

// ofHops reports whether a packet tells the value of one of its hops, and which hop that is; others tell of all together.
func ofHops(q *pint.Query) bool {
	return q.Aggregation == pint.Quantiles || q.Aggregation == pint.Frequent
}

func (c *coding) value(code uint64) float64 { return c.scale * c.reader.Value(c.number, code) }

func (c *coding) interval(code uint64) (low, high float64) {
	low, high = c.reader.Interval(c.number, code, c.hops)
	return c.scale * low, c.scale * high
}

// steps are the relative and the absolute error of a code, 0 of counts: theirs depends on the count, and is in the bounds alone.
func (c *coding) steps() (epsilon, delta float64) {
	if c.codec == nil {
		return 0, 0
	}
	return c.codec.Epsilon(), c.codec.Delta() * c.scale
}

// tally counts samples by their codes, all of them: quantiles of it are exact but for
// the codes' steps.
type tally struct {
	dense  []uint64          // by code, of codes of few bits
	sparse map[uint64]uint64 // of others
	n      uint64
	weight uint8 // a sample may stand for up to 2^weight of n
	step   uint8 // 2^step codes, or fewer, were counted together
	// unknown is the share of the whole that the samples are not of, whose values may be any.
	unknown float64
}

// samples is how many there were, about, where some stand for more of n.
func (t *tally) samples() uint64 {
	if t.n == 0 {
		return 0
	}
	return t.independent()
}

// independent is how many samples n rests on at least: what bounds count.
func (t *tally) independent() uint64 { return max(1, t.n>>t.weight) }

// denseBits is the size of codes up to which a tally has a place for each.
const denseBits = 12

func newTally(c *coding) *tally {
	if c.Bits <= denseBits {
		return &tally{dense: make([]uint64, 1<<c.Bits)}
	}
	return &tally{sparse: map[uint64]uint64{}}
}

func (t *tally) add(code uint64) {
	t.n++
	if t.dense != nil {
		t.dense[code&uint64(len(t.dense)-1)]++
		return
	}
	t.sparse[code]++
}

// addMany adds n samples of a code.
func (t *tally) addMany(code, n uint64) {
	t.n += n
	if t.dense != nil {
		t.dense[code&uint64(len(t.dense)-1)] += n
		return
	}
	t.sparse[code] += n
}

// addStep adds n samples of 2^step codes, of which code is the first: they are taken to be spread evenly over these.
func (t *tally) addStep(code, n uint64, step uint8) {
	t.step = max(t.step, step)
	code &^= 1<<step - 1
	for i, before := uint64(0), uint64(0); i < 1<<step; i++ {
		to := (i + 1) * n >> step
		t.addMany(code+i, to-before)
		before = to
	}
}

// bytes is the tally's memory, about.
func (t *tally) bytes() int64 { return int64(8*len(t.dense) + 48*len(t.sparse) + 64) }

func (t *tally) reset() {
	clear(t.dense)
	clear(t.sparse)
	t.n, t.weight, t.step, t.unknown = 0, 0, 0, 0
}

// place is a code, and where in its step a rank is, from -1/2 to 1/2: the samples of a code are taken to be spread evenly over
// the step around it. Random rounding of values between two codes shares them in proportion to how near each is,
// so that the share of codes below gives a value's position within the step.
type place struct {
	code uint64
	part float64
}

// places finds, for each of the ranks, the smallest code of which at least that share of the
// samples is at most that. The tally must not be empty.
func (t *tally) places(ranks []float64) []place {
	order := make([]int, len(ranks))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ranks[a], ranks[b]) })
	found, next, sum := make([]place, len(ranks)), 0, uint64(0)
	visit := func(code, n uint64) bool {
		if n == 0 {
			return true
		}
		sum += n
		for next < len(order) {
			rank := min(max(ranks[order[next]], 0), 1)
			if sum < uint64(max(1, math.Ceil(rank*float64(t.n)))) {
				return true
			}
			found[order[next]] = place{code, (rank*float64(t.n)-float64(sum-n))/float64(n) - 0.5}
			next++
		}
		return false
	}
	if t.dense != nil {
		for code, n := range t.dense {
			if !visit(uint64(code), uint64(n)) {
				break
			}
		}
		return found
	}
	for _, code := range slices.Sorted(maps.Keys(t.sparse)) {
		if !visit(code, t.sparse[code]) {
			break
		}
	}
	return found
}

// stats are the quantiles with bounds that hold, all of them together, with a
// probability of 1 - delta.
func (t *tally) stats(c *coding, ranks []float64, delta float64) ValueStats {
	v := ValueStats{Samples: t.samples(), Quantiles: []QuantileValue{}}
	if t.n == 0 {
		return v
	}
	top := uint64(1)<<c.Bits - 1
	want := make([]float64, 0, 3*len(ranks))
	for _, rank := range ranks {
		low, high := t.rankBounds(rank, delta/float64(2*len(ranks)))
		want = append(want, rank, low, high)
	}
	places := t.places(want)
	for i, rank := range ranks {
		q := QuantileValue{Rank: rank, RankLow: want[3*i+1], RankHigh: want[3*i+2]}
		q.Value = c.value(places[3*i].code)
		least, most := places[3*i+1].code&^(1<<t.step-1), min(places[3*i+2].code|(1<<t.step-1), top)
		if q.RankLow > 0 {
			q.Low, _ = c.interval(least)
		}
		_, q.High = c.interval(most)
		q.Open = q.RankHigh >= 1 || most == top
		q.Low, q.High = min(q.Low, q.Value), max(q.High, q.Value)
		v.Quantiles = append(v.Quantiles, q)
	}
	return v
}

// rankBounds are the ranks of samples between which the value of a rank in the whole is, each side but for a probability of risk: below it
// or above it may be all that is unknown.
func (t *tally) rankBounds(rank, risk float64) (low, high float64) {
	low, high = 0, 1
	if known := (rank - t.unknown) / (1 - t.unknown); known > 0 {
		low, _ = rankBounds(known, t.independent(), risk)
	}
	if known := rank / (1 - t.unknown); known < 1 {
		_, high = rankBounds(known, t.independent(), risk)
	}
	return low, high
}

// leastOfMean is how many samples a mean needs: of fewer the deviation is not known, nor bounds.
const leastOfMean = 8

// mean is the mean of what the codes stand for, with Chebyshev's bounds but for a probability of delta. Random rounding keeps the mean of codes, so that of a
// multiplicative codec's values is too high by up to ln(1+epsilon)^2/2 of it. ok is false of few samples, or if one has the largest code, which stands for all
// that is larger, too.
func (t *tally) mean(c *coding, delta float64) (b Bounded, ok bool) {
	sum, squares := 0.0, 0.0
	least, most := math.Inf(1), 0.0
	top := uint64(1)<<c.Bits - 1
	open := false
	add := func(code, n uint64) {
		if n == 0 {
			return
		}
		v, count := c.value(code), float64(n)
		sum, squares = sum+count*v, squares+count*v*v
		low, high := c.interval(code)
		least, most, open = min(least, low), max(most, high), open || code == top
	}
	for code, n := range t.dense {
		add(uint64(code), n)
	}
	for code, n := range t.sparse {
		add(code, n)
	}
	if t.independent() < leastOfMean || open {
		return b, false
	}
	n, samples := float64(t.n), float64(t.independent())
	b.Value = sum / n
	slack := math.Sqrt(max(squares-n*b.Value*b.Value, 0) / n / max(samples-1, 1) / delta)
	b.Low, b.High = max(b.Value-slack, min(least, b.Value)), b.Value+slack
	if slack == 0 { // all of one code
		b.Low, b.High = min(least, b.Value), max(most, b.Value)
	}
	epsilon, _ := c.steps()
	b.Low -= b.Value * math.Pow(math.Log1p(epsilon), 2) / 2
	return b, true
}

// interpolate moves the quantiles within the steps of their codes, for the samples of many flows together.
func (t *tally) interpolate(c *coding, v *ValueStats) {
	ranks := make([]float64, len(v.Quantiles))
	for i := range ranks {
		ranks[i] = v.Quantiles[i].Rank
	}
	for i, p := range t.places(ranks) {
		v.Quantiles[i].Value = c.scale * c.codec.Between(p.code, max(p.part, -0.5))
	}
}

// frequentShare is the share from which a value is frequent, and so many values can have it.
const frequentShare, frequentMost = 0.1, 10

// frequent are the values of which at least frequentShare of the whole may be, the most frequent first; the bounds of each share
// hold with a probability of 1 - delta. Rounding is to the nearest code, so that a value has one.
func (t *tally) frequent(c *coding, delta float64) []FrequentValue {
	list := []FrequentValue{}
	need := math.Log(2/delta) / float64(t.independent())
	add := func(code, count uint64) {
		share := float64(count) / float64(t.n)
		b := Bounded{
			Value: share,
			Low:   share - farthest(need, func(d float64) (x, r float64) { return share, share - d }, share),
			High:  share + farthest(need, func(d float64) (x, r float64) { return share, share + d }, 1-share),
		}
		b.Low, b.High = b.Low*(1-t.unknown), b.High*(1-t.unknown)+t.unknown
		if count > 0 && b.High >= frequentShare {
			list = append(list, FrequentValue{Value: c.value(code), Share: b})
		}
	}
	for code, count := range t.dense {
		add(uint64(code), uint64(count))
	}
	for code, count := range t.sparse {
		add(code, count)
	}
	slices.SortFunc(list, func(a, b FrequentValue) int {
		return cmp.Or(cmp.Compare(b.Share.Value, a.Share.Value), cmp.Compare(a.Value, b.Value))
	})
	return list[:min(frequentMost, len(list))]
}

// rankBounds are the ranks in n uniform samples between which the value of a rank in the
// whole is, each side but for a probability of risk: how many samples are at most that
// value is binomial, and (Chernoff; Hoeffding 1963, Theorem 1, which holds of sampling
// without replacement too)
//
//	P(a share of at least x > rank) <= exp(-n KL(x, rank)), the same below
//
// Beside Dvoretzky, Kiefer and Wolfowitz's bound, which is the same at all ranks, it is much
// closer in the tails, where one asks. 0 and 1: nothing bounds it on that side.
func rankBounds(rank float64, n uint64, risk float64) (low, high float64) {
	need := math.Log(1/risk) / float64(n)
	return rank - farthest(need, func(d float64) (x, r float64) { return rank - d, rank }, rank),
		rank + farthest(need, func(d float64) (x, r float64) { return rank + d, rank }, 1-rank)
}

// farthest is the distance, up to room, at which the divergence reaches need, by bisection;
// room if it does not.
func farthest(need float64, at func(d float64) (x, rank float64), room float64) float64 {
	if room <= 0 || divergence(at(room)) < need {
		return room
	}
	low, high := 0.0, room
	for range 60 {
		if middle := (low + high) / 2; divergence(at(middle)) < need {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// divergence is that of Kullback and Leibler, between coins of the probabilities x and p.
func divergence(x, p float64) float64 {
	part := func(x, p float64) float64 {
		if x <= 0 {
			return 0
		}
		return x * math.Log(x/p)
	}
	return part(x, p) + part(1-x, 1-p)
}
