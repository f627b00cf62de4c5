package query

import "testing"

// TestLinkDelay: a link loses no negative number of packets.
func TestLinkDelay(t *testing.T) {
	for _, c := range []struct {
		b       Between
		hasLoss bool
		lost    float64
	}{
		{Between{}, false, 0},
		{Between{HasLoss: true}, true, 0},
		{Between{HasLoss: true, Lost: 3}, true, 3},
		{Between{HasLoss: true, Lost: -12}, false, 0},
	} {
		c.b.HasDelay, c.b.Delay.Value = true, 5e6
		if d := linkDelay(&c.b); d.HasLoss != c.hasLoss || d.Lost != c.lost || !d.HasDelay || d.Delay.Value != 5e6 {
			t.Errorf("%+v of a loss of %g", d, c.b.Lost)
		}
	}
}
