package collect

import (
	"errors"

	"github.com/weirswitch/weir/bench"
)

// Name of the measurement.
const Name = "collect"

// Config says of how large a network the records are, and how often all is repeated.
type Config struct {
	Switches int // 5 to 1000
	Epochs   int // of 2^30 ns, 2 to 10,000
	Flows    int // 10 to 1,000,000
	// Packets of an epoch, in the whole network; each passes five switches. Digests are as many.
	Packets int
	// Rounds over all rows, 1 to 100.
	Rounds int
	Seed   uint64
	// Folder for the server's files; empty: that for temporary files.
	Folder   string
	Progress bench.Progress
}

// DefaultConfig is the network that a collector is measured by: 20 switches over 100 epochs, with samples that are full.
func DefaultConfig() Config {
	return Config{Switches: 20, Epochs: 100, Flows: 20_000, Packets: 50_000, Rounds: 3, Seed: 1}
}

// Shorten makes a run of a minute: fewer packets, so that digests are fewer, and samples not full.
func (c *Config) Shorten() { c.Packets, c.Rounds = 10_000, 2 }

// Validate reports all faults at once.
func (c *Config) Validate() error {
	return errors.Join(
		bench.Within("switches", c.Switches, hops, 1000), bench.Within("epochs", c.Epochs, 2, 10_000), bench.Within("flows", c.Flows, 10, 1_000_000),
		bench.Within("packets", c.Packets, 100, 10_000_000), bench.Within("rounds", c.Rounds, 1, 100),
	)
}
