package disketch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Config is the stage's section of the configuration, [stages.disketch].
type Config struct {
	// EpochBits: an epoch lasts 2^EpochBits ns; 30 is 1.07 s.
	EpochBits int `toml:"epoch_bits"`
	// Seed of the network: the same on all switches.
	Seed uint64 `toml:"seed"`
	// HostPorts are the ports behind which there is no other switch; empty: those that
	// [stages.pint] names as edge, if it is in the graph.
	HostPorts []string `toml:"host_ports"`
	// Fragments of sketches that this switch holds.
	Fragments []Fragment `toml:"fragment"`
	// EdgePorts are set by stages.Build, not by a file: see WithEdge.
	EdgePorts []string `toml:"-"`
}

// WithEdge returns the configuration of a switch on which PINT begins and ends at
// the named ports: these are the host ports if it names none itself.
func (c *Config) WithEdge(ports []string) *Config {
	d := *c
	d.EdgePorts = ports
	return &d
}

// Fragment is a [[stages.disketch.fragment]]. An empty or zero value means
// the default.
type Fragment struct {
	// Kind is "countsketch" (the default), "countmin", "univmon", "tower", "conservative", "sumax", "bloom" or "hyperloglog".
	Kind string `toml:"kind"`
	// Key is what a flow is: "5-tuple" (the default), "src", "dst" or "src-dst".
	Key string `toml:"key"`
	// Prefix4 and Prefix6 are the bits of addresses that the key keeps; 0 means
	// all. They do not apply to the 5-tuple.
	Prefix4 int `toml:"prefix4"`
	Prefix6 int `toml:"prefix6"`
	// Unit is "packets" (the default) or "bytes".
	Unit string `toml:"unit"`
	// Memory for one copy of the cells, in bytes; 0 means 128 KiB. Each worker has
	// two copies, and there is one more to merge them.
	Memory int `toml:"memory"`
	// Levels of UnivMon; 0 means 16.
	Levels int `toml:"levels"`
	// Target is the error that all fragments of the sketch aim at; 0: the number of subepochs is what a collector
	// assigns, else each switch chooses its own from its traffic, for paths of Hops switches.
	Target float64 `toml:"target"`
	// Hops is the length of the paths that matter most; 0 means 5.
	Hops int `toml:"hops"`
	// OneSubepoch counts flows between host ports in one subepoch, too, like
	// all others.
	OneSubepoch bool `toml:"one_subepoch"`
	// Candidates is for how many flows a row of cells (of UnivMon each level) has room
	// to remember their keys, so that records name the heavy ones; 0 means 256 (of
	// UnivMon 128, of the kinds bloom and hyperloglog none), -1 for none. Each takes 54 bytes beside Memory, in as many copies.
	Candidates int `toml:"candidates"`
}

// The defaults of a Fragment.
const (
	defaultMemory = 128 << 10
	defaultHops   = 5

	defaultCandidates      = 256
	defaultLevelCandidates = 128
)

// DefaultConfig has one Count Sketch of packets by 5-tuple.
func DefaultConfig() Config {
	return Config{EpochBits: 30, Fragments: []Fragment{Fragment{}.withDefaults()}}
}

func (f Fragment) withDefaults() Fragment {
	or := func(s *string, otherwise string) {
		if *s == "" {
			*s = otherwise
		}
	}
	or(&f.Kind, disketch.CountSketch.String())
	or(&f.Key, "5-tuple")
	or(&f.Unit, "packets")
	if f.Memory == 0 {
		f.Memory = defaultMemory
	}
	if f.Hops == 0 {
		f.Hops = defaultHops
	}
	if f.Candidates == 0 {
		f.Candidates = defaultCandidates
		switch f.Kind {
		case disketch.UnivMon.String():
			f.Candidates = defaultLevelCandidates
		case disketch.Bloom.String(), disketch.HyperLogLog.String():
			f.Candidates = -1
		}
	}
	if f.Prefix4 == 0 {
		f.Prefix4 = 32
	}
	if f.Prefix6 == 0 {
		f.Prefix6 = 128
	}
	return f
}

var keyKinds = []string{"5-tuple", "src", "dst", "src-dst"}

// Validate reports all faults of the configuration for a switch with the named
// ports, joined. Each begins with the key inside the stage's section.
func (c *Config) Validate(ports []string) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := c.epochs().Validate(); err != nil || c.EpochBits < 0 || c.EpochBits > 255 {
		fail("epoch_bits = %d: choose %d (1 ms) to %d (73 min)", c.EpochBits, disketch.MinEpochs, disketch.MaxEpochs)
	}
	for _, name := range c.HostPorts {
		if !slices.Contains(ports, name) {
			fail("host_ports: port %q is not defined: define [[port]] name = %q or correct the name", name, name)
		}
	}
	if len(c.Fragments) == 0 || len(c.Fragments) > 256 {
		fail("fragment: %d of them: define 1 to 256 [[stages.disketch.fragment]]", len(c.Fragments))
	}
	for i := range c.Fragments {
		f := c.Fragments[i].withDefaults()
		for _, err := range f.faults(c.epochs()) {
			fail("fragment[%d].%w", i, err)
		}
	}
	return errors.Join(errs...)
}

func (c *Config) epochs() disketch.Epochs { return disketch.Epochs(max(min(c.EpochBits, 255), 0)) }

// faults of a fragment with its defaults filled in.
func (f *Fragment) faults(epochs disketch.Epochs) (errs []error) {
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	kind, err := disketch.ParseKind(f.Kind)
	if err != nil {
		fail("kind = %q: choose among %s", f.Kind, disketch.KindNames())
		kind = disketch.CountSketch
	}
	if !slices.Contains(keyKinds, f.Key) {
		fail("key = %q: choose \"5-tuple\", \"src\", \"dst\" or \"src-dst\"", f.Key)
	}
	if f.Unit != "packets" && f.Unit != "bytes" {
		fail("unit = %q: choose \"packets\" or \"bytes\"", f.Unit)
	}
	if f.Prefix4 < 0 || f.Prefix4 > 32 {
		fail("prefix4 = %d: choose 1 to 32 bits", f.Prefix4)
	}
	if f.Prefix6 < 0 || f.Prefix6 > 128 {
		fail("prefix6 = %d: choose 1 to 128 bits", f.Prefix6)
	}
	if f.Key == "5-tuple" && (f.Prefix4 != 32 || f.Prefix6 != 128) {
		fail("prefix4 = %d, prefix6 = %d: the key \"5-tuple\" keeps whole addresses: remove them, or choose key = \"src\", \"dst\" or \"src-dst\"", f.Prefix4, f.Prefix6)
	}
	if f.Levels != 0 && kind != disketch.UnivMon {
		fail("levels = %d: only kind = \"univmon\" has levels: remove them", f.Levels)
	}
	if f.Hops < 0 || f.Hops > 64 {
		fail("hops = %d: choose 1 to 64", f.Hops)
	}
	if f.Candidates < -1 {
		fail("candidates = %d: choose -1 (none) or more", f.Candidates)
	}
	// A record takes up to five bytes for each cell.
	if f.Memory > maxMemory {
		fail("memory = %d: a record holds at most %d bytes of cells", f.Memory, maxMemory)
	}
	if epochs.Validate() == nil {
		fc := f.config(disketch.ID{}, epochs, 0, hash.XX)
		fc.Kind = kind
		if err := fc.Validate(); err != nil {
			fail("%w", err)
		}
	}
	return errs
}

// maxMemory keeps an encoded fragment below the 64 MiB of a record.
const maxMemory = 48 << 20

// config is the fragment's, of a valid Fragment with its defaults.
func (f *Fragment) config(id disketch.ID, epochs disketch.Epochs, seed uint64, family hash.Family) disketch.Config {
	kind, _ := disketch.ParseKind(f.Kind)
	c := disketch.Config{
		ID: id, Kind: kind, Memory: f.Memory, Levels: f.Levels, Epochs: epochs, Seed: seed, Hash: family,
		Target: f.Target, SingleHop: !f.OneSubepoch, Candidates: max(f.Candidates, 0),
	}
	if f.Unit == "bytes" {
		c.Unit = disketch.Bytes
	}
	// Subepochs of less than 1 ms would be merged more often than the exporter looks.
	c.MaxLog = uint8(max(min(int(epochs)-20, disketch.MaxLog), 1))
	// Slices come as subepochs do, in epochs that have no other reason for so many: shorter ones than 67 ms are not
	// worth an exporter that is late.
	c.Slices = uint8(max(min(int(epochs)-26, disketch.SliceLog), 0))
	return c
}

// ports marks the host ports among those of the names.
func (c *Config) ports(names []string) *ports {
	p := &ports{names: names, host: make([]bool, len(names))}
	hosts := c.HostPorts
	if len(hosts) == 0 {
		hosts = c.EdgePorts
	}
	for i, name := range names {
		p.host[i] = slices.Contains(hosts, name)
		p.anyHost = p.anyHost || p.host[i]
	}
	return p
}
