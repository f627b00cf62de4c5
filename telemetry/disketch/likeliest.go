package disketch

import "math"

// guess is a possible count of a flow in an epoch.
type guess struct{ count, score float64 }

// likeliest joins observations by Bayes' rule. Its hypotheses for the flow's
// count are 0, what each observation alone says, and what the rows say together; each is
// weighed by the chance that the observations come out as they did, and the
// result is the weighted mean.
//
// The chance of an observation x under the count m: of a flow that sends evenly m packets put a Poisson
// number of mean m*w into a window of length w < 1, and all m in a window of 1; one that sends in a burst, as some do (bursty),
// puts all m or none into a window; what x exceeds that by is noise, whose distribution the cells of the record
// themselves show (noise). A median needs most of the rows to be clean; this
// needs two that agree, or one and the knowledge that most flows are small.
// Where no cell is clean and flows are all about as large as the noise, that
// knowledge misleads, and Rows is better.
func (c *composer) likeliest(from, to float64) composed {
	sum := c.rows(from, to)
	if len(c.obs) < 2 || sum.covered == 0 {
		return sum
	}
	span := to - from
	c.guesses = append(c.guesses[:0], guess{count: 0})
	c.suggest(sum.value)
	for i := range c.obs {
		c.suggest(c.obs[i].rate() * span)
	}
	best := math.Inf(-1)
	for i := range c.guesses {
		g := &c.guesses[i]
		// Sizes of flows have a tail of about 1/x.
		g.score = -2 * math.Log1p(g.count)
		for j := range c.obs {
			if c.obs[j].again {
				continue
			}
			g.score += c.obs[j].log(g.count/span, c.minimum)
		}
		best = max(best, g.score)
	}
	weight, mean := 0.0, 0.0
	for _, g := range c.guesses {
		w := math.Exp(g.score - best)
		weight += w
		mean += w * g.count
	}
	sum.value = mean / weight
	return sum
}

// suggest adds a hypothesis, once.
func (c *composer) suggest(count float64) {
	count = math.Round(max(count, 0))
	for _, g := range c.guesses {
		if g.count == count {
			return
		}
	}
	c.guesses = append(c.guesses, guess{count: count})
}

// log is the logarithm of the chance of the observation under a rate.
func (o *observation) log(rate float64, minimum bool) float64 {
	mean := rate * o.window
	if o.window == 1 {
		d := o.count - mean
		if minimum && d < -0.5 {
			return impossible
		}
		return o.level.noise.log(d)
	}
	chance := 0.0
	if o.count >= 0 {
		if mean == 0 {
			if o.count == 0 {
				chance = 1
			}
		} else {
			lg, _ := math.Lgamma(o.count + 1)
			chance = math.Exp(o.count*math.Log(mean) - mean - lg)
		}
	}
	noise := func(d float64) float64 { return math.Exp(o.level.noise.log(d)) }
	even := o.level.clean*chance + noise(o.count-mean)
	burst := (1 - o.window) * noise(o.count)
	if d := o.count - rate; !minimum || d >= -0.5 {
		burst += o.window * noise(d)
	}
	return math.Log((1-bursty)*even + bursty*burst)
}

const impossible = -50

// bursty is the share of the flows that are taken to send an epoch's packets in one burst. Without it one short window in which a flow did not send
// outweighs several whole epochs in which it was counted.
const bursty = 0.1
