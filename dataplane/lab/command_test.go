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
		if !errors.As(err, &failure) || !errors.Is(err, ErrNotUp) || failure.Status != 2 || out.Len() > 0 {
			t.Fatalf("%s: %v, and %q", name, err, out.String())
		}
		// Other tests may have labs up.
		if text := err.Error(); !strings.Contains(text, "weir lab up FILE") && !strings.Contains(text, "those that are up: ") {
			t.Errorf("%s: %q has no remedy", name, text)
		}
	}
}

// TestPageMoved: where the page is not at the port that weir query asks, the status says how to ask; else it does not.
func TestPageMoved(t *testing.T) {
	for page, want := range map[string]string{
		"http://127.0.0.1:9470/":  "  page http://127.0.0.1:9470/\n",
		"http://127.0.0.1:42483/": "  page http://127.0.0.1:42483/; weir query has --collector http://127.0.0.1:42483 for it\n",
	} {
		var out strings.Builder
		if err := (&Status{Name: "l", Page: page}).WriteText(&out); err != nil || !strings.HasSuffix(out.String(), want) {
			t.Errorf("%v: %q, want %q", err, out.String(), want)
		}
	}
}
