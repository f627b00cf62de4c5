package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/bench"
)

// Config says how long is measured, and where.
type Config struct {
	// Rounds over all rows, 1 to 1000.
	Rounds int
	// Slice is how long a row is timed within a round, 100 µs to a minute.
	Slice time.Duration
	Seed  uint64
	// Core on which graphs are measured.
	Core int
	// Frames of the ring, a multiple of 128, to 1<<20.
	Frames int
	// Warm packets go through each row of the whole before it is timed, 0 to 1<<30: then one packet in a hundred enters a sample of
	// the default size, as on average over an epoch of eight million packets. At the beginning of an epoch each does.
	Warm int
	// Quick leaves out the rows of a million addresses or more, which take seconds to learn.
	Quick bool
	// Rows are the names of the graphs to measure, and [Workers] and [Steering] for whole workers; empty: all. Ratios and differences are
	// of rows that are there.
	Rows     []string
	Progress bench.Progress
}

// DefaultConfig measures for about two minutes, on the last core that the process may use: interrupts and
// daemons tend to the first.
func DefaultConfig() Config {
	c := Config{Rounds: 15, Slice: 30 * time.Millisecond, Seed: 1, Frames: 4096, Warm: 1 << 20}
	if cores, err := cores(); err == nil {
		c.Core = cores[len(cores)-1]
	}
	return c
}

// Workers stands for the rows of whole workers in Config.Rows.
const Workers = "workers"

// Steering stands for the rows of workers that hand packets over to the one that has their connection, in Config.Rows.
const Steering = "steering"

// RowNames are all that Config.Rows may have.
func RowNames() (names []string) {
	for _, g := range Graphs {
		names = append(names, g.Name)
	}
	return append(names, Workers, Steering)
}

// has reports whether a row is to be measured.
func (c *Config) has(name string) bool { return len(c.Rows) == 0 || slices.Contains(c.Rows, name) }

// Shorten makes a run of seconds.
func (c *Config) Shorten() {
	c.Rounds, c.Slice, c.Quick = 5, 5*time.Millisecond, true
}

// Validate reports all faults at once.
func (c *Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Rounds < 1 || c.Rounds > 1000 {
		fault("rounds: %d is not between 1 and 1000", c.Rounds)
	}
	if c.Slice < 100*time.Microsecond || c.Slice > time.Minute {
		fault("slice: %v is not between 100us and 1m", c.Slice)
	}
	if c.Frames < 128 || c.Frames > 1<<20 || c.Frames%128 != 0 {
		fault("frames: %d is no multiple of 128 between 128 and %d", c.Frames, 1<<20)
	}
	for _, name := range c.Rows {
		if names := RowNames(); !slices.Contains(names, name) {
			fault("rows: there is no %q: choose among %s", name, strings.Join(names, ", "))
		}
	}
	if c.Warm < 0 || c.Warm > 1<<30 {
		fault("warm: %d packets are not between 0 and %d", c.Warm, 1<<30)
	}
	cores, err := cores()
	if err != nil {
		errs = append(errs, err)
	} else if !slices.Contains(cores, c.Core) {
		fault("core: the process may not use core %d: choose among %v", c.Core, cores)
	}
	return errors.Join(errs...)
}
