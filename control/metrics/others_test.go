package metrics

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weirswitch/weir/control/api"
)

// TestOthers: of a switch with very many ports and rules each metric has a bounded number of series, and what is beyond is counted: counters add up to the same.
func TestOthers(t *testing.T) {
	const ports, rules = 2500, 1001
	r := &api.ReportResponse{Name: "s1"}
	received := uint64(0)
	for i := range ports {
		p := &api.Port{Name: fmt.Sprint("p", i), Up: true, Received: uint64(i)}
		received += p.Received
		r.Ports = append(r.Ports, p)
	}
	for i := range rules {
		r.Metrics = append(r.Metrics, &api.Metric{Stage: "acl", Name: "matched_packets_total", Help: "packets", Value: 2, Labels: map[string]string{"rule": fmt.Sprint(i), "action": "deny"}})
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(fixedReport{r}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]*dto.Metric{}
	for _, f := range families {
		all[f.GetName()] = f.Metric
		if n := len(f.Metric); n > mostSeries+1 {
			t.Errorf("%s has %d series", f.GetName(), n)
		}
	}
	sum := func(name string) (x float64) {
		for _, m := range all[name] {
			x += m.GetCounter().GetValue()
		}
		return x
	}
	if got := sum("weir_port_received_packets_total"); got != float64(received) {
		t.Errorf("%v packets are shown, of %d", got, received)
	}
	if got := sum("weir_acl_matched_packets_total"); got != 2*rules {
		t.Errorf("%v matches are shown, of %d", got, 2*rules)
	}
	if n := len(all["weir_port_up"]); n != mostSeries {
		t.Errorf("%d ports are up", n)
	}
	others := map[string]float64{}
	for _, m := range all["weir_metrics_others"] {
		others[m.Label[0].GetValue()] = m.GetGauge().GetValue()
	}
	for name, want := range map[string]float64{"weir_port_up": ports - mostSeries, "weir_port_received_packets_total": ports - mostSeries, "weir_acl_matched_packets_total": rules - mostSeries} {
		if others[name] != want {
			t.Errorf("%s: %v series are not shown, want %v", name, others[name], want)
		}
	}
	if _, some := others["weir_switch_info"]; some {
		t.Error("all of a switch's own is shown, and counted as not shown")
	}
}
