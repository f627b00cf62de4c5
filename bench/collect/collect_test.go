package collect

import (
	"testing"

	"github.com/weirswitch/weir/telemetry/record"
)

// small is a network of which all rows are there in seconds.
func small(t *testing.T) Config {
	c := DefaultConfig()
	c.Switches, c.Epochs, c.Flows, c.Packets, c.Rounds, c.Folder = 6, 4, 40, 4000, 1, t.TempDir()
	return c
}

// TestRun: all rows are there, and none of them is empty.
func TestRun(t *testing.T) {
	c := small(t)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	for _, metric := range []string{"digests_per_second", "disketch_records_per_second", "frequency_ms", "frequency_ms_cold", "heavy_hitters_ms",
		"heavy_hitters_ms_cold", "path_ms", "path_ms_cold", "two_collectors_over_one", "bytes_per_digest"} {
		if row, ok := r.Row(metric); !ok || row.Value <= 0 {
			t.Errorf("%s: %+v", metric, row)
		}
	}
	if row, _ := r.Row("partition_exclusive"); row.Value != 1 {
		t.Error("two collectors read the same digest")
	}
	a, _ := r.Row("partition_share.collector0")
	b, _ := r.Row("partition_share.collector1")
	if sum := a.Value + b.Value; sum < 1-1e-9 || sum > 1+1e-9 || a.Value == 0 || b.Value == 0 {
		t.Errorf("shares %g and %g", a.Value, b.Value)
	}
}

// TestNetwork: the records are as many as switches and epochs make, and the same for the same seed.
func TestNetwork(t *testing.T) {
	c := small(t)
	n, err := newNetwork(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := newNetwork(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if n.digests != c.Packets*c.Epochs {
		t.Errorf("%d digests", n.digests)
	}
	for _, k := range []record.Kind{record.PINT, record.DiSketch, record.Oblivious} {
		if len(n.messages[k]) < c.Switches*c.Epochs && k != record.PINT {
			t.Errorf("%d %s records", len(n.messages[k]), k)
		}
		for i, m := range n.messages[k] {
			if string(m.encoded) != string(again.messages[k][i].encoded) {
				t.Fatalf("%s record %d differs", k, i)
			}
		}
	}
}
