package pipeline

import (
	"maps"
	"testing"
)

// TestStageSize: the paper's example, and one with loss.
func TestStageSize(t *testing.T) {
	for size, want := range map[string]map[string]float64{
		"-": {"lds.rows": 4, "lds.virtual": 1, "lds.columns": 18253},
		"flows=146000, packets=1000, interference=0.05, losses=500": {"lds.rows": 4, "lds.virtual": 5, "lds.banks.3": 1},
	} {
		r, err := Size("lds_ingress", size)
		if err != nil {
			t.Fatal(err)
		}
		for metric, v := range want {
			if row, ok := r.Row(metric); !ok || row.Value != v {
				t.Errorf("target %s: %s is %v, want %g", size, metric, row.Value, v)
			}
		}
	}
	for _, size := range []string{"flows", "flows=x", "rows=3", "failures=2", "virtual=1.5", "virtual=NaN", "flows=NaN"} {
		if _, err := Size("lds", size); err == nil {
			t.Errorf("target %s: no error", size)
		}
	}
}

// TestSampleSize: entries for the stated errors, also where only one question has an answer.
func TestSampleSize(t *testing.T) {
	for size, want := range map[string]map[string]float64{
		"epsilon=0.05,delta=0.01":                   {"oblivious.volume": 6677, "oblivious.frequency": 28760},
		"epsilon=0.05, delta=0.01, theta=0.1":       {"oblivious.volume": 6677, "oblivious.frequency": 28760, "oblivious.heavy_hitters": 2174},
		"epsilon=0.0005,theta=0.001,delta=0.000001": {"oblivious.heavy_hitters": 717744},
	} {
		r, err := Size("oblivious", size)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, row := range r.Rows {
			got[row.Metric] = row.Value
		}
		if !maps.Equal(got, want) {
			t.Errorf("target %s: %v, want %v", size, got, want)
		}
	}
	for _, size := range []string{"-", "epsilon", "epsilon=2", "delta=0", "epsilon=NaN", "flows=3", "epsilon=0.00001"} {
		if _, err := Size("oblivious", size); err == nil {
			t.Errorf("target %s: no error", size)
		}
	}
}
