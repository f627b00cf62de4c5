package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/tables"
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

// TestFates: packets and the copies that flooding made of them add up, each by itself.
func TestFates(t *testing.T) {
	number := func(name string) int {
		for n, reason := range tables.ReasonNames() {
			if reason == name {
				return n
			}
		}
		t.Fatal(name)
		return 0
	}
	for _, c := range []struct {
		name                  string
		received, transmitted uint64
		counters              map[string]uint64 // by "counter reason", or "counter"
		want                  *api.ReportResponse
		copies                *api.Fate
	}{
		{"nothing", 0, 0, nil, &api.ReportResponse{Balanced: true}, &api.Fate{}},
		{"drops at either end", 10, 6, map[string]uint64{"ingress.ingress_dropped unpatched": 2, "egress.egress_dropped pint_loop": 1, "ingress.ingress_dropped consumed": 1},
			&api.ReportResponse{Forwarded: 6, Consumed: 1, Dropped: map[string]uint64{"unpatched": 2, "pint_loop": 1}, Balanced: true}, &api.Fate{}},
		// A flood to three ports: one packet and two copies.
		{"flood", 1, 3, map[string]uint64{"egress.copies": 2}, &api.ReportResponse{Forwarded: 1, Balanced: true}, &api.Fate{Received: 2, Forwarded: 2}},
		{"flood with a drop", 1, 2, map[string]uint64{"egress.copies": 2, "egress.copies_dropped pint_loop": 1, "egress.egress_dropped pint_loop": 1},
			&api.ReportResponse{Forwarded: 1, Balanced: true}, &api.Fate{Received: 2, Forwarded: 1, Dropped: map[string]uint64{"pint_loop": 1}}},
		{"the packet itself drops", 1, 2, map[string]uint64{"egress.copies": 2, "egress.egress_dropped pint_loop": 1},
			&api.ReportResponse{Forwarded: 0, Dropped: map[string]uint64{"pint_loop": 1}, Balanced: true}, &api.Fate{Received: 2, Forwarded: 2}},
		{"one vanished", 2, 1, nil, &api.ReportResponse{Forwarded: 1}, &api.Fate{}},
		{"copies vanished", 1, 1, map[string]uint64{"egress.copies": 2}, &api.ReportResponse{Forwarded: 0}, &api.Fate{Received: 2, Forwarded: 1}},
	} {
		left := map[string]uint64{}
		for key, n := range c.counters {
			counter, reason, named := strings.Cut(key, " ")
			at := 0
			if named {
				at = number(reason)
			}
			left[fmt.Sprint(counter, at)] = n
		}
		r := &api.ReportResponse{Received: c.received, Forwarded: c.transmitted}
		if err := fates(r, func(name string, n int) (uint64, error) { return left[fmt.Sprint(name, n)], nil }); err != nil {
			t.Fatal(err)
		}
		if r.Forwarded != c.want.Forwarded || r.Consumed != c.want.Consumed || r.Balanced != c.want.Balanced || !maps.Equal(r.Dropped, c.want.Dropped) {
			t.Errorf("%s: %v", c.name, r)
		}
		if f := r.Copies; f.Received != c.copies.Received || f.Forwarded != c.copies.Forwarded || !maps.Equal(f.Dropped, c.copies.Dropped) {
			t.Errorf("%s: copies %v", c.name, f)
		}
	}
	gone := errors.New("gone")
	if err := fates(new(api.ReportResponse), func(string, int) (uint64, error) { return 0, gone }); !errors.Is(err, gone) {
		t.Errorf("a switch that does not answer: %v", err)
	}
}

// fillable notes in which order a switch is told what.
type fillable struct{ told []string }

func (f *fillable) note(text string) error {
	f.told = append(f.told, text)
	return nil
}

func (f *fillable) Program() *bmv2.Program { return new(bmv2.Program) }

func (f *fillable) Load(string) error { return f.note("tables") }

func (f *fillable) AddEntry(string) (int32, error) { return 0, f.note("an entry") }

func (f *fillable) DeleteEntry(string, int32) error { return f.note("an entry less") }

func (f *fillable) SetEntryTTL(string, int32, time.Duration) error { return f.note("a time to live") }

func (f *fillable) WriteRegister(name string, index int, value uint64) error {
	return f.note(fmt.Sprintf("%s[%d] = %d", name, index, value))
}

func (f *fillable) Started(func() int64) (int64, time.Duration, error) { return 42, 1, nil }

func (f *fillable) AddPort(number int, name string) error {
	return f.note(fmt.Sprintf("port %d %s", number, name))
}

// TestP4FillOrder: a switch knows the time ahead of its tables, and has ports when it has both.
func TestP4FillOrder(t *testing.T) {
	c, err := config.Load(writeFile(t, p4Switch1))
	if err != nil {
		t.Fatal(err)
	}
	here, err := netns.Current()
	if err != nil {
		t.Skip(err)
	}
	defer here.Close()
	s := &p4LiveSwitch{config: c, here: here, now: func() int64 { return 1_800_000_000_123_456_789 }, ports: p4Switch(c), begin: map[string]netns.Counters{}}
	f := new(fillable)
	if err := s.fill(f, map[int]string{1: "lo", 0: "lo"}, tables.Options{CPUPort: tables.DefaultCPUPort}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"tai_offset[0] = 42", "tables", "port 0 lo", "port 1 lo"}; !slices.Equal(f.told, want) {
		t.Errorf("told %q, want %q", f.told, want)
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

[switch.config.switch]
hash = "crc"

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
	compiled, dir := compiledWeir(t), t.TempDir()
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
