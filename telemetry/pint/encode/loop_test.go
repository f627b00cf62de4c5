package encode

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestLoopFound sends packets around loops: none may circle for ever.
func TestLoopFound(t *testing.T) {
	for _, c := range []struct{ bits, threshold int }{{15, 1}, {14, 3}, {20, 2}} {
		l, err := NewLoops(hash.XX, c.bits, c.threshold, 1)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		for range 200 {
			lead, cycle := r.IntN(10), 2+r.IntN(8)
			id, digest, found, hop := r.Uint64(), uint64(0), false, 0
			for ; !found && hop < 2000; hop++ {
				sw := hop
				if hop >= lead {
					sw = lead + (hop-lead)%cycle
				}
				digest, found = l.Process(id, hop+1, digest, uint64(sw))
				if digest>>l.Bits() != 0 {
					t.Fatalf("digest %x has more than %d bits", digest, l.Bits())
				}
			}
			if !found {
				t.Fatalf("b=%d T=%d: a loop of %d switches is not found in 2000 hops", c.bits, c.threshold, cycle)
			}
			if hop < lead+cycle {
				t.Fatalf("b=%d T=%d: reported after %d hops, before the loop was closed", c.bits, c.threshold, hop)
			}
		}
	}
}

// TestLoopFalseRate compares the formula with the paper's figures and with a
// simulation of short digests, where reports are frequent.
func TestLoopFalseRate(t *testing.T) {
	for _, c := range []struct {
		bits, threshold int
		paper           float64
	}{{15, 1, 5e-7}, {14, 3, 5e-13}} {
		l, _ := NewLoops(hash.XX, c.bits, c.threshold, 1)
		if rate := l.FalseRate(32); rate > c.paper || rate < 0.9*c.paper {
			t.Errorf("b=%d T=%d: %v, the paper says %v", c.bits, c.threshold, rate, c.paper)
		}
	}
	l, _ := NewLoops(hash.XX, 6, 1, 7)
	const packets = 100000
	reports := 0
	for id := range uint64(packets) {
		digest, found := uint64(0), false
		for hop := 1; hop <= 32 && !found; hop++ {
			digest, found = l.Process(id, hop, digest, uint64(hop))
		}
		if found {
			reports++
		}
	}
	want := packets * l.FalseRate(32)
	if math.Abs(float64(reports)-want) > 7*math.Sqrt(want) {
		t.Errorf("%d false reports, computed %.0f", reports, want)
	}
}

func TestNewLoopsRefuses(t *testing.T) {
	for _, c := range []struct{ bits, threshold int }{{0, 1}, {16, 0}, {64, 1}} {
		if _, err := NewLoops(hash.XX, c.bits, c.threshold, 1); err == nil {
			t.Errorf("b=%d T=%d is taken", c.bits, c.threshold)
		}
	}
}

func TestLoopDoesNotAllocate(t *testing.T) {
	l, _ := NewLoops(hash.XX, 15, 1, 1)
	id := uint64(0)
	if n := testing.AllocsPerRun(100, func() { id++; l.Process(id, 3, id, 5) }); n != 0 {
		t.Errorf("%v allocations per packet and hop", n)
	}
}
