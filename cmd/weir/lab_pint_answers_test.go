package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab"
)

// ask shows a view of a switch.
func (l *pintLab) ask(sw, view string, answer any) {
	l.t.Helper()
	status, out, errs := weir("ctl", "--socket", filepath.Join(lab.Root, l.name, sw+".sock"), "show", view, "--limit", "0", "--json")
	if status != 0 {
		l.t.Fatalf("%s: %s", sw, errs)
	}
	if err := json.Unmarshal([]byte(out), answer); err != nil {
		l.t.Fatalf("%s: %v in %s", sw, err, out)
	}
}

type labPath struct {
	Flow                     string
	Path                     []uint64
	Certain                  bool
	Packets, Changes, Strays uint64
	Digests                  int
}

func (l *pintLab) paths(sw string) []labPath {
	var r struct{ Paths []labPath }
	l.ask(sw, "paths", &r)
	return r.Paths
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
