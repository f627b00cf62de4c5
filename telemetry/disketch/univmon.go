package disketch

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/sketch/univmon"
)

// ErrNotUnivMon says that a question needs UnivMon's levels.
var ErrNotUnivMon = errors.New("only fragments of UnivMon estimate cardinality, entropy and F2 of all flows")

// Summary answers questions about all flows of a network: the heavy flows of
// each level, estimated along their paths, so that a flow counts once however
// many switches it passes.
type Summary struct {
	sample *univmon.Sample
	// Flows is how many candidates had an estimate.
	Flows int
	// Gaps are the epochs, in order, in which there is no record of some candidate: what it sent then is in no sum. Skipped says that
	// there are more, without any record at all.
	Gaps    []uint64
	Skipped bool
	// Largest is an upper bound of the largest flow's value.
	Largest float64
	// noise is the mean of the variances of the flows' values.
	noise   float64
	values  float64
	flows   []univmon.Flow // the candidates that had an estimate
	Missing []Missing
}

// Summarise estimates the candidates (each flow once) and keeps the k heaviest
// of each level. Candidates that are missing make what it says too low.
func (r *Records) Summarise(q Query, k int, candidates []uint64, paths Paths) (*Summary, error) {
	rows := r.anyRows(q)
	if rows == nil {
		return nil, ErrNoRecords
	}
	if rows.kind() != UnivMon {
		return nil, ErrNotUnivMon
	}
	s := &Summary{}
	a := r.Asker()
	flows := make([]univmon.Flow, 0, len(candidates))
	seen := map[Missing]bool{}
	a.frequencies(q, candidates, paths, func(flow uint64, f Answer) {
		for _, m := range f.Missing {
			if !seen[m] {
				seen[m] = true
				s.Missing = append(s.Missing, m)
			}
		}
		if f.Covered == 0 {
			return
		}
		s.Largest = max(s.Largest, f.High)
		flows = append(flows, univmon.Flow{Hash: flow, Level: rows.level(flow), Value: f.Value})
		s.noise += f.variance
		s.values += max(f.Value, 1)
	})
	s.Flows, s.flows = len(flows), flows
	s.Gaps = slices.Sorted(maps.Keys(a.gaps))
	for e := q.From; e < q.To && !s.Skipped; e++ {
		s.Skipped = a.skip(e, q.To) != e
	}
	s.sample = univmon.NewSample(k, flows)
	return s, nil
}

// anyRows finds a record of the query's sketch.
func (r *Records) anyRows(q Query) *rows {
	for _, e := range r.Epochs() {
		if e < q.From || e >= q.To {
			continue
		}
		for id, f := range r.epochs[e] {
			if !q.asks(id, f) {
				continue
			}
			for _, x := range f.records {
				if x != nil {
					return &x.rows
				}
			}
		}
	}
	return nil
}

// Estimate is a value with its standard error.
type Estimate struct{ Value, StdErr float64 }

// Cardinality is the number of flows.
func (s *Summary) Cardinality() Estimate { return estimate(s.sample.Cardinality()) }

// Total is the sum of all flows' values.
func (s *Summary) Total() Estimate { return s.widen(estimate(s.sample.Total())) }

// SecondMoment is F2, the sum of the squares of all flows' values.
func (s *Summary) SecondMoment() Estimate { return s.widen(estimate(s.sample.SecondMoment())) }

// Entropy of the flows' shares, in bits. total is the sum of all flows' values
// where it is known better than from the summary, else 0.
func (s *Summary) Entropy(total float64) Estimate {
	if total <= 0 {
		total, _ = s.sample.Total()
	}
	return s.widen(estimate(s.sample.Entropy(total)))
}

// LogSum is the sum over all flows of v log2 v, v their values: that by which the entropy is less than the logarithm of their total.
func (s *Summary) LogSum() float64 {
	sum, _ := s.sample.Sum(func(v float64) float64 { return v * math.Log2(v) })
	return sum
}

func estimate(value, stderr float64) Estimate { return Estimate{value, stderr} }

// widen adds what the estimates of single flows err by to the error of
// sampling, in proportion: exact for the total, and about right for sums that
// grow about as fast.
func (s *Summary) widen(e Estimate) Estimate {
	if s.values > 0 {
		relative := math.Sqrt(s.noise) / s.values
		e.StdErr = math.Hypot(e.StdErr, e.Value*relative)
	}
	return e
}

// AtLeast lists the candidates whose estimate reaches a threshold: those among which
// Records.HeavyHitters need look.
func (s *Summary) AtLeast(threshold float64) (flows []uint64) {
	for _, f := range s.flows {
		if f.Value >= threshold {
			flows = append(flows, f.Hash)
		}
	}
	return flows
}
