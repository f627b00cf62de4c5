package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/grade"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/telemetry/query"
)

// What the lab of two racks must show between leaves: cells refused, but for those that lost packets (each in a cell of every row), and errors of the mean delays of flows of 1,000
// packets and more.
const (
	racksRefused = 0.01
	racksMedian  = 0.02
	racksRows    = 4
)

// TestRacksLab: over two spines, with links of different delays of which one loses packets, the delay of each flow of 1,000 packets from leaf to leaf is
// right, its losses are exact, and its segments, links by LDS and switches by PINT, add up to it and name the slowest link of its path. The truth is by the relays'
// clocks, with what packets waited in the switch between two relays, so a machine that holds switches and relays up is right too, in the first run. Another one is
// for a machine that held one of them up for half an interval (0.5 s), where packets count in the wrong one, or until a ring overflowed. Each direction has to
// show it in one run.
func TestRacksLab(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: TestLDSPathChange of bench/paper measures a network of leaves and spines")
	}
	netnstest.Require(t)
	file := smallLab(t, "racks")
	shown, calm := map[string]bool{}, 0
	for attempt := range freshRuns {
		o, records, undisturbed := freshRun(t, attempt, file)
		if !undisturbed {
			continue
		}
		late := false
		links := map[[2]string]float64{}
		for _, d := range o.Answers.Delays {
			if d.Relay != "" {
				late = late || d.TruthNs > (1+grade.MostHeldUp)*float64(d.Delay)
				links[ends(d.From, d.To)] = d.TruthNs
			}
		}
		for _, d := range o.Answers.Delays {
			if d.Relay != "" {
				continue
			}
			good := d.Flows >= 12 && d.Measured == d.Flows && d.Median <= racksMedian && d.Worst <= grade.MostDelayError && d.Wrong == 0 && d.TruthLost > 0 &&
				float64(d.Refused)-racksRows*float64(d.Lost) <= racksRefused*float64(d.Cells)
			shown[d.From] = shown[d.From] || good && racksSegments(t, records, links)
			t.Logf("attempt %d: %+v", attempt, d)
		}
		if len(shown) == 2 && shown["leaf1 out"] && shown["leaf2 out"] {
			return
		}
		if !late {
			calm++
		}
	}
	skipUnlessCalm(t, calm)
	t.Errorf("in %d runs not both directions had their delays and losses right: %v", freshRuns, shown)
}

// ends are the switches of two measurement points.
func ends(from, to string) [2]string {
	f, _, _ := strings.Cut(from, ":")
	to, _, _ = strings.Cut(to, ":")
	return [2]string{f, to}
}

// racksSegments asks about each flow whose path is known, and reports whether the segments add up, and the slowest is the path's slowest link, with the delay that
// its relay achieved.
func racksSegments(t *testing.T, records string, links map[[2]string]float64) bool {
	t.Helper()
	var paths query.PathAnswer
	out, err := weirCommand("query", "path", "--json", "--limit", "100", "--records", records).Output()
	if jsonErr := json.Unmarshal(out, &paths); err != nil || jsonErr != nil {
		t.Fatalf("%v, %v: %s", err, jsonErr, out)
	}
	right, spines := true, map[string]bool{}
	for _, f := range paths.Flows {
		if !f.Known || len(f.Hops) != 3 {
			continue
		}
		from, spine, to := f.Hops[0].Switch, f.Hops[1].Switch, f.Hops[2].Switch
		var b query.Between
		out, err := weirCommand("query", "delay", "--json", "--records", records, "--from", from, "--to", to, "--flow", f.Flow).Output()
		if jsonErr := json.Unmarshal(out, &b); err != nil || jsonErr != nil {
			t.Fatalf("%v, %v: %s", err, jsonErr, out)
		}
		if b.Packets < 1000 {
			continue
		}
		spines[spine] = true
		sum, slowest := 0.0, query.Segment{}
		for _, s := range b.Segments {
			if s.By == "" {
				t.Logf("%s: %s to %s: %s", f.Flow, s.From, s.To, s.Why)
			}
			if sum += s.Delay.Value; s.Slowest {
				slowest = s
			}
		}
		slow := map[string]string{"spine1": "leaf2", "spine2": "leaf1"}[spine]
		link := [2]string{spine, slow}
		if slow == from {
			link = [2]string{slow, spine}
		}
		want := links[link]
		if ends(slowest.From, slowest.To) != link {
			t.Logf("%s over %s: %+v is the slowest", f.Flow, spine, slowest)
			right = false
		}
		if len(b.Segments) != 3 || math.Abs(sum-b.Delay.Value) > grade.MostDelayError*b.Delay.Value || math.Abs(slowest.Delay.Value-want) > grade.MostDelayError*want {
			t.Logf("%s over %s: %g in all, %+v", f.Flow, spine, b.Delay.Value, b.Segments)
			right = false
		}
	}
	return right && len(spines) == 2
}
