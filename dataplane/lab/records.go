package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// telemetryStages are the stages that make records.
var telemetryStages = []string{"pint", "disketch", "oblivious", "lds_ingress", "lds_egress"}

// keepsRecords reports whether the switches' records are to be kept: the file says so, or a switch measures.
func (c *Config) keepsRecords() bool {
	if c.Records || c.Collector != nil {
		return true
	}
	return slices.ContainsFunc(c.Switches, func(s Switch) bool {
		main, _ := s.Config["switch"].(map[string]any)
		return slices.ContainsFunc(telemetryStages, func(stage string) bool {
			return slices.Contains(s.Graph, stage) || usesStage(main, stage)
		})
	})
}

// recordsPath is the folder of a lab's records: the one asked for, or one of the run directory, which goes with it.
func recordsPath(runDirectory, keep string) string {
	if keep != "" {
		return keep
	}
	return filepath.Join(runDirectory, "records")
}

// Names of what a run leaves next to the records.
const (
	// TruthFile has a [LoadCount] for each load of kind "flows".
	TruthFile = "truth.json"
)

// makeRecords makes the folder for the switches' records, if any are to be kept. A folder of one's own choice
// must be empty, lest records of two runs be mixed.
func (l *Lab) makeRecords() error {
	if !l.config.keepsRecords() && l.keep == "" {
		return nil
	}
	path := recordsPath(l.dir.path, l.keep)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make the folder for records: %w", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("make the folder for records: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("make the folder for records: %s is not empty: choose another folder, or empty it", path)
	}
	if l.records, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("make the folder for records: %w", err)
	}
	return nil
}

// spool is the folder that switches write their records to; empty: none are kept. With a collector they wait there
// until it has them.
func (l *Lab) spool() string {
	if l.config.Collector != nil {
		return filepath.Join(l.dir.path, "spool")
	}
	return l.records
}

// writeTruth writes what the receivers counted next to the records.
func (l *Lab) writeTruth(results []Result) ([]LoadCount, error) {
	truth := []LoadCount{}
	for i := range results {
		if results[i].Counts != nil {
			truth = append(truth, *results[i].Counts)
		}
	}
	if l.records == "" {
		return truth, nil
	}
	return truth, writeJSON(filepath.Join(l.records, TruthFile), truth)
}

func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
