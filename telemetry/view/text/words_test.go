package text

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/internal/plural"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// TestMissingNamesPoints: what a measurement point lacks is named as answers name the point.
func TestMissingNamesPoints(t *testing.T) {
	got := Missing([]store.Missing{
		{Switch: "s1", Of: store.OfPoints, Instance: 3, Point: "s1:1 out", Packets: 7}, {Switch: "s2", Of: store.OfSamples, Partial: 1},
	})
	if len(got) != 2 || got[0] != "s1:1 out: 7 packets not measured" || !strings.HasPrefix(got[1], "switch s2, ") {
		t.Errorf("%q", got)
	}
}

// TestMissingNamesRegions: what a region lacks is named with it, and so is one that could not be asked.
func TestMissingNamesRegions(t *testing.T) {
	got := Missing([]store.Missing{
		{Switch: "s1", Of: store.OfSamples, Evicted: 2, Region: "east"}, {Of: store.OfRegion, Region: "west", Unreached: "no collector listens"},
	})
	if len(got) != 2 || !strings.HasPrefix(got[0], "region east, switch s1, ") || got[1] != "region west: no collector listens" {
		t.Errorf("%q", got)
	}
}

// TestDelayBounds: bounds of no width are not written as an interval.
func TestDelayBounds(t *testing.T) {
	for _, c := range []struct {
		b    query.Bounded
		want string
	}{
		{query.Bounded{Value: 5e6, Low: 4e6, High: 6e6}, "mean delay: 5ms (4ms to 6ms); trust 0.50"},
		{query.Bounded{Value: 5e6, Low: 5e6 - 1, High: 5e6 + 1}, "mean delay: 5ms (bounds within its last digit); trust 0.50"},
		{query.Bounded{Value: 5e6, Low: 5e6, High: 5e6}, "mean delay: 5ms, by 40 packets that were measured, without bounds for others; trust 0.50"},
	} {
		var b strings.Builder
		if err := printDelay(&b, &query.Between{HasDelay: true, Delay: c.b, Sampled: 40, Trust: 0.5}); err != nil || !strings.Contains(b.String(), c.want+"\n") {
			t.Errorf("%v: want %q in\n%s", err, c.want, &b)
		}
	}
}

// TestCounted: one flow is no flows.
func TestCounted(t *testing.T) {
	for n, want := range map[int]string{1: "1 flow", 0: "0 flows", 2: "2 flows"} {
		if got := plural.Counted(n, "flow"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var b strings.Builder
	h := &query.HeavyHitters{By: query.BySample, Theta: 0.01, Volume: query.Bounded{Value: 9, Low: 9, High: 9}, Unit: "packets", Flows: make([]query.HeavyFlow, 1)}
	if err := printHeavyHitters(&b, h); err != nil || !strings.Contains(b.String(), ": 1 flow of at least") {
		t.Errorf("%v: %s", err, &b)
	}
}

// TestUnknownDelaysOfLinks: each "?" of a link's delay has its reason below the table, those of many links in one line.
func TestUnknownDelaysOfLinks(t *testing.T) {
	n := &query.Network{}
	for _, name := range []string{"a", "b", "c"} {
		l := query.NetworkLink{Ends: [2]query.NetworkEnd{{Name: name, Port: "p0"}, {Name: "z", Port: name}}}
		for i := range l.Delays {
			l.Delays[i].Why = "no packet passed"
		}
		n.Links = append(n.Links, l)
	}
	n.Links[2].Delays[1] = query.LinkDelay{HasDelay: true, HasLoss: true}
	var b strings.Builder
	if err := printNetwork(&b, n); err != nil || strings.Contains(b.String(), "lds_egress") {
		t.Errorf("all are measured: %v: %s", err, &b)
	}
	b.Reset()
	n.Links = append(n.Links, query.NetworkLink{})
	if err := printNetwork(&b, n); err != nil || !strings.Contains(b.String(), "-: no delay and loss are measured there") {
		t.Errorf("one is not measured: %v: %s", err, &b)
	}
	if err := printNetwork(&b, n); err != nil || !strings.Contains(b.String(), "?: a:p0 to z:a, z:a to a:p0, b:p0 to z:b, z:b to b:p0 and 1 more: no packet passed\n") {
		t.Errorf("%v: %s", err, &b)
	}
}
