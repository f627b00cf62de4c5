package lds

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxSamples is the most samples of a point.
const MaxSamples = 1 << 16

// sampleBytes is what a sample takes in memory.
const sampleBytes = 16

// timed is a packet's arrival: the low halves of its digest and of its flow's hash, and nanoseconds from the middle of the interval.
type timed struct {
	id, flow uint32
	t        int64
}

// samples are arrivals of those packets whose digests' high halves are below a limit, which both ends agree on without a word: each
// lowers its own until there is room, and the lower one of both holds when they are compared (trajectory sampling with a
// threshold that fits the traffic). It never allocates.
type samples struct {
	limit uint64 // of 2^32
	list  []timed
	high  []uint32 // by sample: what limit is compared with
}

func newSamples(n int) samples {
	return samples{limit: 1 << 32, list: make([]timed, 0, n), high: make([]uint32, 0, n)}
}

func (s *samples) clear() { s.limit, s.list, s.high = 1<<32, s.list[:0], s.high[:0] }

func (s *samples) clone() samples {
	c := samples{limit: s.limit, list: make([]timed, len(s.list), cap(s.list)), high: make([]uint32, len(s.high), cap(s.high))}
	copy(c.list, s.list)
	copy(c.high, s.high)
	return c
}

// add takes a packet whose digest's high half is below the limit.
func (s *samples) add(digest uint64, flow uint64, t int64) {
	if cap(s.list) == 0 {
		return
	}
	for len(s.list) == cap(s.list) {
		s.lower(s.limit / 2)
	}
	if high := uint32(digest >> 32); uint64(high) < s.limit {
		s.list, s.high = append(s.list, timed{uint32(digest), uint32(flow), t}), append(s.high, high)
	}
}

// lower forgets the samples that a lower limit does not have.
func (s *samples) lower(limit uint64) {
	s.limit = limit
	n := 0
	for i, h := range s.high {
		if uint64(h) < limit {
			s.list[n], s.high[n] = s.list[i], h
			n++
		}
	}
	s.list, s.high = s.list[:n], s.high[:n]
}

func (s *samples) merge(o *samples) {
	if o.limit < s.limit {
		s.lower(o.limit)
	}
	for i, x := range o.list {
		s.add(uint64(o.high[i])<<32|uint64(x.id), uint64(x.flow), x.t)
	}
}

// Samples in a form, behind the cells: number, uvarint, 0: none | capacity, uvarint | limit 64 | for each, in the order of time: high 32, id 32, flow 32 | differences of
// times, varint.
func (s *samples) append(b []byte) []byte {
	if cap(s.list) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(cap(s.list)))
	b = binary.AppendUvarint(b, uint64(len(s.list)))
	b = order.AppendUint64(b, s.limit)
	by := make([]int, len(s.list))
	for i := range by {
		by[i] = i
	}
	slices.SortFunc(by, func(x, y int) int {
		return cmp.Or(cmp.Compare(s.list[x].t, s.list[y].t), cmp.Compare(s.list[x].id, s.list[y].id))
	})
	last := int64(0)
	for _, i := range by {
		b = order.AppendUint32(b, s.high[i])
		b = order.AppendUint32(b, s.list[i].id)
		b = order.AppendUint32(b, s.list[i].flow)
		b = binary.AppendVarint(b, s.list[i].t-last)
		last = s.list[i].t
	}
	return b
}

var errSamples = errors.New("the samples are cut")

// parseSamples reads samples, which must be all of b; keep is false to check only.
func parseSamples(b []byte, keep bool) (s samples, err error) {
	if len(b) == 0 {
		return s, nil
	}
	capacity, x := binary.Uvarint(b)
	if x <= 0 || capacity == 0 || capacity > MaxSamples {
		return s, errSamples
	}
	n, y := binary.Uvarint(b[x:])
	if y <= 0 || n > capacity || uint64(len(b)-x-y) < 8+13*n {
		return s, errSamples
	}
	s.limit, b = order.Uint64(b[x+y:]), b[x+y+8:]
	if keep {
		made := newSamples(int(min(capacity, n+1)))
		made.limit = s.limit
		s = made
	}
	last := int64(0)
	for range n {
		if len(b) < 13 {
			return s, errSamples
		}
		high, one := order.Uint32(b), timed{order.Uint32(b[4:]), order.Uint32(b[8:]), 0}
		step, size := binary.Varint(b[12:])
		if size <= 0 || uint64(high) >= s.limit {
			return s, errSamples
		}
		last += step
		one.t = last
		if keep {
			s.list, s.high = append(s.list, one), append(s.high, high)
		}
		b = b[12+size:]
	}
	if len(b) != 0 {
		return s, fmt.Errorf("%d bytes are behind the samples", len(b))
	}
	return s, nil
}

// Delays are single packets' delays, in ns: of those that both points sampled. They are a uniform sample of the packets that arrived,
// as the choice hangs on the packet's id alone.
type Delays struct {
	// Rate is the share of packets that is sampled.
	Rate float64
	// Lost is the number of samples of the sender that the receiver has not. Where both saw the whole interval, it is about Rate
	// times the loss.
	Lost int
	by   []flowDelay
}

type flowDelay struct {
	flow  uint32
	delay float64
}

// Delays returns the delays of sampled packets; nil if a point does not sample, or its clock stepped.
func (d *Difference) Delays() *Delays {
	a, b := &d.sender.samples, &d.receiver.samples
	if cap(a.list) == 0 || cap(b.list) == 0 || (d.sender.flags|d.receiver.flags)&Stepped != 0 {
		return nil
	}
	limit := min(a.limit, b.limit)
	out := &Delays{Rate: float64(limit) / (1 << 32)}
	type key struct{ id, high uint32 }
	arrived := make(map[key]int64, len(b.list))
	twice := map[key]bool{}
	for i, x := range b.list {
		k := key{x.id, b.high[i]}
		if _, ok := arrived[k]; ok {
			twice[k] = true // duplicated: it has no one delay
		}
		arrived[k] = x.t
	}
	for i, x := range a.list {
		k := key{x.id, a.high[i]}
		if uint64(a.high[i]) >= limit || twice[k] {
			continue
		}
		if t, ok := arrived[k]; ok {
			out.by = append(out.by, flowDelay{x.flow, float64(t - x.t)})
		} else {
			out.Lost++
		}
	}
	return out
}

// All returns the delays of all flows.
func (d *Delays) All() []float64 {
	all := make([]float64, len(d.by))
	for i, x := range d.by {
		all[i] = x.delay
	}
	return all
}

// Of returns the delays of a flow, by the hash of its key, of which 32 bits were kept.
func (d *Delays) Of(flow uint64) (of []float64) {
	for _, x := range d.by {
		if x.flow == uint32(flow) {
			of = append(of, x.delay)
		}
	}
	return of
}

// Ranked is a quantile of delays, in ns, with its bounds.
type Ranked struct {
	Value, Low, High float64
	// RankLow and RankHigh are the ranks of the bounds in the sample, as shares of it.
	RankLow, RankHigh float64
	// Open: the sample is too small to bound it from above; High is its largest delay.
	Open bool
}

// Quantile estimates the quantile q, 0 to 1, of delays from a sample of them, which it sorts and which is not empty. The true one is
// between the bounds with the confidence, by the binomial distribution of ranks, in its normal approximation.
func Quantile(sample []float64, q, confidence float64) Ranked {
	n := float64(len(sample))
	slices.Sort(sample)
	at := func(rank float64) float64 { return sample[int(min(max(rank, 0), n-1))] }
	slack := math.Sqrt2*math.Erfinv(confidence)*math.Sqrt(n*q*(1-q)) + 1
	low, high := math.Floor(q*n-slack), math.Ceil(q*n+slack)
	return Ranked{Value: at(q * n), Low: at(low), High: at(high), RankLow: max(low/n, 0), RankHigh: min(high/n, 1), Open: high > n-1}
}
