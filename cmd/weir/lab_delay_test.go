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
	"time"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/grade"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// gentler is traffic that leaves a busy machine room: fewer flows of the same rate.
var gentler = []string{"flows = 10", "flows = 4", "count = 15_000", "count = 4_800", "rate = 2000", "rate = 800"}

// TestDelayLab: the delay of each flow of 1,000 packets between two switches is within
// 5 % of what the relay between them says that it was, losses are exact, and the
// switches' clocks are found to be one. Each run is judged: what the report calls wrong, and does not say that the machine
// made it so, fails the test. Beside that, each class and direction has to be within 5 % in one run of some.
func TestDelayLab(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: TestInsideSwitch measures delays")
	}
	netnstest.Require(t)
	const classes = 3 // two classes forth, one back
	var shown [classes]bool
	calm := 0
	for attempt := range freshRuns {
		o, records, undisturbed := freshRun(t, attempt, smallLab(t, "delay", gentler...))
		if !undisturbed {
			continue
		}
		delays := o.Answers.Delays
		if len(delays) != classes {
			t.Fatalf("%+v", o)
		}
		right := true
		for i, d := range delays {
			if d.Flows != 4 || (d.TruthLost > 0) != (d.Delay == 50*time.Millisecond) {
				t.Fatalf("%+v", d)
			}
			c := d.Clocks
			if c == nil || !c.HasOffset || !c.OffsetNs.Holds(0) {
				t.Fatalf("clocks: %+v", c)
			}
			good := d.Measured == d.Flows && d.Worst <= grade.MostDelayError && d.Wrong == 0
			right = right && good
			shown[i] = shown[i] || good && d.Lost == d.TruthLost && c.Warning == "" && math.Abs(c.OffsetNs.Value) < grade.MostDelayError*d.MeanNs
		}
		if right && !o.OK {
			t.Errorf("the report says %t: %+v", o.OK, o)
		}
		for _, r := range o.Answers.Rows {
			if !r.OK && r.NotJudged == "" && (r.Kind == query.KindDelay || r.Kind == query.KindLoss) {
				t.Errorf("attempt %d: %+v", attempt, r)
			}
		}
		out, err := weirCommand("query", "loss", "--json", "--records", records, "--from", "s1", "--to", "s2").Output()
		var all query.Between
		if jsonErr := json.Unmarshal(out, &all); err != nil || jsonErr != nil || right && (!all.HasLoss || all.Lost != delays[0].TruthLost+delays[1].TruthLost) {
			t.Errorf("%v, %v: %s", err, jsonErr, out)
		}
		if !slices.Contains(shown[:], false) || t.Failed() {
			return
		}
		t.Logf("attempt %d: %+v", attempt, delays)
		if onTime(delays) {
			calm++
		}
	}
	skipUnlessCalm(t, calm)
	t.Errorf("in %d runs not every class had its delays within %g %% and its losses exactly: %v", freshRuns, 100*grade.MostDelayError, shown)
}

// onTime reports whether the machine let the relays send when they were to, by their own
// clock. Where it did not, it held the switches up as well: packets arrive intervals late, and
// no measurement of intervals survives that.
func onTime(delays []grade.Delay) bool {
	return !slices.ContainsFunc(delays, func(d grade.Delay) bool { return d.TruthNs > (1+grade.MostHeldUp)*float64(d.Delay) })
}

// skipUnlessCalm ends a test of which most runs were not on time: a machine like that holds up
// the switches in the others too.
func skipUnlessCalm(t *testing.T, calm int) {
	t.Helper()
	if calm <= freshRuns/2 {
		t.Skipf("the machine held packets up by more than %g %% of their delay in %d of %d runs: nothing to judge", 100*grade.MostHeldUp, freshRuns-calm, freshRuns)
	}
}

// TestIntervalBitLab: over some ten edges of intervals, with a twentieth of an interval's
// packets in flight at each, no cell is spoiled where the shim's bit names the interval;
// by the clock a quarter is, and the report says how many. Each run with packets on time is judged: a tenth of the cells is too many with the bit, and the least
// without it; and one of some has none.
func TestIntervalBitLab(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: TestInsideSwitch measures delays")
	}
	netnstest.Require(t)
	for _, bit := range []bool{true, false} {
		t.Run(fmt.Sprintf("bit %t", bit), func(t *testing.T) { testIntervalBit(t, bit) })
	}
}

// pointOf is a stage's section in config/delay.toml.
func pointOf(stage, port string) string {
	return fmt.Sprintf("[switch.config.stages.%s]\nports = [%q]\nrows = 2\ncolumns = 16_384\nvirtual = 32\n", stage, port)
}

// backwards is the load of config/delay.toml from h2 to h1.
func backwards(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../config/delay.toml")
	if err != nil {
		t.Fatal(err)
	}
	i := strings.LastIndex(string(text), "[[traffic]]")
	if i < 0 || !strings.Contains(string(text[i:]), `from = "h2"`) {
		t.Fatal("config/delay.toml does not end with the load from h2")
	}
	return string(text[i:])
}

func testIntervalBit(t *testing.T, bit bool) {
	stage := func(name, port string) string {
		return fmt.Sprintf("[switch.config.stages.pint]\nedge = [\"host\"]\ninterval_bits = 29\n\n%sinterval_bits = 29\ninterval_bit = %t\n", pointOf(name, port), bit)
	}
	// One direction, as a switch that is source and sink measures one direction only.
	changes := append(slices.Clone(gentler),
		backwards(t), "",
		`quiet = "1500ms"`, `quiet = "1100ms"`, // intervals are shorter
		"name = \"s1\"\ngraph = [\"parse\", \"lds_ingress\", \"patch\", \"lds_egress\"]", "name = \"s1\"\ngraph = [\"parse\", \"patch\", \"pint\", \"lds_egress\"]",
		"name = \"s2\"\ngraph = [\"parse\", \"lds_ingress\", \"patch\", \"lds_egress\"]", "name = \"s2\"\ngraph = [\"parse\", \"lds_ingress\", \"patch\", \"pint\"]",
		pointOf("lds_egress", "out"), stage("lds_egress", "out"),
		pointOf("lds_ingress", "out"), "",
		pointOf("lds_egress", "in"), "",
		pointOf("lds_ingress", "in"), stage("lds_ingress", "in"),
		`"s1:out", "slow:left"]`, "\"s1:out\", \"slow:left\"]\nmtu = 1600",
		`"slow:right", "s2:in"]`, "\"slow:right\", \"s2:in\"]\nmtu = 1600",
		"delay = \"50ms\"\njitter = \"10ms\"\ndrop = 0.01", "delay = \"20ms\"\njitter = \"4ms\"",
		"delay = \"100ms\"\njitter = \"20ms\"", "delay = \"30ms\"\njitter = \"6ms\"")
	calm := 0
	for attempt := range freshRuns {
		o, _, undisturbed := freshRun(t, attempt, smallLab(t, "delay", changes...))
		if !undisturbed {
			continue
		}
		if len(o.Answers.Delays) != 2 {
			t.Fatalf("%+v", o)
		}
		d := o.Answers.Delays[0]
		t.Logf("attempt %d: %d of %d cells refused, in %d intervals; %+v", attempt, d.Refused, d.Cells, d.Intervals, o.Answers.Delays)
		for _, d := range o.Answers.Delays {
			if d.Flows != 4 || d.Intervals < 10 || d.Cells == 0 {
				t.Fatalf("%+v", d)
			}
		}
		refused := float64(d.Refused) / float64(d.Cells)
		if !bit {
			if refused < 0.1 {
				t.Errorf("by the clock %.2f of the cells were refused: the lab shows nothing", refused)
			}
			return
		}
		if d.Refused == 0 && o.OK {
			return
		}
		if !onTime(o.Answers.Delays) {
			continue
		}
		// A switch that is held up for a tenth of a second spoils the cells of an interval's edge, of which there are some ten.
		calm++
		if refused > 0.1 {
			t.Errorf("attempt %d: %.2f of the cells were refused, with packets on time", attempt, refused)
		}
	}
	skipUnlessCalm(t, calm)
	t.Errorf("in none of %d runs all cells survived, with the interval bit %t", freshRuns, bit)
}

// TestInsideSwitch: the delay inside one switch, from its ingress to its egress point,
// next to what the switch itself measured of the same packets.
func TestInsideSwitch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	netnstest.Require(t)
	records := t.TempDir()
	path := filepath.Join(t.TempDir(), "inside.toml")
	text := fmt.Sprintf(`name = "inside"
static_neighbours = true
[[host]]
name = "h1"
addresses = ["10.0.0.1/24"]
[[host]]
name = "h2"
addresses = ["10.0.0.2/24"]
[[switch]]
name = "s1"
graph = ["parse", "lds_ingress", "patch", "lds_egress"]
[switch.config.telemetry]
spool = %q
[switch.config.dataplane]
timestamps = "xdp"
[switch.config.stages.lds_ingress]
ports = ["p0"]
interval_bits = %d
virtual = 4
[switch.config.stages.lds_egress]
ports = ["p1"]
interval_bits = %[2]d
virtual = 4
[[link]]
endpoints = ["h1", "s1:p0"]
[[link]]
endpoints = ["s1:p1", "h2"]
`, records, insideBits)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file := ownLab(t, path)
	l := &pintLab{t: t, name: labUp(t, file)}
	for i, host := range []string{"h1", "h2"} {
		l.hosts[i] = labHost(t, l.name, host)
	}
	from, to := l.packetConn(0, "udp", "10.0.0.1:7001"), l.packetConn(1, "udp", "10.0.0.2:7002")
	for attempt := range freshRuns {
		number := awaitInterval()
		before := l.counters()
		for i := range 1500 {
			if _, err := from.WriteTo(make([]byte, 100), to.LocalAddr()); err != nil {
				t.Fatal(err)
			}
			if i%10 == 9 {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(100 * time.Millisecond) // the last of them leave
		after := l.counters()
		grown := func(name string) float64 { return after["lds_egress "+name] - before["lds_egress "+name] }
		own := grown("measured_packets_total")
		truth := grown("waited_ns_total") / own
		if own < 1500 || clock.Kernel.TAI()>>insideBits != number {
			t.Logf("attempt %d: the machine was too busy: %g packets of 1500 in time", attempt, own)
			continue
		}
		estimate := l.inside(records, number)
		t.Logf("attempt %d: the switch kept %.0f packets for %.0f ns, estimate %+v", attempt, own, truth, estimate)
		// The hosts' kernels may say something besides.
		if !estimate.HasDelay || estimate.Refused != 0 || estimate.Clocks != nil || math.Abs(estimate.Delay.Value-truth) > grade.MostDelayError*truth {
			continue
		}
		if after["lds_ingress timed_packets_total"] < own {
			t.Errorf("%g packets were timed by the XDP program, of %g", after["lds_ingress timed_packets_total"], own)
		}
		return
	}
	t.Errorf("none of %d runs had an estimate within %g %% of what the switch measured", freshRuns, 100*grade.MostDelayError)
}

// insideBits makes intervals of 4.3 s.
const insideBits = 32

// awaitInterval waits for the beginning of an interval, and returns its number.
func awaitInterval() int64 {
	number := clock.Kernel.TAI()>>insideBits + 1
	time.Sleep(time.Duration(number<<insideBits-clock.Kernel.TAI()) + 50*time.Millisecond)
	return number
}

// counters are what the stages of s1 count, by stage and name.
func (l *pintLab) counters() map[string]float64 {
	l.t.Helper()
	status, out, errs := weir("ctl", "--socket", filepath.Join(lab.Root, l.name, "s1.sock"), "show", "telemetry", "--json")
	var answer struct {
		Metrics []struct {
			Stage, Name string
			Value       float64
		}
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || status != 0 || len(answer.Metrics) == 0 {
		l.t.Fatalf("%v %s in %s", err, errs, out)
	}
	values := map[string]float64{}
	for _, m := range answer.Metrics {
		values[m.Stage+" "+m.Name] = m.Value
	}
	return values
}

// inside asks for the delay inside s1 in an interval, as soon as its records are there.
func (l *pintLab) inside(records string, number int64) (b query.Between) {
	l.t.Helper()
	for range 100 {
		time.Sleep(100 * time.Millisecond)
		if clock.Kernel.TAI()>>insideBits <= number {
			continue
		}
		s, err := store.Read(records)
		if err != nil {
			l.t.Fatal(err)
		}
		e := query.Engine{Store: s, Window: store.Window{From: number << insideBits, To: (number + 1) << insideBits}}
		point, err := e.ParsePlace("s1")
		if err != nil {
			continue // no record yet
		}
		answer, err := e.Between(point, point, nil)
		if err == nil && answer.Intervals == 1 {
			return *answer
		}
	}
	l.t.Logf("no records of interval %d", number)
	return b
}
