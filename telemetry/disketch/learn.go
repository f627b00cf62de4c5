package disketch

import "math"

const (
	// learnFlows is how many flows of an epoch are looked at, and learnEpochs the last epochs in which they are.
	learnFlows, learnEpochs = 512, 64
	// learnLeast is how many flows it takes to learn something.
	learnLeast = 32
)

// Learn finds out in which epochs of a query Rows is better for flows as these than Likeliest, whose prior takes
// most flows to be small. Each row of a flow in turn is held out and predicted from the others. What a row says is
// the truth plus an error that the others know nothing of, so the composition whose predictions have the smaller
// squared error is the one with the smaller error itself. Likeliest stays unless Rows wins by two standard errors.
// Bounds do not depend on it.
func (a *Asker) Learn(q Query, flows []uint64, paths Paths) {
	if len(flows) < learnLeast {
		return
	}
	if a.rows == nil {
		a.rows = map[sketchEpoch]bool{}
	}
	step := 1 + (len(flows)-1)/learnFlows
	first := q.From
	if q.To > learnEpochs {
		first = max(first, q.To-learnEpochs)
	}
	for _, e := range a.epochs {
		if e < first || e >= q.To {
			continue
		}
		sum, squares, n := 0.0, 0.0, 0
		for i := 0; i < len(flows); i += step {
			if d, ok := a.holdOut(&q, flows[i], e, paths); ok {
				sum, squares, n = sum+d, squares+d*d, n+1
			}
		}
		a.rows[sketchEpoch{e, q.Sketch}] = n >= learnLeast && sum > 2*math.Sqrt(squares)
	}
}

// holdOut is by how much the squared error of Likeliest exceeds that of Rows when rows of the flow are
// predicted; false: it has less than three.
func (a *Asker) holdOut(q *Query, flow, epoch uint64, paths Paths) (excess float64, ok bool) {
	var none []Missing
	if !a.gather(q, flow, epoch, paths, &none) {
		return 0, false
	}
	c := &a.compose
	a.held = append(a.held[:0], c.obs...)
	rows := 0
	for i := range a.held {
		if !a.held[i].again {
			rows++
		}
	}
	if rows < 3 || rows != len(a.held) {
		return 0, false
	}
	from, to := a.path[0].From, a.path[len(a.path)-1].To
	for i, out := range a.held {
		c.obs = append(append(c.obs[:0], a.held[:i]...), a.held[i+1:]...)
		span := to - from
		rate := out.rate() * span
		if c.minimum {
			rate -= (out.level.rho + out.below/2) / out.window * span // the mean of its error
		}
		weight := out.level.rho/out.window*span + 1
		likely := (c.join(Likeliest, from, to).value - rate) / weight
		median := (c.join(Rows, from, to).value - rate) / weight
		excess += likely*likely - median*median
	}
	return excess, true
}
