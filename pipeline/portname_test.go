package pipeline

import "testing"

// TestUndefinedPort: a name that is missing is not called a port that is not defined.
func TestUndefinedPort(t *testing.T) {
	for name, want := range map[string]string{
		"":   "is missing: write the name of a [[port]]",
		"p9": `port "p9" is not defined: define [[port]] name = "p9" or correct the name`,
	} {
		if got := UndefinedPort(name).Error(); got != want {
			t.Errorf("%q: %s", name, got)
		}
	}
}
