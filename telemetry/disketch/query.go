package disketch

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Query is what all queries have in common (Section 4.3): the sketch, and the
// epochs From <= E < To.
type Query struct {
	Sketch   uint16
	From, To uint64
	// Hash is the family by which the flows that are asked about are hashed: records of
	// another one know them by other numbers, and are missing.
	Hash hash.Family
	Composition
	// Confidence of the bounds, in (0, 1); 0 means 0.95.
	Confidence float64
	// Dispersion is the variance over the mean of what a flow sends in a part of an
	// epoch, 1 if packets come independently. It widens the bounds of what is extrapolated. 0: what the
	// fragments on the flow's path measured of all their flows, 1 where they did not.
	Dispersion float64
}

// asks says whether the query is about the fragment, nil: of which nothing came.
func (q *Query) asks(id ID, f *fragmentEpoch) bool {
	return f != nil && id.Sketch == q.Sketch && f.schedule.Hash == q.Hash
}

func (q *Query) confidence() float64 {
	if q.Confidence > 0 && q.Confidence < 1 {
		return q.Confidence
	}
	return 0.95
}

// Missing is what a query could not use.
type Missing struct {
	Epoch uint64
	// Fragment on the flow's path of which nothing came, or not the subepoch of
	// the flow. The zero ID: the path itself was not known.
	Fragment ID
}

// Answer is an estimate with its bounds.
type Answer struct {
	// Value estimates what was asked, in the sketch's unit; never below 0.
	Value float64
	// Low and High hold the true value with at least the query's Confidence: by
	// Chebyshev's inequality, of Count-Min by Markov's. They take a flow to send within an
	// epoch that is divided as evenly as Query.Dispersion says, and
	// High is the largest value of which the estimate is no surprise. They know nothing of
	// epochs without any record of the flow.
	Low, High float64
	// Covered is the share of the time of which there was a record; the rest is
	// extrapolated within epochs. An epoch without any record counts as 0.
	Covered float64
	// Missing does not list gaps of more than 64 epochs of which there are no records
	// at all; Covered counts them.
	Missing []Missing
	// Rounded is what the rounding of cells adds to the error, the standard deviation, where records were made small: Low and High account
	// for it. 0: cells are whole. Of kinds whose estimates are never too low it is by how much it makes them too high at most.
	Rounded float64
	// variance of the value, as far as it comes from other flows and from
	// extrapolation.
	variance float64
}

// Asker puts many queries to the same records. It holds scratch memory: one
// goroutine may use it at a time.
type Asker struct {
	records *Records
	compose composer
	path    []Segment
	epochs  []uint64             // of which there are records, in order
	rows    map[sketchEpoch]bool // in which Checked is Rows
	held    []observation        // scratch memory of Learn
	missing []Missing            // scratch memory of AddEach

	dispersions map[idEpoch]float64 // that were asked for
	gaps        map[uint64]bool     // epochs in which there is no record of some flow that frequencies asked about
}

// Asker returns a new one, for the records that there are now.
func (r *Records) Asker() *Asker { return &Asker{records: r, epochs: r.Epochs()} }

// Another is one more for the same records, which knows what this one has learnt, for another goroutine.
func (a *Asker) Another() *Asker {
	return &Asker{records: a.records, epochs: a.epochs, rows: maps.Clone(a.rows)}
}

// longestGap is how many epochs in a row without any record are looked at. Longer
// gaps are skipped: a clock that was set from 1970 leaves billions of epochs.
const longestGap = 64

// skip returns the next epoch to look at, from e on: e itself but in a long gap.
func (a *Asker) skip(e, to uint64) uint64 {
	next := to
	if i, _ := slices.BinarySearch(a.epochs, e); i < len(a.epochs) {
		next = min(a.epochs[i], to)
	}
	if next-e > longestGap {
		return next
	}
	return e
}

// Frequency estimates how often a flow occurred, in the sketch's unit.
func (r *Records) Frequency(q Query, flow uint64, paths Paths) Answer {
	return r.Asker().Frequency(q, flow, paths)
}

// Frequency estimates how often a flow occurred, in the sketch's unit.
func (a *Asker) Frequency(q Query, flow uint64, paths Paths) Answer {
	var sum Sum
	for e := a.skip(q.From, q.To); e < q.To; e = a.skip(e+1, q.To) {
		a.Add(&sum, q, flow, e, paths)
	}
	return sum.Answer(q)
}

// flowsTogether is how many flows are asked about at a time: what is known of so many so
// far, and the records of an epoch, stay in a processor's cache.
const flowsTogether = 4096

// frequencies is Frequency of many flows, epoch by epoch, so that records are read from
// memory once and not for each flow. f gets the answers in the order of the flows.
func (a *Asker) frequencies(q Query, flows []uint64, paths Paths, f func(flow uint64, answer Answer)) {
	if q.Composition == Checked {
		a.Learn(q, flows, paths)
	}
	sums := make([]Sum, min(len(flows), flowsTogether))
	for some := range slices.Chunk(flows, flowsTogether) {
		clear(sums)
		for e := a.skip(q.From, q.To); e < q.To; e = a.skip(e+1, q.To) {
			for i, flow := range some {
				if !a.Add(&sums[i], q, flow, e, paths) {
					a.gap(e)
				}
			}
		}
		for i, flow := range some {
			f(flow, sums[i].Answer(q))
		}
	}
}

// gap notes an epoch in which there is no record of a flow.
func (a *Asker) gap(epoch uint64) {
	if a.gaps == nil {
		a.gaps = map[uint64]bool{}
	}
	a.gaps[epoch] = true
}

// Sum is what the epochs so far say of a flow. The zero value has none. Where records of an epoch are dropped when the
// next one comes, it is Frequency of all of them.
type Sum struct {
	sum                   Answer
	noise, spread, centre float64
	most                  float64 // the largest composed.spread
	minimum               bool    // estimates are never too low
	rounded               float64 // of a minimum, the sum of composed.rounded, else of its squares
}

// Add adds an epoch to a sum: what records of the query's sketch say of the flow. false: there is no record of it.
func (a *Asker) Add(r *Sum, q Query, flow, epoch uint64, paths Paths) bool {
	c, ok := a.epoch(q, flow, epoch, paths, &r.sum.Missing)
	if ok {
		r.add(&c, a.compose.minimum)
	}
	return ok
}

// Composed is a sum, and how its epochs are composed.
type Composed struct {
	*Sum
	How Composition
}

// AddEach adds an epoch to several sums, as Add with each one's composition in the query would, by one look at the records.
func (a *Asker) AddEach(sums []Composed, q Query, flow, epoch uint64, paths Paths) {
	a.missing = a.missing[:0]
	ok := a.gather(&q, flow, epoch, paths, &a.missing)
	var likeliest composed
	if ok {
		// It has the value of Rows, too.
		likeliest = a.compose.join(Likeliest, a.path[0].From, a.path[len(a.path)-1].To)
		a.disperse(&likeliest, &q, epoch)
	}
	for _, r := range sums {
		r.sum.Missing = append(r.sum.Missing, a.missing...)
		if !ok {
			continue
		}
		c := likeliest
		if a.how(r.How, epoch, q.Sketch) == Rows {
			c.value = c.rows
		}
		r.add(&c, a.compose.minimum)
	}
}

// add adds an epoch.
func (r *Sum) add(c *composed, minimum bool) {
	r.sum.Value += c.value
	r.centre += c.rows
	r.sum.Covered += c.covered
	r.spread += c.spread * max(c.rows, c.value, 0)
	r.most = max(r.most, c.spread)
	if r.minimum = minimum; minimum {
		r.noise += c.noise
		r.rounded += c.rounded
	} else {
		r.noise += c.noise * c.noise
		r.rounded += c.rounded * c.rounded
	}
}

// Answer is what all epochs say. An estimate without bias, the sum over the epochs, may be below 0, where no count is: the
// answer is 0 then.
func (r *Sum) Answer(q Query) Answer {
	sum, noise, spread, centre := r.sum, r.noise, r.spread, r.centre
	if q.To > q.From {
		sum.Covered /= float64(q.To - q.From)
	}
	risk := 1 - q.confidence()
	sum.variance = noise + spread
	sum.Rounded = r.rounded
	variance, least := noise+spread, centre
	if r.minimum {
		risk /= 2
		variance, least = spread, centre-noise/risk-r.rounded
	} else {
		sum.Rounded = math.Sqrt(r.rounded)
	}
	sum.Low = least - math.Sqrt(variance/risk)
	sum.High = centre + above(variance/risk, r.most/risk)
	sum.Value = max(sum.Value, 0)
	// What the bounds are about is the value of Rows; another one is at most beyond
	// them itself.
	sum.Low, sum.High = max(min(sum.Low, sum.Value), 0), max(sum.High, sum.Value)
	return sum
}

// above is how far the true value may be above an estimate by Chebyshev's inequality, both arguments over the risk: the estimate's
// variance if it were right, and by how much the variance grows with the true value. Of what was not seen at all the
// estimate is 0, and so would the variance be.
func above(variance, growth float64) float64 {
	return growth/2 + math.Sqrt(growth*growth/4+variance)
}

// epoch composes a flow's estimate in one epoch; false: there is no record of
// it.
func (a *Asker) epoch(q Query, flow, epoch uint64, paths Paths, missing *[]Missing) (composed, bool) {
	if !a.gather(&q, flow, epoch, paths, missing) {
		return composed{}, false
	}
	from, to := a.path[0].From, a.path[len(a.path)-1].To
	c := a.compose.join(a.how(q.Composition, epoch, q.Sketch), from, to)
	a.disperse(&c, &q, epoch)
	return c, true
}

// disperse makes the spread that of flows which send as evenly as is asked, or known.
func (a *Asker) disperse(c *composed, q *Query, epoch uint64) {
	switch {
	case c.spread == 0:
	case q.Dispersion > 0:
		c.spread *= q.Dispersion
	default:
		c.spread *= a.dispersion(q.Sketch, epoch)
	}
}

// how is what Checked is in an epoch.
func (a *Asker) how(c Composition, epoch uint64, sketch uint16) Composition {
	if c == Checked && a.rows[sketchEpoch{epoch, sketch}] {
		return Rows
	}
	return c
}

// gather makes the observations of a flow in an epoch; false: there are none.
func (a *Asker) gather(q *Query, flow, epoch uint64, paths Paths, missing *[]Missing) bool {
	a.path = paths.Path(a.path[:0], flow, epoch)
	a.compose.obs, a.compose.packet = a.compose.obs[:0], 0
	if len(a.path) == 0 {
		*missing = append(*missing, Missing{Epoch: epoch})
		return false
	}
	fragments := a.records.epochs[epoch]
	for i := range a.path {
		for j, sw := range a.path[i].Switches {
			if a.observed(i, j) {
				continue
			}
			id := ID{sw, q.Sketch}
			f := fragments[id]
			if !q.asks(id, f) || !a.observe(f, flow, i) {
				if a.records.fragments[id] {
					*missing = append(*missing, Missing{epoch, id})
				}
			}
		}
	}
	return len(a.compose.obs) > 0
}

// observed says that the switch at position j of segment i was in an earlier
// segment, or earlier in this one.
func (a *Asker) observed(i, j int) bool {
	sw := a.path[i].Switches[j]
	for k := range i {
		if slices.Contains(a.path[k].Switches, sw) {
			return true
		}
	}
	return slices.Contains(a.path[i].Switches[:j], sw)
}

// observe adds what the records of a fragment, which first occurs in the given
// segment, say of the flow; false: a record that should be there is not.
func (a *Asker) observe(f *fragmentEpoch, flow uint64, segment int) bool {
	first := f.schedule.Subepoch(flow)
	ok := a.observeSubepoch(f, first, flow, segment)
	if f.schedule.SingleHop && a.singleHop() {
		if second := f.schedule.second(first); second != first {
			ok = a.observeSubepoch(f, second, flow, segment) && ok
		}
	}
	return ok
}

// singleHop says that the flow passed one switch alone all the time.
func (a *Asker) singleHop() bool { return len(a.path) == 1 && len(a.path[0].Switches) == 1 }

// observeSubepoch adds one record. A record counted the flow in those parts of
// its subepoch in which the flow's path led by its switch: each of these parts
// becomes an observation, whose rate is the count over all of them.
func (a *Asker) observeSubepoch(f *fragmentEpoch, subepoch, flow uint64, segment int) bool {
	r := f.records[subepoch]
	if r == nil {
		return false
	}
	c := &a.compose
	kind := r.rows.kind()
	c.minimum, c.presence = kinds[kind].minimum, kind == Bloom
	c.packet = max(c.packet, float64(r.Value)/float64(max(r.Packets, 1)))
	part := 1 / float64(len(f.records))
	begin, end := float64(subepoch)*part, float64(subepoch+1)*part
	count, window, first := r.rows.observe(flow), 0.0, len(c.obs)
	for i := segment; i < len(a.path); i++ {
		s := &a.path[i]
		if i > segment && !slices.Contains(s.Switches, r.Fragment.Switch) {
			continue
		}
		if from, to := max(begin, s.From), min(end, s.To); from < to {
			c.obs = append(c.obs, observation{from: from, to: to, observed: count, level: &r.levels[r.rows.level(flow)], again: len(c.obs) > first})
			window += to - from
		}
	}
	for i := first; i < len(c.obs); i++ {
		c.obs[i].window = window
	}
	return true
}

// Heavy is a heavy hitter.
type Heavy struct {
	Flow uint64
	Answer
}

// HeavyHitters lists those of the candidates whose estimate reaches the
// threshold, the largest first.
func (r *Records) HeavyHitters(q Query, candidates []uint64, threshold float64, paths Paths) []Heavy {
	a := r.Asker()
	var heavy []Heavy
	a.frequencies(q, candidates, paths, func(flow uint64, f Answer) {
		if f.Value >= threshold {
			heavy = append(heavy, Heavy{flow, f})
		}
	})
	slices.SortFunc(heavy, func(x, y Heavy) int {
		return cmp.Or(cmp.Compare(y.Value, x.Value), cmp.Compare(x.Flow, y.Flow))
	})
	return heavy
}
