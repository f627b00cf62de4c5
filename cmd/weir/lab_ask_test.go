package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/grade"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/view/api"
)

// TestCollectorLab: the lab of six switches asks its collector a question of each kind, and
// all answers are as the lab knows.
func TestCollectorLab(t *testing.T) {
	netnstest.Require(t)
	file := smallLab(t, "six", "count = 30_000", "count = 9_000", "flows = 8\n", "flows = 2\n", "count = 12_000", "count = 3_000")
	for attempt := range freshRuns {
		kept := filepath.Join(t.TempDir(), "kept")
		out, err := weirCommand("lab", "run", "--json", "--keep", kept, file).Output()
		var o labOutcome
		if jsonErr := json.Unmarshal(out, &o); jsonErr != nil || o.Answers == nil {
			t.Fatalf("%v, %v\n%s", err, jsonErr, out)
		}
		if why := o.disturbed(); why != "" {
			t.Logf("attempt %d: the machine was too busy: %v", attempt, why)
			continue
		}
		for _, kind := range query.Kinds() {
			i := slices.IndexFunc(o.Answers.Rows, func(r grade.Row) bool { return r.Kind == kind })
			if i < 0 && kind != query.KindTarget {
				t.Errorf("nothing of kind %s was asked", kind)
			}
		}
		for _, r := range o.Answers.Rows {
			if !r.OK && r.NotJudged == "" {
				t.Errorf("%s of %s: %s, and the answer is %s", r.Kind, r.What, r.Truth, r.Answer)
			}
		}
		if o.OK != (err == nil) || !o.OK || !strings.HasPrefix(o.Page, "http://127.0.0.1:") {
			t.Errorf("%v, page %q: %v%s", err, o.Page, o.Account.Faults, said(err))
		}
		for _, name := range []string{lab.TruthFile, "collector"} {
			if _, err := os.Stat(filepath.Join(kept, name)); err != nil {
				t.Error(err)
			}
		}
		return
	}
	t.Fatalf("the machine was too busy in all of %d runs", freshRuns)
}

// said is what a command that failed wrote to standard error.
func said(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return ""
	}
	return "\n" + string(exit.Stderr)
}

// TestCollectorLabUp: a lab that is up shows its page on this machine, and its collector receives
// all switches; a second one finds another port.
func TestCollectorLabUp(t *testing.T) {
	netnstest.Require(t)
	var pages []string
	for i, name := range []string{"demo", "six"} {
		if testing.Short() && i > 0 {
			return
		}
		name := labUp(t, smallLab(t, name))
		out, err := weirCommand("lab", "status", "--json", name).Output()
		var s lab.Status
		if jsonErr := json.Unmarshal(out, &s); err != nil || jsonErr != nil || !s.Healthy || s.Page == "" {
			t.Fatalf("%v, %v\n%s", err, jsonErr, out)
		}
		pages = append(pages, s.Page)
		r, err := http.Get(s.Page)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %s", s.Page, r.Status)
		}
		client, err := api.NewClient(strings.TrimSuffix(s.Page, "/"), api.ClientTLS{})
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "a status of each switch", func() bool {
			a, err := client.Ask(t.Context(), &query.Question{Kind: query.KindNetwork})
			if err != nil {
				return false
			}
			n := a.(*query.Network)
			return len(n.Switches) == 3*len(pages) && !slices.ContainsFunc(n.Switches, func(s query.NetworkSwitch) bool { return !s.HasStatus || !s.Spool.Connected })
		})
	}
	if pages[0] == pages[1] {
		t.Errorf("two labs with a page at %s", pages[0])
	}
}

// waitFor waits for what must become true.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
