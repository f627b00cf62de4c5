package sink

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/apache/datasketches-go/frequencies"

	"github.com/weirswitch/weir/telemetry/pint/encode"
)

const (
	// exactBits is the largest code that a stream without a bound counts exactly,
	// with 4 bytes per possible code.
	exactBits = 12
	// counterBytes is what the library's frequent-items sketch takes per place.
	counterBytes = 18
	// doubt is the probability with which a bound of an estimate may fail.
	doubt = 0.01
)

// streamPlan says how the samples of one hop are kept.
type streamPlan struct {
	codec    *encode.Codec
	frequent bool
	exact    bool // counts by code
	weighed  bool // and weights
	keys     keying
	room     int    // of the sketch, in keys
	unit     uint64 // of weights in the sketch, in half packets; 0: samples count alike
	lgPlaces int    // of the frequent-items sketch
}

// planStream chooses the best way within a number of bytes; 0: no bound. The
// bytes count keys and counters, as the paper counts them. A sketch has about
// 100 bytes of its own beside them. Very small budgets get the smallest sketch.
func planStream(c *encode.Codec, frequent bool, bytes int) streamPlan {
	p := streamPlan{codec: c, frequent: frequent, keys: newKeying(c)}
	fits := bytes == 0 || 4<<c.Bits() <= bytes
	switch {
	case c.Bits() <= exactBits && fits && (frequent || bytes == 0 || !p.keys.rounded()):
		p.exact = true
	case frequent:
		p.lgPlaces = 3
		for bytes == 0 && p.lgPlaces < 10 || counterBytes<<(p.lgPlaces+1) <= bytes {
			p.lgPlaces++
		}
	case bytes == 0:
		p.room = 1 << 10
	default:
		p.room = min(max(bytes/p.keys.bytes, leastRoom), mostRoom)
	}
	return p
}

// stream keeps the sampled codes of one hop in one of three ways. The zero
// value is empty.
type stream struct {
	n      uint64
	counts []uint32
	// weights are the flow's packets that the codes stand for, doubled, up to the newest sample: each sample for
	// those that are nearer to it, in order of arrival, than to another one of the hop. Queues change slowly, so that
	// packets between two samples met what these did. nil: all samples count alike.
	weights []uint64
	newest  uint64 // code, or key of a sketch
	at      uint64 // the newest sample's number, of the samples of all hops of the flow
	until   uint64 // how many these are

	sketch keySketch
	// pending is the part of the newest sample's weight that is known, in half packets, and carry what is left of those of the samples before, which is
	// less than a unit of the sketch.
	pending, carry uint64

	items *frequencies.LongsSketch
}

// start makes the memory. The library's faults are sizes that planStream does
// not choose.
func (s *stream) start(p *streamPlan) {
	switch {
	case p.exact:
		s.counts = make([]uint32, 1<<p.codec.Bits())
		if p.weighed {
			s.weights = make([]uint64, 1<<p.codec.Bits())
		}
	case p.frequent:
		var err error
		if s.items, err = frequencies.NewLongsSketch(p.lgPlaces, p.lgPlaces); err != nil {
			panic(fmt.Sprintf("pint: sketch of %d places: %v", p.lgPlaces, err))
		}
	default:
		s.sketch = newSketch(p.keys.bytes, p.room)
		s.carry = p.unit / 2
	}
}

// add takes in a sample, and by what it was rounded: number says which it is of the samples of all hops of the flow, from 1.
func (s *stream) add(p *streamPlan, code, rounding, number uint64) {
	if s.n == 0 {
		s.start(p)
	}
	s.n++
	switch {
	case s.counts != nil:
		s.counts[code&uint64(len(s.counts)-1)]++
		if s.weights != nil {
			s.weigh(code, number)
		}
	case s.sketch != nil && p.unit == 0:
		s.sketch.add(p.keys.key(code, rounding), 1)
	case s.sketch != nil:
		s.pass(p, p.keys.key(code, rounding), number)
	default:
		// The count cannot be negative, the only fault there is.
		_ = s.items.Update(int64(code))
	}
}

// weigh gives the packets since the sample before half to that and half to this one. Nothing is before the first.
func (s *stream) weigh(code, number uint64) {
	since := number - s.at
	s.weights[code&uint64(len(s.weights)-1)] += since
	if s.at == 0 {
		s.newest = code
	}
	s.weights[s.newest&uint64(len(s.weights)-1)] += since
	s.newest, s.at = code, number
}

// pass does the same with a sketch, which gets a sample when the next one says how many packets it stands for: so many units. What is less than a unit
// is left to the next one, which met nearly the same queue.
func (s *stream) pass(p *streamPlan, key, number uint64) {
	since := number - s.at
	if s.at == 0 {
		s.pending = since
	} else {
		s.carry += s.pending + since
		s.sketch.add(s.newest, s.carry/p.unit)
		s.carry %= p.unit
		s.pending = 0
	}
	s.pending += since
	s.newest, s.at = key, number
}

// merge adds the samples of o, which has the same plan, without weights.
func (s *stream) merge(p *streamPlan, o *stream) {
	if o.n == 0 {
		return
	}
	if s.n == 0 {
		s.start(p)
	}
	s.n += o.n
	switch {
	case s.counts != nil:
		for i, c := range o.counts {
			s.counts[i] += c
		}
	case s.sketch != nil:
		s.sketch.merge(o.sketch)
	default:
		_, _ = s.items.Merge(o.items) // it never fails
	}
}

// weighted is a key of a sketch, or a code, and how much of the stream it stands for, up to a factor that all share.
type weighted struct {
	key    uint64
	weight float64
}

// list are the keys of a sketch, or the codes, in order.
func (s *stream) list(p *streamPlan) (list []weighted) {
	if s.counts != nil {
		for code, c := range s.counts {
			if c > 0 {
				list = append(list, weighted{uint64(code), s.weight(uint64(code))})
			}
		}
		return list
	}
	s.sketch.each(func(key, weight uint64) { list = append(list, weighted{key, float64(weight)}) })
	if p.unit > 0 {
		list = append(list, weighted{s.newest, float64(s.pending+2*(s.until-s.at)+s.carry) / float64(p.unit)})
	}
	slices.SortFunc(list, func(a, b weighted) int { return cmp.Compare(a.key, b.key) })
	return list
}

// weight is how many of the flow's packets a code stands for, up to a factor that all codes share.
func (s *stream) weight(code uint64) float64 {
	if s.weights == nil {
		return float64(s.counts[code])
	}
	w := s.weights[code]
	if code == s.newest {
		w += 2 * (s.until - s.at)
	}
	return float64(w)
}

// total is the weight of a list.
func total(list []weighted) (sum float64) {
	for _, x := range list {
		sum += x.weight
	}
	return sum
}

// keyOf is the smallest key of which at least a share rank of a list's weight is at most that.
func keyOf(list []weighted, rank float64) uint64 {
	need, sum := min(max(rank, 0), 1)*total(list), 0.0
	for _, x := range list {
		if sum += x.weight; sum >= need && sum > 0 {
			return x.key
		}
	}
	return list[len(list)-1].key
}

// quantile returns the smallest code of which at least a share rank of the
// samples is at most that.
func (s *stream) quantile(rank float64) uint64 {
	need := uint64(max(1, math.Ceil(min(max(rank, 0), 1)*float64(s.n))))
	var sum uint64
	for code, c := range s.counts {
		if sum += uint64(c); sum >= need {
			return uint64(code)
		}
	}
	return 0
}

// Quantile is an estimate of a quantile of a hop's values.
type Quantile struct {
	Value float64
	// Low and High bound it with a probability of 0.99: they are the values whose
	// ranks are further away than sampling and the sketch may be off, widened by
	// the code's step.
	Low, High float64
	// Samples it is made of.
	Samples uint64
}

// sampleError bounds the distance of the ranks in n uniform samples from those
// in the whole (Dvoretzky, Kiefer, Wolfowitz; Massart 1990).
func sampleError(n float64) float64 { return math.Sqrt(math.Log(2/doubt) / (2 * n)) }

// weighedSamples: samples that stand for the packets nearest to them are worth as few as n/weighedSamples independent ones, if they are
// independent.
const weighedSamples = 1.5

// sketchError bounds by how much ranks are off because of a sketch of some weight, but for a probability: what compactions may do is independent and without
// bias (Hoeffding 1963).
func sketchError(variance, weight, doubt float64) float64 {
	return math.Sqrt(2*variance*math.Log(2/doubt)) / weight
}

func (s *stream) estimate(p *streamPlan, rank float64) (Quantile, bool) {
	if s.n == 0 {
		return Quantile{}, false
	}
	if s.sketch != nil {
		return s.sketched(p, rank), true
	}
	e := sampleError(float64(s.n))
	q := bounds(p, s.quantile(rank-e), s.quantile(rank+e), rank, e)
	q.Samples, q.Value = s.n, p.codec.Decode(s.quantile(rank))
	if s.weights != nil {
		q.Value = min(max(within(p.codec, s.list(p), rank), q.Low), q.High)
	}
	return q, true
}

// bounds are what the codes of the ranks at a distance e say.
func bounds(p *streamPlan, below, above uint64, rank, e float64) (q Quantile) {
	q.Low, _ = p.codec.Interval(below)
	_, q.High = p.codec.Interval(above)
	if rank-e <= 0 {
		q.Low = 0
	}
	if rank+e >= 1 {
		q.High = math.Inf(1)
	}
	return q
}

// sketched is the estimate of a sketch.
func (s *stream) sketched(p *streamPlan, rank float64) Quantile {
	list := s.list(p)
	n := float64(s.n)
	if p.unit > 0 {
		n /= weighedSamples
	}
	e := sampleError(n) + sketchError(s.sketch.variance(), total(list), doubt)
	q := bounds(p, p.keys.code(keyOf(list, rank-e)), p.keys.code(keyOf(list, rank+e)), rank, e)
	q.Samples = s.n
	if p.keys.rounded() {
		l := NewLikeliest(p.codec)
		for _, x := range list {
			l.Add(p.keys.code(x.key), p.keys.rounding(x.key), x.weight)
		}
		l.Solve(s.n)
		q.Value = l.Quantile(rank)
	} else {
		for i := range list {
			list[i].key = p.keys.code(list[i].key)
		}
		q.Value = within(p.codec, list, rank)
	}
	q.Value = min(max(q.Value, q.Low), q.High)
	return q
}

// within is a quantile of a list of codes. A code's weight is spread evenly over the step around it, but
// not beyond the smallest and the largest code: random rounding of values there would have given the next code, too.
func within(c *encode.Codec, list []weighted, rank float64) float64 {
	first, last := list[0].key, list[len(list)-1].key
	need, sum := min(max(rank, 0), 1)*total(list), 0.0
	for i := 0; ; {
		code, w := list[i].key, 0.0
		for ; i < len(list) && list[i].key == code; i++ {
			w += list[i].weight
		}
		if sum += w; sum < need && code < last {
			continue
		}
		low, high := -0.5, 0.5
		if code == first {
			low = 0
		}
		if code == last {
			high = 0
		}
		return c.Between(code, low+(high-low)*min((need-(sum-w))/w, 1))
	}
}

// FrequentValue is a value that many packets had at a hop.
type FrequentValue struct {
	Value float64
	// Share of the packets, and its bounds, which hold with a probability of 0.99.
	Share, Low, High float64
}

// frequent returns the codes whose share may be the threshold or more, the
// most frequent first.
func (s *stream) frequent(p *streamPlan, threshold float64) []FrequentValue {
	if s.n == 0 {
		return nil
	}
	var out []FrequentValue
	n := float64(s.n)
	e := sampleError(n)
	add := func(code uint64, estimate, low, high float64) {
		v := FrequentValue{p.codec.Decode(code), estimate / n, max(0, low/n-e), min(1, high/n+e)}
		if v.High >= threshold && estimate > 0 {
			out = append(out, v)
		}
	}
	if s.counts != nil {
		for code, c := range s.counts {
			add(uint64(code), float64(c), float64(c), float64(c))
		}
	} else if s.items != nil {
		rows, _ := s.items.GetFrequentItemsWithThreshold(0, frequencies.ErrorTypeEnum.NoFalseNegatives)
		for _, r := range rows {
			add(uint64(r.GetItem()), float64(r.GetEstimate()), float64(r.GetLowerBound()), float64(r.GetUpperBound()))
		}
	}
	slices.SortFunc(out, func(a, b FrequentValue) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Value, b.Value))
	})
	return out
}
