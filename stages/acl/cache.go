package acl

import (
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
)

// cacheSets is the number of lines of a worker's cache: 65,536 combinations in 2 MiB.
const cacheSets = 1 << 15

// cacheFrom is the number of words of the rows from which finding a verdict costs
// more than a look into the cache: of all words, or of those that a packet is
// expected to AND.
const (
	cacheFromWords    = 256
	cacheFromExpected = 4
	// cacheFromCandidates is the same for shortlists.
	cacheFromCandidates = 4
)

// cache maps combinations of classes to verdicts. It is one worker's alone, and dies with the
// classifier whose classes it knows. Its length is a power of two.
type cache []cacheSet

// cacheSet is a cache line: two combinations, the newer one first.
type cacheSet [2]entry

type entry struct {
	key     key
	verdict verdict
}

// key is a combination of classes, as few bits for each field as its classes take.
// The highest bit is always set, so no key is that of an empty entry.
type key struct{ low, high uint64 }

const keyUsed = 1 << 63

const keySeed = 0x61636c

// index returns the set that would have a combination.
func (k cache) index(at key) uint32 {
	return uint32(hash.Uint64x2(keySeed, at.low, at.high) & uint64(len(k)-1))
}

// lookup returns the verdict of a combination, or nil. Which of the two entries has it
// is chosen without a branch, as it cannot be predicted.
func (s *cacheSet) lookup(at key) *verdict {
	second := 0
	if s[1].key.low == at.low {
		second = 1
	}
	if e := &s[second]; e.key == at {
		return &e.verdict
	}
	if e := &s[0]; e.key == at { // of the same low half as the second
		return &e.verdict
	}
	return nil
}

func (s *cacheSet) insert(at key, v verdict) {
	s[1] = s[0]
	s[0] = entry{at, v}
}

// key packs the classes of a packet. A shift by 64 bits or more leaves nothing, so
// each class comes into one of the two halves.
func (c *classifier) key(t *tuple) key {
	k := key{high: keyUsed}
	for _, f := range c.active {
		k.low |= uint64(t[f]) << c.keyShift[f]
		k.high |= uint64(t[f]) << (c.keyShift[f] - 64)
	}
	return k
}

// layOutKey gives every field its position in the key, none across its halves. It reports
// whether there is room, which only sets with tens of thousands of values in most fields lack.
func (c *classifier) layOutKey() bool {
	low, high := 0, 64
	for _, f := range c.active {
		n := bits.Len(uint(len(c.field[f].sums)/c.sums - 1))
		switch {
		case low+n <= 64:
			c.keyShift[f] = uint8(low)
			low += n
		case high+n <= 127:
			c.keyShift[f] = uint8(high)
			high += n
		default:
			return false
		}
	}
	return true
}

// remember gives each worker a cache of a power of two of lines.
func (c *classifier) remember(workers, sets int) {
	c.caches = nil
	fits := c.layOutKey
	if len(c.shortlists) != 0 {
		fits = c.layOutFlowKey
	}
	if !fits() {
		return
	}
	for range workers {
		c.caches = append(c.caches, make(cache, sets))
	}
}

// cachePays reports whether a look into a cache costs less than the shortlists, or the AND of the rows.
func (c *classifier) cachePays() bool {
	if len(c.shortlists) != 0 {
		return c.candidates > cacheFromCandidates
	}
	return c.words > cacheFromWords || c.expected() > cacheFromExpected
}

// expected is the number of words that no field's summary rules out, for a packet whose
// classes are drawn uniformly and on their own.
func (c *classifier) expected() (words float64) {
	left := make([]float64, c.words)
	for w := range left {
		left[w] = 1
	}
	for _, f := range c.active {
		r := &c.field[f]
		n := make([]int, 64*c.sums)
		for i, own := range r.sums {
			for ; own != 0; own &= own - 1 {
				n[64*(i%c.sums)+bits.TrailingZeros64(own)]++
			}
		}
		classes := float64(len(r.sums) / c.sums)
		for w := range left {
			if r.wild[w] == 0 {
				left[w] *= float64(n[w]) / classes
			}
		}
	}
	for _, p := range left {
		words += p
	}
	return words
}
