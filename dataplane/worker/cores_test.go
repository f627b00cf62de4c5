package worker

import (
	"strings"
	"testing"
)

// TestFewCores: one core for several workers is refused in words that fit any number.
func TestFewCores(t *testing.T) {
	c := DefaultConfig()
	c.Count, c.Cores = 7, []int{0}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "cores: 1 named for 7 workers: name one for each, or leave the key out") {
		t.Errorf("got %v", err)
	}
}
