package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
)

// TestReplayChain: through five switches with digests each packet of the
// documentation's capture leaves as it came, and all long flows decode rightly.
func TestReplayChain(t *testing.T) {
	checkChain(t, "../../docs/example.pcap", 0, "--graph", "parse,patch,pint")
}

// TestReplayChainCRC does the same with sixty flows through switches whose hashes are CRCs: with the
// built-in plan, and with one of hashed values.
func TestReplayChainCRC(t *testing.T) {
	capture := flowsCapture(t, 12000)
	plan := filepath.Join(t.TempDir(), "plan.toml")
	queries := writeFile(t, `
[[query]]
name = "path"
value = "switch_id"
aggregation = "path"
bits = 16
static = {code = "hashed", instances = 2, scheme = "hybrid", hops = 5}
`)
	if status, out, stderr := weir("plan", "--queries", queries, "--hash", "crc", "--id", "9", "--out", plan); status != 0 || !strings.Contains(out, "hash crc") {
		t.Fatalf("status %d: %s%s", status, out, stderr)
	}
	for name, stage := range map[string]string{"built in": "", "hashed": "plan = \"" + plan + "\"\nswitches = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n"} {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, `
[switch]
name = "s1"
hash = "crc"
graph = ["parse", "patch", "pint"]
[[port]]
name = "p0"
interface = "eth0"
[[port]]
name = "p1"
interface = "eth1"
[stages.patch]
pairs = [["p0", "p1"]]
[stages.pint]
edge = ["p0"]
`+stage)
			checkChain(t, capture, 60, "-c", file)
		})
	}
}

// TestReplayChainRealTraffic does the same with real traffic of 50,000 flows.
func TestReplayChainRealTraffic(t *testing.T) {
	file := filepath.Join(netsim.DataDir(), "traces", "realmix-snap128.pcap.gz")
	if _, err := os.Stat(file); err != nil {
		t.Skip("no reference data:", err)
	}
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	checkChain(t, file, 500, "--graph", "parse,patch,pint")
}

func checkChain(t *testing.T, file string, long int, how ...string) {
	t.Helper()
	dir := t.TempDir()
	plain, chained := filepath.Join(dir, "plain.pcap"), filepath.Join(dir, "chained.pcap")
	if status, _, stderr := runReplay(t, "--in", file, "--out", plain); status != 0 {
		t.Fatal(stderr)
	}
	status, r, stderr := replayJSON(t, append(how, "--chain", "5", "--in", file, "--out", chained)...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	a, err := readRecords(plain)
	if err != nil {
		t.Fatal(err)
	}
	b, err := readRecords(chained)
	if err != nil || len(a) != len(b) {
		t.Fatalf("%d packets, not %d: %v", len(b), len(a), err)
	}
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("packet %d is\n%+v\nnot\n%+v", i, b[i], a[i])
		}
	}
	if len(r.Decoded) != 2 {
		t.Fatalf("decoded at %d sinks", len(r.Decoded))
	}
	d := r.Decoded[1]
	t.Logf("switch %d: %d flows, %d long, %d decoded, %d wrong", d.Switch, d.Flows, d.Long, d.Found, d.Wrong)
	if d.Switch != 5 || d.Hops != 5 || d.Flows == 0 || d.Long < long || d.Found != d.Long || d.Wrong != 0 {
		t.Errorf("decoded %+v", *d)
	}
}

func TestReplayChainFaults(t *testing.T) {
	for _, args := range [][]string{{"--chain", "-1"}, {"--chain", "256"}} {
		if status, _, stderr := runReplay(t, append(args, "--in", "../../docs/example.pcap")...); status != 2 || stderr == "" {
			t.Errorf("%v: status %d, %q", args, status, stderr)
		}
	}
}
