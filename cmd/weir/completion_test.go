package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestCompletion: scripts for the shells, which those that are here can read, and
// words for what is typed.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		status, script, stderr := weir("completion", shell)
		if status != 0 || !strings.Contains(script, "weir") || stderr != "" {
			t.Errorf("%s: status %d, %d bytes, %s", shell, status, len(script), stderr)
		}
		path, err := exec.LookPath(shell)
		if err != nil || shell == "powershell" {
			continue
		}
		check := exec.Command(path, "-n")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
	for typed, want := range map[string]string{
		"ctl s":                  "save set show",
		"ctl show r":             "report routes",
		"ctl set ":               "acl fdb mirror neighbour policer port route",
		"ctl set route add ":     "prefix= via= weights= port= vrf=",
		"ctl capture --edge ":    "before after dropped",
		"ctl clear ":             "acl fdb",
		"ctl set fdb remove m":   "mac= vlan= port=", // the shell chooses
		"ctl --socket /x reload": "reload",
	} {
		status, out, _ := weir(append([]string{"__complete"}, strings.Split(typed, " ")...)...)
		var words []string
		for line := range strings.Lines(out) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); word != "" && word[0] != ':' {
				words = append(words, word)
			}
		}
		if got := strings.Join(words, " "); status != 0 || got != want {
			t.Errorf("%q: status %d: %q, want %q", typed, status, got, want)
		}
	}
	// Stages are asked of the switch that is meant; without one there are none.
	if status, out, _ := weir("__complete", "ctl", "--socket", "/none.sock", "capture", "--at", ""); status != 0 || !strings.HasPrefix(out, ":4") {
		t.Errorf("status %d: %q", status, out)
	}
}
