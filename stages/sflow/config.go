package sflow

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/sflow"
)

// Config is the stage's section of the configuration, [stages.sflow].
type Config struct {
	// Collectors are where datagrams go, as in "192.0.2.9:6343", up to 4. They cannot change while the switch runs.
	Collectors []string `toml:"collectors"`
	// Agent is the IP address that names the switch to collectors; default: the host's own address to the first of them.
	Agent string `toml:"agent"`
	// HeaderBytes is how much of each sampled packet is sent, 64 to 256.
	HeaderBytes int `toml:"header_bytes"`
	// CounterInterval is how often the counters of each port are sent, 1 s to 1 h; 0: never.
	CounterInterval time.Duration `toml:"counter_interval"`
	// Ports are those whose packets are sampled.
	Ports []Port `toml:"port"`
}

// Port is a sampled port, [[stages.sflow.port]].
type Port struct {
	Port  string `toml:"port"`   // where packets arrive
	OneIn int    `toml:"one_in"` // one packet in so many is sampled, 1 to 16,777,216
}

// Bounds of the configuration.
const (
	maxCollectors = 4
	maxOneIn      = 1 << 24
	minHeader     = 64
	maxInterval   = time.Hour
)

// DefaultConfig samples nothing.
func DefaultConfig() Config {
	return Config{HeaderBytes: 128, CounterInterval: 30 * time.Second}
}

// Validate reports all faults of the configuration for a switch with the named ports, joined. Each begins with the key inside the stage's
// section.
func (c *Config) Validate(ports []string) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Collectors) > maxCollectors {
		fail("collectors: %d: name %d at most", len(c.Collectors), maxCollectors)
	}
	for i, text := range c.Collectors {
		if a, err := netip.ParseAddrPort(text); err != nil || a.Port() == 0 || a.Addr().IsUnspecified() {
			fail("collectors[%d]: %q: write an IP address and a port, as in \"192.0.2.9:6343\" or \"[2001:db8::9]:6343\"", i, text)
		}
	}
	if c.Agent != "" {
		if a, err := netip.ParseAddr(c.Agent); err != nil || a.Zone() != "" || a.Is4In6() {
			fail("agent: %q is no IP address: write one, as in \"192.0.2.1\"", c.Agent)
		}
	}
	if c.HeaderBytes < minHeader || c.HeaderBytes > sflow.MaxHeader {
		fail("header_bytes: %d is out of range: choose %d to %d", c.HeaderBytes, minHeader, sflow.MaxHeader)
	}
	if c.CounterInterval != 0 && (c.CounterInterval < time.Second || c.CounterInterval > maxInterval) {
		fail("counter_interval: %v is out of range: choose 1s to %v, or 0s for no counters", c.CounterInterval, maxInterval)
	}
	first := map[string]int{}
	for i := range c.Ports {
		p := &c.Ports[i]
		if p.Port == "" || !slices.Contains(ports, p.Port) {
			fail("port[%d].port: %w", i, pipeline.UndefinedPort(p.Port))
		} else if before, ok := first[p.Port]; ok {
			fail("port[%d].port: port %q is port[%d] already: keep one", i, p.Port, before)
		} else {
			first[p.Port] = i
		}
		if p.OneIn < 1 || p.OneIn > maxOneIn {
			fail("port[%d].one_in: %d: choose 1 to %d", i, p.OneIn, maxOneIn)
		}
	}
	return errors.Join(errs...)
}
