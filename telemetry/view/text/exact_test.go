package text

import (
	"testing"

	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// TestExact: a value is called exact of all packets only where no packets and no records are missing.
func TestExact(t *testing.T) {
	exact := query.Bounded{Value: 7, Low: 7, High: 7}
	for _, c := range []struct {
		missing []store.Missing
		want    string
	}{
		{nil, "7 (exact)"},
		{[]store.Missing{{Switch: "s1", Of: store.OfSamples, Partial: 2}}, "7 (exact)"},
		{[]store.Missing{{Switch: "s1", Of: store.OfSamples, Partial: 2}, {Switch: "s2", Of: store.OfSamples, Absent: 1}}, "7 (exact, of what was measured)"},
		{[]store.Missing{{Switch: "s1", Of: store.OfSamples, Packets: 3}}, "7 (exact, of what was measured)"},
	} {
		if got := within(exact, &query.Basis{Missing: c.missing}); got != c.want {
			t.Errorf("%+v: %q, want %q", c.missing, got, c.want)
		}
	}
	if got := within(query.Bounded{Value: 7, Low: 6, High: 9}, &query.Basis{}); got != "7 (6 to 9)" {
		t.Error(got)
	}
}
