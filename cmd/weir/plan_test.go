package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

const planQueries = `[[query]]
name = "path"
value = "switch_id"
aggregation = "path"
bits = 8

[query.static]
code = "hashed"
scheme = "hybrid"
hops = 10

[[query]]
name = "latency"
value = "hop_latency"
aggregation = "quantiles"
bits = 8
frequency = 0.9375

[[query]]
name = "queue"
value = "queue_occupancy"
aggregation = "max"
bits = 8
frequency = 0.0625
`

// TestPlan: queries become a plan that a switch takes, and that can be shown.
func TestPlan(t *testing.T) {
	queries, file := writeFile(t, planQueries), filepath.Join(t.TempDir(), "plan.toml")
	if status, _, errs := weir("plan", "--queries", queries, "--bits", "16", "--id", "7", "--seed", "3", "--out", file); status != 0 {
		t.Fatal(errs)
	}
	p, err := pintplan.Load(file)
	if err != nil || p.ID != 7 || p.Seed != 3 || p.Bits != 16 || p.Carrier != pintplan.CarrierShim {
		t.Fatalf("%+v, %v", p, err)
	}
	status, out, errs := weir("plan", "--show", file, "--json")
	var r pintplan.Report
	if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil {
		t.Fatal(errs, err)
	}
	if len(r.Queries) != 3 || len(r.Sets) != 2 || r.GrowthBy != 8 || r.Idle > 1e-9 || math.Abs(r.Sets[0].Share-15./16) > 1e-6 || r.Sets[0].Bits != 16 {
		t.Errorf("%+v", r)
	}
	if status, out, errs = weir("plan", "--show", file); status != 0 || !strings.Contains(out, "path, latency           16     93.75 %") {
		t.Errorf("%s%s", out, errs)
	}
	config := writeFile(t, fmt.Sprintf("[switch]\nname = \"s1\"\ngraph = [\"parse\", \"l2\", \"pint\"]\n[[port]]\nname = \"p0\"\ninterface = \"lo\"\n"+
		"[stages.pint]\nplan = %q\nedge = [\"p0\"]\nswitches = [1, 2, 3]\n", file))
	if status, _, errs := weir("switch", "--check", "-c", config); status != 0 {
		t.Errorf("a switch refuses the plan: %s", errs)
	}
	status, out, errs = weir("plan", "--carrier", "ipid", "--id", "3")
	if p, err := pintplan.Read(strings.NewReader(out)); status != 0 || err != nil || p.Carrier != pintplan.CarrierIPID || len(p.Queries) != 3 {
		t.Errorf("%s, %v", errs, err)
	}
}

// What cannot be is refused with status 2, and nothing is written.
func TestPlanFaults(t *testing.T) {
	queries, file := writeFile(t, planQueries), filepath.Join(t.TempDir(), "plan.toml")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--queries", queries, "--bits", "12"}, "do not fit into 12 bits per packet: multiply all of them by at most 0.5, or raise the budget to 16 bits"},
		{[]string{"--queries", queries, "--bits", "7"}, "bits 8: the plan has 7 for all"},
		{[]string{"--queries", queries, "--bits", "65"}, "bits 65: use 1 to 64"},
		{[]string{"--queries", queries, "--bits", "24", "--carrier", "ipid"}, `bits 24: carrier "ipid" has 16`},
		{[]string{"--carrier", "mail"}, `carrier "mail": use "shim" or "ipid"`},
		{[]string{"--seed", "18446744073709551615"}, "use at most 2^63-1"},
		{[]string{"--id", "65536"}, "invalid argument"},
		{[]string{"--queries", "/nowhere.toml"}, "read queries: open /nowhere.toml"},
		{[]string{"--queries", writeFile(t, "")}, "0 queries: use 1 to 12"},
		{[]string{"--queries", writeFile(t, "[[query]]\nname = \"q\"\nvalue = \"weather\"\n")}, `"weather" is not a value`},
		{[]string{"--show", "/nowhere.toml"}, "open /nowhere.toml"},
		{[]string{"--show", queries, "--bits", "3"}, "--bits makes a plan and --show reads one"},
		{[]string{"--json"}, "name a file with --out"},
	} {
		args := append([]string{"plan"}, c.args...)
		if c.args[0] != "--show" && c.args[0] != "--json" {
			args = append(args, "--out", file)
		}
		status, out, errs := weir(args...)
		if status != 2 || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%q: status %d\n%s%s\nwant %q", c.args, status, out, errs, c.want)
		}
		if _, err := pintplan.Load(file); err == nil {
			t.Fatalf("%q wrote a plan", c.args)
		}
	}
}
