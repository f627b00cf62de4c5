package lab

import (
	"errors"
	"strings"
	"testing"
)

// TestDownUnknown: a name by which there is no lab is refused, and the answer says what is up.
func TestDownUnknown(t *testing.T) {
	var out strings.Builder
	c := &Command{Out: &out}
	for name, do := range map[string]func(string) error{"down": c.Down, "status": c.Status} {
		err := do("no-such-lab")
		var failure *Failure
		if !errors.As(err, &failure) || !errors.Is(err, ErrNotUp) || failure.Status == 0 || out.Len() > 0 {
			t.Fatalf("%s: %v, and %q", name, err, out.String())
		}
		// Other tests may have labs up.
		if text := err.Error(); !strings.Contains(text, "weir lab up FILE") && !strings.Contains(text, "those that are up: ") {
			t.Errorf("%s: %q has no remedy", name, text)
		}
	}
}
