package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirswitch/weir/internal/keyfile"
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
	// KeyFile is the network's secret key, if the lab has drawn one.
	KeyFile = "network.key"
	// NoKey is the name of no key's file: hashes are public functions.
	NoKey = "none"
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
	if !l.config.drawsKey() {
		return nil
	}
	keyed := *l.config // the caller's has none
	keyed.Key = filepath.Join(l.records, KeyFile)
	l.config = &keyed
	if _, err := keyfile.Create(keyed.Key); err != nil {
		return fmt.Errorf("draw a key for the network: %w", err)
	}
	return nil
}

// UseKey has the lab use the key in a file where it would draw one; empty: it does not.
func (c *Config) UseKey(path string) {
	if path == "" || !c.drawsKey() {
		return
	}
	if abs, err := filepath.Abs(path); err == nil && path != NoKey {
		path = abs // as the switches' configurations want it
	}
	c.Key = path
}

// drawsKey reports whether the network gets a new key: the file names none, and all switches can have any one.
func (c *Config) drawsKey() bool {
	if c.Key != "" || c.Collector != nil && has(c.Collector.Config, "collect", "keys") {
		return false
	}
	return !slices.ContainsFunc(c.Switches, func(s Switch) bool {
		stages, _ := s.Config["stages"].(map[string]any)
		return s.Kind == KindBMv2 || has(s.Config, "switch", "key") || has(s.Config, "switch", "hash") ||
			has(stages, "pint", "plan") || has(stages, "pint", "next_plan") || // which name a hash
			has(s.Config, "telemetry", "spool") // where the key is not next to the records
	})
}

// has reports whether a configuration has a key in a table.
func has(config map[string]any, table, key string) bool {
	t, _ := config[table].(map[string]any)
	_, ok := t[key]
	return ok
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
