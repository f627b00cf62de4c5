package sketch

import (
	"fmt"
	"math"
	"slices"
)

// MaxDepth bounds the rows of a sketch.
const MaxDepth = 255

// CheckTargets refuses a relative error or a chance of failure outside (0, 1).
func CheckTargets(epsilon, delta float64) error {
	if !(epsilon > 0 && epsilon < 1) || !(delta > 0 && delta < 1) {
		return fmt.Errorf("an error of %v with a chance of %v to exceed it: both must be above 0 and below 1", epsilon, delta)
	}
	return nil
}

// CheckDepth refuses a number of rows outside 1 to MaxDepth.
func CheckDepth(depth int) error {
	if depth < 1 || depth > MaxDepth {
		return fmt.Errorf("%d rows; the range is 1 to %d", depth, MaxDepth)
	}
	return nil
}

// Median returns the median of v, the mean of the middle two if their number is
// even, and zero of none. It sorts v.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// MedianFactor returns how many standard errors of one row the median of depth
// independent rows errs by at most, with the stated confidence (above 0, below 1).
//
// A row errs by t standard errors with a chance p of at most 1/t^2 (Chebyshev),
// and the median only if at least half of the rows do. So p is such that half
// or more of depth rows fail with a chance of 1 - confidence.
func MedianFactor(depth int, confidence float64) float64 {
	low, high := 0.0, 1.0
	for range 60 {
		p := (low + high) / 2
		if halfFail(depth, p) > 1-confidence {
			high = p
		} else {
			low = p
		}
	}
	return 1 / math.Sqrt(low)
}

// MedianDepth returns the smallest odd number of rows of which half or more fail
// with a chance of at most delta, if each does with a chance of 1/4; above MaxDepth,
// if no number up to it will do.
func MedianDepth(delta float64) int {
	depth := 1
	for depth <= MaxDepth && halfFail(depth, 0.25) > delta {
		depth += 2
	}
	return depth
}

// halfFail is the chance that depth/2 or more of depth rows fail, if each does
// with a chance of p: a tail of the binomial distribution, from its logarithms.
func halfFail(depth int, p float64) float64 {
	if p <= 0 || p >= 1 {
		return p
	}
	sum := 0.0
	n, _ := math.Lgamma(float64(depth + 1))
	for j := (depth + 1) / 2; j <= depth; j++ {
		a, _ := math.Lgamma(float64(j + 1))
		b, _ := math.Lgamma(float64(depth - j + 1))
		sum += math.Exp(n - a - b + float64(j)*math.Log(p) + float64(depth-j)*math.Log1p(-p))
	}
	return sum
}
