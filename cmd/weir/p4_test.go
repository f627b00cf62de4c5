package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/telemetry/hash"
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

// p4SwitchOfXXHash is the same with the default hash family.
var p4SwitchOfXXHash = strings.Replace(p4Switch1, "hash = \"crc\"\n", "", 1)

// p4Program is a compiled program that has no more than the action by which the hash family is known: by the name of its
// first parameter.
func p4Program(t *testing.T, parameter string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program.json")
	text := fmt.Sprintf(`{"pipelines": [{}], "actions": [{"name": "ingress.derive.set_parse", "runtime_data": [{"name": %q}]}]}`, parameter)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// networkKey is a file with a key of the network.
func networkKey(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "network.key")
	if status, _, errs := weir("key", "new", path); status != 0 {
		t.Fatal(errs)
	}
	return path
}

// TestP4TablesOfFamilies: of xxhash the program has seeds for keys, and no CRCs; of crc, keys made of seeds.
func TestP4TablesOfFamilies(t *testing.T) {
	for _, c := range []struct {
		config, program string
		key             uint64
		crcs            bool
	}{
		{p4Switch1, "crc_key", hash.Key(0), true},
		{p4SwitchOfXXHash, "xxhash_seed", 0, false},
		{strings.Replace(p4SwitchOfXXHash, "[[port]]", "[stages.parse]\nseed = 77\n\n[[port]]", 1), "xxhash_seed", 77, false},
	} {
		file := writeFile(t, c.config)
		for _, args := range [][]string{nil, {"--program", p4Program(t, c.program)}} {
			status, commands, errs := weir(append([]string{"p4", "tables", "-c", file}, args...)...)
			want := fmt.Sprintf("table_set_default ingress.derive.parse_config ingress.derive.set_parse %#x 0x0 0x0\n", c.key)
			if status != 0 || !strings.Contains(commands, want) {
				t.Errorf("%s: status %d, %s; there is no %s in %s", c.program, status, errs, want, commands)
			}
			if has := strings.Contains(commands, "set_crc32_parameters"); has != (c.crcs && args == nil) {
				t.Errorf("%s: CRCs are configured: %v", c.program, has)
			}
		}
		status, request, errs := weir("p4", "tables", "-c", file, "--format", "p4runtime")
		if status != 0 || !strings.Contains(request, "table_entry") {
			t.Errorf("%s: status %d, %s", c.program, status, errs)
		}
	}
}

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

// TestP4TablesFaults: each is reported on its own line, with file, line and key, those
// of P4 and of the configuration itself, and the status is that of usage.
func TestP4TablesFaults(t *testing.T) {
	good, xxhash := writeFile(t, p4Switch1), writeFile(t, p4SwitchOfXXHash)
	crcProgram, xxhashProgram, oldProgram := p4Program(t, "crc_key"), p4Program(t, "xxhash_seed"), p4Program(t, "key_p")
	xxhashInfo := writeFile(t, `tables { preamble { id: 1 name: "ingress.derive.parse_config" } }
actions { preamble { id: 2 name: "ingress.derive.set_parse" } params { id: 1 name: "xxhash_seed" bitwidth: 64 } }`)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"-c", writeFile(t, strings.Replace(p4Switch1, `hash = "crc"`, fmt.Sprintf("key = %q", networkKey(t)), 1))}, []string{
			`s1.toml:2: switch.hash: the program cannot compute "aes", of which a hash takes ten rounds of AES and more: set hash = "xxhash" or "crc" on all switches of the network, and no key`,
		}},
		{[]string{"-c", xxhash, "--program", crcProgram}, []string{crcProgram + `: the program hashes by "crc", and the configuration says "xxhash": use the program for that (make p4 compiles both), or set hash = "crc" on all switches of the network`}},
		{[]string{"-c", good, "--program", xxhashProgram}, []string{xxhashProgram + `: the program hashes by "xxhash", and the configuration says "crc": use the program for that`}},
		{[]string{"-c", good, "--program", oldProgram}, []string{oldProgram + `: the program does not say which hash family it has`}},
		{[]string{"-c", good, "--format", "p4runtime", "--p4info", xxhashInfo}, []string{xxhashInfo + `: the program hashes by "xxhash", and the configuration says "crc"`}},
		{[]string{"-c", writeFile(t, strings.Replace(p4Switch1, `"packets"`, `"stones"`, 1))}, []string{`s1.toml:19: stages.oblivious: unit = "stones": choose "bytes", "packets" or "both"`}},
		{[]string{"-c", good, "--format", "xml"}, []string{`--format "xml": choose commands or p4runtime`}},
		{[]string{"-c", good, "--json"}, []string{"--json reports what was written: name a file with -o"}},
		{[]string{"-c", good, "--program", good}, []string{"s1.toml: it is no compiled program for BMv2"}},
		{[]string{"-c", good, "--format", "p4runtime", "--p4info", good}, []string{"s1.toml: it is no P4Info"}},
		{[]string{"-c", good, "--mtu", "middle=1500", "--mtu", "left=20"}, []string{`--mtu left=20: no link has that: choose 68 to 65535`,
			`--mtu middle=1500: the switch has no port "middle": name one of its [[port]]`}},
		{[]string{"-c", good, "--speed", "middle=1000", "--speed", "left=1"}, []string{`--speed left=1: no link has that: choose 10 to 1000000`,
			`--speed middle=1000: the switch has no port "middle": name one of its [[port]]`}},
		{[]string{"-c", good, "--cpu-port", "1"}, []string{"the port to the control plane cannot have the number 1: choose --cpu-port 2 to 510, behind the switch's ports"}},
		{[]string{"-c", good, "--cpu-port", "600"}, []string{"cannot have the number 600"}},
		{[]string{"-c", "/nowhere.toml"}, []string{"/nowhere.toml: no such file"}},
		{nil, []string{`--config FILE is missing`}},
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

// p4Edge is an edge: what a host sends gets a shim and leaves by core.
const p4Edge = `
[switch]
name = "s1"
id = 1
hash = "crc"
graph = ["parse", "patch", "pint"]

[[port]]
name = "host"
interface = "eth1"

[[port]]
name = "core"
interface = "eth2"

[stages.patch]
pairs = [["host", "core"]]

[stages.pint]
plan = "PLAN"
edge = ["host"]
switches = [1]
`

// corePort are the parameters of p4Edge's second port: edge, longest, round trip and two logarithms.
func corePort(commands string) []string {
	for line := range strings.Lines(commands) {
		if f := strings.Fields(line); len(f) > 9 && f[1] == "egress.pint_egress.port" && f[3] == "0x1" {
			return f[5:]
		}
	}
	return make([]string, 5)
}

// TestP4TablesSpeed: the use of a link is measured against its speed, or its rate_bits, and where neither is configured
// it, there is a warning.
func TestP4TablesSpeed(t *testing.T) {
	plan, err := filepath.Abs("../../p4/testdata/setups/plan-shim.toml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(p4Edge, "PLAN", plan, 1)
	logBytes := func(text string, args ...string) (string, string) {
		status, commands, errs := weir(append([]string{"p4", "tables", "--mtu=core=1508", "-c", writeFile(t, text)}, args...)...)
		if status != 0 {
			t.Fatal(errs)
		}
		return corePort(commands)[4], errs
	}
	unknown, errs := logBytes(text)
	if strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "warning: the speed of host, core is not known") || !strings.Contains(errs, "add --speed host=N --speed core=N") {
		t.Errorf("without --speed: %s", errs)
	}
	ten, errs := logBytes(text, "--speed=host=1000,core=10000")
	if ten != unknown || errs != "" {
		t.Errorf("10 Gb/s: %s, unknown %s; %s", ten, unknown, errs)
	}
	one, _ := logBytes(text, "--speed=core=1000")
	if one == ten {
		t.Errorf("1 Gb/s and 10 Gb/s are both %s", one)
	}
	shaped, _ := logBytes(strings.Replace(text, `interface = "eth2"`, "interface = \"eth2\"\nrate_bits = 1_000_000_000", 1), "--speed=core=10000")
	if shaped != one {
		t.Errorf("with rate_bits of 1 Gb/s: %s, at 1 Gb/s %s", shaped, one)
	}
}

// TestP4TablesMTU: the source of shims knows the longest frame of the link that they leave by; where none is
// said it there is a warning.
func TestP4TablesMTU(t *testing.T) {
	plan, err := filepath.Abs("../../p4/testdata/setups/plan-shim.toml")
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, strings.Replace(p4Edge, "PLAN", plan, 1))
	longest := func(commands string) string { return corePort(commands)[1] }
	const speeds = "--speed=host=10000,core=10000"
	status, commands, errs := weir("p4", "tables", "-c", file, speeds)
	if status != 0 || longest(commands) != "0xffffffff" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "warning: the MTU of core is not known") ||
		!strings.Contains(errs, "add --mtu core=N") {
		t.Errorf("without --mtu: status %d, longest %s, %s", status, longest(commands), errs)
	}
	status, commands, errs = weir("p4", "tables", "-c", file, speeds, "--mtu", "core=1508")
	if status != 0 || longest(commands) != "0x5f6" || errs != "" { // 1508 + 14 + 4
		t.Errorf("with --mtu core=1508: status %d, longest %s, %s", status, longest(commands), errs)
	}
	// A switch that only passes digests on makes nothing longer.
	if status, _, errs = weir("p4", "tables", speeds, "-c", writeFile(t, strings.Replace(strings.Replace(p4Edge, "PLAN", plan, 1), `edge = ["host"]`, "", 1))); status != 0 || errs != "" {
		t.Errorf("no source: status %d, %s", status, errs)
	}
}
