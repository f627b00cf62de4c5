package encode

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
)

// maxCounterBits bounds a counter's table: 2^12 entries of 8 bytes.
const maxCounterBits = 12

// Counter counts in a register of few bits, at random where the bits do not
// suffice (section 4.3; Morris, "Counting large numbers of events in small
// registers", 1978). Register c stands for
//
//	n(c) = unit * ((1+a)^c - 1) / a     (c * unit for a = 0)
//
// and adding v moves it to the register of n(c)+v, rounded up or down so that
// the expected n is n(c)+v exactly. Unlike a classical Morris counter it adds any
// v in one step. It is immutable, and safe for concurrent use.
type Counter struct {
	levels []uint64 // n by register
	growth float64  // a
}

// NewCounter makes a counter of the given bits, up to the given sum. It counts
// units one by one if the bits suffice.
func NewCounter(registerBits int, unit, limit uint64) (*Counter, error) {
	if registerBits < 1 || registerBits > maxCounterBits {
		return nil, fmt.Errorf("counter: bits is %d, not in 1..%d", registerBits, maxCounterBits)
	}
	unit = max(unit, 1)
	if limit < unit || limit > 1<<62 {
		return nil, fmt.Errorf("counter: max %d is not in min..2^62, where min is %d", limit, unit)
	}
	c := &Counter{levels: make([]uint64, 1<<registerBits)}
	top := float64(len(c.levels) - 1)
	c.growth = growthFor(top, float64(limit)/float64(unit))
	for i := range c.levels {
		n := float64(i)
		if c.growth > 0 {
			n = math.Expm1(n*math.Log1p(c.growth)) / c.growth
		}
		c.levels[i] = uint64(math.Round(n * float64(unit)))
	}
	return c, nil
}

// growthFor finds a such that ((1+a)^top - 1) / a = limit, by bisection; 0 if
// top is enough without growth.
func growthFor(top, limit float64) float64 {
	if limit <= top {
		return 0
	}
	low, high := 0.0, limit // for top >= 2, (1+a)^top-1 over a exceeds a
	for range 200 {
		a := (low + high) / 2
		if math.Expm1(top*math.Log1p(a))/a < limit {
			low = a
		} else {
			high = a
		}
	}
	return high
}

// Add returns the register after v is added; random is a hash that is
// independent of those of other additions to the same register. At the top the
// register stays, and counts too little.
func (c *Counter) Add(register, v, random uint64) uint64 {
	top := uint64(len(c.levels) - 1)
	target, carry := bits.Add64(c.levels[min(register, top)], v, 0)
	if carry != 0 || target >= c.levels[top] {
		return top
	}
	low, high := min(register, top), top // levels[low] <= target < levels[high]
	for low+1 < high {
		middle := (low + high) / 2
		if c.levels[middle] <= target {
			low = middle
		} else {
			high = middle
		}
	}
	if hash.Reduce(random, c.levels[high]-c.levels[low]) < target-c.levels[low] {
		return high
	}
	return low
}

// Value is the sum that the register stands for.
func (c *Counter) Value(register uint64) uint64 {
	return c.levels[min(register, uint64(len(c.levels)-1))]
}

// Max is the largest sum.
func (c *Counter) Max() uint64 { return c.levels[len(c.levels)-1] }

// Deviation bounds the standard deviation of a sum n that k additions made: a
// rounding between two registers has at most half their distance, which is
// a*n + unit, and roundings add up like independent errors.
func (c *Counter) Deviation(n float64, k int) float64 {
	if c.growth == 0 && c.levels[1] <= 1 {
		return 0
	}
	return math.Sqrt(float64(k)) * (c.growth*n + float64(c.levels[1])) / 2
}
