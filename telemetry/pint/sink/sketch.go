package sink

import (
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
)

// sketch keeps at most a fixed number of the keys of a stream, and estimates its quantiles. It is KLL (Karnin, Lang and Liberty, FOCS 2016):
// a key of level l stands for 2^l keys of the stream; keys of a level are compacted when there is no room, which means that in their order
// every second one goes up a level, by a coin, and the others are forgotten. A rank is off by 2^l after that, or not at all.
// What is different:
//
//   - Nothing is compacted before all of the room is in use. KLL gives each level its room from the start, so that 75 keys hold about 35 of a stream
//     of 100.
//   - Keys come with weights, of which the binary digits are levels.
//   - A quarter of the room is for the upper 64th of the stream, which is compacted by itself and last: KLL's error is the same at all ranks, and
//     with 100 keys it takes the 97.5th percentile for the 99th, and in a queue's tail these are far apart.
//   - Coins are hashes, so that the same stream gives the same sketch.
//
// The zero value with a room is empty.
type sketch[T uint8 | uint16 | uint32] struct {
	// keys are by level, the highest first, in order within each but the last, which is level 0 and as they came.
	keys   []T
	counts []uint16 // of keys, by level
	room   int
	coins  uint64  // how many were tossed
	spread float64 // the variance of the rank of any key, at most, in squares of keys
}

// keySketch is a sketch of keys of any size.
type keySketch interface {
	add(key, times uint64)
	merge(o keySketch) // of the same size
	each(f func(key, weight uint64))
	variance() float64
	size() int
}

// newSketch is one of keys of so many bytes.
func newSketch(bytes, room int) keySketch {
	switch bytes {
	case 1:
		return &sketch[uint8]{room: room}
	case 2:
		return &sketch[uint16]{room: room}
	}
	return &sketch[uint32]{room: room}
}

// Room of a sketch, in keys. The least is more than there are levels, so that there are two keys of one when it is full.
const leastRoom, mostRoom = 64, 1 << 12

// tailPart is the share of a sketch's room for the tail, and tailSpan the share of the stream that it is of.
const tailPart, tailSpan = 4, 64

// add takes in a key that counts so many times.
func (s *sketch[T]) add(key, times uint64) {
	for level := 0; times != 0; level++ {
		if times&1 != 0 {
			s.insert(T(key), level)
		}
		times >>= 1
	}
}

// insert adds a key to a level.
func (s *sketch[T]) insert(key T, level int) {
	if len(s.keys) == s.room {
		s.compact()
	}
	for level >= len(s.counts) {
		s.counts = append(s.counts, 0)
	}
	begin, end := s.level(level)
	at := end
	if level > 0 {
		i, _ := slices.BinarySearch(s.keys[begin:end], key)
		at = begin + i
	}
	s.keys = slices.Insert(s.keys, at, key)
	s.counts[level]++
}

// level is where the keys of a level are.
func (s *sketch[T]) level(level int) (begin, end int) {
	for l := len(s.counts) - 1; l > level; l-- {
		begin += int(s.counts[l])
	}
	return begin, begin + int(s.counts[level])
}

// weight is that of all keys.
func (s *sketch[T]) weight() (n uint64) {
	for level, c := range s.counts {
		n += uint64(c) << level
	}
	return n
}

// compact makes room for a key or more. There is a level with two keys in the tail if that has more than its room, and in the rest else, as
// there are fewer levels than either has keys: a stream of 2^l keys has l levels.
func (s *sketch[T]) compact() {
	begin, end := s.level(0)
	slices.Sort(s.keys[begin:end])
	tails, inTail := s.tails()
	if inTail > s.room/tailPart {
		for level, n := range tails {
			if n >= 2 {
				_, end := s.level(level)
				s.promote(level, end-int(n), int(n)&^1)
				return
			}
		}
	}
	body := s.room - inTail
	levels := len(s.counts)
	capacity := float64(body) / 3 / (1 - math.Pow(2./3, float64(levels))) * math.Pow(2./3, float64(levels-1))
	most, mostAt := 0, 0
	for level, n := range s.counts {
		in := int(n - tails[level])
		if in >= 2 && in >= int(capacity) {
			most, mostAt = in, level
			break
		}
		if in > most {
			most, mostAt = in, level
		}
		capacity *= 1.5
	}
	begin, _ = s.level(mostAt)
	s.promote(mostAt, begin, most&^1)
}

// tails are how many keys of each level are in the upper tailSpan-th of the stream, and how many that are together. Levels are in order.
func (s *sketch[T]) tails() (tails [64]uint16, sum int) {
	var ends [64]int
	for level := range s.counts {
		_, ends[level] = s.level(level)
	}
	left := s.weight() / tailSpan
	for {
		top := -1
		for level, c := range s.counts {
			if tails[level] < c && (top < 0 || s.keys[ends[level]-1] > s.keys[ends[top]-1]) {
				top = level
			}
		}
		if top < 0 || left < 1<<top {
			return tails, sum
		}
		left -= 1 << top
		ends[top]--
		tails[top]++
		sum++
	}
}

// promote compacts n keys of a level, an even number, from a place on.
func (s *sketch[T]) promote(level, at, n int) {
	s.coins++
	coin := int(hash.Uint64('k', s.coins) & 1)
	for i := range n / 2 {
		s.keys[at+i] = s.keys[at+2*i+coin]
	}
	s.keys = slices.Delete(s.keys, at+n/2, at+n)
	s.spread += math.Ldexp(1, 2*level)
	if level+1 == len(s.counts) {
		s.counts = append(s.counts, 0)
	}
	// The keys of the level above end where those of this one begin: those that go up come first.
	begin, _ := s.level(level)
	slices.Reverse(s.keys[begin:at])
	slices.Reverse(s.keys[at : at+n/2])
	slices.Reverse(s.keys[begin : at+n/2])
	s.counts[level] -= uint16(n)
	s.counts[level+1] += uint16(n / 2)
	begin, end := s.level(level + 1)
	slices.Sort(s.keys[begin:end])
}

// merge adds the keys of another sketch.
func (s *sketch[T]) merge(other keySketch) {
	o := other.(*sketch[T])
	s.spread += o.spread
	at := 0
	for level := len(o.counts) - 1; level >= 0; level-- {
		for range o.counts[level] {
			s.insert(o.keys[at], level)
			at++
		}
	}
}

// each calls f with each key, in no order, and its weight.
func (s *sketch[T]) each(f func(key, weight uint64)) {
	at := 0
	for level := len(s.counts) - 1; level >= 0; level-- {
		for range s.counts[level] {
			f(uint64(s.keys[at]), 1<<level)
			at++
		}
	}
}

func (s *sketch[T]) variance() float64 { return s.spread }

// size is how many keys there are.
func (s *sketch[T]) size() int { return len(s.keys) }
