package transport

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/bench/netsim/intmd"
)

// mixed are flows of a few sizes at half load.
func mixed(t testing.TB, hosts int, rate uint64, until event.Time) []Flow {
	t.Helper()
	d, err := newDistribution([]float64{100, 10_000, 300_000}, []float64{0, 0.6, 1})
	if err != nil {
		t.Fatal(err)
	}
	flows, err := Arrivals{Hosts: hosts, Sizes: d, Load: 0.5, Rate: rate, Until: until, Seed: 4}.Flows()
	if err != nil {
		t.Fatal(err)
	}
	return flows
}

// All flows end, nobody beats the ideal, and the same seed gives the same times.
func TestSimulation(t *testing.T) {
	for _, name := range []string{"int", "pint", "reno"} {
		c, rate := renoConfig(t, smallFat), uint64(10e9)
		if name != "reno" {
			c, rate = hpccConfig(t, smallFat, name), 100e9
		}
		flows := mixed(t, 16, rate, 500*event.Microsecond)
		a, b := run(t, c, flows), run(t, c, flows)
		if a.Ended() != len(flows) || len(flows) < 10 {
			t.Errorf("%s: %d of %d flows ended", name, a.Ended(), len(flows))
		}
		for i := range flows {
			x, _ := a.Completion(i)
			if y, _ := b.Completion(i); x != y {
				t.Fatalf("%s: flow %d takes %d ps and %d ps", name, i, x, y)
			}
			if x < a.ideal(i) {
				t.Errorf("%s: flow %d takes %d ps, ideal %d", name, i, x, a.ideal(i))
			}
		}
		if a.net.Counts() != b.net.Counts() {
			t.Errorf("%s: %+v and %+v", name, a.net.Counts(), b.net.Counts())
		}
		k := a.net.Counts()
		if name != "reno" && k.Dropped != 0 {
			t.Errorf("%s: %d packets dropped", name, k.Dropped)
		}
	}
}

// With frequency p, a share p of acknowledgements feeds HPCC, and a bottleneck still settles at eta.
func TestFeedbackOnAShareOfPackets(t *testing.T) {
	c := hpccConfig(t, smallFat, "pint")
	reader, err := fabric.NewReader(congestionPlan(t, 1./16), "congestion")
	if err != nil {
		t.Fatal(err)
	}
	c.Feedback, c.Fabric.Telemetry.PINT = reader, reader.Encoder()
	const bytes = 10_000_000
	s := run(t, c, []Flow{{From: 0, To: 12, Bytes: bytes}, {From: 4, To: 12, Bytes: bytes}})
	// 6 standard deviations of a binomial.
	if got, want := float64(s.feedbacks), 2*bytes/1000./16; math.Abs(got-want) > 6*math.Sqrt(want) {
		t.Errorf("%v acknowledgements of %v fed HPCC, want one of 16", got, 2*bytes/1000)
	}
	// Both share the link: the ideal twice, over eta, and headers count already.
	for i := range 2 {
		if slow, ok := s.Slowdown(i); !ok || slow < 1.5 || slow > 2.3 {
			t.Errorf("flow %d: slowdown %v", i, slow)
		}
	}
}

// Watch and Arrived are told what happens, and a context ends a run.
func TestWatchAndContext(t *testing.T) {
	c := hpccConfig(t, smallFat, "pint")
	arrived := int64(0)
	c.Arrived = func(flow int, now event.Time, p *fabric.Packet) { arrived++ }
	ctx, cancel := context.WithCancel(context.Background())
	watched := 0
	c.Watch = func(s *Simulation) {
		if watched++; watched == 2 {
			cancel()
		}
	}
	s, err := New(c, []Flow{{From: 0, To: 12, Bytes: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(ctx); !errors.Is(err, context.Canceled) || watched != 2 {
		t.Errorf("%v, watched %d times", err, watched)
	}
	if arrived < s.flows[0].una/1000 || arrived > s.flows[0].una/1000+400 {
		t.Errorf("%d packets arrived, %d bytes are acknowledged", arrived, s.flows[0].una)
	}
}

func TestConfigFaults(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"both":        func(c *Config) { c.Reno = &DefaultReno },
		"neither":     func(c *Config) { c.HPCC = nil },
		"no payload":  func(c *Config) { c.Payload = 0 },
		"no feedback": func(c *Config) { c.Fabric.Telemetry.INT = false },
		"both INT":    func(c *Config) { c.Fabric.Telemetry.INTMD = &intmd.Config{Instructions: intmd.NodeID, MaxHops: 8} },
		"drops":       func(c *Config) { c.Fabric.PFC = false },
		"eta":         func(c *Config) { c.HPCC = &HPCC{WAI: 80, Eta: 2} },
		"fabric":      func(c *Config) { c.Fabric.Hosts = 0 },
	} {
		c := hpccConfig(t, smallFat, "int")
		spoil(&c)
		if _, err := New(c, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	c := hpccConfig(t, smallFat, "int")
	for name, flows := range map[string][]Flow{
		"no bytes":    {{From: 0, To: 1}},
		"to itself":   {{From: 1, To: 1, Bytes: 1}},
		"not ordered": {{From: 0, To: 1, Bytes: 1, Start: 5}, {From: 0, To: 1, Bytes: 1, Start: 4}},
	} {
		if _, err := New(c, flows); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Arrivals have the load asked for: the mean of n exponential gaps and n sizes is within 6 standard errors.
func TestArrivals(t *testing.T) {
	d, err := newDistribution([]float64{0, 1000, 2000}, []float64{0, 0.5, 1})
	if err != nil {
		t.Fatal(err)
	}
	a := Arrivals{Hosts: 10, Sizes: d, Load: 0.5, Rate: 1e9, Until: 100 * event.Millisecond, Seed: 2}
	flows, err := a.Flows()
	if err != nil {
		t.Fatal(err)
	}
	bytes, to := 0.0, [10]int{}
	for i, f := range flows {
		if f.From == f.To || i > 0 && f.Start < flows[i-1].Start || f.Start >= a.Until {
			t.Fatalf("flow %d: %+v", i, f)
		}
		bytes += float64(f.Bytes)
		to[f.To]++
	}
	load := bytes * 8 / (10 * 1e9 * 0.1)
	if n := float64(len(flows)); math.Abs(load-0.5) > 6*0.5*1.2/math.Sqrt(n) {
		t.Errorf("a load of %v", load)
	}
	for h, n := range to {
		if want := float64(len(flows)) / 10; math.Abs(float64(n)-want) > 6*math.Sqrt(want) {
			t.Errorf("host %d receives %d flows of %d", h, n, len(flows))
		}
	}
	for _, load := range []float64{0, -0.5, 1, 1.5, math.NaN(), math.Inf(1)} {
		a.Load = load
		if _, err := a.Flows(); err == nil {
			t.Errorf("a load of %v was accepted", load)
		}
	}
	// Gaps beyond what a Time holds: no flow, and an end.
	for _, load := range []float64{1e-15, 1e-300} {
		a.Load = load
		if flows, err := a.Flows(); err != nil || len(flows) != 0 {
			t.Errorf("a load of %v: %d flows, %v", load, len(flows), err)
		}
	}
	a.Load, a.Rate, a.Until = 0.5, 1e12, 100*event.Second
	if _, err := a.Flows(); err == nil {
		t.Error("more flows than events can name were accepted")
	}
}

func TestDistributions(t *testing.T) {
	for name, mean := range map[string]float64{WebSearch: 1_711_250, Hadoop: 120_421} { // of the data's own README
		d, err := LoadDistribution(netsim.DataDir(), name)
		if errors.Is(err, os.ErrNotExist) {
			t.Skipf("no shared data: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(d.mean()-mean) > 1 {
			t.Errorf("%s: mean %v, want %v", name, d.mean(), mean)
		}
		sum := 0.0
		const n = 1_000_000
		for i := range n {
			sum += d.Quantile((float64(i) + 0.5) / n)
		}
		if got := sum / n; math.Abs(got-mean) > 1e-3*mean {
			t.Errorf("%s: the mean of quantiles is %v", name, got)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "flowsizes"), 0o755); err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{
		"0 0\n10 100\n": true, "": false, "0 0\n": false, "0 0\n10 99\n": false, "5 1\n10 100\n": false,
		"10 0\n5 100\n": false, "a 0\n10 100\n": false, "0 0 0\n10 100\n": false, "0 0\nNaN 100\n": false, "-1 0\n10 100\n": false,
		"0 0\n0 100\n1 100\n": false, "0 0\n10 NaN\n20 100\n": false, "0 0\nInf 100\n": false, "0 0\n1e300 100\n": false,
	} {
		if err := os.WriteFile(filepath.Join(dir, "flowsizes", "x"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadDistribution(dir, "x"); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The window's reactions, by Algorithm 1: a use of eta keeps the reference window, and within a round trip each
// reaction begins at the same one.
func TestWindow(t *testing.T) {
	c := HPCC{WAI: 80, Eta: 0.95}
	h := hpccState{reference: 100_000, use: 1.9}
	if w := h.window(&c, 1000, 50_000, 1, 1e6); w != 50_080 || h.reference != 50_080 {
		t.Errorf("window %v, reference %v", w, h.reference)
	}
	for range 3 { // acknowledgements of the same round trip
		if w := h.window(&c, 40_000, 90_000, 1, 1e6); w != 25_120 || h.reference != 50_080 {
			t.Errorf("window %v, reference %v", w, h.reference)
		}
	}
	if w := h.window(&c, 50_001, 90_000, 1, 1e6); w != 25_120 || h.reference != 25_120 || h.updateSeq != 90_000 {
		t.Errorf("window %v, reference %v", w, h.reference)
	}
	c.MaxStage, h.use = 2, 0.5 // additive steps first
	h = hpccState{reference: 1000, use: 0.475}
	for i, want := range []float64{1080, 1160, 2400} {
		if w := h.window(&c, int64(i+1)*10, int64(i+1)*10, 1, 1e6); w != want {
			t.Errorf("step %d: window %v, want %v", i, w, want)
		}
	}
	c.MaxStage, h.use = 0, 0
	if w := h.window(&c, 100, 100, 1, 5000); w != 5000 {
		t.Errorf("window %v for an idle path", w)
	}
}

// The use that INT's records say, by MeasureInflight.
func TestMeasure(t *testing.T) {
	c := hpccConfig(t, smallFat, "int")
	n, err := fabric.New(c.Fabric)
	if err != nil {
		t.Fatal(err)
	}
	roundTrip := 13e-6
	var h hpccState
	at := func(us float64, sent, queue float64) []fabric.HopRecord { // link 1 is to a host: 12.5 GB/s
		return []fabric.HopRecord{{At: event.Time(us * 1e6), Sent: uint64(sent), Queue: uint32(queue), Link: 1}}
	}
	if h.measure(n, at(0, 0, 5000), roundTrip) {
		t.Error("one record says nothing of a rate")
	}
	// 6.5 us, half full, with 16250 bytes of queue at least: 0.5 + 0.1, of half a round trip.
	if !h.measure(n, at(6.5, 6.5*12500/2, 16250), roundTrip) || math.Abs(h.use-(0.5+5000/162500.)/2) > 1e-6 {
		t.Errorf("a use of %v", h.use)
	}
	if !h.measure(n, at(26.5, 6.5*12500/2+20*12500, 32500), roundTrip) || math.Abs(h.use-1.1) > 1e-6 {
		t.Errorf("a use of %v", h.use)
	}
}

// A list that never runs empty does not grow beyond a few times of what it holds.
func TestList(t *testing.T) {
	var l list
	in, out := uint32(0), uint32(0)
	for range 20 {
		l.push(in)
		in++
	}
	for range 10_000 {
		l.push(in)
		in++
		if got, ok := l.pop(); !ok || got != out {
			t.Fatalf("%d, want %d", got, out)
		}
		out++
	}
	if cap(l.packets) > 100 {
		t.Errorf("room for %d packets, where 21 waited at most", cap(l.packets))
	}
	for ; out < in; out++ {
		if got, ok := l.pop(); !ok || got != out {
			t.Fatalf("%d, want %d", got, out)
		}
	}
	if _, ok := l.pop(); ok {
		t.Error("a packet out of an empty list")
	}
}
