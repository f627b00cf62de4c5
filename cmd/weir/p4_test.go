package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/p4/tables"
)

const p4Switch1 = `
[switch]
name = "s1"
id = 1
hash = "crc"
graph = ["parse", "oblivious", "patch"]

[[port]]
name = "left"
interface = "eth1"

[[port]]
name = "right"
interface = "eth2"

[stages.patch]
pairs = [["left", "right"]]

[stages.oblivious]
unit = "packets"
`

// TestP4Tables: a configuration becomes commands, a file of them, and what
// changes with epochs alone.
func TestP4Tables(t *testing.T) {
	file := writeFile(t, p4Switch1)
	status, commands, errs := weir("p4", "tables", "-c", file, "--at", "1000000000000")
	if status != 0 || errs != "" {
		t.Fatal(status, errs)
	}
	for _, want := range []string{
		"table_add ingress.forward.patch.pairs ingress.forward.patch.patch_to 0x0 => 0x1\n",
		"register_write ingress.oblivious_ingress.epoch 1 931\n",
		"mirroring_add 1 510\n",
	} {
		if !strings.Contains(commands, want) {
			t.Errorf("there is no %s", want)
		}
	}
	out := filepath.Join(t.TempDir(), "commands.txt")
	status, report, errs := weir("p4", "tables", "-c", file, "--at", "1000000000000", "-o", out, "--json")
	var s tables.Summary
	if err := json.Unmarshal([]byte(report), &s); status != 0 || err != nil || len(s.Tables) != 1 || s.Tables[0].Entries != 2 || s.Registers != 4 {
		t.Errorf("status %d, %s%s, %v", status, report, errs, err)
	}
	if text, err := os.ReadFile(out); err != nil || string(text) != commands {
		t.Errorf("the file is not what is printed: %v", err)
	}
	status, epochs, errs := weir("p4", "tables", "-c", file, "--epochs", "--at", "1000000000000")
	if status != 0 || strings.Count(epochs, "\n") != 4 || !strings.HasPrefix(epochs, "register_write ") {
		t.Errorf("status %d, %s%s", status, epochs, errs)
	}
	status, request, errs := weir("p4", "tables", "-c", file, "--format", "p4runtime", "--device", "7")
	if status != 0 || !strings.HasPrefix(request, "device_id: 7\n") {
		t.Errorf("status %d, %.60q%s", status, request, errs)
	}
}

// TestP4TablesFaults: each is said in a line of its own, with file, line and key, those
// of P4 and of the configuration itself, and the status is that of usage.
func TestP4TablesFaults(t *testing.T) {
	good := writeFile(t, p4Switch1)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"-c", writeFile(t, strings.NewReplacer(`hash = "crc"`, "", `unit = "packets"`, `unit = "bytes"`).Replace(p4Switch1))}, []string{
			`s1.toml:2: switch.hash: a P4 target cannot compute "xxhash": set hash = "crc" on all switches of the network`,
			`s1.toml:20: stages.oblivious.unit: "bytes": ranks by bytes need a division, which a P4 target has not: set unit = "packets"`,
		}},
		{[]string{"-c", writeFile(t, strings.Replace(p4Switch1, `"packets"`, `"stones"`, 1))}, []string{`s1.toml:19: stages.oblivious: unit = "stones": choose "bytes" or "packets"`}},
		{[]string{"-c", good, "--format", "xml"}, []string{`--format "xml": choose commands or p4runtime`}},
		{[]string{"-c", good, "--json"}, []string{"--json reports what was written: name a file with -o"}},
		{[]string{"-c", good, "--program", good}, []string{"s1.toml: it is no compiled program for BMv2"}},
		{[]string{"-c", good, "--format", "p4runtime", "--p4info", good}, []string{"s1.toml: it is no P4Info"}},
		{[]string{"-c", "/nowhere.toml"}, []string{"/nowhere.toml: no such file"}},
		{nil, []string{`required flag(s) "config" not set`}},
	} {
		status, out, errs := weir(append([]string{"p4", "tables"}, c.args...)...)
		if status != statusUsage || out != "" || strings.Count(errs, "\n") != len(c.want) {
			t.Errorf("%v: status %d, %s%s", c.args, status, out, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%v: not said: %s; but\n%s", c.args, want, errs)
			}
		}
	}
}
