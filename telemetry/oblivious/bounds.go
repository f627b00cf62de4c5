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

// HeavyHitterSize is the size for HeavyHitters of the share theta, epsilon at most
// that: what all flows above theta are found with, and none below theta - epsilon,
// except with probability delta, and delta*epsilon for each of the latter. It is
// the smaller one of Lemma 3 (with 12 where the paper has 9: see the package's
// documentation), which knows no theta, and of Bernstein's inequality, for which
// a small flow varies little: about 8 theta / epsilon^2 ln(1/(delta epsilon)).
func HeavyHitterSize(theta, epsilon, delta float64) (int, error) {
	if !(theta > 0 && theta <= 1) || !(epsilon <= theta) {
		return 0, fmt.Errorf("theta %g, epsilon %g: choose a share in (0, 1], and an error of at most that", theta, epsilon)
	}
	return size(heavyHitterSize(theta, epsilon, delta), epsilon, delta)
}

func heavyHitterSize(theta, epsilon, delta float64) float64 {
	lemma3 := 12 / (epsilon * epsilon) * math.Log(2/(delta*epsilon))
	// A flow is reported if d = f - cut*volume is not negative, of the estimates.
	// In units of the volume, d has a mean of epsilon/2 or more above 0 for a flow
	// of theta, and as much below for one of theta - epsilon; for others it is
	// farther from 0 by more than it varies more. Each entry, of 1/size, counts 1-cut
	// of itself for the flow, or else -cut.
	cut := theta - epsilon/2
	bernstein := func(share, fail float64) float64 {
		variance := share*(1-cut)*(1-cut) + (1-share)*cut*cut
		largest := max(1-cut, cut)
		return (2*variance + largest*epsilon/3) / (epsilon * epsilon / 4) * math.Log(1/fail)
	}
	// At most 1/theta flows are heavy.
	found := bernstein(theta, delta*theta)
	refused := bernstein(theta-epsilon, delta*epsilon)
	return min(lemma3, max(found, refused))
}

func size(x, epsilon, delta float64) (int, error) {
	if !(epsilon > 0 && epsilon < 1 && delta > 0 && delta < 1) {
		return 0, fmt.Errorf("epsilon %g, delta %g: choose both above 0 and below 1", epsilon, delta)
	}
	if x > maxSize {
		return 0, fmt.Errorf("epsilon %g, delta %g take %.0f entries, above %d: choose larger ones", epsilon, delta, x, maxSize)
	}
	return max(int(math.Ceil(x)), MinSize), nil
}

// HeavyHitterError is the epsilon that a sample of the size has, what HeavyHitterSize inverts; beyond theta, where
// no epsilon up to it has the size.
func HeavyHitterError(theta float64, size int, delta float64) float64 {
	low, high := 0.0, theta
	if heavyHitterSize(theta, theta, delta) > float64(size) {
		return math.Inf(1)
	}
	for high-low > 1e-9*theta {
		if middle := (low + high) / 2; heavyHitterSize(theta, middle, delta) > float64(size) {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
