package plan

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

// MaxQueries bounds the queries of a plan: the engine considers all sets of
// them.
const MaxQueries = 12

// InfeasibleError says that no distribution over query sets gives every query
// its frequency within the bit budget.
type InfeasibleError struct {
	// Scale is the largest factor, below 1, by which all frequencies could be
	// multiplied to fit.
	Scale float64
	// Bits is the budget in use, Needed the smallest one that is enough.
	Bits, Needed int
}

func (e *InfeasibleError) Error() string {
	return fmt.Sprintf("the queries' frequencies do not fit into %d bits per packet: "+
		"multiply all of them by at most %.4g, or raise the budget to %d bits", e.Bits, e.Scale, e.Needed)
}

// share is the share of the packets that carry a set of queries.
type share struct {
	set uint // bit i: query i
	p   float64
}

// distribute is the query engine (section 3.4). It looks for shares p_S of the
// packets, for sets S of queries that fit into the budget together, so that
// each query i gets its frequency f_i:
//
//	minimise T = sum of p_S   where, for each i, the sum of p_S over S that has i is f_i
//
// The queries fit if T <= 1, and 1/T is then the factor by which all
// frequencies could grow (or, if T > 1, must shrink); packets beyond T carry
// nothing. The sets of one query each are a solution to begin with. The
// simplex method ends at a corner, so no more sets are in use than there are
// queries.
func distribute(needs []int, frequencies []float64, budget int) ([]share, error) {
	shares, total, err := minimise(needs, frequencies, budget)
	if err != nil {
		return nil, err
	}
	if total <= 1+1e-9 {
		return shares, nil
	}
	e := &InfeasibleError{Scale: 1 / total, Bits: budget}
	// All queries on all packets always fit into the sum of their bits.
	low, high := budget, 0
	for _, n := range needs {
		high += n
	}
	for low+1 < high {
		middle := (low + high) / 2
		if _, total, err = minimise(needs, frequencies, middle); err != nil {
			return nil, err
		}
		if total <= 1+1e-9 {
			high = middle
		} else {
			low = middle
		}
	}
	e.Needed = high
	return nil, e
}

// minimise solves the linear program.
func minimise(needs []int, frequencies []float64, budget int) ([]share, float64, error) {
	n := len(needs)
	sets := feasible(needs, budget)
	var a mat.Dense
	a.ReuseAs(n, len(sets))
	cost := make([]float64, len(sets))
	start := make([]int, 0, n) // the sets of one query
	for j, s := range sets {
		cost[j] = 1
		if bits.OnesCount(s) == 1 {
			start = append(start, j)
		}
		for i := range n {
			a.Set(i, j, float64(s>>i&1))
		}
	}
	// A basis in the order of the queries is the identity.
	slices.SortFunc(start, func(x, y int) int { return cmp.Compare(sets[x], sets[y]) })
	_, x, err := lp.Simplex(cost, &a, frequencies, 1e-10, start)
	if err != nil {
		return nil, 0, fmt.Errorf("solve for the shares of the query sets: %w", err)
	}
	var shares []share
	total := 0.0
	for j, p := range x {
		if p > 1e-10 {
			shares = append(shares, share{sets[j], p})
			total += p
		}
	}
	slices.SortFunc(shares, func(x, y share) int {
		return cmp.Or(cmp.Compare(y.p, x.p), cmp.Compare(x.set, y.set))
	})
	return shares, total, nil
}

// feasible returns the sets whose queries fit into the budget together, sets
// of more queries first, so that of equal solutions the fuller sets are met
// first.
func feasible(needs []int, budget int) []uint {
	var sets []uint
	for s := uint(1); s < 1<<len(needs); s++ {
		sum := 0
		for i, n := range needs {
			sum += n * int(s>>i&1)
		}
		if sum <= budget {
			sets = append(sets, s)
		}
	}
	slices.SortFunc(sets, func(x, y uint) int {
		return cmp.Or(cmp.Compare(bits.OnesCount(y), bits.OnesCount(x)), cmp.Compare(x, y))
	})
	return sets
}

// thresholdOne is a probability of 1 as a threshold of a set.
const thresholdOne = 1 << 32

// thresholds turns shares into the integers that q(packet) is compared with:
// set number i runs if q, of 32 bits, is below the i-th threshold and not
// below an earlier one. The cumulative shares are rounded, so each query's
// frequency is off by less than 2^-32 per set.
func thresholds(shares []share) []int64 {
	sum := 0.0
	var t []int64
	for _, s := range shares {
		sum += s.p
		t = append(t, min(thresholdOne, int64(math.Round(sum*thresholdOne))))
	}
	return t
}
