package disketch

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestLearn: where the prior misleads, since all flows are about as large as the noise, Checked is Rows; where flows
// have a tail, it is Likeliest; and it errs about as little as the better one.
func TestLearn(t *testing.T) {
	for _, c := range []struct {
		name  string
		rows  bool
		flows int
		size  func(r *rand.Rand) int64
	}{
		{"all alike", true, 3000, func(r *rand.Rand) int64 { return 60 + r.Int64N(20) }},
		{"a tail", false, 1500, func(r *rand.Rand) int64 { return int64(min(math.Pow(r.Float64(), -1), 2000)) }},
	} {
		const hops = 7
		var records Records
		r := rand.New(rand.NewPCG(1, 2))
		var flows []uint64
		var sizes []int64
		for range c.flows {
			flows, sizes = append(flows, r.Uint64()), append(sizes, c.size(r))
		}
		path := make([]uint64, hops)
		for sw := range uint64(hops) {
			f, err := NewFragment(Config{ID: ID{Switch: sw}, Kind: CountSketch, Memory: 4 * 600, Epochs: 20, Seed: 3, Hash: hash.XX})
			if err != nil {
				t.Fatal(err)
			}
			counter, err := f.NewCounter()
			if err != nil {
				t.Fatal(err)
			}
			counter.Begin(f.Schedule(5, 0), 0)
			for i, flow := range flows {
				counter.Add(flow, sizes[i], false)
			}
			if err := records.Add(counter.Record().Clone()); err != nil {
				t.Fatal(err)
			}
			path[sw] = sw
		}
		paths := PathFunc(func(uint64) []uint64 { return path })
		asker := records.Asker()
		q := Query{From: 5, To: 6}
		asker.Learn(q, flows, paths)
		var rmse [3]float64
		for i, flow := range flows {
			for how := range rmse {
				q.Composition = Composition(how)
				a := asker.Frequency(q, flow, paths)
				rmse[how] += math.Pow(a.Value-float64(sizes[i]), 2) / float64(len(flows))
			}
		}
		t.Logf("%s: squared errors: checked %.1f, Likeliest %.1f, Rows %.1f", c.name, rmse[Checked], rmse[Likeliest], rmse[Rows])
		if asker.rows[sketchEpoch{5, 0}] != c.rows || rmse[Checked] > 1.05*min(rmse[Likeliest], rmse[Rows]) {
			t.Errorf("%s: Checked is Rows: %v; squared errors: checked %.1f, Likeliest %.1f, Rows %.1f", c.name, asker.rows[sketchEpoch{5, 0}], rmse[Checked], rmse[Likeliest], rmse[Rows])
		}
	}
}
