package text

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/query"
)

// TestSeriesEdges: steps say what packets under way at their ends do to them, each kind of question its own.
func TestSeriesEdges(t *testing.T) {
	for kind, want := range map[query.Kind]string{query.KindLoss: "look lost in it", query.KindDelay: "look lost in it", query.KindVolume: "are in both steps", query.KindEntropy: ""} {
		var b strings.Builder
		if err := printSeries(&b, &query.Series{Of: kind, StepNs: 1e9, Points: []query.SeriesPoint{{Values: []query.SeriesValue{{Name: "lost", Unit: "packets"}}}}}); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); want != "" && !strings.Contains(got, want) || want == "" && strings.Contains(got, "under way") {
			t.Errorf("%s: no %q in:\n%s", kind, want, got)
		}
	}
}
