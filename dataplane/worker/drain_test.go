package worker

import (
	"math/rand/v2"
	"testing"
)

// TestDrain: of a line that loses a frame each 500 ns, whatever joins and whenever one looks, a frame is told to wait for what is in front;
// of an empty line nothing, also if the time goes back or frames wrap around.
func TestDrain(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 1))
	var d drain
	const each = 500
	now, last, sent, depth := int64(1e18), int64(1e18), ^uint32(0)-1000, uint32(0)
	told := 0
	for range 10_000 {
		step := int64(1 + r.IntN(20_000))
		now += step
		gone := uint32(now/each - last/each)
		last = now
		if depth -= min(depth, gone); depth == 0 {
			if w := d.wait(0, sent, now); w != 0 {
				t.Fatalf("an empty line takes %d ns", w)
			}
		} else if w := d.wait(depth, sent, now); d.each != 0 {
			told++
			if ratio := float64(w) / (each * float64(depth)); ratio < 0.8 || ratio > 1.3 {
				t.Fatalf("%d frames: %d ns, not %d", depth, w, each*depth)
			}
		}
		if depth < 200 { // joins from then on
			n := uint32(r.IntN(400))
			sent, depth = sent+n, depth+n
		}
	}
	if told < 5000 {
		t.Errorf("told %d times", told)
	}
	before := d.each
	if d.wait(50, sent, now-1e9); d.each != before {
		t.Error("time that went back was taken for a rate")
	}
}
