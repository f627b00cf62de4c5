package disketch

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestLearn: where flows send in bursts and epochs are divided, Likeliest takes windows without packets for small flows, and
// Checked is Rows; where flows have a tail and n is 1 it is Likeliest. It errs about as little as the better one.
func TestLearn(t *testing.T) {
	for _, c := range []struct {
		name  string
		rows  bool
		log   uint8
		flows int
		size  func(r *rand.Rand) int64
	}{
		{"bursts", true, 1, 200, func(r *rand.Rand) int64 { return 100 + r.Int64N(100) }},
		{"a tail", false, 0, 1500, func(r *rand.Rand) int64 { return int64(min(math.Pow(r.Float64(), -1), 2000)) }},
	} {
		const hops = 9
		var records Records
		r := rand.New(rand.NewPCG(1, 2))
		var flows, bursts []uint64
		var sizes []int64
		for range c.flows {
			flows, sizes, bursts = append(flows, r.Uint64()), append(sizes, c.size(r)), append(bursts, r.Uint64N(1<<c.log))
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
			for sub := range uint64(1) << c.log {
				counter.Begin(f.Schedule(5, c.log), sub)
				for i, flow := range flows {
					if bursts[i] == sub {
						counter.Add(flow, sizes[i], false)
					}
				}
				if err := records.Add(counter.Record().Clone()); err != nil {
					t.Fatal(err)
				}
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
		// Several compositions at once give what each gives alone.
		another := asker.Another()
		for _, flow := range append(flows[:100:100], r.Uint64()) {
			var sums [3]Sum
			another.AddEach([]Composed{{&sums[Checked], Checked}, {&sums[Rows], Rows}, {&sums[Likeliest], Likeliest}}, q, flow, 5, paths)
			for how := range sums {
				q.Composition = Composition(how)
				if got, want := sums[how].Answer(q), asker.Frequency(q, flow, paths); !reflect.DeepEqual(got, want) {
					t.Fatalf("%s: composition %d of flow %d: %+v, alone %+v", c.name, how, flow, got, want)
				}
			}
		}
		t.Logf("%s: squared errors: checked %.1f, Likeliest %.1f, Rows %.1f", c.name, rmse[Checked], rmse[Likeliest], rmse[Rows])
		if asker.rows[sketchEpoch{5, 0}] != c.rows || rmse[Checked] > 1.05*min(rmse[Likeliest], rmse[Rows]) {
			t.Errorf("%s: Checked is Rows: %v; squared errors: checked %.1f, Likeliest %.1f, Rows %.1f", c.name, asker.rows[sketchEpoch{5, 0}], rmse[Checked], rmse[Likeliest], rmse[Rows])
		}
	}
}
