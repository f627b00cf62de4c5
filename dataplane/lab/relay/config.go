package relay

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config describes a relay, as JSON.
type Config struct {
	Name string `json:"name"`
	// Ports are the two interfaces.
	Ports []string `json:"ports"`
	// Seed of delays and losses.
	Seed uint64 `json:"seed"`
	// Classes of packets; those of none are as Rest says, or pass at once.
	Classes []Class `json:"classes"`
	// Rest is what is done to all other packets, of any protocol; nil: they pass at once.
	Rest *Class `json:"rest,omitempty"`
	// RateBits is how many bits per second pass in each direction, of frames without FCS; 0: no bound. Up to
	// maxQueue frames wait for it, and what comes beyond is dropped.
	RateBits uint64 `json:"rate_bits,omitempty"`
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

// Bounds of a relay's queue: maxDelay of delays, and maxQueue of frames that wait for its rate.
const (
	maxDelay = 10 * time.Second
	maxQueue = 1000
)

// Validate reports all faults of a class, each beginning with its key.
func (c *Class) Validate() error {
	var faults []error
	fail := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Ports) != 2 || c.Ports[0] < 0 || c.Ports[1] < c.Ports[0] || c.Ports[1] > 65535 {
		fail("ports: %v: give the first and the last destination port, up to 65535", c.Ports)
	}
	return errors.Join(append(faults, c.ValidateFate("drop"))...)
}

// ValidateFate reports all faults of what is done to packets, each beginning with its key. drop is the key of the share
// that is lost.
func (c *Class) ValidateFate(drop string) error {
	var faults []error
	fail := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Delay < 0 || c.Delay > maxDelay {
		fail("delay: %v: choose 0s to %v", c.Delay, maxDelay)
	}
	if c.Jitter < 0 || c.Jitter > c.Delay {
		fail("jitter: %v: choose 0s up to the delay, %v", c.Jitter, c.Delay)
	}
	if !(c.Drop >= 0 && c.Drop <= 1) {
		fail("%s: %g: choose a share from 0 to 1", drop, c.Drop)
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
	if c.Rest != nil {
		if err := c.Rest.ValidateFate("drop"); err != nil {
			faults = append(faults, fmt.Errorf("rest: %w", err))
		}
	}
	return errors.Join(faults...)
}

// all are the classes, and behind them the one of all other packets, if there is any.
func (c *Config) all() []Class {
	if c.Rest == nil {
		return c.Classes
	}
	rest := *c.Rest
	rest.Ports = []int{0, 65535}
	return append(slices.Clone(c.Classes), rest)
}

// class is the class of a destination port; -1: none.
func (c *Config) class(port uint16) int {
	for i := range c.Classes {
		if p := c.Classes[i].Ports; int(port) >= p[0] && int(port) <= p[1] {
			return i
		}
	}
	if c.Rest != nil {
		return len(c.Classes)
	}
	return -1
}
