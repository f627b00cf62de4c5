package sink

import (
	"slices"

	"github.com/apache/datasketches-go/kll"

	"github.com/weirswitch/weir/telemetry/hash"
)

// sketch is a KLL sketch of codes that spends a quarter of its bytes on the largest ones.
//
// KLL's error is the same at all ranks: with 100 codes it takes the 97.5th percentile for
// the 99th, and in a queue's tail these are far apart.
type sketch[T uint8 | uint32] struct {
	*kll.ItemsSketch[T]
	tail tail[T]
}

func newSketch[T uint8 | uint32](p *streamPlan) (*sketch[T], error) {
	k, err := kll.NewKllItemsSketch[T](uint16(p.k), sketchM, less[T], nil)
	return &sketch[T]{k, newTail[T](p.tail)}, err
}

// tailPart is the share of a sketch's bytes for the tail, tailMost the most codes there.
const tailPart, tailMost = 4, 256

// tail keeps the largest codes of a uniform sample, of a share 2^-shift, of a stream:
// those of about its upper 64th. While the stream has less than 64 codes for each that there is
// room for, it is the sample, and ranks in the tail are exact.
type tail[T uint8 | uint32] struct {
	codes []T // in order
	room  int
	floor int64 // all sampled codes above it are kept; -1: all codes
	shift uint8
}

func newTail[T uint8 | uint32](room int) tail[T] {
	return tail[T]{room: room, floor: -1}
}

// tailSpan: a tail has room for one in tailSpan of the codes that are sampled.
const tailSpan = 64

// add takes in the n-th code of the stream.
func (t *tail[T]) add(code T, n uint64) {
	if t.room == 0 || t.shift != 0 && hash.Uint64('t', n)&(1<<t.shift-1) != 0 {
		return
	}
	t.insert(code)
	t.fit(n)
}

// insert keeps a code if it is among the largest.
func (t *tail[T]) insert(code T) {
	if int64(code) < t.floor {
		return
	}
	if len(t.codes) == t.room {
		least := min(code, t.codes[0])
		t.floor = max(t.floor, int64(least))
		if least == code {
			return
		}
		t.codes = append(t.codes[:0], t.codes[1:]...)
	}
	at, _ := slices.BinarySearch(t.codes, code)
	t.codes = slices.Insert(t.codes, at, code)
}

// fit halves the sample until its tail has room, for a stream of n codes.
func (t *tail[T]) fit(n uint64) {
	for n>>t.shift > tailSpan*uint64(t.room) {
		t.thin(n)
	}
}

// thin halves the sample.
func (t *tail[T]) thin(n uint64) {
	i := uint64(0)
	t.codes = slices.DeleteFunc(t.codes, func(T) bool {
		i++
		return hash.Uint64x2('T', n, i)&1 != 0
	})
	t.shift++
}

// merge adds the tail of another stream; both together have n codes.
func (t *tail[T]) merge(o *tail[T], n uint64) {
	other := tail[T]{slices.Clone(o.codes), o.room, o.floor, o.shift}
	for t.shift < other.shift {
		t.thin(n)
	}
	for other.shift < t.shift {
		other.thin(n)
	}
	t.floor = max(t.floor, other.floor)
	t.codes = slices.DeleteFunc(t.codes, func(c T) bool { return int64(c) < t.floor })
	for _, c := range other.codes {
		t.insert(c)
	}
	t.fit(n)
}

// fromTop returns the code above which the stream has that many; of those further down
// than the tail goes, a bound from above. ok is false if there is none.
func (t *tail[T]) fromTop(above uint64) (code T, inTail, ok bool) {
	if len(t.codes) == 0 {
		return 0, false, false
	}
	if i := above >> t.shift; i < uint64(len(t.codes)) {
		return t.codes[len(t.codes)-1-int(i)], true, true
	}
	return t.codes[0], false, true
}

// quantile is the smallest code of which at least need of the n codes are at most that.
func (s *sketch[T]) quantile(rank float64, need, n uint64) uint64 {
	q, _ := s.GetQuantile(rank, true) // only an empty sketch has none
	if !s.IsEstimationMode() {
		return uint64(q)
	}
	switch code, inTail, ok := s.tail.fromTop(n - min(need, n)); {
	case inTail:
		return uint64(code)
	case ok:
		return uint64(min(q, code))
	}
	return uint64(q)
}
