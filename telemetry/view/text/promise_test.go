package text

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/query"
)

// TestPromise: only an answer of samples that left nothing out, and that no switch's own count denies, is called exact.
func TestPromise(t *testing.T) {
	zero, some := 0.0, 0.02
	for _, c := range []struct {
		h    query.HeavyHitters
		want string
	}{
		{query.HeavyHitters{Theta: 0.01, Guaranteed: true, LeastEpsilon: &zero}, "the answer is exact"},
		{query.HeavyHitters{Theta: 0.01}, "nothing is guaranteed"},
		{query.HeavyHitters{Theta: 0.05, Guaranteed: true, LeastEpsilon: &some, Epsilon: 0.03, EffectiveSize: 500}, "all of 5 % or more are here"},
		{query.HeavyHitters{Theta: 0.05, LeastEpsilon: &some, EffectiveSize: 500}, "--epsilon 0.02 or more"},
		{query.HeavyHitters{Theta: 0.01, EffectiveSize: 50}, "as good as 50 entries guarantee nothing"},
		{query.HeavyHitters{Theta: 0.01, At: "s1:0 in"}, "the point's cells guarantee nothing"},
	} {
		got := promise(&c.h)
		if !strings.Contains(got, c.want) || strings.Contains(got, "exact") != (c.want == "the answer is exact") {
			t.Errorf("%+v: %q, want %q", c.h, got, c.want)
		}
	}
}

// TestHeavyHittersLeftOut: the number of flows is of all, those that a limit left out included.
func TestHeavyHittersLeftOut(t *testing.T) {
	var out strings.Builder
	h := &query.HeavyHitters{By: query.BySample, Theta: 0.01, Flows: make([]query.HeavyFlow, 1), More: 20, Volume: query.Bounded{Value: 9, Low: 9, High: 9}, Unit: "packets"}
	if err := printHeavyHitters(&out, h); err != nil || !strings.Contains(out.String(), "21 flows of at least") || !strings.Contains(out.String(), "20 more flows") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
