package forward

import (
	"math"
	"testing"
)

// Ratios are of the same round, medians over the rounds.
func TestReport(t *testing.T) {
	c := DefaultConfig()
	c.Sizes = []string{"64", "imix"}
	var samples []Sample
	add := func(round int, device, size string, mrr, ndr, delay float64) {
		samples = append(samples, Sample{
			Round: round, Device: device, Size: size, Granted: "native", MRR: mrr, PDR: found{Rate: ndr}, NDR: found{Rate: ndr},
			Latency: []Delay{{Share: 0.5, P50: delay}},
		})
	}
	add(1, "patch", "64B", 200, 100, 30)
	add(1, "bridge", "64B", 100, 100, 10)
	add(1, "asavie", "64B", 50, 25, 40)
	add(1, "ovs", "64B", 80, 0, 0)
	add(2, "patch", "64B", 400, 100, 20)
	add(2, "bridge", "64B", 100, 100, 10)
	add(2, "asavie", "64B", 50, 25, 40)
	add(2, "ovs", "64B", 100, 0, 0)
	add(3, "patch", "64B", 330, 100, 10)
	add(3, "bridge", "64B", 110, 50, 10)
	add(3, "asavie", "64B", 66, 25, 40)
	add(3, "ovs", "64B", 110, 0, 0)
	add(1, "patch", "IMIX", 10, 5, 1)
	add(1, "bridge", "IMIX", 40, 5, 1)
	samples[1].MRRLimited = true

	r := report(&c, samples)
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	for metric, want := range map[string]float64{
		"patch.64B.mrr":                 330,
		"patch.64B.mrr_spread":          200.0 / 330,
		"patch.mrr_over_bridge":         3,
		"patch.ndr_over_bridge":         1,
		"patch.latency_p50_over_bridge": 2,
		"patch.mrr_over_best_afxdp":     3, // ovs: 2.5, 4, 3
		"patch.mrr_over_asavie":         5,
		"patch.IMIX.mrr_over_bridge":    0.25,
		"ovs.64B.ndr":                   0,
	} {
		if row, ok := r.Row(metric); !ok || math.Abs(row.Value-want) > 1e-9 {
			t.Errorf("%s: %+v, want %v", metric, row, want)
		}
	}
	for _, metric := range []string{"patch.ndr_over_ovs", "l2.mrr_over_bridge", "patch.mrr_over_patch", "patch.IMIX.mrr_over_best_afxdp"} {
		if row, ok := r.Row(metric); ok {
			t.Errorf("%s should not be there: %+v", metric, row)
		}
	}
	if row, _ := r.Row("bridge.64B.mrr"); row.Source != "native; receive work on source's core; source-limited" {
		t.Errorf("source: %q", row.Source)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values       []float64
		median, wide float64
	}{
		{[]float64{5}, 5, 0},
		{[]float64{3, 1, 2}, 2, 1},
		{[]float64{4, 1, 3, 2}, 2.5, 1.2},
		{[]float64{0, 0}, 0, 0},
	} {
		if m, w := median(c.values), spread(c.values); m != c.median || w != c.wide {
			t.Errorf("%v: median %v, spread %v", c.values, m, w)
		}
	}
}

func TestMaker(t *testing.T) {
	name := namespaceName("dut")
	if id, ok := maker(name); !ok || !id.Alive() {
		t.Errorf("%s: %+v, %v", name, id, ok)
	}
	for _, name := range []string{"", "wb-1", "xx-1.a-1-dut", "wb-0.a-1-dut", "wb-1-1-dut", "wb-1.?-1-dut", "wb-1.a-1"} {
		if id, ok := maker(name); ok {
			t.Errorf("%q is taken for one of ours: %+v", name, id)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	good := DefaultConfig()
	good.Weir = []string{"weir"}
	good.Devices = []string{"bridge"}
	if good.Cores.Source == good.Cores.Device || good.Validate() != nil {
		t.Skipf("needs two cores: %v", good.Validate())
	}
	for name, spoil := range map[string]func(*Config){
		"size":      func(c *Config) { c.Sizes = []string{"63"} },
		"no size":   func(c *Config) { c.Sizes = nil },
		"rounds":    func(c *Config) { c.Rounds = 0 },
		"trial":     func(c *Config) { c.Trial = 0 },
		"trials":    func(c *Config) { c.Trials = 2 },
		"precision": func(c *Config) { c.Precision = math.NaN() },
		"placement": func(c *Config) { c.Placement = "moon" },
		"weir":      func(c *Config) { c.Weir = nil },
		"one core":  func(c *Config) { c.Cores.Device = c.Cores.Source },
		"core":      func(c *Config) { c.Cores.Device = 1023 },
		"device":    func(c *Config) { c.Devices = []string{"bridge", "hub"} },
		"before":    func(c *Config) { c.Devices = []string{"patch", "patch_before"} },
	} {
		c := good
		if spoil(&c); c.Validate() == nil {
			t.Errorf("%s: %+v is valid", name, c)
		}
	}
}
