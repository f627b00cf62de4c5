package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
)

// TestReplayChain: through five switches with digests each packet of the
// documentation's capture leaves as it came, and all long flows decode rightly.
func TestReplayChain(t *testing.T) {
	checkChain(t, "../../docs/example.pcap", 0)
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
	checkChain(t, file, 500)
}

func checkChain(t *testing.T, file string, long int) {
	t.Helper()
	dir := t.TempDir()
	plain, chained := filepath.Join(dir, "plain.pcap"), filepath.Join(dir, "chained.pcap")
	if status, _, stderr := runReplay(t, "--in", file, "--out", plain); status != 0 {
		t.Fatal(stderr)
	}
	status, r, stderr := replayJSON(t, "--graph", "parse,patch,pint", "--chain", "5", "--in", file, "--out", chained)
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
