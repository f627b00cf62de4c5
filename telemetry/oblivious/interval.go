package oblivious

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// share is the sum over some entries, those that were certain of being sampled
// apart.
type share struct {
	exact   float64
	sampled chance
	// adjust is what Calibrate adds to the value: bounds are those of the sample alone.
	adjust float64
}

// chance sums entries that were sampled by chance. One of the value a, sampled with
// probability p, stands for a/p: for itself, and for a(1-p)/p that was not sampled.
type chance struct {
	seen, unseen, variance float64
}

func (c *chance) add(value, p float64) {
	unseen := value * (1 - p) / p
	c.seen += value
	c.unseen += unseen
	c.variance += unseen * value / p
}

func (c *chance) plus(o chance) chance {
	return chance{c.seen + o.seen, c.unseen + o.unseen, c.variance + o.variance}
}

// equal returns how many equal entries, of which probability and value, have the
// same sums.
func (c *chance) equal() (n, p, value float64) {
	p = c.seen / (c.seen + c.unseen)
	value = p * c.variance / c.unseen
	return c.seen / value, p, value
}

// value is that of the sample alone.
func (s *share) value() float64 { return s.exact + s.sampled.seen + s.sampled.unseen }

// reserve is the part of delta that bounds leave unused, since those of unequal
// entries are approximate.
const reserve = 0.2

// estimate adds the bounds. Of n equal entries of probability p they are those of
// Clopper and Pearson (1934) for the number of which n were sampled: of the smallest
// number, n or more are sampled with probability delta/2; of the largest, n or fewer. Unequal
// entries are replaced by equal ones of the same sums; for the upper bound, the largest entry
// is added to them. Where probabilities are small, this is the interval of Fay and Feuer
// (1997) for weighted sums of Poisson counts.
//
// The largest entry is the sample's: what was not sampled must not be larger. (By
// bytes from a sample of packets, the longest sampled packet is taken for the
// longest one.)
func (s *share) estimate(largest chance, delta float64) Estimate {
	value := s.value()
	if largest.seen == 0 {
		return Estimate{value, value, value}
	}
	risk := (1 - reserve) * delta / 2
	z := -mathext.NormalQuantile(risk)
	known := s.exact + s.sampled.seen
	e := Estimate{Value: value, Low: known}
	if s.sampled.seen > 0 {
		n, p, weight := s.sampled.equal()
		e.Low += weight * failures(n, p, z)
	}
	sum := s.sampled.plus(largest)
	n, p, weight := sum.equal()
	e.High = known + weight*(1+failures(n, p, -z))
	// Among many small entries, a few of the largest ones may be missing altogether.
	_, p, weight = largest.equal()
	e.High = max(e.High, value+weight*math.Log(risk)/math.Log1p(-p))
	if s.adjust != 0 {
		e.Value = min(max(value+s.adjust, e.Low), e.High)
	}
	return e
}

// failures returns the number f of failures under which f+n trials of probability p have
// n-1 successes or fewer with the normal distribution's probability of z or less; 0 if none
// is so small.
func failures(n, p, z float64) float64 {
	low, high := 0.0, n/p
	atLow := deviate(n+low, p, n-1) - z
	if !(atLow > 0) {
		return 0
	}
	atHigh := deviate(n+high, p, n-1) - z
	for atHigh > 0 {
		low, atLow = high, atHigh
		high *= 2
		atHigh = deviate(n+high, p, n-1) - z
	}
	// False position, with the weight of an end halved that stays (Illinois).
	for side := 0; high-low > 1e-9*(high+1); {
		f := (low*atHigh - high*atLow) / (atHigh - atLow)
		switch at := deviate(n+f, p, n-1) - z; {
		case at > 0:
			low, atLow = f, at
			if side > 0 {
				atHigh /= 2
			}
			side = 1
		case at < 0:
			high, atHigh = f, at
			if side < 0 {
				atLow /= 2
			}
			side = -1
		default:
			return f
		}
	}
	return (low + high) / 2
}

// deviate is z of the normal distribution with P(Z <= z) = P(X <= x), where X is
// the number of successes among n trials of probability p, by the approximation
// of Peizer and Pratt (1968): it errs by less than 1 % of the smaller one of both
// tails down to 1e-6 where n-x is above 2 or p below 0.5.
func deviate(n, p, x float64) float64 {
	q := 1 - p
	below, above := x+0.5, n-x-0.5
	d := x + 2./3 - (n+1./3)*p + 0.02*(q/(x+1)-p/(n-x)+(q-0.5)/(n+1))
	return d * math.Sqrt((1+q*skew(below/(n*p))+p*skew(above/(n*q)))/((n+1./6)*p*q))
}

// skew is (1 - u^2 + 2u ln u) / (1-u)^2, Peizer and Pratt's g.
func skew(u float64) float64 {
	e := 1 - u
	if math.Abs(e) < 0.01 {
		return e * (1./3 + e*(1./6+e*(1./10+e*(1./15+e/21))))
	}
	if u == 0 {
		return 1
	}
	return (1 - u*u + 2*u*math.Log(u)) / (e * e)
}
