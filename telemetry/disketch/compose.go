package disketch

import (
	"math"
	"slices"
)

// Composition is how the fragments' estimates are joined.
type Composition uint8

const (
	// Checked is Likeliest, or Rows in epochs in which it predicts rows that are held out better: see
	// Asker.Learn. It is the default.
	Checked Composition = iota
	// Likeliest weighs what the estimates could mean together by how likely their
	// cells' content makes it; see composer.likeliest.
	Likeliest
	// Rows joins them as the paper does, as rows of the sketch: the median for
	// Count Sketch, the minimum for Count-Min, of those that cover a time.
	Rows
)

// observation is what one record says of a flow.
type observation struct {
	// from and to, fractions of the epoch: when the record's fragment counted
	// the flow, that is its subepoch as far as the flow passed it then.
	from, to float64
	// window is the time of all observations from the record together, above
	// to - from if the flow left the fragment's switch and came back; again
	// marks those behind the first.
	window float64
	again  bool
	// observed is the raw estimate of that window.
	observed
	level *level
}

// rate is the estimate per epoch.
func (o *observation) rate() float64 { return o.count / o.window }

// composer joins observations of one flow in one epoch; it holds scratch memory.
type composer struct {
	minimum bool // Count-Min: estimates are never too low
	// presence: estimates say whether the flow was there. It was if all that cover a time say so, and only once
	// in an epoch.
	presence bool
	packet   float64 // what a packet has on average, by the record that says most: 1 in packets; 0: unknown
	obs      []observation
	edges    []float64
	rates    []float64
	guesses  []guess
}

// composed is the estimate of one epoch.
type composed struct {
	value float64
	// rows is the value by Rows, about which the bounds are.
	rows float64
	// noise bounds the standard error that other flows cause; of Count-Min, the
	// mean error.
	noise float64
	// rounded is the standard error that rounding causes, which is in noise; of Count-Min, by how much it makes the
	// estimate too high at most, which is not.
	rounded float64
	// covered is the share of the time of which there is an observation.
	covered float64
	// spread is the variance that extrapolation adds, in units of the flow's
	// count, for packets that come independently.
	spread float64
}

// join composes the observations of the time from from to to.
func (c *composer) join(how Composition, from, to float64) composed {
	if c.presence {
		sum := c.rows(from, to)
		sum.value, sum.rows = min(sum.value, 1), min(sum.rows, 1)
		return sum
	}
	if how == Rows {
		return c.rows(from, to)
	}
	return c.likeliest(from, to)
}

// rows is Step 2 of Section 4.3. Time is cut where an observation begins or
// ends, which gives the same as the equal parts of the paper with fewer of
// them, and holds also where a flow changed its path within the epoch.
func (c *composer) rows(from, to float64) composed {
	if c.cover(from, to) {
		r, _ := c.between(from, to)
		value := r.rate * (to - from)
		return composed{value: value, rows: value, noise: r.noise * (to - from), rounded: r.rounded * (to - from), covered: 1}
	}
	c.edges = append(c.edges[:0], from, to)
	for i := range c.obs {
		c.edges = append(c.edges, c.obs[i].from, c.obs[i].to)
	}
	slices.Sort(c.edges)
	var sum composed
	for i := 1; i < len(c.edges); i++ {
		a, b := c.edges[i-1], c.edges[i]
		if a == b {
			continue
		}
		if r, ok := c.between(a, b); ok {
			sum.value += r.rate * (b - a)
			sum.noise += r.noise * (b - a)
			sum.rounded += r.rounded * (b - a)
			sum.covered += b - a
			sum.spread += (b - a) * (1 - min((b-a)/r.window, 1))
		}
	}
	if sum.covered > 0 {
		// Blind spots: the mean of what was seen.
		scale := (to - from) / sum.covered
		sum.value *= scale
		sum.noise *= scale
		sum.rounded *= scale
		sum.spread += scale - 1
	}
	sum.covered /= to - from
	sum.rows = sum.value
	return sum
}

// cover says that there are observations, each of which covers all the time.
func (c *composer) cover(from, to float64) bool {
	for i := range c.obs {
		if c.obs[i].from > from || c.obs[i].to < to {
			return false
		}
	}
	return len(c.obs) > 0
}

// joined is what the observations of a time say together: their joint rate, its noise, what rounding has of it or adds to it, and the longest
// time over which one of them is a mean.
type joined struct{ rate, noise, rounded, window float64 }

// between joins the observations that cover the time from a to b; false: there are none.
func (c *composer) between(a, b float64) (r joined, ok bool) {
	c.rates = c.rates[:0]
	squares, rounded, least := 0.0, 0.0, math.Inf(1)
	for i := range c.obs {
		o := &c.obs[i]
		if o.from > a || o.to < b {
			continue
		}
		c.rates = append(c.rates, o.rate())
		rho := o.level.rho / o.window
		off := o.variance() / (o.window * o.window)
		squares += rho*rho + off
		rounded += off
		if rho < least {
			// The truth is this row's rate at most, and at least that less its error and its rounding; the joint rate is no larger.
			least, r.rounded = rho, o.below/o.window
		}
		r.window = max(r.window, o.window)
	}
	n := len(c.rates)
	switch {
	case n == 0:
		return joined{}, false
	case c.minimum:
		r.rate, r.noise = slices.Min(c.rates), least
		return r, true
	}
	worst := medianVariance(n) / float64(n)
	r.rate, r.noise, r.rounded = median(c.rates), math.Sqrt(worst*squares), math.Sqrt(worst*rounded)
	return r, true
}

// medianVariance is the factor between the mean of the variances of n
// independent estimates without bias and what the variance of their median is at
// most. If the median is off by x, then at least half of the estimates are off
// by x to the same side (of an even number, half of them by x in the mean), so x^2 is at
// most the sum of all squared errors over (n+1)/2 or n/2.
func medianVariance(n int) float64 {
	if n == 1 {
		return 1
	}
	return float64(n) / float64((n+1)/2)
}

// median of x, which it reorders: the mean of the middle two if their number is
// even.
func median(x []float64) float64 {
	// Insertion sort: there are few.
	for i := 1; i < len(x); i++ {
		for j := i; j > 0 && x[j] < x[j-1]; j-- {
			x[j], x[j-1] = x[j-1], x[j]
		}
	}
	n := len(x)
	if n%2 == 1 {
		return x[n/2]
	}
	return (x[n/2-1] + x[n/2]) / 2
}
