package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench"
)

// shortest makes a run of well under a second; its figures say nothing.
var shortest = []string{"--quick", "--rounds", "1", "--slice", "100us", "--frames", "256", "--warm", "0", "--json"}

func TestBenchPipeline(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "pipeline.svg")
	status, stdout, stderr := weir(append([]string{"bench", "pipeline", "--rows", "parse,parse_patch,all", "--plot", plot}, shortest...)...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var r bench.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	row, ok := r.Row("parse_patch.mpps")
	if r.Name != "pipeline" || !ok || row.Value <= 0 {
		t.Errorf("%q: %+v", r.Name, row)
	}
	svg, err := os.ReadFile(plot)
	if err != nil || !strings.Contains(string(svg), "parse_patch.mpps") {
		t.Errorf("%v: %.100s", err, svg)
	}
}

func TestBenchStage(t *testing.T) {
	config := filepath.Join(t.TempDir(), "patch.toml")
	const text = "[switch]\ngraph = [\"parse\", \"patch\"]\n[[port]]\nname = \"left\"\ninterface = \"e0\"\n[[port]]\nname = \"right\"\ninterface = \"e1\"\n" +
		"[stages.patch]\npairs = [[\"right\", \"left\"]]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := weir(append([]string{"bench", "stage", "patch", "--config", config}, shortest...)...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var r bench.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if dropped, ok := r.Row("patch.dropped"); !ok || dropped.Value != 0 {
		t.Errorf("the configured pair does not forward: %+v", r.Rows)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"bench", "stage", "nat"}, `no stage "nat"`},
		{[]string{"bench", "stage", "l2", "--config", config}, `no stage "l2"`},
		{[]string{"bench", "stage", "l2", "--stations", "7000000"}, "MAC addresses"},
		{[]string{"bench", "stage", "l2", "--frames", "3", "--rounds", "0"}, "frames: 3"},
		{[]string{"bench", "pipeline", "--core", "4000"}, "core 4000"},
	} {
		if status, _, stderr := weir(tt.args...); status != 2 || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: status %d: %s", tt.args, status, stderr)
		}
	}
}
