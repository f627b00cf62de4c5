package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/grade"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// smallLab writes a shipped lab with less traffic, under a name of this process's own.
func smallLab(t *testing.T, name string, changes ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../config", name+".toml"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(string(text), changes[i]) {
			t.Fatalf("config/%s.toml has no %q", name, changes[i])
		}
	}
	path := filepath.Join(t.TempDir(), name+".toml")
	if err := os.WriteFile(path, []byte(strings.NewReplacer(changes...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	return ownLab(t, path)
}

// labOutcome is what a run of a lab with answers says as JSON.
type labOutcome struct {
	OK      bool
	Answers *grade.Report
	Page    string
	Traffic []lab.Result
	Account lab.Account
}

// overruns are the ends of reasons that the machine is to blame for: a switch or a host got no
// processor for so long that a ring overflowed. Any other cause of loss is a fault.
var overruns = []string{"RX ring full", "no free frame", "dropped by the kernel", "dropped by the device", "tx_full", "handoff_full", "no_frame"}

// disturbed says why a run shows nothing of the switches, as the machine was too busy for its
// traffic; empty: it does.
func (o *labOutcome) disturbed() string {
	for what := range o.Account.Lost {
		if !slices.ContainsFunc(overruns, func(reason string) bool { return strings.HasSuffix(what, reason) }) {
			return ""
		}
	}
	if len(o.Account.Lost) != 0 {
		return fmt.Sprint(o.Account.Lost)
	}
	for _, r := range o.Traffic {
		if r.Overflow != 0 {
			return fmt.Sprintf("%s had no room for %d packets that arrived", r.To, r.Overflow)
		}
	}
	return ""
}

// freshRuns is how often a lab runs, with fresh traffic, before what it shows is a fault.
// Loads do not wait for a switch, or a relay, that gets no processor, so on a busy
// machine rings overflow, or packets come intervals late. That says nothing of
// estimates, and the next run is another one.
const freshRuns = 6

// freshRun runs a lab. It reports whether the machine let every packet pass, but for those that a
// relay dropped.
func freshRun(t *testing.T, attempt int, file string) (o labOutcome, records string, undisturbed bool) {
	t.Helper()
	o, records = runLab(t, file)
	if why := o.disturbed(); why != "" {
		t.Logf("attempt %d: the machine was too busy: %v", attempt, why)
		return o, records, false
	}
	return o, records, true
}

// undisturbedRun runs a lab until the machine let every packet pass.
func undisturbedRun(t *testing.T, file string) (o labOutcome, records string) {
	t.Helper()
	for attempt := range freshRuns {
		if o, records, undisturbed := freshRun(t, attempt, file); undisturbed {
			return o, records
		}
	}
	t.Fatalf("the machine was too busy in all of %d runs", freshRuns)
	return o, records
}

// runLab runs a lab and keeps its records.
func runLab(t *testing.T, file string) (o labOutcome, records string) {
	t.Helper()
	records = filepath.Join(t.TempDir(), "records")
	out, err := weirCommand("lab", "run", "--json", "--keep", records, file).Output()
	if jsonErr := json.Unmarshal(out, &o); jsonErr != nil || o.Answers == nil {
		t.Fatalf("%v, %v\n%s", err, jsonErr, out)
	}
	if (err == nil) != o.OK {
		t.Fatalf("the exit status says %v, the report %t", err, o.OK)
	}
	return o, records
}

// find is the first row of a kind; by and the like are a part of its What.
func (o *labOutcome) find(t *testing.T, kind query.Kind, by string) grade.Row {
	t.Helper()
	i := slices.IndexFunc(o.Answers.Rows, func(r grade.Row) bool { return r.Kind == kind && strings.Contains(r.What, by) })
	if i < 0 {
		t.Fatalf("no answer of kind %s about %s in %+v", kind, by, o.Answers.Rows)
	}
	return o.Answers.Rows[i]
}

// TestDrawnKey: a lab's records are under the key that it has drawn, and are read where the key is left with them.
func TestDrawnKey(t *testing.T) {
	netnstest.Require(t)
	_, records := undisturbedRun(t, smallLab(t, "onesample"))
	ask := func() string {
		out, err := weirCommand("query", "volume", "--records", records).CombinedOutput()
		return fmt.Sprintf("%v\n%s", err, out)
	}
	if out := ask(); !strings.HasPrefix(out, "<nil>") {
		t.Errorf("with the key: %s", out)
	}
	must(t, os.Rename(filepath.Join(records, lab.KeyFile), filepath.Join(t.TempDir(), "away")))
	if out := ask(); !strings.Contains(out, "under a network key that is not loaded") {
		t.Errorf("without the key: %s", out)
	}
}

// TestDisturbed: only overruns excuse a run; any other loss is judged.
func TestDisturbed(t *testing.T) {
	lost := func(reasons ...string) (o labOutcome) {
		o.Account.Lost = map[string]uint64{}
		for _, r := range reasons {
			o.Account.Lost[r] = 1
		}
		return o
	}
	for _, c := range []struct {
		o         labOutcome
		disturbed bool
	}{
		{labOutcome{}, false},
		{lost("s1 h0: no free frame"), true},
		{lost("s1 h0: RX ring full", "s2: tx_full"), true},
		{lost("s1: ttl_expired"), false},
		{lost("s1: ttl_expired", "s1 h0: RX ring full"), false},
		{labOutcome{Traffic: []lab.Result{{}, {Overflow: 1}}}, true},
		{labOutcome{Traffic: []lab.Result{{Lost: 1}}}, false},
	} {
		if got := c.o.disturbed(); (got != "") != c.disturbed {
			t.Errorf("%+v: %q", c.o, got)
		}
	}
}

// TestOneSampleLab: flows over one to five switches count once in the network's sample, within its bounds, which
// hold all together but for a chance of 1e-5.
func TestOneSampleLab(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	netnstest.Require(t)
	key := filepath.Join(t.TempDir(), "network.key")
	if status, _, stderr := weir("key", "new", key); status != 0 {
		t.Fatal(stderr)
	}
	o, records := undisturbedRun(t, smallLab(t, "onesample", "count = 30_000", "count = 8_000", "name = \"onesample\"", fmt.Sprintf("name = \"onesample\"\nkey = %q", key)))
	if !o.OK {
		t.Errorf("%+v %+v", o, *o.Answers)
	}
	if s, err := store.Read(records); err != nil || len(s.Samples) == 0 || s.Samples[0].Origin.Hash.KeyID() == 0 {
		t.Errorf("the records are not under the lab's key: %v, %+v", err, s.Counts())
	}
	v := o.find(t, query.KindVolume, "")
	if n := v.Numbers; n["truth"] != 5*8000 || n["sum"] < 14*8000 || n["low"] == n["high"] {
		t.Errorf("%+v", v)
	}
	if h := o.find(t, query.KindHeavyHitters, query.BySample); !h.OK || h.Numbers["truth"] == 0 {
		t.Errorf("%+v", h)
	}
	for _, args := range [][]string{{"volume"}, {"cardinality"}, {"heavy-hitters", "--theta", "0.01"}, {"heavy-hitters", "--unit", "bytes"}, {"heavy-hitters", "--at", "s2", "--unit", "bytes"},
		{"frequency", "--flow", "198.18.0.0:49152 > 198.19.1.1:9 udp"}} {
		for _, more := range [][]string{nil, {"--json"}, {"--last", "1m"}} {
			line := append(append([]string{"query"}, args...), append(more, "--records", records)...)
			if status, out, stderr := weir(line...); status != 0 || len(out) == 0 {
				t.Errorf("%v: status %d\n%s%s", line, status, out, stderr)
			}
		}
	}
	// At one point a sketch estimates what the sample names.
	status, out, stderr := weir("query", "heavy-hitters", "--at", "s2", "--theta", "0.002", "--epsilon", "0.001", "--json", "--records", records)
	var h query.HeavyHitters
	if jsonErr := json.Unmarshal([]byte(out), &h); status != 0 || jsonErr != nil || !strings.HasSuffix(h.At, " in") || !h.Guaranteed || len(h.Flows) == 0 || h.Candidates <= len(h.Flows) {
		t.Errorf("status %d, %v: %s%s", status, jsonErr, out, stderr)
	}
	sum := 0.0
	for _, f := range h.Flows {
		sum += f.Value
		if f.Trust == nil || *f.Trust < 0.5 || !f.Holds(f.Value) {
			t.Errorf("%+v", f)
		}
	}
	if sum > h.Volume.Value || sum < 0.1*h.Volume.Value {
		t.Errorf("%g packets of %g in heavy flows", sum, h.Volume.Value)
	}
	// What is not there is said.
	for _, line := range [][]string{{"query", "entropy"}, {"query", "delay", "--from", "s1", "--to", "s2"},
		{"query", "heavy-hitters", "--at", "s1"}} {
		if status, out, stderr := weir(append(line, "--records", records)...); status == 0 || !strings.Contains(stderr, "no records") {
			t.Errorf("%v: status %d\n%s%s", line, status, out, stderr)
		}
	}
}

// TestSpineLeafLab: six switches with unequal memories answer as one sketch, along paths that are recomputed
// from their routes, and name what they cannot know.
func TestSpineLeafLab(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: TestOneSampleLab is smaller")
	}
	netnstest.Require(t)
	file := smallLab(t, "spineleaf", "count = 60_000", "count = 20_000", "flows = 5000", "flows = 2000")
	o, records := countedRun(t, file)
	for _, c := range o.Account.Checks {
		if !c.OK {
			t.Errorf("%+v", c)
		}
	}
	for _, r := range o.Answers.Rows {
		if !r.OK {
			t.Errorf("%+v", r)
		}
	}
	for _, by := range []string{query.BySample, query.BySketch} {
		if h := o.find(t, query.KindHeavyHitters, by); !h.OK || h.Numbers["truth"] == 0 {
			t.Errorf("%+v", h)
		}
	}
	if s := o.find(t, query.KindFrequency, query.BySketch); !s.OK || s.Numbers["flows"] != 100 || s.Numbers["mean_error"] > 0.2 {
		t.Errorf("%+v", s)
	}
	if n := o.find(t, query.KindEntropy, "").Numbers; n["truth"] < 5 || n["value"] < 0.9*n["truth"] || n["value"] > 1.1*n["truth"] {
		t.Errorf("%+v", n)
	}
	// Without its path, a flow is known to the sample only.
	out, err := weirCommand("query", "frequency", "--json", "--records", records, "--lab", file, "--flow", "198.18.0.0:49152 > 198.19.2.1:9 udp").Output()
	var f query.Frequency
	if jsonErr := json.Unmarshal(out, &f); err != nil || jsonErr != nil || f.Sketch == nil || len(f.Sketch.Path) != 3 || f.Sketch.Path[0] != "leaf1" || f.Sketch.Path[2] != "leaf3" {
		t.Errorf("%v, %v: %s", err, jsonErr, out)
	}
	out, err = weirCommand("query", "target", "--json", "--records", records, "--lab", file).Output()
	var target query.Target
	if jsonErr := json.Unmarshal(out, &target); err != nil || jsonErr != nil || target.Rho <= 0 || target.Epochs == 0 || len(target.Fragments) != 6 {
		t.Errorf("%v, %v: %s", err, jsonErr, out)
	}
	out, err = weirCommand("query", "heavy-hitters", "--by", "sketch", "--theta", "0.01", "--records", records, "--lab", file).Output()
	if err != nil || !strings.Contains(string(out), "by the sketch: ") {
		t.Errorf("%v: %s", err, out)
	}
	withoutSwitch(t, records, file)
}

// countedRun runs a lab until the switches counted almost every packet in their sketch: on a busy machine all switches of a path may be too late for
// the same epoch. The answer must say so, and its bounds hold, in each run.
func countedRun(t *testing.T, file string) (o labOutcome, records string) {
	t.Helper()
	for range freshRuns {
		o, records := undisturbedRun(t, file)
		n := o.find(t, query.KindEntropy, "").Numbers
		if n["truth"] < n["low"] || n["truth"] > n["high"] {
			t.Errorf("%v", n)
		}
		if n["uncounted_low"] == 0 {
			return o, records
		}
		t.Logf("the machine was too busy: at least %.0f packets are in no estimate; the entropy is %.2f, the answer %.2f (%.2f to %.2f)", n["uncounted_low"], n["truth"], n["value"], n["low"], n["high"])
	}
	t.Fatalf("the machine was too busy in all of %d runs", freshRuns)
	return o, records
}

// withoutSwitch takes a switch's records away: the flows' estimates are still within their bounds.
func withoutSwitch(t *testing.T, records, file string) {
	t.Helper()
	gone, err := filepath.Glob(filepath.Join(records, "spine1-*.records"))
	if err != nil || len(gone) == 0 {
		t.Fatal("spine1 left no records", err)
	}
	for _, name := range gone {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	e := &lab.Evidence{Records: records}
	if e.Config, err = lab.Load(file); err != nil {
		t.Fatal(err)
	}
	e.Config.UseKey(filepath.Join(records, lab.KeyFile))
	text, err := os.ReadFile(filepath.Join(records, lab.TruthFile))
	if err == nil {
		err = json.Unmarshal(text, &e.Truth)
	}
	if err != nil {
		t.Fatal(err)
	}
	report, err := grade.Records(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Rows {
		if !r.OK && r.NotJudged == "" && r.Kind != query.KindNetwork { // which has no status of spine1, and no last reports
			t.Errorf("without spine1: %+v", r)
		}
		if r.Kind == query.KindFrequency && r.Numbers["flows"] != 100 {
			t.Errorf("without spine1: %+v", r)
		}
	}
}
