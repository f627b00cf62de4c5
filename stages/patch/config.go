package patch

import (
	"errors"
	"fmt"
	"slices"
)

// Config is the stage's section of the configuration, [stages.patch].
type Config struct {
	// Pairs are the names of the ports that are joined, both ways. A port
	// is in one pair at most. Default: the two ports of a switch that has no more.
	Pairs [][2]string `toml:"pairs"`
}

// DefaultConfig returns a configuration without pairs.
func DefaultConfig() Config { return Config{} }

// Complete joins the two ports of a switch that has no more, if no pair is given. With more ports or one, none would
// pass: that is a fault of a file, which begins with its key inside the stage's section.
func (c *Config) Complete(ports []string) error {
	if len(c.Pairs) != 0 {
		return nil
	}
	if len(ports) == 1 {
		return errors.New("pairs: is missing, and a single port has none to be joined with: add another [[port]]")
	}
	if len(ports) != 2 {
		return fmt.Errorf("pairs: is missing, so every packet would be dropped: name the ports that are joined, as in [[%q, %q]], or use l2 to join all",
			name(ports, 0, "p0"), name(ports, 1, "p1"))
	}
	c.Pairs = [][2]string{{ports[0], ports[1]}}
	return nil
}

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

// name is a port's name, or another one if there are fewer ports.
func name(ports []string, i int, other string) string {
	if i < len(ports) && ports[i] != "" {
		return ports[i]
	}
	return other
}
