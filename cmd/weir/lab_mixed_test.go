package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/p4/bmv2"
)

// mixedOutcome is what weir lab run tells of the mixed lab, as far as these tests read it.
type mixedOutcome struct {
	OK      bool `json:"ok"`
	Account struct {
		Faults []string          `json:"faults"`
		Lost   map[string]uint64 `json:"lost"`
	} `json:"account"`
	Traffic []struct {
		PacketsPerSec float64 `json:"packets_per_second"`
	} `json:"traffic"`
	Decoded []mixedDecoded `json:"decoded"`
}

// mixedDecoded is of the packets for one host.
type mixedDecoded struct {
	Host    string     `json:"host"`
	Long    int        `json:"long"`
	Decoded int        `json:"decoded"`
	Wrong   int        `json:"wrong"`
	Hops    []mixedHop `json:"hops"`
}

type mixedHop struct {
	Switch   string  `json:"switch"`
	Samples  uint64  `json:"samples"`
	Median   float64 `json:"decoded_median_ns"`
	Low      float64 `json:"decoded_low_ns"`
	High     float64 `json:"decoded_high_ns"`
	Measured float64 `json:"measured_median_ns"`
}

// high is the upper bound.
func (h *mixedHop) high() float64 {
	if h.High < 0 {
		return math.Inf(1)
	}
	return h.High
}

// TestMixedLab: three Weir switches and two P4 switches on one path decode the paths of all flows and the
// latencies of all hops as if all were Weir.
func TestMixedLab(t *testing.T) {
	compiled := compiledWeir(t)
	t.Run("free", func(t *testing.T) {
		o := runMixedLab(t, mixedLab(t, compiled))
		checkMixed(t, o)
	})
	t.Run("queues", func(t *testing.T) { testMixedQueues(t, compiled) })
}

// The packets under way are counted out of band, so each direction has one bottleneck, a queue of
// a P4 switch: by Little's law a packet waits there for mixedWindow others. All else takes so much less
// that it does not matter. Both waits are within the plan's 100 ms.
const mixedWindow = 16

var mixedBottlenecks = map[string]struct {
	at, queue string
	load      int     // its place in the lab's traffic
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
		for _, d := range o.Decoded {
			b := mixedBottlenecks[d.Host]
			pps := o.Traffic[b.load].PacketsPerSec
			t.Logf("attempt %d: to %s %.0f packets per second, the queue at %s may send %.0f", attempt, d.Host, pps, b.at, b.rate)
			full = full && pps > 0.9*b.rate
			faults = append(faults, bottleneckFaults(&d)...)
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
func bottleneckFaults(d *mixedDecoded) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	b := mixedBottlenecks[d.Host]
	truth := mixedWindow * 1e9 / b.rate
	var slow mixedHop
	for _, h := range d.Hops {
		if h.Switch == b.at {
			slow = h
		}
	}
	if slow.high() < 0.5*truth || slow.Low > 1.2*truth {
		fault("to %s: packets wait %.0f ns at %s, decoded is a median of %.0f to %.0f ns", d.Host, truth, b.at, slow.Low, slow.High)
	}
	if slow.Measured < 0.5*truth || slow.Measured > 1.2*truth {
		fault("to %s: packets wait %.0f ns at %s, which measured a median of %.0f ns", d.Host, truth, b.at, slow.Measured)
	}
	for _, h := range d.Hops {
		if h.Switch != b.at && (2*h.Low > slow.high() || 2*h.Measured > slow.Measured) {
			fault("to %s: at %s packets seem to wait as at %s, where the queue is: %+v, %+v", d.Host, h.Switch, b.at, h, slow)
		}
	}
	return faults
}

// runMixedLab runs the lab; nothing may be lost.
func runMixedLab(t *testing.T, file string) *mixedOutcome {
	t.Helper()
	out, err := weirCommand("lab", "run", "--json", file).Output()
	o := new(mixedOutcome)
	if jsonErr := json.Unmarshal(out, o); jsonErr != nil {
		t.Fatalf("%v, %v\n%s", err, jsonErr, out)
	}
	if !o.OK || err != nil {
		t.Fatalf("%v, lost %v, faults %v", err, o.Account.Lost, o.Account.Faults)
	}
	return o
}

// checkMixed: all paths are right, and the latencies of all hops, of Weir and of P4 switches alike, are what
// the switches themselves measured. Packets that take long because the machine is busy do so on both sides.
func checkMixed(t *testing.T, o *mixedOutcome) {
	t.Helper()
	if len(o.Decoded) != 2 {
		t.Fatalf("digests were decoded for %d hosts, want 2", len(o.Decoded))
	}
	for _, d := range o.Decoded {
		t.Logf("to %s: %d flows of at least 60 packets, the right path of %d, %d wrong", d.Host, d.Long, d.Decoded, d.Wrong)
		if d.Long == 0 || d.Decoded != d.Long || d.Wrong != 0 {
			t.Errorf("to %s: of %d flows %d paths are right, and of all %d wrong", d.Host, d.Long, d.Decoded, d.Wrong)
		}
		if len(d.Hops) != 5 {
			t.Fatalf("to %s: latencies of %d hops, want 5", d.Host, len(d.Hops))
		}
		for i, h := range d.Hops {
			if want := fmt.Sprintf("s%d", i+1); h.Switch != want || h.Samples < 100 || h.Median <= 0 {
				t.Errorf("to %s: hop %+v, want 100 samples of %s", d.Host, h, want)
			}
			t.Logf("to %s, %s: median %.0f ns (%.0f to %.0f) decoded from %d samples, %.0f ns measured", d.Host, h.Switch, h.Median, h.Low, h.High, h.Samples, h.Measured)
			checkLatency(t, d.Host, &h)
		}
	}
}

// checkLatency: the bounds of what is decoded, which fail with a probability of 2e-9, hold what the switch measured.
// That is exact to 12.5 %, the width of a cell of a P4 switch's register, codes are to 3 %, and
// a few packets, such as those of ARP, are in no decoded flow. Both sides have a P4 switch's times in whole microseconds.
func checkLatency(t *testing.T, host string, h *mixedHop) {
	t.Helper()
	const within, tick = 1.25, 1000
	if h.Measured <= 0 || h.Low > within*h.Measured+tick || within*h.high()+tick < h.Measured {
		t.Errorf("to %s, %s: decoded is a median of %.0f to %.0f ns, the switch measured one of %.0f ns", host, h.Switch, h.Low, h.High, h.Measured)
	}
}

// compiledWeir is the compiled program; without BMv2 the test is skipped.
func compiledWeir(t *testing.T) string {
	t.Helper()
	programs, err := bmv2.Find()
	if err != nil {
		t.Skip(err)
	}
	netnstest.Require(t)
	compiled := filepath.Join(t.TempDir(), "weir.json")
	if err := programs.Compile(context.Background(), "../../p4/v1model/weir.p4", compiled); err != nil {
		t.Fatal(err)
	}
	return compiled
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
