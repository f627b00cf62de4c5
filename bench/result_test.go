package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func sample() *Result {
	r := &Result{Name: "paper/some", Seed: 7, Machine: Machine{"a cpu, 2 cores", "6.1", "go1.26"}}
	r.Add("patch.64B.mrr", "pps", 931_412.3, "native", Higher)
	r.AddAgainst("hybrid.median_packets.k25", "packets", 41, 42, "PINT Fig. 5", Lower)
	return r
}

// The JSON form is what other programs read.
func TestResultJSON(t *testing.T) {
	var got bytes.Buffer
	if err := sample().WriteJSON(&got); err != nil {
		t.Fatal(err)
	}
	var flat bytes.Buffer
	if err := json.Compact(&flat, got.Bytes()); err != nil {
		t.Fatal(err)
	}
	want := `{"name":"paper/some","seed":7,"machine":{"cpu":"a cpu, 2 cores","kernel":"6.1","go":"go1.26"},"rows":[` +
		`{"metric":"patch.64B.mrr","unit":"pps","value":931412.3,"reference":null,"source":"native","better":"higher"},` +
		`{"metric":"hybrid.median_packets.k25","unit":"packets","value":41,"reference":42,"source":"PINT Fig. 5","better":"lower"}]}`
	if flat.String() != want {
		t.Errorf("got  %s\nwant %s", &flat, want)
	}
}

func TestResultTable(t *testing.T) {
	var got strings.Builder
	if err := sample().WriteTable(&got); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(got.String()), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "paper/some, seed 7, on a cpu, 2 cores, Linux 6.1") {
		t.Fatalf("%q", lines)
	}
	for i, want := range []string{"patch.64B.mrr 931 400 pps higher native", "hybrid.median_packets.k25 41 42 packets lower PINT Fig. 5"} {
		if fields := strings.Join(strings.Fields(lines[3+i]), " "); fields != want {
			t.Errorf("got %q, want %q", fields, want)
		}
	}
}

func TestResultValidate(t *testing.T) {
	for name, spoil := range map[string]func(*Result){
		"twice":     func(r *Result) { r.Add("patch.64B.mrr", "pps", 1, "", Higher) },
		"no name":   func(r *Result) { r.Add("", "pps", 1, "", Higher) },
		"NaN":       func(r *Result) { r.Add("x", "pps", math.NaN(), "", Higher) },
		"infinite":  func(r *Result) { r.AddAgainst("x", "pps", 1, math.Inf(1), "", Higher) },
		"direction": func(r *Result) { r.Add("x", "pps", 1, "", "up") },
	} {
		r := sample()
		spoil(r)
		var out bytes.Buffer
		if r.WriteJSON(&out) == nil || out.Len() != 0 {
			t.Errorf("%s: written: %s", name, &out)
		}
	}
	if _, ok := sample().Row("patch.64B.mrr"); !ok {
		t.Error("a row is not found")
	}
}

func TestFormatNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", 0.8856: "0.8856", 0.0463: "0.0463", 12.3456: "12.35", 999.96: "1000", 1000: "1 000",
		931_412.3: "931 400", 2_843_421: "2 843 000", -1234.5: "-1 234", 1e9: "1 000 000 000", 0.00001234: "0.00001234",
	} {
		if got := formatNumber(x); got != want && strings.ReplaceAll(got, " ", "") != want {
			t.Errorf("%v: %q, want %q", x, got, want)
		}
	}
}

func TestCPUModel(t *testing.T) {
	for info, want := range map[string]string{
		"processor\t: 0\nmodel name\t: AMD EPYC\n\nprocessor : 1\nmodel name : other\n": "AMD EPYC",
		"processor : 0\nBogoMIPS : 50\n":                                                "unknown",
		"":                                                                              "unknown",
	} {
		if got := cpuModel([]byte(info)); got != want {
			t.Errorf("%q: %q, want %q", info, got, want)
		}
	}
}
