package query

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/lds"
)

// TestUnequalWeights: where the points at both ends give a flow different weights, its losses are not known, and the answer says why.
func TestUnequalWeights(t *testing.T) {
	for _, weights := range [][2]uint32{{1, 1}, {10, 10}, {10, 1}} {
		c := lds.Config{Rows: 2, Columns: 300, Virtual: 1, IntervalNs: 1 << 30, Seed: 4}
		from, err := lds.NewPoint(c)
		if err != nil {
			t.Fatal(err)
		}
		to, err := lds.NewPoint(c)
		if err != nil {
			t.Fatal(err)
		}
		const flow = 77
		for id := range uint64(1000) {
			from.AddWeighted(flow, id, int64(id), 60, weights[0])
			if id > 4 {
				to.AddWeighted(flow, id, int64(id)+5, 60, weights[1])
			}
		}
		d, err := lds.Subtract(from, to, lds.AnyDelay())
		if err != nil {
			t.Fatal(err)
		}
		e := d.Flow(flow, weights[0], lds.Balanced)
		var s flowSum
		var b Between
		s.add(d, &e)
		s.answer(&b)
		if equal := weights[0] == weights[1]; b.HasLoss != equal || equal && b.Lost != 5 || !equal && !strings.Contains(b.Why, "the same weights") {
			t.Errorf("weights %v: %+v", weights, b)
		}
	}
}
