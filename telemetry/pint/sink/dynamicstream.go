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
	// sketchSamples is the number of samples up to which a sketch stays within its
	// bytes; every doubling beyond adds a few codes.
	sketchSamples = 1 << 20
	// sketchM is the least number of codes of a KLL level, sketchMinK the least k
	// that the library has.
	sketchM    = 2
	sketchMinK = 8
	sketchMaxK = 4096
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
	k        int  // of the KLL sketch
	tail     int  // codes beside it
	lgPlaces int  // of the frequent-items sketch
}

// planStream chooses the best way within a number of bytes; 0: no bound. The
// bytes count codes and counters, as the paper counts them. A sketch has about
// 200 bytes of its own beside them. Very small budgets get the smallest sketch:
// about 60 codes.
func planStream(c *encode.Codec, frequent bool, bytes int) streamPlan {
	p := streamPlan{codec: c, frequent: frequent}
	switch {
	case c.Bits() <= exactBits && (bytes == 0 || 4<<c.Bits() <= bytes):
		p.exact = true
	case frequent:
		p.lgPlaces = 3
		for bytes == 0 && p.lgPlaces < 10 || counterBytes<<(p.lgPlaces+1) <= bytes {
			p.lgPlaces++
		}
	case bytes == 0:
		p.k, p.tail = 200, tailMost
	default:
		codes := bytes / p.codeBytes()
		p.tail = min(codes/tailPart, tailMost)
		codes -= p.tail
		p.k = sketchMinK
		for p.k < sketchMaxK && sketchCodes(p.k+1) <= codes {
			p.k++
		}
	}
	return p
}

func (p *streamPlan) codeBytes() int {
	if p.codec.Bits() <= 8 {
		return 1
	}
	return 4
}

// sketchCodes is how many codes a KLL sketch may hold after sketchSamples:
// level i from the top has k * (2/3)^i, at least sketchM.
func sketchCodes(k int) int {
	levels := max(1, int(math.Ceil(math.Log2(sketchSamples/float64(k)))))
	n := 0
	for i, c := 0, float64(k); i < levels; i, c = i+1, c*2/3 {
		n += max(sketchM, int(math.Ceil(c)))
	}
	return n
}

// stream keeps the sampled codes of one hop in one of four ways. The zero
// value is empty.
type stream struct {
	n      uint64
	counts []uint32
	// weights are the flow's packets that the codes stand for, doubled, up to the newest sample: each sample for
	// those that are nearer to it, in order of arrival, than to another one of the hop. Queues change slowly, so that
	// packets between two samples met what these did. nil: all samples count alike.
	weights []uint64
	newest  uint64 // code
	at      uint64 // the newest sample's number, of the samples of all hops of the flow
	until   uint64 // how many these are
	small   *sketch[uint8]
	large   *sketch[uint32]
	items   *frequencies.LongsSketch
}

func less[T cmp.Ordered](a, b T) bool { return a < b }

// start makes the memory. The library's faults are sizes that planStream does
// not choose.
func (s *stream) start(p *streamPlan) {
	var err error
	switch {
	case p.exact:
		s.counts = make([]uint32, 1<<p.codec.Bits())
		if p.weighed {
			s.weights = make([]uint64, 1<<p.codec.Bits())
		}
	case p.frequent:
		s.items, err = frequencies.NewLongsSketch(p.lgPlaces, p.lgPlaces)
	case p.codeBytes() == 1:
		s.small, err = newSketch[uint8](p)
	default:
		s.large, err = newSketch[uint32](p)
	}
	if err != nil {
		panic(fmt.Sprintf("pint: sketch of k %d, %d places: %v", p.k, p.lgPlaces, err))
	}
}

// add takes in a sample: number says which it is of the samples of all hops of the flow, from 1.
func (s *stream) add(p *streamPlan, code, number uint64) {
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
	case s.small != nil:
		s.small.Update(uint8(code))
		s.small.tail.add(uint8(code), s.n)
	case s.large != nil:
		s.large.Update(uint32(code))
		s.large.tail.add(uint32(code), s.n)
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

// merge adds the samples of o, which has the same plan.
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
	case s.small != nil:
		s.small.Merge(o.small.ItemsSketch)
		s.small.tail.merge(&o.small.tail, s.n)
	case s.large != nil:
		s.large.Merge(o.large.ItemsSketch)
		s.large.tail.merge(&o.large.tail, s.n)
	default:
		_, _ = s.items.Merge(o.items) // it never fails
	}
}

// rankError bounds by how much a rank may be off because of the sketch.
func (s *stream) rankError() float64 {
	switch {
	case s.small != nil && s.small.IsEstimationMode():
		return s.small.GetNormalizedRankError(false)
	case s.large != nil && s.large.IsEstimationMode():
		return s.large.GetNormalizedRankError(false)
	}
	return 0
}

// quantile returns the smallest code of which at least a share rank of the
// samples is at most that.
func (s *stream) quantile(rank float64) uint64 {
	rank = min(max(rank, 0), 1)
	need := uint64(max(1, math.Ceil(rank*float64(s.n))))
	switch {
	case s.counts != nil:
		var sum uint64
		for code, c := range s.counts {
			if sum += uint64(c); sum >= need {
				return uint64(code)
			}
		}
	case s.small != nil:
		return s.small.quantile(rank, need, s.n)
	case s.large != nil:
		return s.large.quantile(rank, need, s.n)
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
func sampleError(n uint64) float64 { return math.Sqrt(math.Log(2/doubt) / (2 * float64(n))) }

func (s *stream) estimate(p *streamPlan, rank float64) (Quantile, bool) {
	if s.n == 0 {
		return Quantile{}, false
	}
	e := sampleError(s.n) + s.rankError()
	low, _ := p.codec.Interval(s.quantile(rank - e))
	_, high := p.codec.Interval(s.quantile(rank + e))
	if rank-e <= 0 {
		low = 0
	}
	if rank+e >= 1 {
		high = math.Inf(1)
	}
	value := p.codec.Decode(s.quantile(rank))
	if s.weights != nil {
		value = min(max(s.within(p.codec, rank), low), high)
	}
	return Quantile{Value: value, Low: low, High: high, Samples: s.n}, true
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

// within is a quantile of codes by their weights. A code's weight is spread evenly over the step around it, but
// not beyond the smallest and the largest code: random rounding of values there would have given the next code, too.
func (s *stream) within(c *encode.Codec, rank float64) float64 {
	first, last, total := uint64(0), uint64(len(s.counts)-1), 0.0
	for s.counts[first] == 0 {
		first++
	}
	for s.counts[last] == 0 {
		last--
	}
	for code := first; code <= last; code++ {
		total += s.weight(code)
	}
	need, sum := min(max(rank, 0), 1)*total, 0.0
	for code := first; ; code++ {
		w := s.weight(code)
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
	e, n := sampleError(s.n), float64(s.n)
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
