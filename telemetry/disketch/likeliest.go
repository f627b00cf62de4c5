package disketch

import (
	"math"
	"slices"
)

// guess is a possible count of a flow in an epoch.
type guess struct {
	count, score float64
	// numbers is how many counts this one stands for, as rounded cells do not tell them apart.
	numbers float64
}

// likeliest joins observations by Bayes' rule. Its hypotheses for the flow's
// count are 0, what each observation alone says, and what the rows say together; each is
// weighed by the chance that the observations come out as they did, and the
// result is the weighted mean.
//
// A flow that sends evenly m packets puts a Poisson number of mean m*w into a window of length w < 1, and all m into a window
// of 1; one that sends in a burst, as some do (bursty), puts all m into the windows that hold the time of the burst, and none into the others. What
// an observation exceeds that by is noise, whose distribution the cells of the record
// themselves show (noise). A median needs most of the rows to be clean; this
// needs two that agree, or one and the knowledge that most flows are small.
// Where no cell is clean and flows are all about as large as the noise, that
// knowledge misleads, and Rows is better.
func (c *composer) likeliest(from, to float64) composed {
	sum := c.rows(from, to)
	if len(c.obs) < 2 || sum.covered == 0 {
		return sum
	}
	c.guesses = append(c.guesses[:0], guess{numbers: 1})
	c.suggest(sum.value, to-from)
	for i := range c.obs {
		c.suggest(c.obs[i].rate()*(to-from), to-from)
	}
	whole := c.cover(from, to)
	best := math.Inf(-1)
	for i := range c.guesses {
		g := &c.guesses[i]
		chance := c.even(g.count / (to - from))
		if !whole {
			chance = logAdd(math.Log(1-bursty)+chance, math.Log(bursty)+c.burst(g.count, from, to))
		}
		// Sizes of flows have a tail of about 1/x.
		g.score = chance - 2*math.Log1p(g.count) + math.Log(g.numbers)
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

// suggest adds a hypothesis, once. Where rounded cells may all hold it, it becomes the middle of what they may hold, and stands
// for all of that; but where a whole cell holds it, it stands for itself.
func (c *composer) suggest(count, span float64) {
	low, high, whole := math.Inf(-1), math.Inf(1), false
	for i := range c.obs {
		o := &c.obs[i]
		scale := span / o.window
		if o.below == 0 && o.above == 0 {
			whole = whole || math.Abs(o.count*scale-count) < 0.5
			continue
		}
		if a, b := (o.count-o.below)*scale, (o.count+o.above)*scale; a <= count && count <= b {
			low, high = max(low, a), min(high, b)
		}
	}
	numbers := 1.0
	if low = max(low, 0); !whole && high-low >= 1 && !math.IsInf(high, 1) {
		count, numbers = (low+high)/2, high-low+1
	}
	count = math.Round(max(count, 0))
	for _, g := range c.guesses {
		if g.count == count {
			return
		}
	}
	c.guesses = append(c.guesses, guess{count: count, numbers: numbers})
}

// even is the logarithm of the chance of the observations, if the flow sends evenly at a rate.
func (c *composer) even(rate float64) float64 {
	sum := 0.0
	for i := range c.obs {
		if o := &c.obs[i]; !o.again {
			sum += c.evenAt(o, rate)
		}
	}
	return sum
}

func (c *composer) evenAt(o *observation, rate float64) float64 {
	mean := rate * o.window
	if o.window == 1 {
		return c.beside(o, mean)
	}
	if o.below > 0 || o.above > 0 {
		low, high := o.count-o.below, o.count+o.above
		return math.Log(o.level.clean*poissonBetween(low, high, mean) + math.Exp(o.level.noise.within(math.Round(low-mean), math.Round(high-mean))))
	}
	return math.Log(o.level.clean*poissonAt(o.count, mean) + math.Exp(o.level.noise.log(o.count-mean)))
}

// poissonAt is the chance of a count of a mean.
func poissonAt(count, mean float64) float64 {
	switch {
	case count < 0:
		return 0
	case mean == 0:
		if count == 0 {
			return 1
		}
		return 0
	}
	lg, _ := math.Lgamma(count + 1)
	// Of large counts the terms are rounded to more than their sum.
	return math.Exp(min(count*math.Log(mean)-mean-lg, 0))
}

// poissonBetween is the chance of one from low to high: of few the sum, of many that of some at equal distances.
func poissonBetween(low, high, mean float64) (sum float64) {
	const most = 8
	low = max(low, 0)
	n := high - low + 1
	if n <= most {
		for i := range int(max(n, 0)) {
			sum += poissonAt(low+float64(i), mean)
		}
		return sum
	}
	for i := range most {
		sum += poissonAt(math.Floor(low+n*(float64(i)+0.5)/most), mean)
	}
	return min(sum*n/most, 1)
}

// beside is the logarithm of the chance of what an observation has beside a count of the flow, of whose packets it did not count some,
// or counted some more, as they were under way at an end of the epoch. Where estimates are never too low, the least one is as low as these make it.
func (c *composer) beside(o *observation, count float64) float64 {
	d := o.count - count
	if c.minimum && d < -0.5 {
		return impossible
	}
	if o.below > 0 || o.above > 0 {
		return c.besideRounded(o, count)
	}
	chance := o.level.noise.log(d)
	few := leastUnderWay*max(c.packet, 1) + count*mostUnderWay
	if c.minimum {
		few *= 2 // the least one may be as much too low as another one is too high
	}
	if off := math.Abs(d); off >= 0.5 && count > 0 && off <= few {
		// Each number of bits is as likely, and each number of so many bits, of either sign.
		most, size := math.Ilogb(few)+1, math.Ilogb(max(off, 1))
		chance = logAdd(chance, math.Log(underWay/(2*float64(most)))-float64(size)*math.Ln2)
	}
	return chance
}

// besideRounded is beside of a rounded cell: what it holds is within limits.
func (c *composer) besideRounded(o *observation, count float64) float64 {
	low, high := math.Round(o.count-o.below-count), math.Round(o.count+o.above-count)
	if c.minimum {
		low = max(low, 0)
	}
	chance := o.level.noise.within(low, high)
	few := leastUnderWay*max(c.packet, 1) + count*mostUnderWay
	if c.minimum {
		few *= 2
	}
	// What is nearest to the count, other than itself, and as far as packets are under way.
	if off := max(low, -high, 1); count > 0 && off <= few && high > low {
		most, size := math.Ilogb(few)+1, math.Ilogb(off)
		numbers := min(high-low, few)
		chance = logAdd(chance, math.Log(underWay*numbers/(2*float64(most)))-float64(size)*math.Ln2)
	}
	return chance
}

// underWay is the share of the observations in which a flow has packets too many or too few, as they passed a switch in one epoch and the next switch in another: at
// most leastUnderWay packets and mostUnderWay of the flow's. Without them an empty sketch, in which no cell holds two packets, would rather have it that all of five switches hold
// other flows' packets, and the flow sent nothing, than that they counted 20, 21, 19, 18 and 17 of it.
const (
	underWay      = 0.02
	leastUnderWay = 2
	mostUnderWay  = 1. / 8
)

// burst is the logarithm of the chance of the observations, if the flow sends all its packets at a time between from and to, each as likely.
func (c *composer) burst(count, from, to float64) float64 {
	c.edges = append(c.edges[:0], from, to)
	for i := range c.obs {
		c.edges = append(c.edges, c.obs[i].from, c.obs[i].to)
	}
	slices.Sort(c.edges)
	sum := math.Inf(-1)
	for i := 1; i < len(c.edges); i++ {
		if a, b := c.edges[i-1], c.edges[i]; a < b {
			sum = logAdd(sum, math.Log((b-a)/(to-from))+c.burstWithin(count, a, b))
		}
	}
	return sum
}

// burstWithin is the same for a time between two edges.
func (c *composer) burstWithin(count, a, b float64) float64 {
	sum := 0.0
	for i := 0; i < len(c.obs); {
		o := &c.obs[i]
		seen := o.from <= a && o.to >= b
		for i++; i < len(c.obs) && c.obs[i].again; i++ {
			seen = seen || c.obs[i].from <= a && c.obs[i].to >= b
		}
		if seen {
			sum += c.beside(o, count)
		} else {
			sum += c.beside(o, 0)
		}
	}
	return sum
}

// logAdd is the logarithm of the sum of what x and y are logarithms of.
func logAdd(x, y float64) float64 {
	x, y = max(x, y), min(x, y)
	if math.IsInf(y, -1) {
		return x
	}
	return x + math.Log1p(math.Exp(y-x))
}

const impossible = -50

// bursty is the share of the flows that are taken to send an epoch's packets in one burst. Without it one short window in which a flow did not send
// outweighs several whole epochs in which it was counted. It is not learnt: what records say of small flows does not tell
// one share from another (bench/results/disketch/some-bursty-flows.txt).
const bursty = 0.1
