package policer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/pipeline"
)

// Config is the stage's section of the configuration, [stages.policer].
type Config struct {
	Ports []Port `toml:"port"`
}

// Port is the policer of a port, [[stages.policer.port]].
type Port struct {
	// Port is the port whose arriving packets are policed. A VLAN subinterface without a policer of its own shares that of its parent.
	Port string `toml:"port" was:"name"`
	// RateBits is the rate in bits per second, of packets without FCS.
	RateBits int64 `toml:"rate_bits"`
	// BurstBytes is what may arrive at once; 0 means what the rate gives in
	// 10 ms, and at least for ten full packets.
	BurstBytes int64 `toml:"burst_bytes"`
}

// The bounds of a policer.
const (
	MinRate  = 8_000 // a kilobyte per second
	MaxRate  = 1_000_000_000_000
	MinBurst = 1_514
	MaxBurst = 1 << 32
)

// DefaultConfig polices nothing.
func DefaultConfig() Config { return Config{} }

// Validate reports all faults of the configuration for a switch with the named
// ports, joined. Each begins with the key inside the stage's section.
func (c *Config) Validate(ports []string) error {
	var errs []error
	first := map[string]int{}
	for i := range c.Ports {
		p := &c.Ports[i]
		fail := func(key, format string, args ...any) {
			errs = append(errs, fmt.Errorf("port[%d]."+key+": "+format, append([]any{i}, args...)...))
		}
		if !slices.Contains(ports, p.Port) {
			fail("port", "%w", pipeline.UndefinedPort(p.Port))
		} else if before, ok := first[p.Port]; ok {
			fail("port", "port[%d] polices %q already: leave one of the two out", before, p.Port)
		} else {
			first[p.Port] = i
		}
		if p.RateBits < MinRate || p.RateBits > MaxRate {
			fail("rate_bits", "%d: choose %d to %d bits per second", p.RateBits, MinRate, int64(MaxRate))
		}
		if p.BurstBytes != 0 && (p.BurstBytes < MinBurst || p.BurstBytes > MaxBurst) {
			fail("burst_bytes", "%d: choose %d to %d bytes, or 0 for 10 ms of the rate", p.BurstBytes, MinBurst, int64(MaxBurst))
		}
	}
	return errors.Join(errs...)
}

// burst is the burst in force.
func (p *Port) burst() int64 {
	if p.BurstBytes != 0 {
		return p.BurstBytes
	}
	return max(p.RateBits/8/100, 10*MinBurst)
}
