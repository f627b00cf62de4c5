package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/p4/bmv2/bmv2test"
	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/telemetry/hash"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// mixedOutcome is what a run of the mixed lab shows: its report, and the latencies that the records answer.
type mixedOutcome struct {
	labOutcome
	Switches []struct {
		Name   string           `json:"name"`
		Report lab.SwitchReport `json:"report"`
	} `json:"switches"`

	hops map[string][]mixedHop // by host
}

// mixedHop is the median latency of the packets to one host at a switch, decoded and as the switch measured it.
type mixedHop struct {
	Switch         string
	Samples        uint64
	Median         query.QuantileValue
	Measured, high float64
}

// mixedHosts are the hosts with the address of their UDP load, and the switches' ports towards them.
var mixedHosts = map[string]struct{ address, port string }{"h1": {"fd00::1", "p0"}, "h2": {"10.0.0.2", "p1"}}

// askLatencies asks the records for the latencies of the packets to each host.
func (o *mixedOutcome) askLatencies(t *testing.T, records string) {
	t.Helper()
	plan, err := pintplan.Load("../../p4/testdata/setups/plan-shim.toml")
	if err != nil {
		t.Fatal(err)
	}
	e := query.Engine{Plans: []*pintplan.Plan{plan}, Names: map[uint32]string{1: "s1", 2: "s2", 3: "s3", 4: "s4", 5: "s5"}} // s2 and s4 make no records
	if e.Store, err = store.Read(records); err != nil {
		t.Fatal(err)
	}
	o.hops = map[string][]mixedHop{}
	for host, to := range mixedHosts {
		a, err := e.Ask(t.Context(), &query.Question{Kind: query.KindLatency, Dst: to.address, Confidence: 1 - 1e-9, Quantiles: []float64{0.5}})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range a.(*query.LatencyAnswer).Hops {
			hop := mixedHop{Switch: h.Switch, Samples: h.Samples, Median: h.Quantiles[0], high: h.Quantiles[0].High}
			if hop.Median.Open {
				hop.high = math.Inf(1)
			}
			for _, s := range o.Switches {
				for _, m := range s.Report.Pint.Measured {
					if s.Name == h.Switch && m.Port == to.port && m.Value == "hop_latency" {
						hop.Measured = m.Median
					}
				}
			}
			o.hops[host] = append(o.hops[host], hop)
		}
		slices.SortFunc(o.hops[host], func(a, b mixedHop) int { return strings.Compare(a.Switch, b.Switch) })
	}
}

// TestMixedLab: three Weir switches and two P4 switches on one path decode the paths of all flows and the
// latencies of all hops as if all were Weir.
func TestMixedLab(t *testing.T) {
	compiled := compiledWeir(t, hash.CRC)
	t.Run("free", func(t *testing.T) {
		o := runMixedLab(t, mixedLab(t, compiled))
		checkMixed(t, o)
	})
	t.Run("queues", func(t *testing.T) { testMixedQueues(t, compiled) })
}

// The packets in flight are counted out of band, so each direction has one bottleneck, a queue of
// a P4 switch: by Little's law a packet waits there for mixedWindow others. All else takes so much less
// that it does not matter. Both waits are within the plan's 100 ms.
const mixedWindow = 16

var mixedBottlenecks = map[string]struct {
	at, queue string
	load      int     // its index in the lab's traffic
	rate      float64 // packets per second
}{
	"h2": {"s2", "p1", 0, 250}, // 64 ms
	"h1": {"s4", "p0", 1, 200}, // 80 ms
}

const mixedQueueTraffic = `
[[traffic]]
kind = "udp"
from = "h1"
to = "h2"
count = 2_000
window = %[1]d

[[traffic]]
kind = "udp"
from = "h2"
to = "h1"
family = 6
count = 2_000
window = %[1]d
`

// testMixedQueues: how long packets are in P4 switches is known beforehand, and it is what is decoded and
// measured, in ns, of the right switch.
func testMixedQueues(t *testing.T, compiled string) {
	file := mixedLab(t, compiled)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	nodes, _, _ := strings.Cut(string(text), "[[traffic]]")
	for _, b := range mixedBottlenecks {
		line := fmt.Sprintf("name = %q\n", b.at)
		nodes = strings.Replace(nodes, line, fmt.Sprintf("%squeue_rates = { %s = %.0f }\n", line, b.queue, b.rate), 1)
	}
	if err := os.WriteFile(file, fmt.Appendf([]byte(nodes), mixedQueueTraffic, mixedWindow), 0o600); err != nil {
		t.Fatal(err)
	}
	// On a machine that has no time for the lab packets wait elsewhere too. A run in which the queues sent less than
	// they may says nothing if it is not as it should be.
	const attempts = 5
	for attempt := 1; ; attempt++ {
		o := runMixedLab(t, file)
		checkMixed(t, o)
		var faults []string
		full := true
		for host, hops := range o.hops {
			b := mixedBottlenecks[host]
			pps := o.Traffic[b.load].PacketsPerSec
			t.Logf("attempt %d: to %s %.0f packets per second, the queue at %s may send %.0f", attempt, host, pps, b.at, b.rate)
			full = full && pps > 0.9*b.rate
			faults = append(faults, bottleneckFaults(host, hops)...)
		}
		if len(faults) == 0 {
			return
		}
		if full || attempt == attempts {
			t.Fatalf("attempt %d: %s", attempt, strings.Join(faults, "\n"))
		}
		t.Logf("attempt %d, on a busy machine: %s", attempt, strings.Join(faults, "\n"))
	}
}

// bottleneckFaults: packets wait where the queue is slow, as long as they have to, and nowhere else as long.
func bottleneckFaults(host string, hops []mixedHop) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	b := mixedBottlenecks[host]
	truth := mixedWindow * 1e9 / b.rate
	var slow mixedHop
	for _, h := range hops {
		if h.Switch == b.at {
			slow = h
		}
	}
	if slow.high < 0.5*truth || slow.Median.Low > 1.2*truth {
		fault("to %s: packets wait %.0f ns at %s, decoded is a median of %.0f to %.0f ns", host, truth, b.at, slow.Median.Low, slow.high)
	}
	if slow.Measured < 0.5*truth || slow.Measured > 1.2*truth {
		fault("to %s: packets wait %.0f ns at %s, which measured a median of %.0f ns", host, truth, b.at, slow.Measured)
	}
	for _, h := range hops {
		if h.Switch != b.at && (2*h.Median.Low > slow.high || 2*h.Measured > slow.Measured) {
			fault("to %s: at %s packets seem to wait as at %s, where the queue is: %+v, %+v", host, h.Switch, b.at, h, slow)
		}
	}
	return faults
}

// runMixedLab runs the lab; nothing may be lost.
func runMixedLab(t *testing.T, file string) *mixedOutcome {
	t.Helper()
	records := filepath.Join(t.TempDir(), "records")
	out, err := weirCommand("lab", "run", "--json", "--keep", records, file).Output()
	o := new(mixedOutcome)
	if jsonErr := json.Unmarshal(out, o); jsonErr != nil {
		t.Fatalf("%v, %v\n%s", err, jsonErr, out)
	}
	if !o.OK || err != nil {
		t.Fatalf("%v, lost %v, faults %v, answers %+v", err, o.Account.Lost, o.Account.Faults, o.Answers)
	}
	o.askLatencies(t, records)
	return o
}

// checkMixed: all paths are right, and the latencies of all hops, of Weir and of P4 switches, are what
// the switches themselves measured. Packets that take long because the machine is busy do so on both sides.
func checkMixed(t *testing.T, o *mixedOutcome) {
	t.Helper()
	for host, hops := range o.hops {
		r := o.find(t, query.KindPath, " to "+host)
		t.Logf("%s: %s", r.What, r.Answer)
		if n := r.Numbers; n["long"] == 0 || n["long_right"] != n["long"] || n["wrong"] != 0 {
			t.Errorf("%s: %s", r.What, r.Answer)
		}
		if len(hops) != 5 {
			t.Fatalf("to %s: latencies of %d hops, want 5", host, len(hops))
		}
		for i, h := range hops {
			if want := fmt.Sprintf("s%d", i+1); h.Switch != want || h.Samples < 100 || h.Median.Value <= 0 {
				t.Errorf("to %s: hop %+v, want 100 samples of %s", host, h, want)
			}
			t.Logf("to %s, %s: median %.0f ns (%.0f to %.0f) decoded from %d samples, %.0f ns measured", host, h.Switch, h.Median.Value, h.Median.Low, h.high, h.Samples, h.Measured)
			// The bounds of what is decoded, which fail with a probability of 2e-9, hold what the switch measured. That is exact to
			// 12.5 %, the width of a cell of a P4 switch's register, codes are to 3 %, and a few packets, such as those of ARP and ping,
			// are in one of them only. Both sides have a P4 switch's times in whole microseconds.
			const within, tick = 1.25, 1000
			if h.Measured <= 0 || h.Median.Low > within*h.Measured+tick || within*h.high+tick < h.Measured {
				t.Errorf("to %s, %s: decoded is a median of %.0f to %.0f ns, the switch measured one of %.0f ns", host, h.Switch, h.Median.Low, h.high, h.Measured)
			}
		}
	}
}

// compiledWeir is the program compiled for a hash family; without BMv2 the test is skipped, or fails where it was asked for.
func compiledWeir(t *testing.T, f hash.Family) string {
	t.Helper()
	return bmv2test.Compile(t, bmv2test.Find(t), "../../p4/v1model/weir.p4", tables.Defines(f)...)
}

// mixedLab is config/mixed.toml with the compiled program, wherever the test runs.
func mixedLab(t *testing.T, compiled string) string {
	t.Helper()
	path := ownLab(t, "../../config/mixed.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.ReplaceAll(string(text), `kind = "bmv2"`, fmt.Sprintf("kind = \"bmv2\"\nprogram = %q", compiled))
	changed = strings.ReplaceAll(changed, `plan = "`, `plan = "`+root+"/")
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
