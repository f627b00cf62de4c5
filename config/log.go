package config

import (
	"errors"
	"fmt"
	"slices"
)

// Log configures the switch's log on standard error, [log].
type Log struct {
	Level  string `toml:"level"`  // "debug", "info", "warn" or "error"
	Format string `toml:"format"` // "text" or "json"
}

// DefaultLog returns text from level info.
func DefaultLog() Log { return Log{Level: "info", Format: "text"} }

// Validate reports all faults, joined, each beginning with its key.
func (l *Log) Validate() error {
	var errs []error
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, l.Level) {
		errs = append(errs, fmt.Errorf("level: %q: choose \"debug\", \"info\", \"warn\" or \"error\"", l.Level))
	}
	if l.Format != "text" && l.Format != "json" {
		errs = append(errs, fmt.Errorf("format: %q: choose \"text\" or \"json\"", l.Format))
	}
	return errors.Join(errs...)
}
