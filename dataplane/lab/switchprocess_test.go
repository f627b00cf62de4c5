package lab

import (
	"slices"
	"testing"
)

// TestEnvironment: switches of a lab may take longer to end than those by themselves, and as long as the environment says where it does: of values of one
// name the last counts.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct{ of, want []string }{
		{[]string{"A=1"}, []string{"WEIR_STOP_WAIT=50s", "A=1", "WEIR_READY_FD=3"}},
		{[]string{"WEIR_STOP_WAIT=1s", "WEIR_READY_FD=7"}, []string{"WEIR_STOP_WAIT=50s", "WEIR_STOP_WAIT=1s", "WEIR_READY_FD=7", "WEIR_READY_FD=3"}},
	} {
		if got := environment(c.of); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
