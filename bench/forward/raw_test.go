package forward

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench"
)

// TestInvalid: a round whose figures contradict each other is no result, in the report and in comparisons.
func TestInvalid(t *testing.T) {
	good := Sample{Round: 1, Device: "patch", Size: "64B", MRR: 300_000, PDR: found{Rate: 290_000}, NDR: found{Rate: 280_000}}
	above := good
	above.Round, above.MRR, above.PDR.Rate, above.NDR.Rate = 2, 278_100, 304_500, 304_500
	stolen := good
	stolen.CPU.Steal = 0.2
	for _, tt := range []struct {
		s    Sample
		want string
	}{
		{good, ""}, {above, "ndr 304500 is above mrr 278100: "}, {stolen, "the hypervisor gave 20 % of the cores' time to others"},
	} {
		if got := tt.s.Invalid(); (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.s, got, tt.want)
		}
	}
	var b strings.Builder
	b.WriteString(`{"command":["weir"]}` + "\n")
	fast := good
	fast.NDR.SourceLimited = true
	for _, s := range []Sample{good, above, fast} {
		line, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	all, invalid, err := ReadRaw(strings.NewReader(b.String()))
	if err != nil || invalid != 1 || len(all) == 0 || all[0].Metric != "patch.64B.mrr" || len(all[0].Values) != 2 {
		t.Errorf("%+v, %d, %v", all, invalid, err)
	}
	for _, x := range all {
		if want := map[bool]int{true: 1}[x.Metric == "patch.64B.ndr"]; len(x.Limited) != want || x.Invalid != 1 {
			t.Errorf("%+v: want %d limited, 1 invalid", x, want)
		}
	}
	c := DefaultConfig()
	c.Sizes, c.Searches = []string{"64"}, true
	r := report(&c, []Sample{above})
	row, ok := r.Row("patch.64B.ndr")
	if !ok || !strings.HasPrefix(row.Invalid, "ndr 304500 is above mrr 278100") {
		t.Errorf("%+v", row)
	}
	if r = report(&c, []Sample{good, above, good}); r.Rows[0].Value != 300_000 || r.Rows[0].Invalid != "" {
		t.Errorf("%+v", r.Rows[0])
	}
	rival := func(s Sample, round int) Sample {
		s.Device, s.Round = "ovs", round
		return s
	}
	first, second := above, good
	first.Round, second.Round = 1, 2
	slow := rival(good, 2)
	slow.MRR /= 2
	slow.PDR.Rate, slow.NDR.Rate = slow.PDR.Rate/2, slow.NDR.Rate/2
	r = report(&c, []Sample{first, second, rival(good, 1), slow})
	if row, ok := r.Row("patch.mrr_over_ovs"); !ok || row.Value != 2 || row.Invalid != "" {
		t.Errorf("a ratio of one round that is a result: %+v", row)
	}
	r = report(&c, []Sample{first, rival(good, 1)})
	if row, ok := r.Row("patch.mrr_over_ovs"); !ok || row.Invalid == "" {
		t.Errorf("a ratio of no result: %+v", row)
	}
	var table strings.Builder
	if err := (&bench.Result{Rows: []bench.Row{row}}).WriteTable(&table); err != nil || !strings.Contains(table.String(), "INVALID: ndr 304500") {
		t.Errorf("%v, %s", err, &table)
	}
}
