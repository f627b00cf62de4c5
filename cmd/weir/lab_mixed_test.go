package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/p4/bmv2"
)

// TestMixedLab: three Weir switches and two P4 switches on one path decode the paths of all flows and
// the latencies of all hops as if all were Weir.
func TestMixedLab(t *testing.T) {
	programs, err := bmv2.Find()
	if err != nil {
		t.Skip(err)
	}
	netnstest.Require(t)
	compiled := filepath.Join(t.TempDir(), "weir.json")
	if err := programs.Compile(context.Background(), "../../p4/v1model/weir.p4", compiled); err != nil {
		t.Fatal(err)
	}
	out, err := weirCommand("lab", "run", "--json", mixedLab(t, compiled)).Output()
	var o struct {
		OK      bool `json:"ok"`
		Account struct {
			Faults []string          `json:"faults"`
			Lost   map[string]uint64 `json:"lost"`
		} `json:"account"`
		Switches []struct {
			Name   string `json:"name"`
			Report struct {
				Metrics []struct {
					Stage string  `json:"stage"`
					Name  string  `json:"name"`
					Value float64 `json:"value"`
				} `json:"metrics"`
			} `json:"report"`
		} `json:"switches"`
		Decoded []struct {
			Host    string `json:"host"`
			Long    int    `json:"long"`
			Decoded int    `json:"decoded"`
			Wrong   int    `json:"wrong"`
			Hops    []struct {
				Switch  string  `json:"switch"`
				Samples uint64  `json:"samples"`
				Median  float64 `json:"decoded_median_ns"`
				Low     float64 `json:"decoded_low_ns"`
			} `json:"hops"`
		} `json:"decoded"`
	}
	if jsonErr := json.Unmarshal(out, &o); jsonErr != nil {
		t.Fatalf("%v, %v\n%s", err, jsonErr, out)
	}
	if !o.OK || err != nil {
		t.Fatalf("%v, lost %v, faults %v", err, o.Account.Lost, o.Account.Faults)
	}
	mean := map[string]float64{}
	for _, s := range o.Switches {
		metric := map[string]float64{}
		for _, m := range s.Report.Metrics {
			if m.Stage == "lds_egress" {
				metric[m.Name] = m.Value
			}
		}
		if n := metric["measured_packets_total"]; n > 0 {
			mean[s.Name] = metric["waited_ns_total"] / n
		}
	}
	if len(mean) != 2 {
		t.Fatalf("mean latencies are known of %v, want s2 and s4", mean)
	}
	if len(o.Decoded) != 2 {
		t.Fatalf("digests were decoded for %d hosts, want 2", len(o.Decoded))
	}
	for _, d := range o.Decoded {
		t.Logf("to %s: %d flows of at least 60 packets, the right path of %d, %d wrong", d.Host, d.Long, d.Decoded, d.Wrong)
		if d.Long == 0 || d.Decoded != d.Long || d.Wrong != 0 {
			t.Errorf("to %s: of %d flows %d paths are right, and of all %d wrong", d.Host, d.Long, d.Decoded, d.Wrong)
		}
		if len(d.Hops) != 5 {
			t.Fatalf("to %s: latencies of %d hops, want 5", d.Host, len(d.Hops))
		}
		for i, h := range d.Hops {
			if want := fmt.Sprintf("s%d", i+1); h.Switch != want || h.Samples < 100 || h.Median <= 0 {
				t.Errorf("to %s: hop %+v, want 100 samples of %s", d.Host, h, want)
			}
			m, known := mean[h.Switch]
			if !known || d.Host != "h2" {
				continue
			}
			t.Logf("%s: median %.0f ns decoded from %d samples, mean %.0f ns by the switch's own registers", h.Switch, h.Median, h.Samples, m)
			// A median is at most twice the mean (Markov); codes are exact to some percent, and the lower bound
			// of the decoded one holds with a probability of 1 - 1e-9.
			if h.Low > 2.2*m {
				t.Errorf("%s: the decoded median is at least %.0f ns, the mean is %.0f ns", h.Switch, h.Low, m)
			}
		}
	}
}

// mixedLab is config/mixed.toml with the compiled program, wherever the test runs.
func mixedLab(t *testing.T, compiled string) string {
	t.Helper()
	path := ownLab(t, "../../config/mixed.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.ReplaceAll(string(text), `kind = "bmv2"`, fmt.Sprintf("kind = \"bmv2\"\nprogram = %q", compiled))
	changed = strings.ReplaceAll(changed, `plan = "`, `plan = "`+root+"/")
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
