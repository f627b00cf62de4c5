package ttlguard

import "fmt"

// Config is the stage's section of the configuration, [stages.example_ttlguard].
type Config struct {
	// MinTTL is the lowest TTL or hop limit that passes, 1 to 255.
	MinTTL int `toml:"min_ttl"`
}

// DefaultConfig returns a stage that drops only packets with a TTL of 0.
func DefaultConfig() Config { return Config{MinTTL: 1} }

// Validate reports what is wrong with the configuration of a switch with the named ports.
func (c *Config) Validate([]string) error {
	if c.MinTTL < 1 || c.MinTTL > 255 {
		return fmt.Errorf("min_ttl = %d: choose 1 to 255", c.MinTTL)
	}
	return nil
}
