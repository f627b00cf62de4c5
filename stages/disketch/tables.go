package disketch

import (
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
)

// FragmentConfig is the configuration of a fragment on the switch with the given
// id and hash family, as the stage itself has it, of a valid Config.
func (c *Config) FragmentConfig(i int, id uint32, family hash.Family) disketch.Config {
	f := c.Fragments[i].withDefaults()
	return f.config(disketch.ID{Switch: uint64(id), Sketch: uint16(i)}, c.epochs(), c.Seed, family)
}

// Hosts says of each named port whether there is no other switch behind it.
func (c *Config) Hosts(names []string) []bool { return c.ports(names).host }

// WithDefaults returns the fragment with its defaults filled in.
func (f Fragment) WithDefaults() Fragment { return f.withDefaults() }
