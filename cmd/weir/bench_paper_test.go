package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench"
)

// TestBenchPaper repeats the smallest figure. The mean of 500 runs or more of a
// geometric wait with mean 3 and deviation 1.4 is off by 0.5 with a chance below 1e-6.
func TestBenchPaper(t *testing.T) {
	status, stdout, stderr := weir("bench", "paper", "pint-k2", "--quick", "--json")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var r bench.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil || r.Name != "paper/pint-k2 --quick" || r.Seed != 1 {
		t.Errorf("result %q, seed %d, %v", r.Name, r.Seed, err)
	}
	row, ok := r.Row("baseline.mean")
	if !ok || row.Value < 2.5 || row.Value > 3.5 || row.Reference == nil || *row.Reference != 3 {
		t.Errorf("baseline.mean %+v", row)
	}
}

func TestBenchPaperUnknown(t *testing.T) {
	status, _, stderr := weir("bench", "paper", "pint-fig99")
	if status != 2 || !strings.Contains(stderr, `no figure "pint-fig99": choose among pint-k2`) {
		t.Errorf("status %d: %s", status, stderr)
	}
}
