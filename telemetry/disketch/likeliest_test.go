package disketch

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestBurst: the chance of a burst is the mean over the times at which it can be, here of 64 times that are as likely; of a record that counted
// the flow twice (again) both times count as one.
func TestBurst(t *testing.T) {
	const times = 64
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		c := composer{minimum: r.IntN(2) == 0}
		for range 2 + r.IntN(4) {
			level := new(level)
			var cells []int32
			for range 50 {
				cells = append(cells, int32(r.IntN(3)*r.IntN(30)))
			}
			level.noise.measure(cells)
			begin, length := 0, times>>r.IntN(3)
			begin = length * r.IntN(times/length)
			whole := observation{from: float64(begin) / times, to: float64(begin+length) / times, window: float64(length) / times, observed: observed{count: float64(r.IntN(40))}, level: level}
			if length < times || r.IntN(2) == 0 {
				c.obs = append(c.obs, whole)
				continue
			}
			// It left the switch for half of the time.
			first, second := whole, whole
			first.to, second.from, second.again = 0.25, 0.75, true
			first.window, second.window = 0.5, 0.5
			c.obs = append(c.obs, first, second)
		}
		count := float64(r.IntN(40))
		want := 0.0
		for i := range times {
			at := (float64(i) + 0.5) / times
			log := 0.0
			for j := 0; j < len(c.obs); {
				o, seen := &c.obs[j], false
				for first := j; j < len(c.obs) && (j == first || c.obs[j].again); j++ {
					seen = seen || c.obs[j].from < at && at < c.obs[j].to
				}
				sent := 0.0
				if seen {
					sent = count
				}
				log += c.beside(o, sent)
			}
			want += math.Exp(log) / times
		}
		if got := c.burst(count, 0, 1); math.Abs(got-math.Log(want)) > 1e-9 {
			t.Fatalf("%+v: burst of %g packets: %g, want %g", c.obs, count, got, math.Log(want))
		}
	}
}

// TestBurstAtOneTime: a burst in the first quarter cannot miss the first half, but it can the second.
func TestBurstAtOneTime(t *testing.T) {
	cells := make([]int32, 1000)
	for i := range 100 {
		cells[i] = int32(1 + i)
	}
	l := new(level)
	l.noise.measure(cells)
	quarter := observation{from: 0, to: 0.25, window: 0.25, observed: observed{count: 20}, level: l}
	chance := func(other observation) float64 {
		c := composer{obs: []observation{quarter, other}}
		return c.burst(20, 0, 1)
	}
	missed, elsewhere := chance(observation{from: 0, to: 0.5, window: 0.5, level: l}), chance(observation{from: 0.5, to: 1, window: 0.5, level: l})
	if elsewhere-missed < math.Log(100) {
		t.Errorf("20 packets in a quarter have a logarithm of the chance of %.3g where the half that holds it has none, of %.3g where the other half has none", missed, elsewhere)
	}
}

// TestPacketsUnderWay: in a sketch with cells in plenty, five switches count a flow, of the size of the others, up to 2 % or two packets too high or too
// low each. It is found within that, and a twentieth of it for the little that other explanations weigh.
func TestPacketsUnderWay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, minimum := range []bool{false, true} {
		for range 10_000 {
			sent := math.Floor(math.Exp(r.Float64() * math.Log(1e6)))
			cells := make([]int32, 32768)
			for i := range 60 {
				cells[i] = int32(sent * (0.5 + r.Float64()))
			}
			l := new(level)
			l.noise.measure(cells)
			c := composer{minimum: minimum}
			off := max(0.02*sent, min(2, sent-1))
			for range 5 {
				c.obs = append(c.obs, observation{to: 1, window: 1, observed: observed{count: math.Round(sent + off*(2*r.Float64()-1))}, level: l})
			}
			if got := c.join(Likeliest, 0, 1).value; math.Abs(got-sent) > 1.05*off+0.5 {
				var counted []float64
				for _, o := range c.obs {
					counted = append(counted, o.count)
				}
				t.Fatalf("estimates of at least the truth %v: %g packets, counted as %g: %g", minimum, sent, counted, got)
			}
		}
	}
}

// TestExtremeCounts: counts that floats round, and rates of a window of almost no time, give a number, and bounds that hold it.
func TestExtremeCounts(t *testing.T) {
	counts := []float64{0, 1, -1, math.MaxInt32, -math.MaxInt32, 1 << 53, 1e18}
	values := []int32{0, 1, -1, math.MaxInt32, -math.MaxInt32}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		c := composer{minimum: r.IntN(2) == 0}
		for range 2 + r.IntN(4) {
			l := &level{rho: math.Abs(counts[r.IntN(len(counts))])}
			cells := make([]int32, 1+r.IntN(4))
			for i := range cells {
				cells[i] = values[r.IntN(len(values))]
			}
			l.measure(cells)
			n := math.Ldexp(1, r.IntN(43))
			from := math.Floor(r.Float64()*n) / n
			c.obs = append(c.obs, observation{from: from, to: from + 1/n, window: 1 / n, observed: observed{count: counts[r.IntN(len(counts))]}, level: l})
		}
		x := c.join(Likeliest, 0, 1)
		var s Sum
		s.add(&x, c.minimum)
		if a := s.Answer(Query{To: 1}); math.IsInf(a.Value, 1) || !(0 <= a.Low && a.Low <= a.Value && a.Value <= a.High) {
			t.Fatalf("%+v: %+v", c.obs, a)
		}
	}
	var n noise
	n.measure([]int32{0, 0, 0, 5})
	if got, want := n.log(1<<70), n.log(1<<40); got != want {
		t.Errorf("the logarithm of the chance of a noise of 2^70 is %g, of 2^40 %g", got, want)
	}
}

// TestBytesUnderWay: the same of flows whose bytes are counted, by whole packets.
func TestBytesUnderWay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const packet = 1500
	for _, minimum := range []bool{false, true} {
		for range 1_000 {
			sent := float64(3 + r.IntN(10))
			cells := make([]int32, 32768)
			for i := range 60 {
				cells[i] = int32(packet * sent * (0.5 + r.Float64()))
			}
			l := new(level)
			l.noise.measure(cells)
			c := composer{minimum: minimum, packet: packet}
			for range 5 {
				c.obs = append(c.obs, observation{to: 1, window: 1, observed: observed{count: packet * (sent + float64(r.IntN(3)) - 1)}, level: l})
			}
			if got := c.join(Likeliest, 0, 1).value; math.Abs(got-packet*sent) > 1.5*packet {
				t.Fatalf("estimates of at least the truth %v: %g packets: %g bytes", minimum, sent, got)
			}
		}
	}
}
