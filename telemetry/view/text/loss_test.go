package text

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/query"
)

// TestNegativeLoss: an answer that more packets arrived than had left says how that can be, and what prevents it.
func TestNegativeLoss(t *testing.T) {
	for lost, explained := range map[float64]bool{-699: true, 0: false, 12: false} {
		var b strings.Builder
		if err := printLoss(&b, &query.Between{HasLoss: true, Lost: lost, Intervals: 17, Whole: 15}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "interval_bit") != explained || !strings.Contains(b.String(), "in 15 of 17 intervals") {
			t.Errorf("%g: %s", lost, &b)
		}
	}
}
