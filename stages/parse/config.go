package parse

import "fmt"

// What becomes of malformed packets.
const (
	Forward = "forward" // pass them, as opaque: a cross-connect is transparent
	Drop    = "drop"    // drop them, reason malformed
)

// Config is the stage's section of the configuration, [stages.parse].
type Config struct {
	// Malformed is Forward or Drop.
	Malformed string `toml:"malformed"`
	// Seed is the seed of flow hashes and packet ids. All switches of a network
	// need the same one for packet ids to agree.
	Seed uint64 `toml:"seed"`
	// IPIDCarrier leaves the identification of atomic IPv4 datagrams out of
	// the packet id, because the network's digests travel in it. A stage that
	// writes them there sets it by itself.
	IPIDCarrier bool `toml:"ipid_carrier"`
}

// DefaultConfig returns a transparent parser with seed 0.
func DefaultConfig() Config { return Config{Malformed: Forward} }

// Validate reports all faults of the configuration. Each begins with the key
// inside the stage's section. The ports are not used.
func (c *Config) Validate([]string) error {
	if c.Malformed != Forward && c.Malformed != Drop {
		return fmt.Errorf("malformed = %q: choose %q or %q", c.Malformed, Forward, Drop)
	}
	return nil
}
