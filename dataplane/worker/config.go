package worker

import (
	"errors"
	"fmt"
)

// Config says how many workers run, and how they wait.
type Config struct {
	// Count is the number of workers, each on its own thread and core.
	Count int `toml:"count"`
	// Cores are the cores to pin the workers to. Empty: the cores that the
	// process may use, in turn, beginning with the switch's id so that several
	// small switches on one machine spread.
	Cores []int `toml:"cores"`
	// Pin is whether workers are pinned to their cores.
	Pin bool `toml:"pin"`
	// Poll is how an idle worker waits: "busy", "adaptive" or "interrupt".
	Poll string `toml:"poll"`
	// SpinRounds is how many empty rounds an adaptive worker makes before it
	// sleeps in poll until a packet arrives.
	SpinRounds int `toml:"spin_rounds"`
	// HandoffRing is the number of packets in each ring between two workers, a
	// power of two.
	HandoffRing int `toml:"handoff_ring"`
	// BackgroundNice is by how much the nice value of the switch's threads that are no workers is higher than the
	// workers', 0 to 19: workers go first on a core that they share with what makes records and answers.
	BackgroundNice int `toml:"background_nice"`
}

// How to wait for packets.
const (
	PollBusy      = "busy"      // never sleeps
	PollAdaptive  = "adaptive"  // spins, then sleeps
	PollInterrupt = "interrupt" // sleeps whenever a round was empty
)

// DefaultConfig returns one pinned worker that spins, then sleeps.
func DefaultConfig() Config {
	return Config{Count: 1, Pin: true, Poll: PollAdaptive, SpinRounds: 64, HandoffRing: 2048, BackgroundNice: 10}
}

// maxWorkers bounds Count; beyond it rings between all pairs get too many.
const maxWorkers = 64

// Validate reports all faults, each beginning with its key.
func (c *Config) Validate() error {
	var errs []error
	if c.Count < 1 || c.Count > maxWorkers {
		errs = append(errs, fmt.Errorf("count: %d workers: choose 1 to %d", c.Count, maxWorkers))
	}
	if len(c.Cores) != 0 && len(c.Cores) < c.Count {
		errs = append(errs, fmt.Errorf("cores: %d named for %d workers: name one for each, or leave the key out", len(c.Cores), c.Count))
	}
	if c.BackgroundNice < 0 || c.BackgroundNice > maxNice {
		errs = append(errs, fmt.Errorf("background_nice: %d: choose 0 to %d", c.BackgroundNice, maxNice))
	}
	seen := map[int]bool{}
	for i, core := range c.Cores {
		if core < 0 {
			errs = append(errs, fmt.Errorf("cores[%d]: core %d: cores count from 0", i, core))
		}
		if seen[core] {
			errs = append(errs, fmt.Errorf("cores[%d]: core %d is named twice: two workers on one core starve each other", i, core))
		}
		seen[core] = true
	}
	switch c.Poll {
	case PollBusy, PollAdaptive, PollInterrupt:
	default:
		errs = append(errs, fmt.Errorf("poll: %q: choose %q, %q or %q", c.Poll, PollBusy, PollAdaptive, PollInterrupt))
	}
	if c.SpinRounds < 0 {
		errs = append(errs, fmt.Errorf("spin_rounds: %d: choose 0 or more", c.SpinRounds))
	}
	if c.HandoffRing < 64 || c.HandoffRing > 1<<16 || c.HandoffRing&(c.HandoffRing-1) != 0 {
		errs = append(errs, fmt.Errorf("handoff_ring: %d: choose a power of two from 64 to 65536", c.HandoffRing))
	}
	return errors.Join(errs...)
}
