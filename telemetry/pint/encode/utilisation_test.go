package encode

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
)

// exactUtilisation is the recursion of section 4.3 in floats.
type exactUtilisation struct{ u, last, t, bytesPerNs float64 }

func (u *exactUtilisation) update(now, queue, bytes float64) {
	tau := min(now-u.last, u.t)
	u.last = now
	u.u = (u.t-tau)/u.t*u.u + queue*tau/(u.bytesPerNs*u.t*u.t) + bytes/(u.bytesPerNs*u.t)
}

func TestUtilisationAgainstFloats(t *testing.T) {
	for _, c := range []struct {
		name           string
		bytesPerSecond uint64
		roundTripNs    uint64
		load           float64
		queue          uint64
	}{
		{"100 Gbit/s, 13 us, half full", 12_500_000_000, 13_000, 0.5, 0},
		{"100 Gbit/s, 13 us, congested", 12_500_000_000, 13_000, 1, 400_000},
		{"10 Gbit/s, 100 us", 1_250_000_000, 100_000, 0.9, 30_000},
		{"1 Mbit/s, 50 ms, nearly idle", 125_000, 50_000_000, 0.01, 0},
		{"400 Gbit/s, 2 ms: 6.7e5 packets in T", 50_000_000_000, 2_000_000, 0.3, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, err := NewUtilisation(c.bytesPerSecond, c.roundTripNs)
			if err != nil {
				t.Fatal(err)
			}
			exact := exactUtilisation{t: float64(c.roundTripNs), bytesPerNs: float64(c.bytesPerSecond) / 1e9}
			r := rand.New(rand.NewPCG(3, 1))
			now, worst, packets := 0.0, 0.0, 1_000_000
			for i := range packets {
				bytes := uint64(64 + r.IntN(1437))
				now += float64(bytes) / exact.bytesPerNs / c.load * r.ExpFloat64()
				ns := uint64(now)
				queue := uint64(0)
				if c.queue > 0 {
					queue = r.Uint64N(c.queue)
				}
				u.Update(ns, queue, bytes)
				exact.update(float64(ns), float64(queue), float64(bytes))
				if i < 1000 {
					continue
				}
				got := float64(u.u) / (1 << utilisationScale)
				worst = max(worst, math.Abs(got-exact.u)/exact.u)
			}
			t.Logf("utilisation %.4f, worst relative error %.5f", exact.u, worst)
			if worst > 3.0/1024 {
				t.Errorf("relative error %v, stated 3/1024", worst)
			}
		})
	}
}

func TestUtilisationForgetsWhenIdle(t *testing.T) {
	u, err := NewUtilisation(1_250_000_000, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(100) {
		u.Update(1000*i, 50_000, 1500)
	}
	before := u.Value()
	u.Update(1<<40, 0, 1250)
	if want := uint64(pint.UtilisationOne / 10); before < 2*want || u.Value() > want || u.Value() < want*99/100 {
		t.Errorf("%d before, %d after an idle time; want a tenth of %d", before, u.Value(), pint.UtilisationOne)
	}
	u.Update(5, 0, 0) // time runs backwards
	if u.Value() > pint.UtilisationOne/10 {
		t.Errorf("%d after a step back", u.Value())
	}
}

func TestUtilisationStaysInRange(t *testing.T) {
	u, err := NewUtilisation(1, 1_000_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(1000) {
		u.Update(i<<30, math.MaxUint64, math.MaxUint64)
	}
	if u.u > 3<<60 {
		t.Errorf("state %d overflows", u.u)
	}
	for _, c := range [][2]uint64{{0, 1}, {1, 0}, {1 << 51, 1}, {1, 1 << 41}, {1, 1}} {
		if _, err := NewUtilisation(c[0], c[1]); err == nil {
			t.Errorf("a link of %d bytes/s and %d ns was accepted", c[0], c[1])
		}
	}
}

func TestUtilisationDoesNotAllocate(t *testing.T) {
	u, _ := NewUtilisation(1_250_000_000, 10_000)
	now := uint64(0)
	if n := testing.AllocsPerRun(1000, func() { now += 100; u.Update(now, 3000, 1500) }); n != 0 {
		t.Errorf("%v allocations per packet", n)
	}
}

func BenchmarkUtilisation(b *testing.B) {
	u, _ := NewUtilisation(1_250_000_000, 10_000)
	now := uint64(0)
	for b.Loop() {
		now += 1100
		u.Update(now, now&8191, 64+now&1023)
	}
}
