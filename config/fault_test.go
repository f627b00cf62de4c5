package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/stages"
)

// TestFaults changes one line of a good file at a time, and expects exactly
// these faults, with their lines. good begins with an empty line, so its
// [switch] is in line 2.
func TestFaults(t *testing.T) {
	all := strings.Join(stages.Names(), ", ")
	tests := []struct{ name, old, new, want string }{
		{"syntax", "queues = 4", "queues = ", `line 10: port[1].queues: not valid TOML: `},
		{"twice the same key", `name = "s1"`, "name = \"s1\"\nname = \"s2\"", `line 4: switch.name: not valid TOML: key name is already defined: remove one of the two`},
		{"unknown key", "queues", "queue", `line 10: port[1].queue: there is no such key: did you mean "queues"?`},
		{"case", "queues", "Queues", `line 10: port[1].Queues: there is no such key: did you mean "queues"?`},
		{"unknown key, nothing near", "queues", "colour", `line 10: port[1].colour: there is no such key: remove it, or choose from busy_poll, class, disabled, driver, hash, id, inner_vlan, interface, jumbo, keep, lacp_rate, mac, members, min_links, mode, mtu, name, offloads, optional, parent, primary, protocol, queue_packets, queues, rate_bits, ring_size, rss, secret_file, socket, system_priority, tx_budget, vlan`},
		{"unknown table", "[stages.patch]", "[worker]\n[stages.patch]", `line 11: worker: there is no such key: did you mean "workers"?`},
		{"type", "queues = 4", `queues = "4"`, `line 10: port[1].queues: is a string: write an integer`},
		{"type of a string", `interface = "eth1"`, `interface = 1`, `line 9: port[1].interface: is an integer: write a string in quotes`},
		{"type of a list", `graph = ["parse", "patch"]`, `graph = "parse"`, `line 4: switch.graph: is a string: write a list in [ ]`},
		{"type of an element", `graph = ["parse", "patch"]`, `graph = ["parse", 5]`, `line 4: switch.graph[1]: is an integer: write a string in quotes`},
		{"type of a table", "[stages.patch]", "log = 3\n[stages.patch]", `line 11: port[1].log: there is no such key here: write the table [log]`},
		{"key of another table", "[stages.patch]", "graph = [\"l2\"]\n[stages.patch]", `line 11: port[1].graph: there is no such key here: write it below [switch]`},
		{"stage outside stages", "[stages.patch]", "[l2]\n[stages.patch]", `line 11: l2: is the table of a stage: write [stages.l2]`},
		{"value of Python", "queues = 4", "jumbo = True", `line 10: port[1].jumbo: not valid TOML: unexpected character U+0054 'T' at start of value: write true or false, in small letters`},
		{"quotes of a word processor", `name = "s1"`, "name = \u201cs1\u201d", `line 3: switch.name: not valid TOML: unexpected character U+00E2 'â' at start of value: write straight quotes, as in "s1"`},
		{"comment of C", `name = "s1"`, "// a switch\nname = \"s1\"", `line 3: not valid TOML: invalid character at start of key: U+002F '/': a comment begins with #`},
		{"colon", `name = "s1"`, `name: "s1"`, `line 3: not valid TOML: expected '=' after key: write key = value, or [table]`},
		{"no comma", `"eth1"]]`, `"eth1" "p0"]]`, `line 12: stages.patch.pairs: not valid TOML: expected ',' or ']' after array value: put a comma between two values, and ] at the end of the list`},
		{"comma at the end", `name = "s1"`, `name = "s1",`, `line 3: switch.name: not valid TOML: expected newline but got U+002C ',': a line ends with its value, or with # and a comment`},
		{"port is no list", "[[port]]\nname = \"p0\"\ninterface = \"eth0\"\n[[port]]", "[port]", `line 5: port: is a table: write [[port]], with two brackets on either side`},
		{"table twice", "[stages.patch]", "[switch]\nid = 3\n[stages.patch]", `line 11: not valid TOML: table switch already exists: merge the two into one [switch]`},
		{"list with single brackets", "[[port]]\nname = \"p0\"\ninterface = \"eth0\"\n[[port]]", "[port]\n[port]", `line 6: not valid TOML: table port already exists: write a list of tables in double brackets, each [[port]]`},
		{"stage twice", "[stages.patch]", "[stages.patch]\n[stages.patch]", `line 12: not valid TOML: table patch already exists: merge the two into one [stages.patch], or, if it is a list, write a list of tables in double brackets, each [[stages.patch]]`},
		{"byte order mark", good, "\ufeff" + good[1:], `line 1: begins with a byte order mark, which TOML does not allow: save the file as UTF-8 without BOM, or remove the mark with sed -i '1s/^\xef\xbb\xbf//' FILE`},
		{"range of the type", `name = "s1"`, "name = \"s1\"\nid = -1", `line 4: switch.id: -1 is out of range: choose 0 to 4294967295`},
		{"fixed length", `[["p0", "eth1"]]`, `[["p0", "eth1", "p0"]]`, `line 12: stages.patch.pairs[0]: has 3 elements: write 2`},
		{"interface twice", `interface = "eth1"`, `interface = "eth0"`, "line 9: port[1].interface: port[0] is on \"eth0\" already: an interface has one port, name another"},
		{"name twice", `interface = "eth1"`, "name = \"p0\"\ninterface = \"eth1\"", "line 9: port[1].name: port[0] is called \"p0\" already: choose another name"},
		{"no interface", `interface = "eth0"`, "", `line 5: port[0].interface: missing: name the network interface (ip link shows what there is)`},
		{"package's fault", "queues = 4", "queues = 1000", `line 10: port[1].queues: 1000: choose 1 to 256, or 0 for one per worker`},
		{"TX budget", "queues = 4", "tx_budget = 4096", `line 10: port[1].tx_budget: 4096 exceeds the TX ring: choose up to dataplane.tx_ring = 2048`},
		{"timestamps", "[stages.patch]", "[dataplane]\ntimestamps = \"tai\"\n[stages.patch]", `line 12: dataplane.timestamps: "tai": choose "batch", "xdp", "hardware" or "auto"`},
		{"frames", "[stages.patch]", "[dataplane]\nframes = 10000\n[stages.patch]", `line 12: dataplane.frames: 10000 cannot fill the fill rings of 5 queues: choose 10240 or more, 0 for as many as the rings hold, or a smaller fill_ring`},
		{"unknown stage", `["parse", "patch"]`, `["parse", "l4", "patch"]`, `line 4: switch.graph[1]: there is no stage "l4": did you mean "l2"?`},
		{"stage without a kind", "[stages.patch]", "[stages.firewall]\n[stages.patch]", `line 11: stages.firewall: there is no such stage: remove it, or choose from ` + all},
		{"stage not in the graph", "[stages.patch]", "[stages.l2]\n[stages.patch]", `line 11: stages.l2: is set, but the graph has no such stage: add "l2" to switch.graph or remove the table`},
		{"stage's fault", `["p0", "eth1"]`, `["p0", "p1"]`, `line 12: stages.patch.pairs[0]: port "p1" is not defined: define [[port]] name = "p1" or correct the name`},
		{"order of stages", `["parse", "patch"]`, `["patch", "parse"]`, "line 4: switch.graph: the graph begins with \"patch\": let it begin with \"parse\"\nline 4: switch.graph: stage \"parse\" (parse) is behind \"patch\" (forward): move it in front"},
		{"no graph", `graph = ["parse", "patch"]`, "", "line 2: switch.graph: is missing: name the stages, as in [\"parse\", \"patch\"]; there are " + all},
		{"switch's name", `"s1"`, `"a/b"`, `line 3: switch.name: "a/b" is not a name: use 1 to 32 letters, digits, '.', '_' and '-'`},
		{"port's name", `name = "p0"`, `name = "p 0"`, "line 6: port[0].name: \"p 0\" is not a name: use 1 to 32 letters, digits, '.', '_' and '-'"},
		{"socket", "[stages.patch]", "[control]\nsocket = \"s.sock\"\n[stages.patch]", `line 12: control.socket: "s.sock" is not an absolute path: begin it with a slash`},
		{"log", "[stages.patch]", "[log]\nlevel = \"all\"\nformat = \"xml\"\n[stages.patch]", "line 12: log.level: \"all\": choose \"debug\", \"info\", \"warn\" or \"error\"\nline 13: log.format: \"xml\": choose \"text\" or \"json\""},
		{"bare time", `graph = ["parse", "patch"]`, "graph = [\"parse\", \"l2\"]\n[stages.l2]\nageing = 300", "line 6: stages.l2.ageing: is an integer: write a time with its unit in quotes, as in \"300s\"\nline 13: stages.patch: is set, but the graph has no such stage: add \"patch\" to switch.graph or remove the table"},
		{"no time", `graph = ["parse", "patch"]`, "graph = [\"parse\", \"l2\", \"patch\"]\n[stages.l2]\nageing = \"300\"", `line 6: stages.l2.ageing: "300" is not a time: write a number and its unit, as in "300s", "5m" or "20ms"`},
		{"empty", good, "", "port: is missing: add a table [[port]] for each port\nswitch.graph: is missing: name the stages, as in [\"parse\", \"patch\"]; there are " + all},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(good, tt.old, tt.new, 1)
			if text == good {
				t.Fatal("the test changes nothing")
			}
			c, err := Parse([]byte(text))
			if err == nil {
				t.Fatal("no fault found")
			}
			if c != nil {
				t.Error("a faulty configuration is returned")
			}
			got := err.Error()
			if tt.name == "syntax" { // the rest is the library's own
				got = got[:min(len(tt.want), len(got))]
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFaultsNameTheFile: all faults of a file at once, in its order.
func TestFaultsNameTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.toml")
	text := strings.NewReplacer("queues = 4", "queues = -4", `"s1"`, `""`, "interface", "interfaces").Replace(good)
	text = strings.Replace(text, `name = ""`, `name = "!"`, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(file)
	if err == nil {
		t.Fatal("no fault found")
	}
	want := []string{
		`:3: switch.name: "!" is not a name`, `:5: port[0].interface: missing`, `:7: port[0].interfaces: there is no such key: did you mean "interface"?`,
		`:8: port[1].interface: missing`, `:9: port[1].interfaces: there is no such key`, `:10: port[1].queues: -4`,
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d faults, want %d:\n%v", len(lines), len(want), err)
	}
	for i, w := range want {
		if !strings.HasPrefix(lines[i], file+w) {
			t.Errorf("fault %d: got %q, want it to begin with %q", i, lines[i], file+w)
		}
	}
}

// TestFaultsInOneLayer: a fault does not hide those of other kinds, which do not follow from it.
func TestFaultsInOneLayer(t *testing.T) {
	text := `[switch]
graph = ["oblivious", "acl", "l2", "parse"]
name = "a/b"
[workers]
cores = [-1]
[[port]]
queues = -4
[[port]]
interface = "eth1"
[log]
level = "all"
[stages.l2]
ageing = "1ns"
bpdu_guard = ["eth0"]
[[stages.acl.rule]]
action = "perhaps"
`
	_, err := Parse([]byte(text))
	if err == nil {
		t.Fatal("no fault found")
	}
	for _, want := range []string{
		"line 2: switch.graph: the graph begins with \"oblivious\"",
		"line 3: switch.name: ",
		"line 5: workers.cores[0]: core -1",
		"line 6: port[0].interface: missing",
		"line 7: port[0].queues: -4",
		"line 11: log.level: ",
		"line 13: stages.l2.ageing: ",
		"line 16: stages.acl.rule[0].action: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "is not defined") {
		t.Errorf("eth0 may be the port without a name:\n%v", err)
	}
}
