package oblivious

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// Config is the stage's section of the configuration, [stages.oblivious].
type Config struct {
	// Kind is "nwps", "uwra" or "dus" (packets only).
	Kind string `toml:"kind"`
	// Unit is what is sampled evenly: "bytes", "packets", or "both", which is for answers in either. Each sample
	// estimates both.
	Unit string `toml:"unit"`
	// Size is the entries of a sample, chi.
	Size int `toml:"size"`
	// Gamma is the room beyond Size as a share of it.
	Gamma float64 `toml:"gamma"`
	// EpochBits: an epoch lasts 2^EpochBits ns; 30 is 1.07 s.
	EpochBits int `toml:"epoch_bits"`
	// Seed of the samples.
	Seed uint64 `toml:"seed"`
	// Key is what a flow is: "5-tuple", "src", "dst" or "src-dst".
	Key string `toml:"key"`
	// Prefix4 and Prefix6 are the bits of an IPv4 and an IPv6 address that the
	// key keeps.
	Prefix4 int `toml:"prefix4"`
	Prefix6 int `toml:"prefix6"`
	// Flows adds a sample of flows, for their number. It costs a key and its hash
	// per packet.
	Flows bool `toml:"flows"`
}

// The bounds of a Config.
const (
	// MaxSize keeps a sample within a record.
	MaxSize = 1_000_000
	// MinGamma keeps the maintenance of a sample, which looks at all of its entries,
	// to one in a hundredth as many.
	MinGamma     = 0.01
	MaxGamma     = 4
	MinEpochBits = 24 // 17 ms
	MaxEpochBits = 42 // 73 minutes
)

var keyKinds = []string{"5-tuple", "src", "dst", "src-dst"}

// DefaultConfig samples ten thousand packets per second or so, by their bytes.
func DefaultConfig() Config {
	return Config{
		Kind: "nwps", Unit: "bytes", Size: 10_000, Gamma: oblivious.DefaultGamma, EpochBits: 30,
		Key: "5-tuple", Prefix4: 32, Prefix6: 128,
	}
}

// Validate reports all faults of the configuration, joined. Each begins with
// the key inside the stage's section. The ports are not used.
func (c *Config) Validate([]string) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	kind, err := oblivious.ParseKind(c.Kind)
	if err != nil {
		fail("kind = %q: choose \"nwps\", \"uwra\" or \"dus\"", c.Kind)
	}
	if c.Unit != "bytes" && c.Unit != "packets" && c.Unit != "both" {
		fail("unit = %q: choose \"bytes\", \"packets\" or \"both\"", c.Unit)
	} else if c.Unit == "both" && kind != oblivious.NWPS && err == nil {
		fail("unit = \"both\": %v does not sample so; choose kind \"nwps\", or unit \"bytes\" or \"packets\"", kind)
	} else if kind == oblivious.DUS && c.Unit == "bytes" {
		fail("unit = \"bytes\": dus samples packets only; choose unit = \"packets\", or kind \"nwps\" or \"uwra\"")
	}
	if c.Size < oblivious.MinSize || c.Size > MaxSize {
		fail("size = %d: choose %d to %d entries", c.Size, oblivious.MinSize, MaxSize)
	}
	if !(c.Gamma >= MinGamma && c.Gamma <= MaxGamma) {
		fail("gamma = %g: choose a share from %g to %g", c.Gamma, MinGamma, float64(MaxGamma))
	}
	if c.EpochBits < MinEpochBits || c.EpochBits > MaxEpochBits {
		fail("epoch_bits = %d: choose %d to %d; an epoch lasts 2^epoch_bits ns", c.EpochBits, MinEpochBits, MaxEpochBits)
	}
	if !slices.Contains(keyKinds, c.Key) {
		fail("key = %q: choose \"5-tuple\", \"src\", \"dst\" or \"src-dst\"", c.Key)
	}
	if c.Prefix4 < 0 || c.Prefix4 > 32 {
		fail("prefix4 = %d: choose 0 to 32 bits", c.Prefix4)
	}
	if c.Prefix6 < 0 || c.Prefix6 > 128 {
		fail("prefix6 = %d: choose 0 to 128 bits", c.Prefix6)
	}
	return errors.Join(errs...)
}

// samplers returns the configurations of the two samplers, of a valid Config on a switch of a
// hash family.
func (c *Config) samplers(family hash.Family) (main, flows oblivious.Config) {
	main = oblivious.Config{Size: c.Size, Gamma: c.Gamma, Seed: c.Seed, Hash: family, Unit: oblivious.Packets}
	flows = main
	flows.Kind, flows.Unit = oblivious.DUS, oblivious.Flows
	main.Kind, _ = oblivious.ParseKind(c.Kind)
	switch c.Unit {
	case "bytes":
		main.Unit = oblivious.Bytes
	case "both":
		main.Unit = oblivious.Both
	}
	return main, flows
}
