package lds

import (
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
)

// Sketch is the shape of the stage's points, of a valid Config.
func (c *Config) Sketch(family hash.Family) lds.Config { return c.sketch(family) }

// Points are the numbers of the measured ports among those of the names, ascending.
func (c *Config) Points(names []string) ([]int, error) {
	compiled, err := c.compile(names)
	return compiled.ports, err
}
