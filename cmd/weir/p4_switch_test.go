package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/telemetry/hash"
)

// TestP4SwitchFaults: what is wrong is said before anything runs, BMv2 installed or not.
func TestP4SwitchFaults(t *testing.T) {
	t.Setenv(bmv2.CompilerVariable, "/nowhere/p4c-bm2-ss")
	t.Setenv(bmv2.SwitchVariable, "/nowhere/simple_switch")
	good := writeFile(t, p4Switch1)
	for _, c := range []struct {
		args       []string
		want, none string
	}{
		{[]string{"-c", writeFile(t, p4Switch1+"epoch_bits = 26\n")},
			`s1.toml:21: stages.oblivious.epoch_bits: 26: epochs of 67.108864ms are too short for the control plane to write each one's registers in time: choose 27 or more on all switches`, "simple_switch"},
		{[]string{"-c", good, "--report", "xml"}, "xml", "simple_switch"},
		{[]string{"-c", good}, "p4c-bm2-ss is not installed", ""},
		{[]string{"-c", good}, "simple_switch is not installed", ""},
		{[]string{"-c", good, "--program", "weir.json"}, "simple_switch is not installed", "p4c-bm2-ss"},
	} {
		status, out, errs := weir(append([]string{"p4", "switch"}, c.args...)...)
		if status != statusUsage || out != "" || !strings.Contains(errs, c.want) || c.none != "" && strings.Contains(errs, c.none) {
			t.Errorf("%v: status %d, %s%s", c.args, status, out, errs)
		}
	}
}

// TestP4SwitchFamilies: a compiled program of another hash family is refused before anything runs.
func TestP4SwitchFamilies(t *testing.T) {
	t.Setenv(bmv2.SwitchVariable, "/bin/true")
	for _, c := range []struct{ config, program, want string }{
		{p4SwitchOfXXHash, "crc_key", `the program hashes by "crc", and the configuration says "xxhash": use the program for that`},
		{p4Switch1, "xxhash_seed", `the program hashes by "xxhash", and the configuration says "crc": use the program for that`},
		{p4Switch1, "key_p", `the program does not say which hash family it has`},
		{p4Switch1, "crc_key", `eth1`}, // there is no such interface
		{p4SwitchOfXXHash, "xxhash_seed", `eth1`},
	} {
		status, out, errs := weir("p4", "switch", "-c", writeFile(t, c.config), "--program", p4Program(t, c.program))
		if status != statusUsage || out != "" || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: status %d, %s%s", c.program, status, out, errs)
		}
	}
}

// TestQueueRates: all that is wrong with --queue-rate is said, before BMv2 is looked for.
func TestQueueRates(t *testing.T) {
	file := writeFile(t, p4Switch1)
	for _, c := range []struct {
		flags []string
		says  []string
	}{
		{[]string{"--queue-rate", "middle=5"}, []string{`port "middle" is not defined: define [[port]] name = "middle" or correct the name`}},
		{[]string{"--queue-rate", "left=0,right=-1"}, []string{`port "left": 0 packets per second: choose 1 to 1000000000`, `port "right": -1 packets`}},
		{[]string{"--queue-rate", "left=1", "--queue-rate", "right=1000000001"}, []string{`port "right": 1000000001 packets per second: choose`}},
		{[]string{"--queue-rate", "left"}, []string{"left must be formatted as key=value"}},
		{[]string{"--queue-rate", "left=fast"}, []string{"fast"}},
	} {
		status, _, errs := weir(append([]string{"p4", "switch", "-c", file}, c.flags...)...)
		if status != statusUsage {
			t.Errorf("%q: status %d", c.flags, status)
		}
		for _, want := range c.says {
			if !strings.Contains(errs, want) {
				t.Errorf("%q: %s, want it to say %s", c.flags, errs, want)
			}
		}
	}
}

// bridgeLab has a P4 switch that floods: three hosts, and none of them known to it in the beginning.
const bridgeLab = `
name = "p4bridge"

[[host]]
name = "h1"
addresses = ["10.0.0.1/24"]

[[host]]
name = "h2"
addresses = ["10.0.0.2/24"]

[[host]]
name = "h3"
addresses = ["10.0.0.3/24"]

[[switch]]
name = "s1"
kind = "bmv2"
program = %q
graph = ["parse", "l2"]

[[link]]
endpoints = ["h1", "s1:p0"]

[[link]]
endpoints = ["h2", "s1:p1"]

[[link]]
endpoints = ["h3", "s1:p2"]

[[traffic]]
kind = "ping"
from = "h1"
to = "h2"
count = 20
sizes = [64, 1500]
window = 1

[[traffic]]
kind = "ping"
from = "h3"
to = "h1"
count = 20
sizes = [64, 64]
window = 1
`

// TestP4Bridge: a P4 switch bridges a lab of three hosts, floods, learns, and every counter adds up.
func TestP4Bridge(t *testing.T) {
	compiled, dir := compiledWeir(t, hash.XX), t.TempDir()
	source := filepath.Join(dir, "p4bridge.toml")
	if err := os.WriteFile(source, fmt.Appendf(nil, bridgeLab, compiled), 0o600); err != nil {
		t.Fatal(err)
	}
	// A compiled program needs no compiler.
	cmd := weirCommand("lab", "run", "--json", ownLab(t, source))
	cmd.Env = append(cmd.Env, bmv2.CompilerVariable+"=/nowhere/p4c-bm2-ss")
	out, err := cmd.Output()
	var o struct {
		OK      bool `json:"ok"`
		Account struct {
			Checks []struct {
				What  string `json:"what"`
				Left  uint64 `json:"left"`
				Right uint64 `json:"right"`
			} `json:"checks"`
			Faults []string          `json:"faults"`
			Lost   map[string]uint64 `json:"lost"`
		} `json:"account"`
		Switches []struct {
			Report struct {
				Copies struct {
					Received  uint64 `json:"received"`
					Forwarded uint64 `json:"forwarded"`
				} `json:"copies"`
				Metrics []struct {
					Stage string  `json:"stage"`
					Name  string  `json:"name"`
					Value float64 `json:"value"`
				} `json:"metrics"`
			} `json:"report"`
		} `json:"switches"`
	}
	if jsonErr := json.Unmarshal(out, &o); jsonErr != nil {
		t.Fatalf("%v, %v\n%s", err, jsonErr, out)
	}
	if !o.OK || err != nil || len(o.Switches) != 1 {
		t.Fatalf("%v, lost %v, faults %v, checks %v", err, o.Account.Lost, o.Account.Faults, o.Account.Checks)
	}
	r := o.Switches[0].Report
	if r.Copies.Received == 0 || r.Copies.Forwarded != r.Copies.Received {
		t.Errorf("copies of flooded packets: %+v", r.Copies)
	}
	learned := 0.0
	for _, m := range r.Metrics {
		if m.Stage == "l2" && m.Name == "learned_stations_total" {
			learned = m.Value
		}
	}
	if learned != 3 {
		t.Errorf("%v stations were learned, want 3", learned)
	}
}
