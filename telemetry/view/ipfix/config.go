package ipfix

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Config is the section [ipfix] of the collector's configuration.
type Config struct {
	// Target is where messages go, as "udp://192.0.2.1:4739" or "tcp://collector:4739"; without a scheme:
	// over UDP; empty: nothing is exported.
	Target string `toml:"target"`
	// Interval is how long the windows are of which heavy flows are exported. It is rounded up to a
	// power of two in nanoseconds: then no epoch of the switches lies in two windows, and no packet is
	// counted twice.
	Interval time.Duration `toml:"interval"`
	// Delay is how long the end of a window must be past before it is asked about, so that the records of all
	// switches are there.
	Delay time.Duration `toml:"delay"`
	// Theta is the share of the network's packets, or bytes, from which on a flow is exported.
	Theta float64 `toml:"theta"`
	// Domain is the observation domain; 0 means the whole network.
	Domain uint32 `toml:"domain"`
	// Templates is how often templates are sent again over UDP.
	Templates time.Duration `toml:"templates"`
	// MTU bounds UDP's packets, their IP header included; 0: what the kernel knows of the path.
	MTU int `toml:"mtu"`
}

// The bounds of a Config.
const (
	MinInterval  = time.Second
	MaxInterval  = 24 * time.Hour
	MinTemplates = time.Second
	MaxTemplates = 10 * time.Minute
	MinMTU       = 512 // RFC 7011, 10.3.3: where the path's MTU is not known
	MaxMTU       = 65535
)

// DefaultConfig exports nothing, for want of a target.
func DefaultConfig() Config {
	return Config{Interval: time.Minute, Delay: 5 * time.Second, Theta: 0.001, Templates: time.Minute}
}

// Validate reports all faults of the configuration, joined. Each begins with the key inside
// the section.
func (c *Config) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Target != "" {
		if _, _, err := parseTarget(c.Target); err != nil {
			fail("target: %q: %w: write it as \"udp://192.0.2.1:4739\" or \"tcp://192.0.2.1:4739\"", c.Target, err)
		}
	}
	if c.Interval < MinInterval || c.Interval > MaxInterval {
		fail("interval: %v: choose %v to %v", c.Interval, MinInterval, MaxInterval)
	}
	if c.Delay < 0 || c.Delay > time.Hour {
		fail("delay: %v: choose 0s to %v", c.Delay, time.Hour)
	}
	if !(c.Theta > 0 && c.Theta <= 1) {
		fail("theta: %g: choose a share above 0, up to 1", c.Theta)
	}
	if c.Templates < MinTemplates || c.Templates > MaxTemplates {
		fail("templates: %v: choose %v to %v", c.Templates, MinTemplates, MaxTemplates)
	}
	if c.MTU != 0 && (c.MTU < MinMTU || c.MTU > MaxMTU) {
		fail("mtu: %d: choose 0 (the path's) or %d to %d bytes", c.MTU, MinMTU, MaxMTU)
	}
	return errors.Join(errs...)
}

// parseTarget splits a target into network and address, as net.Dial has them.
func parseTarget(target string) (network, address string, err error) {
	if !strings.Contains(target, "://") {
		target = "udp://" + target
	}
	u, err := url.Parse(target)
	if err != nil {
		return "", "", errors.New("it is no address")
	}
	if u.Scheme != "udp" && u.Scheme != "tcp" {
		return "", "", errors.New("it begins neither with udp:// nor with tcp://")
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil || host == "" || port == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		return "", "", errors.New("it is not a host and a port")
	}
	return u.Scheme, u.Host, nil
}
