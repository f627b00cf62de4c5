package live

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/telemetry/export"
)

// Config says how large the network is and how long it is measured.
type Config struct {
	// Switches of the network, in rows of five.
	Switches int
	// Budget of each, as in [telemetry]; 0: none.
	Budget export.ByteRate
	// EpochBits of all stages: records are of 2^EpochBits ns.
	EpochBits int
	// Packets per second that enter the whole network; each passes five switches.
	Packets int
	// Flows of a row.
	Flows int
	// Length is for how long records are made.
	Length time.Duration
	// Publishers are the processes among which the switches are divided.
	Publishers int
	// StoreBytes is the memory of a collector for records.
	StoreBytes int64
	Seed       uint64
	// Folder for the files of servers, spools and collectors; empty: one for temporary files.
	Folder string
	// Program is weir, which servers, collectors and publishers run.
	Program  string
	Progress bench.Progress `json:"-"`
}

// rowSwitches is how many switches a packet passes.
const rowSwitches = 5

// DefaultConfig is a network of twenty switches for a minute, within a quarter of the default budget.
func DefaultConfig() Config {
	return Config{Switches: 20, Budget: 250e3, EpochBits: 30, Packets: 10_000, Flows: 200, Length: time.Minute, Publishers: 1, StoreBytes: 1 << 30, Seed: 1}
}

// ErrRoom says that the folder is not there, or has no room for the records.
var ErrRoom = errors.New("--folder")

// room checks that a folder has the room for all that a run writes.
func (c *Config) room(folder string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return fmt.Errorf("%w: %w: make it, or name another one", ErrRoom, err)
	}
	rate := float64(c.Budget)
	if rate == 0 {
		rate = noBudget
	}
	need := 1.2 * replicas * rate * float64(c.Switches) * c.Length.Seconds()
	if free := float64(s.Bavail) * float64(s.Bsize); free < need {
		return fmt.Errorf("%w: %s has %.1f GB free, and the records may take %.1f GB, in %d copies: name another one, or choose a shorter --length or a smaller --budget", ErrRoom, folder, free/1e9, need/1e9, replicas)
	}
	return nil
}

// noBudget is about what a switch of this network makes per second where nothing bounds it.
const noBudget = 1e6

// Validate reports all faults at once.
func (c *Config) Validate() error {
	errs := []error{
		bench.Within("switches", c.Switches, rowSwitches, 10_000), bench.Within("epoch-bits", c.EpochBits, 26, 36), bench.Within("packets", c.Packets, 100, 10_000_000),
		bench.Within("flows", c.Flows, 20, 10_000), bench.Within("publishers", c.Publishers, 1, 16),
	}
	if c.Switches%rowSwitches != 0 {
		errs = append(errs, fmt.Errorf("switches: %d are no rows of %d: choose a multiple", c.Switches, rowSwitches))
	}
	if c.Publishers*rowSwitches > c.Switches {
		errs = append(errs, fmt.Errorf("publishers: %d have no row of %d switches each", c.Publishers, rowSwitches))
	}
	if c.Length < 10*time.Second || c.Length > time.Hour {
		errs = append(errs, fmt.Errorf("length: %v is not between 10s and 1h", c.Length))
	}
	t := export.DefaultConfig()
	t.Budget = c.Budget
	return errors.Join(append(errs, t.Validate())...)
}
