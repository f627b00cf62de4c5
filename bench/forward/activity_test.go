package forward

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/traffic"
)

// TestActivity: the share of others is what this process did not use itself, kind by kind, and never below 0.
func TestActivity(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name           string
		all, own       traffic.CPUTime
		others, stolen float64
		busy           bool
	}{
		{"this process alone", traffic.CPUTime{User: 4 * s, System: 5 * s, Softirq: 1 * s, Idle: 10 * s}, traffic.CPUTime{User: 4 * s, System: 5 * s}, 0, 0, false},
		{"softirqs that count as its own", traffic.CPUTime{User: 4 * s, System: 3 * s, Softirq: 3 * s, Idle: 10 * s}, traffic.CPUTime{User: 3 * s, System: 6 * s}, 0.05, 0, false},
		{"a neighbour", traffic.CPUTime{User: 8 * s, System: 6 * s, Idle: 6 * s}, traffic.CPUTime{User: 4 * s, System: 5 * s}, 0.25, 0, true},
		{"a hypervisor", traffic.CPUTime{User: 4 * s, Steal: 2 * s, Idle: 14 * s}, traffic.CPUTime{User: 4 * s}, 0, 0.1, true},
		{"no time at all", traffic.CPUTime{}, traffic.CPUTime{}, 0, 0, false},
	} {
		a := activity(tt.all, tt.own)
		if math.Abs(a.Others-tt.others) > 1e-9 || math.Abs(a.Stolen-tt.stolen) > 1e-9 || a.Busy() != tt.busy {
			t.Errorf("%s: %+v, want others %g, stolen %g, busy %v", tt.name, a, tt.others, tt.stolen, tt.busy)
		}
	}
	w, err := watchMachine()
	if err != nil {
		t.Fatal(err)
	}
	if a, err := w.end(); err != nil || a.Others < 0 || a.Others > 1 || a.Stolen < 0 || a.Stolen > 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestBusyReport: each form of the report has what the machine did, and the mark where it was busy; INVALID stays what it is.
func TestBusyReport(t *testing.T) {
	r := WireReport{TX: "a", RX: "b", Activity: Activity{LoadStart: 1.5, LoadEnd: 7.25, Others: 0.4, Stolen: 0.02}, Sizes: []WireSize{
		{Size: 64, Throughput: 5, MRR: 5, Offered: 5, Limited: true, Activity: Activity{Others: 0.4}},
		{Size: 512, Throughput: 5, MRR: 5, Offered: 50, Activity: Activity{Others: 0.01}},
		{Size: 1518, Invalid: "it is none", Activity: Activity{Others: 0.4}},
	}}
	var text, page, table strings.Builder
	if err := errors.Join(r.WriteText(&text), r.WriteHTML(&page), r.WriteCSV(&table)); err != nil {
		t.Fatal(err)
	}
	const machine, busy = "load average 1.50 at the start, 7.25 at the end; other processes took 40.0 % of the cores, a hypervisor 2.0 %", "busy: other processes took 40.0 % of the cores"
	for name, form := range map[string]string{"text": text.String(), "page": page.String()} {
		if !strings.Contains(form, machine) || strings.Count(form, busy) != 2 {
			t.Errorf("%s: %s", name, form)
		}
	}
	for _, want := range []string{
		"64,throughput,,5,fps,source-limited busy\n", "64,line,,0,fps,busy\n", "512,throughput,,5,fps,\n", "1518,throughput,,0,fps,INVALID busy\n",
		"64,others_share,,0.4,share,busy\n", ",load_average_start,,1.5,,\n", ",load_average_end,,7.25,,\n", ",others_share,,0.4,share,\n", ",stolen_share,,0.02,share,\n",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("%q is not in the CSV: %s", want, &table)
		}
	}
	var back struct {
		Activity struct {
			Load float64 `json:"load_average_end"`
		}
		Sizes []struct {
			Busy     bool
			Activity struct {
				Others float64 `json:"others_share"`
			}
		}
	}
	for i := range r.Sizes {
		r.Sizes[i].Busy = r.Sizes[i].Activity.Busy()
	}
	encoded, err := json.Marshal(&r)
	if err := errors.Join(err, json.Unmarshal(encoded, &back)); err != nil || back.Activity.Load != 7.25 || !back.Sizes[0].Busy || back.Sizes[1].Busy || back.Sizes[0].Activity.Others != 0.4 {
		t.Errorf("%v: %s", err, encoded)
	}
}
