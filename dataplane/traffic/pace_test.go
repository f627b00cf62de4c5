package traffic

import (
	"math/rand/v2"
	"testing"
	"time"
)

// At any times at which a source gets to run, no stretch of time holds more packets than
// rate and catch-up allow, and without hold-ups none is given up.
func TestPacerBounds(t *testing.T) {
	for _, rate := range []float64{0.5, 1, 999, 1e5, 2.4e6, 1.488e7} {
		random := rand.New(rand.NewPCG(uint64(rate), 1))
		load := Load{Rate: rate, CatchUp: 10}
		p := NewPacer(load)
		var now, sent uint64
		heldUp := false
		step := uint64(1e9/rate) * 2
		for range 100_000 {
			now += random.Uint64N(step + 2)
			if random.IntN(1000) == 0 {
				now += 50 * step
				heldUp = true
			}
			before := p.next
			n, wait := p.Due(now, 5)
			if n == 0 && (wait == 0 || now<<rateShift+wait<<rateShift < before) {
				t.Fatalf("rate %v: nothing due, yet a wait of %d ns", rate, wait)
			}
			if n > 5 {
				t.Fatalf("rate %v: %d packets, the limit is 5", rate, n)
			}
			sent += uint64(n)
			if most := float64(now)*rate/1e9 + 1; float64(sent) > most*(1+1e-6)+1 {
				t.Fatalf("rate %v: %d packets after %v, at most %v are due", rate, sent, time.Duration(now), most)
			}
			if lag := now<<rateShift - min(now<<rateShift, before); n == 0 && lag > p.maxLag+p.interval {
				t.Fatalf("rate %v: %d behind and nothing due", rate, lag)
			}
		}
		if !heldUp {
			t.Fatal("the test never held the source up")
		}
	}
}

func TestPacerKeepsRate(t *testing.T) {
	for _, rate := range []float64{1000, 333_333.3, 2.4e6} {
		p := NewPacer(Load{Rate: rate})
		sent := 0
		for now := uint64(0); now < 1e9; now += 200 {
			n, _ := p.Due(now, 32)
			sent += n
		}
		if float64(sent) < rate-1 || float64(sent) > rate+2 {
			t.Errorf("rate %v: %d packets in a second", rate, sent)
		}
	}
}

func TestLoadValidate(t *testing.T) {
	for _, bad := range []Load{{Rate: -1}, {Rate: 2e9}, {Rate: 0.001}, {Duration: -1}, {CatchUp: -1}, {CatchUp: 1 << 20}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	if err := (Load{Rate: 1e6, Duration: time.Second}).Validate(); err != nil {
		t.Error(err)
	}
}
