package relay

import (
	"errors"
	"fmt"
	"time"
)

// Config describes a relay, as JSON.
type Config struct {
	Name string `json:"name"`
	// Ports are the two interfaces.
	Ports []string `json:"ports"`
	// Seed of delays and losses.
	Seed uint64 `json:"seed"`
	// Classes of packets; those of none pass at once.
	Classes []Class `json:"classes"`
	// Truth is the file to which the relay writes what it did to each flow, a [Truth],
	// when it ends; empty: none.
	Truth string `json:"truth"`
}

// Class is what is done to packets of some destination ports.
type Class struct {
	// Ports are the first and the last destination port, of UDP or TCP.
	Ports []int `json:"ports" toml:"ports"`
	// Delay is the mean, and Jitter how far a packet's delay may be from it, either
	// way, evenly.
	Delay  time.Duration `json:"delay" toml:"delay"`
	Jitter time.Duration `json:"jitter" toml:"jitter"`
	// Drop is the share of packets that are lost, from 0 to 1.
	Drop float64 `json:"drop" toml:"drop"`
}

// maxDelay bounds delays, and with them the queue.
const maxDelay = 10 * time.Second

// Validate reports all faults of a class, each beginning with its key.
func (c *Class) Validate() error {
	var faults []error
	fail := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Ports) != 2 || c.Ports[0] < 0 || c.Ports[1] < c.Ports[0] || c.Ports[1] > 65535 {
		fail("ports: %v: give the first and the last destination port, up to 65535", c.Ports)
	}
	if c.Delay < 0 || c.Delay > maxDelay {
		fail("delay: %v: choose 0s to %v", c.Delay, maxDelay)
	}
	if c.Jitter < 0 || c.Jitter > c.Delay {
		fail("jitter: %v: choose 0s up to the delay, %v", c.Jitter, c.Delay)
	}
	if !(c.Drop >= 0 && c.Drop <= 1) {
		fail("drop: %g: choose a share from 0 to 1", c.Drop)
	}
	return errors.Join(faults...)
}

// Validate reports all faults.
func (c *Config) Validate() error {
	var faults []error
	if len(c.Ports) != 2 {
		faults = append(faults, fmt.Errorf("ports: %d of them: a relay has two", len(c.Ports)))
	}
	for i := range c.Classes {
		if err := c.Classes[i].Validate(); err != nil {
			faults = append(faults, fmt.Errorf("class[%d]: %w", i, err))
		}
	}
	return errors.Join(faults...)
}

// class is the class of a destination port; -1: none.
func (c *Config) class(port uint16) int {
	for i := range c.Classes {
		if p := c.Classes[i].Ports; int(port) >= p[0] && int(port) <= p[1] {
			return i
		}
	}
	return -1
}
