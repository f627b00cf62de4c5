package main

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/control/api"
)

// TestBlockedPortIsShown: the link of a port that a guard blocks is blocked, and why is below the table.
func TestBlockedPortIsShown(t *testing.T) {
	var b strings.Builder
	if err := printPorts(&b, []*api.Port{{Name: "p0", State: "up"}, {Name: "p1", State: "up", Blocked: "loop_guard, for 5m0s more: stations moved"}}); err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(strings.Split(b.String(), "\n")[2])
	if !strings.Contains(strings.Join(fields, " "), "p1 blocked") || !strings.Contains(b.String(), "\np1 is blocked: loop_guard, for 5m0s more: stations moved\n") || strings.Contains(b.String(), "p0 blocked") {
		t.Errorf("got\n%s", &b)
	}
}
