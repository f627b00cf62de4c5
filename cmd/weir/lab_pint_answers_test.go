package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/telemetry/query"
)

// ask shows a view of a switch.
func (l *pintLab) ask(sw, view string, answer any) {
	l.t.Helper()
	args := []string{"ctl", "--socket", filepath.Join(lab.Root, l.name, sw+".sock"), "show", view, "--json"}
	if view != "telemetry" {
		args = append(args, "--limit", "0")
	}
	status, out, errs := weir(args...)
	if status != 0 {
		l.t.Fatalf("%s: %s", sw, errs)
	}
	if err := json.Unmarshal([]byte(out), answer); err != nil {
		l.t.Fatalf("%s: %v in %s", sw, err, out)
	}
}

// awaitDigests waits until a switch answers from all digests that it recorded: their records come when a slice of
// the clock is over.
func (l *pintLab) awaitDigests(sw string) {
	l.t.Helper()
	counts := map[string]float64{}
	l.patiently(func() bool {
		var r struct {
			Metrics []struct {
				Stage, Name string
				Value       float64
			}
		}
		l.ask(sw, "telemetry", &r)
		for _, m := range r.Metrics {
			if m.Stage == "pint" {
				counts[m.Name] = m.Value
			}
		}
		return counts["records_total"] == counts["exported_digests_total"]
	})
	if counts["records_total"] != counts["exported_digests_total"] || counts["records_total"] == 0 {
		l.t.Fatalf("%s recorded digests that are in no record: %v", sw, counts)
	}
}

// labPath is a flow's path with the numbers of its switches.
type labPath struct {
	query.FlowPath
	Path []uint64
}

func (l *pintLab) paths(sw string) (list []labPath) {
	var r struct{ Paths query.PathAnswer }
	l.ask(sw, "paths", &r)
	for _, f := range r.Paths.Flows {
		p := labPath{FlowPath: f}
		for _, h := range f.Hops {
			if f.Known {
				p.Path = append(p.Path, h.Number)
			}
		}
		list = append(list, p)
	}
	return list
}

// awaitPaths wants that many flows of enough packets.
func (l *pintLab) awaitPaths(sw string, flows, enough int) {
	l.t.Helper()
	long := 0
	l.patiently(func() bool {
		long = 0
		for _, p := range l.paths(sw) {
			if p.Packets >= uint64(enough) {
				long++
			}
		}
		return long >= flows
	})
	if long < flows {
		l.t.Errorf("%s: only %d flows of at least %d packets, want %d", sw, long, enough, flows)
	}
}

// checkPaths wants all flows of enough packets to have the path, and none
// another one.
func (l *pintLab) checkPaths(sw string, path []uint64, enough int) {
	l.t.Helper()
	long := 0
	for _, p := range l.paths(sw) {
		if p.Certain && !slices.Equal(p.Path, path) {
			l.t.Errorf("%s: wrong path: %+v", sw, p)
		}
		if p.Packets < uint64(enough) {
			continue
		}
		long++
		if !p.Certain || p.Changes != 0 || p.Strays != 0 {
			l.t.Errorf("%s: not decoded: %+v", sw, p)
		}
	}
	l.t.Logf("%s: %d flows of at least %d packets have the path %v", sw, long, enough, path)
}

// TestPintViewsRefuse: a number of flows that is none is a fault before any switch is asked.
func TestPintViewsRefuse(t *testing.T) {
	for _, view := range pintViews() {
		status, out, errs := weir("ctl", "--socket", "/nonexistent/weir.sock", "show", view.name, "--limit", "-1")
		if status != statusUsage || out != "" || !strings.Contains(errs, "--limit -1") {
			t.Errorf("%s: status %d, %q, %q", view.name, status, out, errs)
		}
	}
}
