package oblivious

import (
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// Samplers are the configurations of the sampler of packets, and of that of flows,
// as the stage has them, of a valid Config.
func (c *Config) Samplers(family hash.Family) (main, flows oblivious.Config) {
	return c.samplers(family)
}
