package config

import (
	"fmt"
	"os"
)

// LoadFor is Load for a use that not every good configuration is good for. check
// says what is wrong with one for that use, as Validate methods do: errors joined, each
// beginning with its key, here the full one. It is not called for a configuration
// that has faults of its own.
func LoadFor(path string, check func(*Config) error) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w: name a readable TOML file", err)
	}
	c, f := read(data)
	if c != nil {
		f.addAll("", check(c))
	}
	if len(f.list) != 0 {
		return nil, f.err(path)
	}
	return c, nil
}
