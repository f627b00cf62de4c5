package main

import (
	"strings"
	"testing"
)

// TestCollectRefuses: a configuration is refused with a line for each fault.
func TestCollectRefuses(t *testing.T) {
	if status, _, stderr := weir("collect", "-c", writeFile(t, "[store]\nbytes = 1\n[[link]]\nends = [\"a\"]\n")); status != statusUsage || strings.Count(stderr, "\n") != 2 {
		t.Errorf("status %d: %s", status, stderr)
	}
}
