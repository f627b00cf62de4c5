package text_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/view/text"
)

func TestTable(t *testing.T) {
	table := text.NewTable("NAME", ">NUMBER", "LAST")
	table.Row("é", 5, "")
	table.Row("longer", 123456789, "x")
	var b bytes.Buffer
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := `
NAME       NUMBER  LAST
é               5
longer  123456789  x
`
	if diff := cmp.Diff(want[1:], b.String()); diff != "" {
		t.Error(diff)
	}
}

// TestDigests: hops list their frequent values, and what packets tell of their paths is listed by flow.
func TestDigests(t *testing.T) {
	stats := query.ValueStats{Samples: 7, Quantiles: []query.QuantileValue{{Rank: 0.5, Bounded: query.Bounded{Value: 2, Low: 1, High: 3}}}}
	for _, c := range []struct {
		kind   query.Kind
		answer any
		want   []string
	}{
		{query.KindCongestion, &query.CongestionAnswer{Value: "queue_occupancy", Aggregation: "frequent", Unit: "packets", Packets: stats, Hops: []query.HopStats{
			{Hop: 1, Switch: "s1", ValueStats: stats, Frequent: []query.FrequentValue{{Value: 40, Share: query.Bounded{Value: 0.6, Low: 0.5, High: 0.7}}, {Value: 8, Share: query.Bounded{Value: 0.1, High: 0.2}}}},
			{Hop: 2, Switch: "s2", ValueStats: stats},
		}}, []string{"frequent values\n", "2 (1 to 3)  40: 60 % (50 to 70), 8: 10 % (0 to 20)\n", "queue_occupancy, of one hop of each packet\n"}},
		{query.KindLatency, &query.LatencyAnswer{Value: "hop_latency", Aggregation: "slow_hops", Unit: "hops", Packets: stats, Flows: []query.FlowValues{{Flow: "a > b", ValueStats: stats}}, More: 2},
			[]string{"all together        7  2 (1 to 3)\n", "a > b               7  2 (1 to 3)\n", "the number of slow hops of each packet\n", "2 more flows are left out"}},
	} {
		var b bytes.Buffer
		if err := text.Write(&b, c.kind, c.answer); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: %q is not in\n%s", c.kind, want, b.String())
			}
		}
	}
}
