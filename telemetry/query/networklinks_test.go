package query

import (
	"strings"
	"testing"
)

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

// TestUnknownLinkDelay: what is not known of a link's delay says why, and what is known does not.
func TestUnknownLinkDelay(t *testing.T) {
	for _, c := range []struct {
		b   Between
		why string // a part of it; empty: there is none
	}{
		{Between{HasDelay: true, HasLoss: true, Cells: 9}, ""},
		{Between{}, "no packet passed in the newest 3s"},
		{Between{HasLoss: true}, "no packet passed"},
		{Between{Cells: 9, Refused: 9, HasLoss: true, Lost: 2}, "none of 9 cells can be used"},
		{Between{HasDelay: true, HasLoss: true, Lost: -1, Cells: 9}, "more packets arrived"},
		{Between{HasDelay: true, Cells: 9}, "no interval was counted whole"},
	} {
		if d := linkDelay(&c.b); !strings.Contains(d.Why, c.why) || (d.Why == "") != (c.why == "") {
			t.Errorf("%+v: %q, want %q", c.b, d.Why, c.why)
		}
	}
}
