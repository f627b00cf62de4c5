package lldp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/weirswitch/weir/pipeline"
)

// What a port does.
const (
	Both    = "both"
	Send    = "send"
	Receive = "receive"
)

// Config is the stage's section of the configuration, [stages.lldp].
type Config struct {
	// Interval is how often each port sends, from 1 s to 1 h.
	Interval time.Duration `toml:"interval"`
	// Hold is for how many intervals neighbours are to believe what was sent, from 1 to 100. Its product with Interval is 65,535 s at most.
	Hold int `toml:"hold"`
	// Neighbours is how many each port has at most, from 1 to 1,024.
	Neighbours int `toml:"neighbours"`
	// Description is the system description that is sent, up to 255 bytes.
	Description string `toml:"description"`
	// Management are IP addresses at which the switch is managed, up to 4.
	Management []string `toml:"management"`
	// Ports are those that send or receive.
	Ports []Port `toml:"port"`
}

// Port is a port with LLDP, [[stages.lldp.port]].
type Port struct {
	// Port is the port's name. It is no subinterface and no routed interface: LLDP is of cables.
	Port string `toml:"port"`
	// Mode is "both", which is the default, "send" or "receive".
	Mode string `toml:"mode"`
	// Description is that of the port, up to 255 bytes; default: its name.
	Description string `toml:"description"`
}

// Bounds of the configuration.
const (
	minInterval   = time.Second
	maxInterval   = time.Hour
	maxHold       = 100
	maxNeighbours = 1024
	maxText       = 255 // of a string in a TLV (802.1AB, 8.5)
	maxAddresses  = 4
	maxTTL        = 65535
)

// DefaultConfig has the times that the standard recommends, and no port.
func DefaultConfig() Config {
	return Config{Interval: 30 * time.Second, Hold: 4, Neighbours: 8, Description: "Weir, a software switch"}
}

// Validate reports all faults of the configuration for a switch with the named ports, joined. Each begins with the key inside the stage's
// section.
func (c *Config) Validate(ports []string) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Interval < minInterval || c.Interval > maxInterval {
		fail("interval: %v is out of range: choose %v to %v", c.Interval, minInterval, maxInterval)
	}
	if c.Hold < 1 || c.Hold > maxHold {
		fail("hold: %d is out of range: choose 1 to %d", c.Hold, maxHold)
	} else if ttl := c.ttl(); ttl > maxTTL {
		fail("hold: %d intervals are %d s: choose so many that they are %d s at most", c.Hold, ttl, maxTTL)
	}
	if c.Neighbours < 1 || c.Neighbours > maxNeighbours {
		fail("neighbours: %d is out of range: choose 1 to %d", c.Neighbours, maxNeighbours)
	}
	if len(c.Description) > maxText {
		fail("description: %d bytes: write %d at most", len(c.Description), maxText)
	}
	if len(c.Management) > maxAddresses {
		fail("management: %d addresses: name %d at most", len(c.Management), maxAddresses)
	}
	for i, text := range c.Management {
		if a, err := netip.ParseAddr(text); err != nil || a.Zone() != "" || a.Is4In6() {
			fail("management[%d]: %q is no IP address: write one, as in \"192.0.2.1\" or \"2001:db8::1\"", i, text)
		}
	}
	first := map[string]int{}
	for i := range c.Ports {
		p := &c.Ports[i]
		if p.Port == "" || !slices.Contains(ports, p.Port) {
			fail("port[%d].port: %w", i, pipeline.UndefinedPort(p.Port))
		} else if before, ok := first[p.Port]; ok {
			fail("port[%d].port: port %q is port[%d] already: join the two", i, p.Port, before)
		} else {
			first[p.Port] = i
		}
		if p.Mode != "" && p.Mode != Both && p.Mode != Send && p.Mode != Receive {
			fail("port[%d].mode: %q: choose %q, %q or %q", i, p.Mode, Both, Send, Receive)
		}
		if len(p.Description) > maxText {
			fail("port[%d].description: %d bytes: write %d at most", i, len(p.Description), maxText)
		}
	}
	return errors.Join(errs...)
}

// ttl is the time to live that is sent, in seconds: one more than the product, as the standard has it (9.2.5.22).
func (c *Config) ttl() int {
	return min(int((c.Interval*time.Duration(c.Hold)+time.Second-1)/time.Second)+1, maxTTL+1)
}
