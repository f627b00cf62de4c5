package disketch

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/record"
)

var _ export.Shaper = (*Module)(nil)

// TestShape: with room for all, records have whole cells; with less, cells are rounded until records fit, fragments get parts in proportion to what they take,
// counters say it, and answers hold within their bounds. Kinds whose cells are no sums stay whole. Enough room makes cells whole again.
func TestShape(t *testing.T) {
	const bits = 24
	c := Config{EpochBits: bits, Fragments: []Fragment{
		{Memory: 32 << 10, Target: 1e9, Candidates: 16}, {Kind: "countmin", Memory: 16 << 10, Target: 1e9, Candidates: 16}, {Kind: "tower", Memory: 16 << 10, Target: 1e9},
	}}
	m, err := New(c, env())
	if err != nil {
		t.Fatal(err)
	}
	m.Inline()
	s, b, r := m.Stage(0).(*stage), newBatch(t), rand.New(rand.NewPCG(3, 's'))
	tuple := (&Fragment{}).newKeyer(hash.XX)
	path := disketch.PathFunc(func(uint64) []uint64 { return []uint64{7} })
	now, metrics := int64(1<<bits), map[string]float64{}
	// epoch runs one, and returns how many bytes each fragment's records take, and how they are rounded.
	epoch := func() (bytes [3]float64, rounding [3]disketch.Rounding) {
		counts, all := map[uint64]float64{}, disketch.Records{}
		began := uint64(now) >> bits
		emit := func(h *record.Header, body func([]byte) ([]byte, error)) {
			form, err := body(nil)
			if err != nil {
				t.Fatal(err)
			}
			x, err := disketch.Decode(form, hash.XX)
			if err != nil {
				t.Fatal(err)
			}
			bytes[h.Instance] += float64(len(form))
			rounding[h.Instance] = x.Rounding
			if err := all.AddPrepared(x); err != nil {
				t.Fatal(err)
			}
		}
		s.Tick(now)
		for range 80 {
			for range 100 {
				flow := uint64(math.Pow(r.Float64(), -2))
				k := key(flow % 1e5)
				p := add(t, b, k, 0, 1)
				p.FlowHash = uint32(tuple.flow(&k, parseSeed))
				counts[flow%1e5]++
			}
			s.Process(b)
			clearBatch(b)
		}
		now += 1 << bits
		s.Tick(now)
		m.Collect(now, false, emit)
		outside, coarse := 0, [3]int{}
		for flow, n := range counts {
			k := key(flow)
			for i := range c.Fragments {
				keyer := c.Fragments[i].newKeyer(hash.XX)
				q := disketch.Query{Sketch: uint16(i), Hash: hash.XX, From: began, To: began + 1, Confidence: 0.99}
				if a := all.Frequency(q, keyer.flow(&k, parseSeed), path); n < a.Low || n > a.High {
					outside++
				} else if a.Rounded > 0 {
					coarse[i]++
				}
			}
		}
		for i, n := range coarse { // the others have whole cells
			if rounded := rounding[i] != (disketch.Rounding{}); rounded != (n > len(counts)/4) || !rounded && n > 0 {
				t.Errorf("fragment %d of rounding %v: %d of %d answers are rounded", i, rounding[i], n, len(counts))
			}
		}
		if outside > 3*len(counts)/50 {
			t.Errorf("%d of %d answers are outside of bounds of 99 %%", outside, 3*len(counts))
		}
		m.Metrics(func(x pipeline.Metric) { metrics[x.Name+x.Labels[0][1]] = x.Value })
		return bytes, rounding
	}
	epoch() // the first may be partial
	whole, rounding := epoch()
	if rounding != [3]disketch.Rounding{} || metrics["rounded_records_total0"] != 0 || metrics["rounding_ratio0"] != 0 {
		t.Errorf("without a bound, rounded by %v, metrics %v", rounding, metrics)
	}
	const perSecond = 1e9 / (1 << bits)
	all, useful := m.Demand()
	sum := (whole[0] + whole[1] + whole[2]) * perSecond
	if all < 0.85*sum || all > 1.15*sum || useful > all || useful < 0.1*all {
		t.Errorf("a demand of %g and %g, records take %g", all, useful, sum)
	}
	for _, part := range []float64{1, 0.8} {
		m.Shape(part * useful)
		fits, by := epoch()
		if by[0] == (disketch.Rounding{}) || by[1] == (disketch.Rounding{}) || by[2] != (disketch.Rounding{}) {
			t.Errorf("%g of what is useful: rounded by %v", part, by)
		}
		if got := (fits[0] + fits[1]) / (whole[0] + whole[1]); got > 0.9 {
			t.Errorf("%g of what is useful: %v bytes, whole %v", part, fits, whole)
		}
		for i := range 2 {
			if most := m.fragments[i].shape.bytes / perSecond; fits[i] > 1.1*most+100 {
				t.Errorf("%g of what is useful, fragment %d: %g bytes of %g", part, i, fits[i], most)
			}
		}
		if metrics["rounding_ratio0"] != float64(by[0].Ratio)/512 || metrics["rounded_records_total0"] == 0 || metrics["rounded_records_total2"] != 0 {
			t.Errorf("%g of what is useful: metrics %v", part, metrics)
		}
	}
	m.Shape(math.Inf(1))
	if _, by := epoch(); by != [3]disketch.Rounding{} || metrics["rounding_ratio1"] != 0 {
		t.Errorf("with room for all again, rounded by %v", by)
	}
}
