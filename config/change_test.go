package config

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/acl"
)

const changeable = `[switch]
name = "s1"
graph = ["parse", "policer", "acl", "l3", "mirror"]
[[port]]
interface = "p0"
[[port]]
interface = "p1"
[[port]]
interface = "p2"
[[stages.acl.rule]]
name = "web"
action = "permit"
dst_port = "80"
[[stages.acl.rule]]
name = "ssh"
action = "deny"
dst_port = "22"
[[stages.acl.rule]]
name = "rest"
action = "count"
[[stages.l3.interface]]
port = "p0"
addresses = ["10.0.0.1/24"]
[[stages.l3.interface]]
port = "p1"
addresses = ["10.0.1.1/24"]
[[stages.l3.route]]
prefix = "10.9.0.0/16"
via = ["10.0.1.2"]
`

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func chainOf(t *testing.T, c *Config) []pipeline.Named {
	t.Helper()
	env := pipeline.Env{Name: c.Switch.Name, ID: c.Switch.ID, Workers: 1}
	for i := range c.Ports {
		env.Ports = append(env.Ports, pipeline.Port{Name: c.Ports[i].Name, MaxFrame: 1514})
	}
	chain, err := stages.Build(c.Switch.Graph, c.Stages, env)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

const reopen = "cannot change while the port is there: remove the port, and add it anew"

// portsOf are the ports of a configuration whose interfaces are all there.
func portsOf(c *Config) func() ([]pipeline.Port, error) {
	return func() (ports []pipeline.Port, err error) {
		for i := range c.Ports {
			ports = append(ports, pipeline.Port{Name: c.Ports[i].Name, MaxFrame: 1514})
		}
		return ports, nil
	}
}

// TestPrepare: changes are reported by key; what cannot is refused, all of it,
// and then nothing is in force that was not before.
func TestPrepare(t *testing.T) {
	for _, tt := range []struct {
		name    string
		edit    []string
		changes []string
		faults  []string
	}{
		{"nothing", nil, nil, nil},
		{"a rule between", []string{"[[stages.acl.rule]]\nname = \"ssh\"", "[[stages.acl.rule]]\naction = \"deny\"\nvlan = \"7\"\n[[stages.acl.rule]]\nname = \"ssh\""},
			[]string{`+ stages.acl.rule[1] = {action = "deny", vlan = "7"}`}, nil},
		{"a value", []string{`"80"`, `"443"`, "log", "log"}, []string{`~ stages.acl.rule[0].dst_port = "443", was "80"`}, nil},
		{"a rule less", []string{"[[stages.acl.rule]]\nname = \"rest\"\naction = \"count\"\n", ""},
			[]string{`- stages.acl.rule[2] = {name = "rest", action = "count"}`}, nil},
		{"order", []string{"web", "ssh", "ssh", "web", `"80"`, `"22"`, `"22"`, `"80"`, "permit", "deny", "deny", "permit"},
			[]string{`~ stages.acl.rule[1] = {name = "web", action = "permit", dst_port = "80"}, was stages.acl.rule[0]`}, nil},
		{"of several stages, and the log", []string{`["10.0.1.2"]`, `["10.0.1.2", "10.0.1.3"]`, "[[stages.acl.rule]]\nname = \"web\"",
			"[log]\nlevel = \"debug\"\n[[stages.policer.port]]\nport = \"p0\"\nrate_bits = 1000000\n[[stages.acl.rule]]\nname = \"web\""},
			[]string{`~ stages.l3.route[0].via = ["10.0.1.2", "10.0.1.3"], was ["10.0.1.2"]`,
				`+ stages.policer.port[0] = {port = "p0", rate_bits = 1000000}`, `~ log.level = "debug", was "info"`}, nil},
		{"what cannot", []string{`interface = "p2"`, "name = \"p2\"\ninterface = \"p3\"\nqueues = 2", `"s1"`, "\"s1\"\nid = 9", `dst_port = "22"`, "dst_port = \"23\"\n[stages.parse]\nseed = 4"},
			nil, []string{"port[2].interface: " + reopen, "port[2].queues: " + reopen, "stages.parse.seed: " + restart, "switch.id: " + restart}},
		{"a port more", []string{"[[stages.acl.rule]]\nname = \"web\"", "[[port]]\ninterface = \"p3\"\n[[stages.acl.rule]]\nname = \"web\""}, []string{`+ port[3] = {name = "p3", interface = "p3", driver = "xsk", mode = "auto", rss = "keep"}`}, nil},
		{"a port less", []string{"[[port]]\ninterface = \"p2\"\n", ""}, []string{`- port[2] = {name = "p2", interface = "p2", driver = "xsk", mode = "auto", rss = "keep"}`}, nil},
		{"ports in another order, and a rate", []string{"\"p1\"\n[[port]]\ninterface = \"p2\"", "\"p2\"\nrate_bits = 9000\n[[port]]\ninterface = \"p1\""},
			[]string{`~ port[1].rate_bits = 9000, was 0`}, nil},
		{"a port of another name", []string{`interface = "p2"`, "name = \"x\"\ninterface = \"p2\""}, nil,
			[]string{"port[2].name: cannot change while the port is there: remove port p2, and add the other one then"}},
		{"a stage less", []string{`, "mirror"`, ""},
			[]string{`~ switch.graph = ["parse", "policer", "acl", "l3"], was ["parse", "policer", "acl", "l3", "mirror"]`, "- stages.mirror = {}"}, nil},
		{"stages that come and go, in another order, and a value of one that stays", []string{`"parse", "policer", "acl", "l3"`, `"parse", "oblivious", "acl", "l3", "disketch"`, `"80"`, `"443"`}, []string{
			`~ switch.graph = ["parse", "oblivious", "acl", "l3", "disketch", "mirror"], was ["parse", "policer", "acl", "l3", "mirror"]`,
			`~ stages.acl.rule[0].dst_port = "443", was "80"`, "- stages.policer = {}",
			`+ stages.disketch = {epoch_bits = 30, fragment = [{kind = "countsketch", key = "5-tuple", prefix4 = 32, prefix6 = 128, unit = "packets", memory = 131072, hops = 5, candidates = 256}]}`,
			`+ stages.oblivious = {kind = "nwps", unit = "bytes", size = 10000, gamma = 0.25, epoch_bits = 30, key = "5-tuple", prefix4 = 32, prefix6 = 128}`}, nil},
		{"stages that come in a pair", []string{`"parse",`, `"parse", "bond",`, `"mirror"`, `"mirror", "distribute"`}, []string{
			`~ switch.graph = ["parse", "bond", "policer", "acl", "l3", "mirror", "distribute"], was ["parse", "policer", "acl", "l3", "mirror"]`, "+ stages.bond = {}", "+ stages.distribute = {}"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old, next := parsed(t, changeable), parsed(t, strings.NewReplacer(tt.edit...).Replace(changeable))
			chain := chainOf(t, old)
			p, err := Prepare(old, next, chain, portsOf(next))
			if tt.faults != nil {
				if p != nil || err == nil || err.Error() != strings.Join(tt.faults, "\n") {
					t.Fatalf("got %v, want %q", err, tt.faults)
				}
				if diff := cmp.Diff(old.Stages["acl"], pointer(chain[2].Module.(*acl.Module).Config())); diff != "" {
					t.Error(diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range p.Changes {
				got = append(got, c.String())
			}
			if diff := cmp.Diff(tt.changes, got); diff != "" {
				t.Error(diff)
			}
			p.Commit()
			if diff := cmp.Diff(next.Stages["acl"], pointer(chain[2].Module.(*acl.Module).Config())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func pointer[T any](v T) *T { return &v }

// TestPrepareTableSize: a stage names its key that cannot change.
func TestPrepareTableSize(t *testing.T) {
	text := "[switch]\nname = \"s1\"\ngraph = [\"parse\", \"l2\"]\n[[port]]\ninterface = \"p0\"\n[stages.l2]\nageing = \"5m\"\n"
	old := parsed(t, text)
	chain := chainOf(t, old)
	if _, err := Prepare(old, parsed(t, text+"table_size = 99\n"), chain, portsOf(old)); err == nil || err.Error() != "stages.l2.table_size: "+restart {
		t.Errorf("got %v", err)
	}
	p, err := Prepare(old, parsed(t, strings.Replace(text, "5m", "5s", 1)), chain, portsOf(old))
	if err != nil || len(p.Changes) != 1 || p.Changes[0].String() != `~ stages.l2.ageing = "5s", was "5m0s"` {
		t.Fatalf("%+v, %v", p, err)
	}
	p.Commit()
}

// TestPrepareGraph: modules of stages that stay are kept, the others are made, and what cannot be had without a restart is refused.
func TestPrepareGraph(t *testing.T) {
	old := parsed(t, changeable)
	chain := chainOf(t, old)
	next := parsed(t, strings.Replace(changeable, `"policer", "acl", "l3", "mirror"`, `"lds_ingress", "acl", "l3"`, 1))
	p, err := Prepare(old, next, chain, portsOf(next))
	if err != nil {
		t.Fatal(err)
	}
	if g := p.Graph; len(g) != 4 || g[0] != chain[0] || g[1].Name != "lds_ingress" || g[2] != chain[2] || g[3] != chain[3] {
		t.Errorf("graph %v of %v", g, chain)
	}
	if p, err := Prepare(old, old, chain, portsOf(old)); err != nil || p.Graph != nil {
		t.Errorf("the same graph: %+v, %v", p, err)
	}
	old.Dataplane.Timestamps, next.Dataplane.Timestamps = "xdp", "xdp"
	if p, err := Prepare(old, next, chain, portsOf(next)); err == nil || !strings.Contains(err.Error(), `switch.graph[1]: stage "lds_ingress" needs the times of arrival`) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestEdited(t *testing.T) {
	for _, tt := range []struct {
		e    Edit
		want string // the one change, or faults
	}{
		{Edit{Stage: "acl", List: "rule", Fields: map[string]string{"action": "deny", "in_ports": "p0, p1", "dst_port": "1-2"}},
			`+ stages.acl.rule[3] = {action = "deny", in_ports = ["p0", "p1"], dst_port = "1-2"}`},
		{Edit{Stage: "acl", List: "rule", At: 1, Fields: map[string]string{"action": "deny"}}, `+ stages.acl.rule[0] = {action = "deny"}`},
		{Edit{Stage: "acl", List: "rule", Remove: true, Fields: map[string]string{"name": "ssh"}}, `- stages.acl.rule[1] = {name = "ssh", action = "deny", dst_port = "22"}`},
		{Edit{Stage: "acl", List: "rule", Remove: true, At: 3}, `- stages.acl.rule[2] = {name = "rest", action = "count"}`},
		{Edit{Stage: "l3", List: "route", Fields: map[string]string{"prefix": "10.8.0.0/16", "via": "10.0.0.2,10.0.1.2", "weights": "1,3"}},
			`+ stages.l3.route[1] = {prefix = "10.8.0.0/16", via = ["10.0.0.2", "10.0.1.2"], weights = [1, 3]}`},
		{Edit{Stage: "policer", List: "port", Fields: map[string]string{"name": "p1", "rate_bits": "8000000"}}, `+ stages.policer.port[0] = {port = "p1", rate_bits = 8000000}`},
		{Edit{Stage: "acl", List: "rule", Remove: true, Fields: map[string]string{"name": "x"}}, "stages.acl.rule: no element has the name \"x\": choose from web, ssh, rest"},
		{Edit{Stage: "acl", List: "rule", Remove: true}, "stages.acl.rule: nothing says which element is meant: give keys that it has, or its position"},
		{Edit{Stage: "acl", List: "rule", At: 5, Fields: map[string]string{"action": "deny"}}, "stages.acl.rule: there is no element 5: choose 1 to 4, or give no position"},
		{Edit{Stage: "acl", List: "rule", At: -1, Remove: true}, "stages.acl.rule: there is no element -1: choose 1 to 3, or give no position"},
		{Edit{Stage: "acl", List: "rule", Fields: map[string]string{"action": "drop", "vlan": "5000"}},
			"stages.acl.rule[3].action: \"drop\": choose \"permit\", \"deny\" or \"count\"\nstages.acl.rule[3].vlan: \"5000\": write a VLAN from 0 to 4095, or \"none\" for packets without a tag"},
		{Edit{Stage: "acl", List: "rule", Fields: map[string]string{"acton": "deny"}}, `stages.acl.rule.acton: there is no such key: did you mean "action"?`},
		{Edit{Stage: "policer", List: "port", Fields: map[string]string{"name": "p1", "rate_bits": "fast"}}, "stages.policer.port.rate_bits: is a string: write an integer"},
		{Edit{Stage: "l2", List: "static"}, "stages.l2: the graph has no such stage: there are parse, policer, acl, l3, mirror"},
		{Edit{Stage: "acl", List: "default"}, "stages.acl.default: there is no such list of tables"},
	} {
		old := parsed(t, changeable)
		next, err := old.Edited(tt.e)
		if diff := cmp.Diff(parsed(t, changeable), old, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%+v changed what is in force: %s", tt.e, diff)
		}
		if err != nil {
			if err.Error() != tt.want {
				t.Errorf("%+v: got %v, want %s", tt.e, err, tt.want)
			}
			continue
		}
		changes := Diff(old, next)
		if len(changes) != 1 || changes[0].String() != tt.want {
			t.Errorf("%+v: got %v, want %s", tt.e, changes, tt.want)
		}
	}
}

// TestDiffOfRates: a rate is shown as a file has it.
func TestDiffOfRates(t *testing.T) {
	old, next := &Config{}, &Config{}
	old.Telemetry.Budget, next.Telemetry.Budget = 1e6, 250e3
	if got := Diff(old, next); len(got) != 1 || got[0].String() != `~ telemetry.budget = "250kB/s", was "1MB/s"` {
		t.Errorf("got %v", got)
	}
}

// TestDiffOfRules: of random changes of a list, the difference has each element
// that is gone and each that is new, and is empty only for equal lists.
func TestDiffOfRules(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() []acl.Rule {
		rules := make([]acl.Rule, rng.IntN(6))
		for i := range rules {
			rules[i] = acl.Rule{Action: "deny", VLAN: fmt.Sprint(rng.IntN(4))}
		}
		return rules
	}
	pairs := 20_000
	if testing.Short() {
		pairs = 2000
	}
	for range pairs {
		a, b := random(), random()
		old := &Config{Stages: map[string]any{"acl": &acl.Config{Rules: a}}}
		next := &Config{Stages: map[string]any{"acl": &acl.Config{Rules: b}}}
		count := map[string]int{}
		for _, r := range a {
			count[r.VLAN]--
		}
		for _, r := range b {
			count[r.VLAN]++
		}
		changes := Diff(old, next)
		for _, c := range changes {
			switch {
			case strings.HasSuffix(c.Key, ".vlan"): // one element replaces another
				count[strings.Trim(c.Old, `"`)]++
				count[strings.Trim(c.New, `"`)]--
			case c.Old == "":
				count[vlanIn(c.New)]--
			case c.New == "":
				count[vlanIn(c.Old)]++
			}
		}
		for _, n := range count {
			if n != 0 {
				t.Fatalf("%v -> %v: %v leave %v", a, b, changes, count)
			}
		}
		if (len(changes) == 0) != slices.Equal(vlans(a), vlans(b)) {
			t.Fatalf("%v -> %v: %v", a, b, changes)
		}
	}
}

func vlanIn(literal string) string {
	_, rest, _ := strings.Cut(literal, `vlan = "`)
	return rest[:1]
}

func vlans(rules []acl.Rule) []string {
	var all []string
	for _, r := range rules {
		all = append(all, r.VLAN)
	}
	return all
}

// split reads "key=value;key=value".
func split(words string) map[string]string {
	fields := map[string]string{}
	for word := range strings.SplitSeq(words, ";") {
		if k, v, ok := strings.Cut(word, "="); ok {
			fields[k] = v
		}
	}
	return fields
}

// FuzzEdited: no words of a client make a switch panic, what is accepted is valid,
// and what was in force stays as it was.
func FuzzEdited(f *testing.F) {
	f.Add("", "port", false, 0, "interface=p7;queues=2")
	f.Add("", "port", true, 2, "name=p1")
	f.Add("", "port", false, 0, "name=p1|disabled=true;rate_bits=9000")
	f.Add("acl", "rule", false, 2, "action=deny|dst_port=7")
	f.Add("acl", "rule", false, 0, "action=deny;dst_port=80")
	f.Add("l3", "route", false, 1, "prefix=10.0.0.0/8;via=10.0.1.9;weights=2")
	f.Add("l3", "neighbour", true, -4, "address=10.0.1.9")
	f.Add("policer", "port", false, 9, "name=p0;rate_bits=0x7fffffffffff;burst_bytes=,")
	f.Add("mirror", "session", false, 0, "ports=p0,p1;to=p2")
	text := changeable
	f.Fuzz(func(t *testing.T, stage, list string, remove bool, at int, words string) {
		c, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var match map[string]string
		before, after, change := strings.Cut(words, "|")
		if change {
			match, words = split(before), after
		}
		fields := split(words)
		next, err := c.Edited(Edit{Stage: stage, List: list, Remove: remove, Match: match, At: at, Fields: maps.Clone(fields)})
		if err != nil {
			return
		}
		var dump bytes.Buffer
		if err := next.Dump(&dump); err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(dump.Bytes()); err != nil {
			t.Fatalf("an accepted change does not load: %v\n%s", err, &dump)
		}
		if !change && len(Diff(c, next)) == 0 {
			t.Fatalf("%q changed nothing", words)
		}
	})
}
