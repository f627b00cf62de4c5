package disketch

import (
	"math"
	"math/bits"
)

// A noise is what the cells of a row say of the error of its estimates: a cell
// that the flow shares with no other flow holds none, and what another cell holds is a
// draw from what the flow's own may hold beside it.
type noise struct {
	// clean is the share of empty cells.
	clean float64
	// size[b] is the logarithm of the chance that a cell holds one certain value
	// of b bits, of either sign.
	size [33]float64
}

func (n *noise) measure(cells []int32) {
	var count [33]int
	for _, c := range cells {
		count[bits.Len32(uint32(max(c, -c)))]++
	}
	n.countWhole(&count, len(cells))
}

func (n *noise) countWhole(count *[33]int, cells int) {
	var shares [33]float64
	for b, c := range count {
		shares[b] = float64(c)
	}
	n.count(&shares, cells)
}

// count takes how many of the cells have an amount of so many bits.
func (n *noise) count(count *[33]float64, cells int) {
	total := float64(cells + 1)
	n.clean = count[0] / total
	for b := range n.size {
		// There are 2^(b-1) values of b bits, of each sign. Half a cell more keeps
		// possible what was not seen.
		values := math.Ldexp(1, b)
		n.size[b] = math.Log((count[b] + 0.5) / (total * values))
	}
}

// log is the logarithm of the chance of the noise d.
func (n *noise) log(d float64) float64 {
	// A float of 2^64 or more is no uint64.
	return n.size[min(bits.Len64(uint64(min(math.Abs(d), 1<<32)+0.5)), 32)]
}

// within is the logarithm of the chance of a noise from low to high, whole numbers.
func (n *noise) within(low, high float64) float64 {
	if low == high {
		return n.log(low)
	}
	chance := 0.0
	eachSize(low, high, func(size int, numbers float64) { chance += numbers * math.Exp(n.size[size]) })
	return math.Log(chance)
}
