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

// Masks are what of addresses is in a key, zero for what is not: of IPv4, and of IPv6 in two words.
type Masks struct {
	Src4, Dst4 uint64
	Src6, Dst6 [2]uint64
}

// AddressMasks are those of the fragment's key; false: it is the 5-tuple.
func (f *Fragment) AddressMasks() (Masks, bool) {
	k := f.newKeyer(hash.CRC)
	return Masks{
		Src4: k.mask4[0] >> 32, Dst4: k.mask4[2] >> 32,
		Src6: [2]uint64(k.mask6[:2]), Dst6: [2]uint64(k.mask6[2:]),
	}, !k.tuple
}
