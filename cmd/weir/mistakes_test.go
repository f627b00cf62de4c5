package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const mistakesGood = "[switch]\nname = \"s1\"\ngraph = [\"parse\", \"patch\"]\n[[port]]\ninterface = \"eth1\"\n[[port]]\ninterface = \"eth2\"\n"

const mistakesLab = "name = \"l\"\n[[host]]\nname = \"h1\"\n[[host]]\nname = \"h2\"\n[[link]]\nendpoints = [\"h1\", \"h2\"]\n"

const mistakesSwitches = `name = "l"
[[host]]
name = "h1"
[[switch]]
name = "s1"
graph = ["parse", "l2", "lds_egres"]
[switch.config.stages.l2]
ageing = "fast"
[[switch]]
name = "s2"
[switch.config.switch]
graph = ["parse", "lds_ingress", "l2"]
[switch.config.stages.lds_ingress]
colunms = 5
[[switch.config.port]]
name = "p9"
queues = 1000
[[link]]
endpoints = ["h1", "s1:p0"]
[[link]]
endpoints = ["s1:p1", "s2:p0"]
`

// mistakes are what people type on their first evening. A file of a mistake is FILE in its command line.
var mistakes = []struct {
	what string
	file string
	args string
}{
	{"a command with a letter wrong", "", "swich -c edge.toml"},
	{"a flag with letters exchanged", "", "switch --cofnig edge.toml"},
	{"one dash for two", "", "switch -config edge.toml"},
	{"no file", "", "switch"},
	{"a file that is not there", "", "switch -c nowhere.toml"},
	{"a lab's file for a switch", "name = \"l\"\n[[host]]\nname = \"h1\"\n[[switch]]\nname = \"s1\"\ngraph = [\"parse\", \"patch\"]\n", "switch -c FILE"},
	{"a switch's file for a lab", mistakesGood, "lab check FILE"},
	{"a key with a letter wrong", strings.Replace(mistakesGood, "interface = \"eth1\"", "interfaces = \"eth1\"", 1), "switch -c FILE --check"},
	{"a stage that does not exist", strings.Replace(mistakesGood, "\"patch\"", "\"path\"", 1), "switch -c FILE --check"},
	{"quotes that are not closed", strings.Replace(mistakesGood, "\"s1\"", "\"s1", 1), "switch -c FILE --check"},
	{"a number in quotes", mistakesGood + "queues = \"two\"\n", "switch -c FILE --check"},
	{"three ports and no pairs", mistakesGood + "[[port]]\ninterface = \"eth3\"\n", "switch -c FILE --check"},
	{"a pair of a port that is not there", mistakesGood + "[stages.patch]\npairs = [[\"eth1\", \"eth9\"]]\n", "switch -c FILE --check"},
	{"the same interface twice", strings.Replace(mistakesGood, "eth2", "eth1", 1), "switch -c FILE --check"},
	{"a former key", "[switch]\nname = \"s1\"\ngraph = [\"parse\", \"policer\", \"l2\"]\n[[port]]\ninterface = \"eth1\"\n[[stages.policer.port]]\nname = \"eth1\"\nrate_bits = 1000000\n", "switch -c FILE --check"},
	{"a view that does not exist", "", "ctl show prots"},
	{"a switch that does not run", "", "ctl --name no-such-switch show ports"},
	{"a question without its other end", "", "query delay --from s1:p0"},
	{"a rate that is none", "", "gen -i eth0 --rate fast"},
	{"a percentage above all", "", "gen -i eth0 --rate 150%"},
	{"a link that loses more than all", "name = \"l\"\n[[host]]\nname = \"h1\"\n[[host]]\nname = \"h2\"\n[[link]]\nendpoints = [\"h1\", \"h2\"]\nloss = 5\ndelay = \"1m\"\nrate = \"fast\"\n", "lab check FILE"},
	{"traffic of an unknown kind", mistakesLab + "[[traffic]]\nkind = \"pings\"\nfrom = \"h1\"\nto = \"h2\"\n", "lab check FILE"},
	{"traffic from an unknown host", mistakesLab + "[[traffic]]\nkind = \"ping\"\nfrom = \"h3\"\nto = \"h2\"\n", "lab check FILE"},
	{"switches of a lab with letters and values wrong", mistakesSwitches, "lab check FILE"},
	{"the same lab, brought up", mistakesSwitches, "lab up FILE"},
	{"a file without its flag", mistakesGood, "switch FILE"},
	{"a command for a switch that weir does not have", mistakesGood, "run FILE"},
	{"a view without its group", "", "ctl ports"},
	{"words in another order", "", "ctl set port left up"},
	{"a lab without what to do", mistakesLab, "lab FILE"},
	{"a lab's command without its file", "", "lab up"},
	{"a lab that is not there", "", "lab run nowhere.toml"},
	{"a folder for a file", "", "switch -c /"},
	{"an empty name for a file", "", "switch -c="},
	{"text without quotes", strings.Replace(mistakesGood, "\"s1\"", "s1", 1), "switch -c FILE --check"},
	{"one bracket for two", strings.ReplaceAll(strings.ReplaceAll(mistakesGood, "[[", "["), "]]", "]"), "switch -c FILE --check"},
	{"one port in one bracket", "[switch]\ngraph = [\"parse\", \"l2\"]\n[port]\ninterface = \"eth1\"\n", "switch -c FILE --check"},
	{"JSON for TOML", "{\"switch\": {\"name\": \"s1\"}}\n", "switch -c FILE --check"},
	{"a router without addresses", strings.Replace(mistakesGood, "\"patch\"", "\"l3\"", 1), "switch -c FILE --check"},
	{"a capture without its flag", "", "replay some.pcap"},
	{"a time without its unit", "", "query volume --last 10"},
	{"the generator's flag at the sink", "", "sink -i eth0 --latency 500"},
	{"a network with bits behind its length", "", "gen -i eth0 --src-net 10.0.0.1/16"},
	{"a flow of one end", "", "query path --flow 10.0.0.1:80"},
	{"a device under test with one side", "", "bench forward --tx eth1"},
	{"interfaces that are not there", "", "bench forward --tx no-such-1 --rx no-such-2"},
	{"a report in a folder that is not there", "", "bench forward --tx lo --rx lo --html /no-such-folder/report.html"},
	{"a comparison of one file", "", "bench compare a.json"},
	{"a comparison with a file that is not there", "", "bench compare a.json b.json"},
	{"a size that is none", "", "gen -i lo --size big"},
	{"an address for a network", "", "gen -i lo --src-net 10.0.0.1"},
	{"an interface without its flag", "", "gen eth0"},
	{"a shell without completion", "", "completion ksh"},
	{"drops, which are with the ports", "", "ctl show drops"},
	{"help for a command that is not there", "", "help swich"},
	{"a stage's table outside stages", strings.Replace(mistakesGood, "\"patch\"", "\"l2\"", 1) + "[l2]\nageing = \"60s\"\n", "switch -c FILE --check"},
	{"keys of the switch above its table", "name = \"s1\"\ngraph = [\"parse\", \"patch\"]\n", "switch -c FILE --check"},
	{"a table as a key of another one", strings.Replace(mistakesGood, "[[port]]", "workers = 4\n[[port]]", 1), "switch -c FILE --check"},
	{"a patch of one port", "[switch]\ngraph = [\"parse\", \"patch\"]\n[[port]]\ninterface = \"eth1\"\n", "switch -c FILE --check"},
	{"YAML for TOML", "switch:\n  name: s1\n", "switch -c FILE --check"},
	{"quotes of a word processor", strings.Replace(mistakesGood, "\"s1\"", "\u201cs1\u201d", 1), "switch -c FILE --check"},
	{"a truth of Python", mistakesGood + "jumbo = True\n", "switch -c FILE --check"},
	{"a comment of C", "// the switch\n" + mistakesGood, "switch -c FILE --check"},
	{"a list without commas", strings.Replace(mistakesGood, ", ", " ", 1), "switch -c FILE --check"},
	{"a comma at a line's end", strings.Replace(mistakesGood, "\"s1\"", "\"s1\",", 1), "switch -c FILE --check"},
	{"a key twice", strings.Replace(mistakesGood, "[[port]]", "name = \"s2\"\n[[port]]", 1), "switch -c FILE --check"},
	{"one dash for two, behind the file", mistakesGood, "switch -c FILE -check"},
	{"another program's letter for the file", mistakesGood, "switch -f FILE"},
	{"another program's word for a check", mistakesGood, "check FILE"},
	{"another program's word for an interface", "", "gen --iface lo"},
	{"a large letter for a small one", "", "gen -I lo"},
	{"a switch to be stopped", "", "stop"},
	{"a state without its group", "", "status"},
	{"an interface without its command", "", "nic eth0"},
	{"a key's file without its command", "", "key FILE"},
	{"a percentage for a share", "", "query heavy-hitters --theta 1%"},
	{"IMIX with labels that its small frames have no room for", "", "gen -i lo --mpls 16,99 --size imix"},
	{"a label that is none", "", "gen -i lo --mpls 2000000"},
	{"a network of VXLAN that is none", "", "gen -i lo --vxlan 99999999"},
	{"a table for a report", "frame_bytes,figure,at,value,unit,mark\n64,throughput,,5,fps,\n", "bench compare FILE FILE"},
	{"words for a number", "", "gen -i lo --mpls top"},
	{"a unit of time that is none", "", "query volume --last 10min"},
	{"a file for a folder of records", mistakesGood, "query volume --records FILE"},
	{"a collector by https without certificates", "", "query volume --collector https://127.0.0.1:9470"},
	{"two forms of one answer", "", "query network --json --parquet x"},
	{"a MAC address that is none", "", "gen -i lo --dst-mac 02:00"},
	{"a capture that is not there", "", "replay --in /no-such.pcap"},
	{"queries that are not there", "", "plan --queries /no-such.toml"},
	{"a broadcast address for a station", strings.Replace(mistakesGood, "\"patch\"", "\"l2\"", 1) + "[[stages.l2.static]]\nmac = \"ff:ff:ff:ff:ff:ff\"\nport = \"eth1\"\n", "switch -c FILE --check"},
	{"a station without its port", strings.Replace(mistakesGood, "\"patch\"", "\"l2\"", 1) + "[[stages.l2.static]]\nmac = \"02:00:00:00:00:01\"\n", "switch -c FILE --check"},
	{"a name for the end of a tunnel", "", "gen -i lo --vxlan 5 --vxlan-dst spine1"},
	{"a capture that is not there", "", "gen -i lo --capture nowhere.pcap"},
	{"a namespace that is not there", "", "gen -i eth0 --namespace no-such"},
	{"more sources than flows", "", "gen -i lo --cores -1,-1 --flows 1"},
	{"a switch's file for queries", mistakesGood, "plan --queries FILE"},
}

// TestMistakes compares what typical mistakes are answered with testdata/mistakes.golden: each answer names what is wrong
// and the remedy, and the status is 2.
func TestMistakes(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	var b strings.Builder
	b.WriteString("Typical mistakes, and what weir answers. Written by: go test ./cmd/weir -run TestMistakes -update\n")
	for _, m := range mistakes {
		file := filepath.Join(t.TempDir(), "FILE.toml")
		if err := os.WriteFile(file, []byte(m.file), 0o600); err != nil {
			t.Fatal(err)
		}
		status, stdout, stderr := weir(strings.Fields(strings.ReplaceAll(m.args, "FILE", file))...)
		stdout = strings.TrimRight(stdout, "\n")
		if i := strings.Index(stdout, " is good"); i >= 0 { // behind it is what this machine's interfaces would be granted
			stdout = stdout[:i] + " is good ..."
		}
		fmt.Fprintf(&b, "\n# %s\n$ weir %s\n", m.what, strings.ReplaceAll(m.args, "FILE", "FILE.toml"))
		for _, text := range []string{stdout, stderr} {
			if text = strings.TrimRight(strings.ReplaceAll(text, file, "FILE.toml"), "\n"); text != "" {
				b.WriteString(text + "\n")
			}
		}
		fmt.Fprintf(&b, "[status %d]\n", status)
		if stderr == "" || status == statusGood && !strings.Contains(stderr, "warning") {
			t.Errorf("%s: status %d and no answer", m.what, status)
		}
	}
	const golden = "testdata/mistakes.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != b.String() {
		t.Errorf("the answers are not those of %s (%v): read them, and take them over with -update:\n%s", golden, err, b.String())
	}
}
