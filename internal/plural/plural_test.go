package plural

import "testing"

func TestCounted(t *testing.T) {
	for n, want := range map[int][2]string{0: {"0 links", "0 switches"}, 1: {"1 link", "1 switch"}, 2: {"2 links", "2 switches"}} {
		if got := [2]string{Counted(n, "link"), Counted(n, "switch")}; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
