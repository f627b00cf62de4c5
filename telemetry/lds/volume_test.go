package lds

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// flowVolumes fills a point with flows of Pareto sizes, and returns what they sent.
func flowVolumes(t *testing.T, c Config, flows int) (p *Point, packets, bytes []float64) {
	t.Helper()
	p, err := NewPoint(c)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 8))
	packets, bytes = make([]float64, flows), make([]float64, flows)
	for f := range flows {
		n := int(math.Ceil(math.Pow(1-r.Float64(), -1/1.1)))
		for range min(n, 20_000) {
			length := 60 + r.Uint32N(1400)
			p.Add(uint64(f)+1e6, r.Uint64(), 0, length)
			packets[f]++
			bytes[f] += float64(length)
		}
	}
	return p, packets, bytes
}

// TestVolumes: the bounds of all flows hold, those from above always, those from below as often as
// promised, and what is in between is in the median right.
func TestVolumes(t *testing.T) {
	const flows, confidence = 3000, 0.95
	for _, c := range []Config{
		{Rows: 4, Columns: 1000, Virtual: 1, IntervalNs: 1e9},
		{Rows: 3, Columns: 4000, Virtual: 5, IntervalNs: 1e9, Seed: 9},
		{Rows: 1, Columns: 3000, Virtual: 1, IntervalNs: 1e9},
		{Rows: 4, Columns: 1024, Virtual: 1, IntervalNs: 1e9, Hash: hash.CRC},
	} {
		p, packets, bytes := flowVolumes(t, c, flows)
		for unit, truth := range map[Unit][]float64{Packets: packets, Bytes: bytes} {
			v := p.Volumes(unit, confidence)
			total, below, over := 0.0, 0, 0
			for f, is := range truth {
				total += is
				x := v.Flow(uint64(f) + 1e6)
				if x.Most < is || x.Counted != x.Most || x.Least > x.Most {
					t.Fatalf("%+v, unit %d, flow %d: %+v, sent %g", c, unit, f, x, is)
				}
				if x.Least > is {
					below++
				}
				if x.Counted-x.Noise > is {
					over++
				}
			}
			if math.Abs(v.Total()-total) > 1e-6*total || v.Sampled() {
				t.Errorf("%+v, unit %d: %g in all, sent %g", c, unit, v.Total(), total)
			}
			// Flows that share cells fail together, so a wide margin: by a binomial of the 3000 flows alone
			// 200 are 4.2 standard deviations, half of them and a fifth far beyond.
			if below > 200 || over > flows*7/10 {
				t.Errorf("%+v, unit %d: of %d flows %d are below their bounds, and %d estimates too large", c, unit, flows, below, over)
			}
		}
	}
}

// TestVolumesOfSampledRows: where no row counts all packets, bounds are three standard deviations of
// the sampling away.
func TestVolumesOfSampledRows(t *testing.T) {
	c := Config{Rows: 2, Columns: 4000, Virtual: 1, IntervalNs: 1e9, Rates: []float64{0.1, 0.5}}
	p, packets, bytes := flowVolumes(t, c, 500)
	for unit, truth := range map[Unit][]float64{Packets: packets, Bytes: bytes} {
		v := p.Volumes(unit, 0.95)
		outside := 0
		for f, is := range truth {
			x := v.Flow(uint64(f) + 1e6)
			// Lengths of packets vary too, by a half: bytes have a little more to vary by.
			slack := 0.1 * float64(unit) * is
			if is > x.Most+slack || is < x.Least-slack {
				outside++
			}
			if packets[f] > 1000 && math.Abs(x.Counted-is) > 0.3*is {
				t.Errorf("unit %d, flow %d: %+v, sent %g", unit, f, x, is)
			}
		}
		// Three standard deviations fail for some in a thousand; others in the cells for some more.
		if outside > 25 || !v.Sampled() {
			t.Errorf("unit %d: %d of 500 outside their bounds", unit, outside)
		}
	}
}

// TestVolumesOfNothing: an empty point has no flow in it.
func TestVolumesOfNothing(t *testing.T) {
	p, err := NewPoint(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range []Unit{Packets, Bytes} {
		if x := p.Volumes(unit, 0.99).Flow(5); x != (Volume{}) {
			t.Errorf("%+v", x)
		}
	}
}
