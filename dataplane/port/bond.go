package port

import (
	"net"
	"slices"
)

// The modes of a bond.
const (
	BondActiveBackup = "active-backup"
	BondBalanceXOR   = "balance-xor"
	BondLACP         = "lacp"
)

// Of what a bond chooses a flow's member.
const (
	BondLayer34 = "layer3+4"
	BondLayer23 = "layer2+3"
	BondLayer2  = "layer2"
)

// How often LACPDUs shall come.
const (
	LACPSlow = "slow"
	LACPFast = "fast"
)

// maxMembers bounds a bond: more links between two switches are rare, and bonds of them rarer.
const maxMembers = 16

// MaxSystemPriority is also the default of system_priority, with which the other side decides if it was given another one.
const MaxSystemPriority = 1<<16 - 1

// validateBond reports the faults of a bond. What says something about a device is refused rather than ignored.
func (c *Config) validateBond(fault func(string, ...any)) {
	for _, k := range []struct {
		key string
		set bool
	}{
		{"interface", c.Interface != ""}, {"socket", c.Socket != ""}, {"queues", c.Queues != 0}, {"mtu", c.MTU != 0},
		{"tx_budget", c.TXBudget != 0}, {"busy_poll", c.BusyPoll != 0}, {"rate_bits", c.RateBits != 0}, {"queue_packets", c.QueuePackets != 0}, {"class", len(c.Classes) != 0},
		{"jumbo", c.Jumbo}, {"rss", c.RSS != RSSKeep}, {"optional", c.Optional}, {"keep", len(c.Keep) != 0},
	} {
		if k.set {
			fault("%s: a bond has no device: remove it, or set it at its members", k.key)
		}
	}
	if c.Disabled {
		fault("disabled: a bond has no device to leave to the kernel: disable its members")
	}
	c.validateMemif(fault)
	c.validateTags(fault)
	if c.Name == "" {
		fault("name: missing: name the port, as in \"bond0\"")
	}
	if len(c.Members) == 0 {
		fault("members: missing: name the ports that the bond joins")
	}
	if len(c.Members) > maxMembers {
		fault("members: %d ports: a bond has %d at most", len(c.Members), maxMembers)
	}
	mode := c.Mode
	known := mode == BondActiveBackup || mode == BondBalanceXOR || mode == BondLACP
	if !known {
		fault("mode: %q: choose %q, %q or %q", mode, BondActiveBackup, BondBalanceXOR, BondLACP)
	}
	if h := c.Hash; h != "" && h != BondLayer34 && h != BondLayer23 && h != BondLayer2 {
		fault("hash: %q: choose %q, %q or %q", h, BondLayer34, BondLayer23, BondLayer2)
	} else if h != "" && mode == BondActiveBackup {
		fault("hash: a bond with mode = %q uses one member: remove it, or use another mode", mode)
	}
	if c.LACPRate != "" && c.LACPRate != LACPSlow && c.LACPRate != LACPFast {
		fault("lacp_rate: %q: choose %q or %q", c.LACPRate, LACPSlow, LACPFast)
	}
	if mode != BondLACP && known {
		for _, k := range []struct {
			key string
			set bool
		}{{"lacp_rate", c.LACPRate != ""}, {"system_priority", c.SystemPriority != 0}, {"mac", c.MAC != ""}} {
			if k.set {
				fault("%s: a bond with mode = %q has no LACP: remove it, or use mode = %q", k.key, mode, BondLACP)
			}
		}
	}
	if c.SystemPriority < 0 || c.SystemPriority > MaxSystemPriority {
		fault("system_priority: %d: choose 1 to %d, or 0 for %[2]d", c.SystemPriority, MaxSystemPriority)
	}
	if c.MinLinks < 0 || len(c.Members) != 0 && c.MinLinks > len(c.Members) {
		fault("min_links: %d of %d members: choose 1 to %[2]d, or 0 for 1", c.MinLinks, len(c.Members))
	} else if c.MinLinks > 1 && mode == BondActiveBackup {
		fault("min_links: a bond with mode = %q uses one member: remove it, or use another mode", mode)
	}
	if c.Primary != "" && mode != BondActiveBackup && known {
		fault("primary: a bond with mode = %q uses all members: remove it, or use mode = %q", mode, BondActiveBackup)
	} else if c.Primary != "" && !slices.Contains(c.Members, c.Primary) {
		fault("primary: %q is no member: name one of members", c.Primary)
	}
	if c.MAC != "" {
		if hw, err := net.ParseMAC(c.MAC); err != nil || len(hw) != 6 || hw[0]&1 != 0 {
			fault("mac: %q is no MAC address of a station: write six bytes, as in \"02:00:00:00:00:01\"", c.MAC)
		}
	}
}

// validateMembers refuses the keys that bonds alone have.
func (c *Config) validateMembers(fault func(string, ...any)) {
	for _, k := range []struct {
		key string
		set bool
	}{
		{"members", len(c.Members) != 0}, {"hash", c.Hash != ""}, {"lacp_rate", c.LACPRate != ""}, {"min_links", c.MinLinks != 0},
		{"primary", c.Primary != ""}, {"system_priority", c.SystemPriority != 0},
	} {
		if k.set {
			fault("%s: the driver %s has none: remove it, or use driver = %q", k.key, c.Driver, DriverBond)
		}
	}
}
