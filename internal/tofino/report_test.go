package main

import (
	"strings"
	"testing"
)

// report is a report as the compiler writes it, of three stages, the last one empty.
const report = `{"resources": {"mau": {"nStages": 12, "mau_stages": [
	{"stage_number": 0,
	 "hash_bits": {"nBits": 416, "bits": [{"hash_bit": 0}, {"hash_bit": 1}]},
	 "hash_distribution_units": {"units": [{"hash_id": 0, "unit_id": 1}]},
	 "rams": {"srams": [{"row": 1, "column": 2}, {"row": 1, "column": 3}]},
	 "tcams": {"tcams": []},
	 "meter_alus": {"meters": [{"row": 1, "usages": [{"used_by": "ingress.cells", "used_for": "stateful_ram"}]}]},
	 "vliw": {"size": 32, "instructions": [{}]},
	 "logical_tables": {"ids": [{"id": 0, "table_name": "ingress.ports"}, {"id": 1, "table_name": "ingress.count"}]}},
	{"stage_number": 1,
	 "hash_bits": {"bits": []}, "hash_distribution_units": {"units": []}, "rams": {"srams": []},
	 "tcams": {"tcams": [{"row": 0, "column": 0}]},
	 "meter_alus": {"meters": [{"row": 3, "usages": [{"used_by": "ingress.cells", "used_for": "stateful_ram"}]},
	                           {"row": 5, "usages": [{"used_by": "egress.rates", "used_for": "meter_lpf"}]}]},
	 "vliw": {"instructions": []},
	 "logical_tables": {"ids": [{"id": 0, "table_name": "ingress.count"}]}},
	{"stage_number": 2, "logical_tables": {"ids": []}}]}}}`

func TestStages(t *testing.T) {
	stages, err := parseStages([]byte(report))
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 2 {
		t.Fatalf("%d stages in use, want 2: the last one has no table", len(stages))
	}
	p := program{name: "x", target: "tofino", most: 1}
	text := table(p, stages)
	for _, want := range []string{
		"`x.p4`: 2 of 1 stages of Tofino 1",
		"| 0 | 2 | 2 | 0 | 2 | 1 | 1 | 1 |\n",
		"| 1 | 1 | 0 | 1 | 0 | 0 | 2 | 0 |\n",
		"| all | 3 | 2 | 1 | 2 | 1 | 3 | 1 |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	faults := check(p, stages)
	if len(faults) != 2 || !strings.Contains(faults[0].Error(), "needs 2 stages") || !strings.Contains(faults[1].Error(), "register ingress.cells is split") {
		t.Errorf("faults %q, want one of the stages and one of the register", faults)
	}
	if p.most = 2; len(check(p, stages[:1])) != 0 {
		t.Error("a program that fits has faults")
	}
}

func TestNoStages(t *testing.T) {
	for _, text := range []string{"", "{}", `{"resources": {"mau": {"mau_stages": []}}}`} {
		if _, err := parseStages([]byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
