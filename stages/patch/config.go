package patch

import (
	"errors"
	"fmt"
	"slices"
)

// Config is the stage's section of the configuration, [stages.patch].
type Config struct {
	// Pairs are the names of the ports that are joined, both ways. A port
	// is in one pair at most.
	Pairs [][2]string `toml:"pairs"`
}

// DefaultConfig returns a patch panel without cords: it drops everything.
func DefaultConfig() Config { return Config{} }

// Validate reports all faults of the configuration for a switch with the named
// ports, joined. Each begins with the key inside the stage's section.
func (c *Config) Validate(ports []string) error {
	var errs []error
	first := map[string]int{} // the pair that named the port first
	for i, pair := range c.Pairs {
		for side, name := range pair {
			if !slices.Contains(ports, name) {
				errs = append(errs, fmt.Errorf("pairs[%d]: port %q is not defined: define [[port]] name = %q or correct the name", i, name, name))
				continue
			}
			if side == 1 && name == pair[0] {
				errs = append(errs, fmt.Errorf("pairs[%d]: port %q is paired with itself: name two ports", i, name))
				continue
			}
			if before, ok := first[name]; ok {
				errs = append(errs, fmt.Errorf("pairs[%d]: port %q is already in pairs[%d]: a port is in one pair at most, use l2 to join more than two", i, name, before))
				continue
			}
			first[name] = i
		}
	}
	return errors.Join(errs...)
}
