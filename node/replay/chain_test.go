package replay_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/pcapfile/pcaptest"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/node/replay"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint/plan"
)

// TestChain: through five switches with digests each packet of the
// documentation's capture leaves as it came, and all long flows decode rightly.
func TestChain(t *testing.T) {
	checkChain(t, "../../docs/example.pcap", 0, replay.DefaultSwitch("parse", "patch", "pint"))
}

// TestChainCRC does the same with sixty flows through switches whose hashes are CRCs: with the
// built-in plan, and with one of hashed values.
func TestChainCRC(t *testing.T) {
	capture := pcaptest.Flows(t, 12000)
	file := filepath.Join(t.TempDir(), "plan.toml")
	queries, err := plan.ReadQueries(strings.NewReader(`
[[query]]
name = "path"
value = "switch_id"
aggregation = "path"
bits = 16
static = {code = "hashed", instances = 2, scheme = "hybrid", hops = 5}
`))
	if err != nil {
		t.Fatal(err)
	}
	made, err := plan.New(plan.Config{ID: 9, Seed: 1, Bits: 16, Carrier: plan.CarrierShim, Hash: hash.CRC, Queries: queries})
	if err == nil {
		err = made.Save(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, stage := range map[string]string{"built in": "", "hashed": "plan = \"" + file + "\"\nswitches = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n"} {
		t.Run(name, func(t *testing.T) {
			checkChain(t, capture, 60, parsed(t, `
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
`+stage))
		})
	}
}

// TestChainRealTraffic does the same with real traffic of 50,000 flows.
func TestChainRealTraffic(t *testing.T) {
	file := filepath.Join(netsim.DataDir(), "traces", "realmix-snap128.pcap.gz")
	if _, err := os.Stat(file); err != nil {
		t.Skip("no reference data:", err)
	}
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	checkChain(t, file, 500, replay.DefaultSwitch("parse", "patch", "pint"))
}

func checkChain(t *testing.T, file string, long int, sw *config.Config) {
	t.Helper()
	dir := t.TempDir()
	plain, chained := filepath.Join(dir, "plain.pcap"), filepath.Join(dir, "chained.pcap")
	if _, err := run(t, captures(file, plain)); err != nil {
		t.Fatal(err)
	}
	c := captures(file, chained)
	c.Switch, c.Chain = sw, 5
	r, err := run(t, c)
	if err != nil {
		t.Fatal(err)
	}
	a, err := pcaptest.Read(plain)
	if err != nil {
		t.Fatal(err)
	}
	b, err := pcaptest.Read(chained)
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

// TestChainFaults: a chain is of 1 to 255 switches with two ports.
func TestChainFaults(t *testing.T) {
	three := replay.DefaultSwitch("parse", "l2")
	three.Ports = append(three.Ports, port.Config{Name: "p2"})
	for _, c := range []replay.Config{
		{Switch: replay.DefaultSwitch("parse", "patch"), Chain: -1},
		{Switch: replay.DefaultSwitch("parse", "patch"), Chain: 256},
		{Switch: three, Chain: 2},
	} {
		c.In = map[string]string{"p0": "../../docs/example.pcap"}
		if _, err := run(t, c); err == nil {
			t.Errorf("%d switches of %d ports", c.Chain, len(c.Switch.Ports))
		}
	}
}
