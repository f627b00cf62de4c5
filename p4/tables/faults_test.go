package tables

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	stage "github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// faultsOf are the lines of an error.
func faultsOf(t *testing.T, s *Switch) []string {
	t.Helper()
	_, err := Build(s, options)
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// TestFaults: all that the target cannot do is said at once, with key and remedy.
func TestFaults(t *testing.T) {
	s := load(t, "impossible.toml")
	s.Hash = hash.AES
	got := faultsOf(t, s)
	want := []string{
		`switch.hash: the program cannot compute "aes", of which a hash takes ten rounds of AES and more: set hash = "xxhash" or "crc" on all switches of the network, and no key`,
		`switch.graph[3]: the program has no stage acl: it has parse, oblivious, lds_ingress, patch, l2, l3, pint, disketch, lds_egress`,
		`switch.graph[6]: the program has pint in front of disketch: write the graph in its order, parse, oblivious, lds_ingress, patch, l2, l3, pint, disketch, lds_egress`,
		`stages.l2.table_size: 20000: the program's table holds 16384: choose at most that`,
		`stages.l2.storm: the program limits no floods: remove the limits`,
		`stages.pint.next_plan: plan 9: bits 32: the program's digest has 2 bytes: make a plan of 9 to 16 bits`,
		`stages.pint.next_plan: plan 9: query "path": the program writes paths as one instance of hashed values in at most two layers: use code = "hashed", instances = 1, no vector and one or two [[query.static.layer]]`,
		`stages.pint.feedback_port: the program sends no feedback: leave it out`,
		`stages.pint.then_one_of: the program gives all packets a digest: leave it out`,
		`stages.pint.plan: plan 1: query "path": the program writes paths as one instance of hashed values in at most two layers: use code = "hashed", instances = 1, no vector and one or two [[query.static.layer]]`,
		`stages.disketch.fragment[0].kind: the program has no tower, of which a packet reads both counters before it writes one: choose "countsketch", "countmin" or "univmon"`,
		`stages.disketch.fragment[0].candidates: a P4 target does not remember the keys of heavy flows: set candidates = -1`,
		`stages.disketch.fragment[1].memory: 1048576 bytes are 262144 cells: the program has 32768 of a fragment: choose memory = 131072 or less`,
		`stages.oblivious.flows: the program has no sample of flows: set flows = false`,
		`stages.oblivious.unit: the program has no ranks by number and bytes: choose "packets" or "bytes"`,
		`stages.lds_ingress.ports: 5 measurement points: the program has 4 on either side: name that many ports at most`,
		`stages.lds_ingress.rows: 3: the program has 4: set rows = 4`,
		`stages.lds_ingress.samples: 128: the program keeps no arrivals of packets, only their sums: remove it`,
		`stages.lds_ingress.lost_flows: 50: the program has no cells that name flows: remove it`,
		`stages.lds_egress.columns: 2048: the program has 1024 of a row: choose columns = 1024 or less`,
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("not said: %s", w)
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("said: %s", g)
		}
	}
}

// TestFaultsOfRoutes: paths by the packet; packets for the host.
func TestFaultsOfRoutes(t *testing.T) {
	s := load(t, "router.toml")
	if got := faultsOf(t, s); got != nil {
		t.Fatal(got)
	}
	s = read(t, `
[switch]
name = "s3"
hash = "crc"
graph = ["parse", "l3"]
[[port]]
name = "left"
interface = "left"
[[port]]
name = "host"
driver = "tap"
interface = "weir-host"
[stages.l3]
ecmp = "packet"
[[stages.l3.interface]]
port = "left"
addresses = ["10.0.1.1/24"]
host = "host"
[[stages.l3.route]]
prefix = "10.1.0.0/16"
via = ["10.0.1.2", "10.0.1.3"]
weights = [2, 3]
[[stages.l3.route]]
prefix = "10.2.0.0/16"
via = ["10.0.1.2", "10.0.1.3", "10.0.1.4"]
`)
	want := []string{
		`stages.l3.ecmp: "packet": the program chooses by the flow: set "flow"`,
		`stages.l3.interface[0].host: "host": the control plane of a P4 switch hands no packets to the machine that it runs on: remove it`,
	}
	if got := faultsOf(t, s); !slices.Equal(got, want) {
		t.Errorf("said %q", got)
	}
}

// TestFaultsOfPlans: each kind of query that the program has not, and more of a
// kind than it has.
func TestFaultsOfPlans(t *testing.T) {
	static := func(code pint.ValueCode, layers ...pint.Layer) *pint.StaticQuery {
		return &pint.StaticQuery{Code: code, ValueBits: map[bool]int{true: 8}[code != pint.Hashed], Layers: layers}
	}
	codes := &pint.NumericQuery{Multiplicative: true, Min: 100, Max: 100_000}
	for _, c := range []struct {
		name string
		plan pintplan.Config
		want string // "": good
	}{
		{"one layer", pintplan.Config{Bits: 16, Queries: []pint.Query{
			{Name: "path", Bits: 16, Frequency: 1, Static: static(pint.Hashed, encode.Baseline()...)}}}, ""},
		{"an odd length", pintplan.Config{Bits: 11, Queries: []pint.Query{
			{Name: "path", Bits: 11, Frequency: 0.5, Static: static(pint.Hashed, encode.XOR(0.3)...)}}}, ""},
		{"a short digest", pintplan.Config{Bits: 8, Queries: []pint.Query{
			{Name: "path", Bits: 8, Frequency: 1, Static: static(pint.Hashed, encode.Hybrid(5)...)}}},
			"bits 8: the program's digest has 2 bytes: make a plan of 9 to 16 bits"},
		{"an edge", pintplan.Config{Bits: 16, EdgeBits: 8, Queries: []pint.Query{
			{Name: "path", Bits: 16, Frequency: 1, Static: static(pint.Hashed, encode.Baseline()...)}}},
			"edge_bits 8: the program's shim"},
		{"three layers", pintplan.Config{Bits: 16, Queries: []pint.Query{
			{Name: "path", Bits: 16, Frequency: 1, Static: static(pint.Hashed, pint.Layer{Share: 0.5}, pint.Layer{Share: 0.25, P: 0.2}, pint.Layer{Share: 0.25, P: 0.5})}}},
			`query "path": the program writes paths`},
		{"whole values", pintplan.Config{Bits: 16, Queries: []pint.Query{
			{Name: "path", Bits: 16, Frequency: 1, Static: static(pint.Whole, encode.Baseline()...)}}},
			`query "path": the program writes paths`},
		{"a path of ports", pintplan.Config{Bits: 16, Queries: []pint.Query{
			{Name: "path", Value: pint.EgressPort, Bits: 16, Frequency: 1, Static: static(pint.Hashed, encode.Baseline()...)}}},
			`query "path": the program has no path of egress_port`},
		{"equal steps", pintplan.Config{Bits: 16, Queries: []pint.Query{
			{Name: "latency", Value: pint.HopLatency, Aggregation: pint.Quantiles, Bits: 16, Frequency: 1, Numeric: &pint.NumericQuery{Max: 1 << 20}}}},
			`query "latency": the program has no quantiles of hop_latency`},
		{"two of a kind", pintplan.Config{Bits: 16, Queries: []pint.Query{
			{Name: "fine", Value: pint.HopLatency, Aggregation: pint.Quantiles, Bits: 8, Frequency: 0.5, Numeric: codes},
			{Name: "coarse", Value: pint.HopLatency, Aggregation: pint.Quantiles, Bits: 8, Frequency: 0.5, Numeric: codes}}},
			`query "coarse": query "fine" is of the same kind, and the program has one of each: remove one`},
		{"a checksum", pintplan.Config{Bits: 16, Queries: []pint.Query{
			{Name: "checksum", Aggregation: pint.Checksum, Bits: 16, Frequency: 1}}},
			`query "checksum": the program has no checksum of switch_id`},
		{"loops", pintplan.Config{Bits: 16, Queries: []pint.Query{
			{Name: "loop", Aggregation: pint.Loop, Bits: 16, Frequency: 1, Threshold: 1}}},
			`query "loop": the program has no loop of switch_id`},
	} {
		c.plan.ID, c.plan.Seed, c.plan.Hash = 5, 1, hash.CRC
		p, err := pintplan.New(c.plan)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		file := t.TempDir() + "/plan.toml"
		if err := p.Save(file); err != nil {
			t.Fatal(err)
		}
		config := stage.DefaultConfig()
		config.Plan = file
		s := &Switch{ID: 1, Hash: hash.CRC, Graph: []string{"parse", "patch", "pint"}, Ports: []pipeline.Port{{Name: "p0"}}, Stages: map[string]any{"pint": &config}}
		got := faultsOf(t, s)
		switch want := "stages.pint.plan: plan 5: " + c.want; {
		case c.want == "" && got != nil:
			t.Errorf("%s: %q", c.name, got)
		case c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want)):
			t.Errorf("%s: said %q, want %q", c.name, got, want)
		}
	}
}

// TestFaultsOfFamilies: a plan is of the switch's family, but for the built-in one, which takes it.
func TestFaultsOfFamilies(t *testing.T) {
	for _, c := range []struct {
		plan string
		of   hash.Family
		want []string
	}{
		{"testdata/plan.toml", hash.CRC, nil},
		{planOfXXHash(t, "testdata/plan.toml"), hash.XX, nil},
		{"testdata/plan.toml", hash.XX, []string{`stages.pint.plan: plan 3: hash "crc", and the switch has "xxhash": make the plan with that (weir plan --hash xxhash)`}},
		{planOfXXHash(t, "testdata/plan.toml"), hash.CRC, []string{`stages.pint.plan: plan 3: hash "xxhash", and the switch has "crc": make the plan with that (weir plan --hash crc)`}},
		{"", hash.CRC, faultsOfDefaultPlan},
		{"", hash.XX, faultsOfDefaultPlan},
	} {
		config := stage.DefaultConfig()
		config.Plan = c.plan
		s := &Switch{ID: 1, Hash: c.of, Graph: []string{"parse", "patch", "pint"}, Ports: []pipeline.Port{{Name: "p0"}}, Stages: map[string]any{"pint": &config}}
		if got := faultsOf(t, s); !slices.Equal(got, c.want) {
			t.Errorf("plan %s, switch %v: said %q, want %q", c.plan, c.of, got, c.want)
		}
	}
}

var faultsOfDefaultPlan = []string{
	`stages.pint.plan: plan 1: query "path": the program writes paths as one instance of hashed values in at most two layers: use code = "hashed", instances = 1, no vector and one or two [[query.static.layer]]`,
}
