package oblivious

import (
	"fmt"
	"math"
)

// VolumeSize is the size chi with which the volume is within a factor of 1 -
// epsilon to 1 + epsilon of the truth, except with probability delta. The
// threshold is below (chi-1)/((1+epsilon) n) only if that range holds chi of n
// uniform numbers, and above (chi-1)/((1-epsilon) n) only if that one holds less;
// both have probabilities of at most exp(-(chi-1) epsilon^2 / (3 (1+epsilon))).
//
// It is a theorem for packets, flows, and UWRA in bytes. For NWPS in bytes the
// paper proves none. Sampling with a fixed threshold has this bound; with the
// adaptive one the variance is at most volume^2/(chi-1) (Szegedy, 2006), and
// the measurement oblivious-bounds supports it.
func VolumeSize(epsilon, delta float64) (int, error) {
	return size(1+3*(1+epsilon)/(epsilon*epsilon)*math.Log(2/delta), epsilon, delta)
}

// FrequencySize is the size with which the frequency of a flow is within
// epsilon times the volume, except with probability delta (Section III-D4,
// Theorem 5).
func FrequencySize(epsilon, delta float64) (int, error) {
	return size(12/(epsilon*epsilon)*math.Log(4/delta), epsilon, delta)
}

// HeavyHitterSize is the size for HeavyHitters (Lemma 3, with 12 where the
// paper has 9: see the package's documentation).
func HeavyHitterSize(epsilon, delta float64) (int, error) {
	return size(12/(epsilon*epsilon)*math.Log(2/(delta*epsilon)), epsilon, delta)
}

func size(x, epsilon, delta float64) (int, error) {
	if !(epsilon > 0 && epsilon < 1 && delta > 0 && delta < 1) {
		return 0, fmt.Errorf("epsilon %g, delta %g: choose both above 0 and below 1", epsilon, delta)
	}
	if x > MaxSize {
		return 0, fmt.Errorf("epsilon %g, delta %g take %.0f entries, above %d: choose larger ones", epsilon, delta, x, MaxSize)
	}
	return max(int(math.Ceil(x)), MinSize), nil
}

// VolumeError is the epsilon that a sample of the size has for its volume: what
// VolumeSize inverts.
func VolumeError(size int, delta float64) float64 {
	// (size-1) e^2 = c (1+e)
	n, c := float64(size-1), 3*math.Log(2/delta)
	return (c + math.Sqrt(c*c+4*n*c)) / (2 * n)
}

// FrequencyError is likewise what FrequencySize inverts.
func FrequencyError(size int, delta float64) float64 {
	return math.Sqrt(12 * math.Log(4/delta) / float64(size))
}
