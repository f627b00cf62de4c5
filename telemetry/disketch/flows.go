package disketch

import (
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/sketch/hyperloglog"
)

// Flows estimates how many different flows the network had in a query's epochs, by fragments of kind HyperLogLog: each flow counts
// once, in however many epochs and by however many switches it was noted. The registers of all fragments merge, to as many as the
// smallest one has. Low and High are by Chebyshev's inequality. Missing are the fragments of which an epoch did not come: flows that
// passed no other one then are missing in the value. No such record: an error that wraps ErrNoRecords.
func (r *Records) Flows(q Query) (Answer, error) {
	var union *hyperloglog.Row
	var a Answer
	covered, expected := 0, 0
	ids := r.Fragments(q.Sketch)
	for _, e := range r.Epochs() {
		if e < q.From || e >= q.To {
			continue
		}
		for _, id := range ids {
			expected++
			f := r.epochs[e][id]
			if !q.asks(id, f) || f.records[0] == nil {
				a.Missing = append(a.Missing, Missing{e, id})
				continue
			}
			row, ok := f.records[0].rows.other.(*hyperloglog.Row)
			if !ok {
				return a, fmt.Errorf("%v is of kind %v, which does not know how many flows there are: choose a sketch of kind %v", id, f.records[0].Kind(), HyperLogLog)
			}
			covered++
			if union == nil {
				union = row
				continue
			}
			var err error
			if union, err = union.Union(row); err != nil {
				return a, fmt.Errorf("%v, epoch %d: %w", id, e, err)
			}
		}
	}
	if union == nil {
		return a, ErrNoRecords
	}
	a.Value, a.Covered = union.Flows(), float64(covered)/float64(expected)
	off := a.Value * union.StdErr() / math.Sqrt(1-q.confidence())
	a.Low, a.High = max(a.Value-off, 0), a.Value+off
	return a, nil
}
