package port

import (
	"errors"
	"fmt"
	"sync"

	"github.com/weirswitch/weir/pipeline/packet"
)

// The protocols of a VLAN subinterface's outer tag, as ip link names them.
const (
	Protocol8021Q  = "802.1Q"
	Protocol8021ad = "802.1ad"
)

// maxVLAN is the largest VLAN: 4095 is reserved by 802.1Q.
const maxVLAN = 4094

// Virtual is a port without a device: a VLAN subinterface, which the stages vlan and tag make of another port's packets, a routed
// interface of a bridge domain, by which the stages l2 and irb speak to the router, a tunnel, out of and into which the stages tunnel and encap
// bring packets, or a bond, which the stages bond and distribute make of other ports. Its one queue receives nothing and takes nothing.
type Virtual struct {
	mu     sync.Mutex
	config Config
	link   string // why a bond carries no packets; empty if it does
	uses   string // the members that a bond uses, in words
	absence
}

// Deviceless reports whether ports of a driver exist in the switch alone, and can come and go.
func Deviceless(driver string) bool {
	return driver == DriverVLAN || driver == DriverIRB || driver == DriverTunnel || driver == DriverBond
}

// NewVirtual returns the port of a configuration.
func NewVirtual(c Config) *Virtual {
	v := &Virtual{config: c}
	v.disabled = c.Disabled
	return v
}

// Open implements Port.
func (v *Virtual) Open(uint16, int, *packet.Cache) (Queue, error) { return virtualQueue{}, nil }

// Info implements Port. It has the MTU of the port beneath, or of those of its domain, which the node knows, or that which the
// underlay leaves a tunnel, which the stage encap knows; 0 here.
func (v *Virtual) Info() Info {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := Info{Name: v.config.Name, Driver: v.config.Driver, Mode: v.config.virtualMode(), Queues: 1, Up: true, State: StateUp}
	if v.disabled { // until it comes, or as it goes
		i.Up, i.State = false, StateDisabled
		return i
	}
	if i.MAC = v.config.MAC; v.uses != "" {
		i.Mode += ", " + v.uses
	}
	if v.link != "" {
		i.Up, i.State, i.Error = false, StateDown, v.link
	}
	return i
}

// SetLink gives a bond the state that its members leave it: which of them it uses, in words, and why it carries no packets, or nothing.
func (v *Virtual) SetLink(uses, down string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.uses, v.link = uses, down
}

func (c *Config) virtualMode() string {
	switch {
	case c.Driver == DriverBond:
		return "bond, " + c.Mode
	case c.Driver == DriverTunnel:
		return "tunnel"
	case c.Driver == DriverIRB:
		return "routed interface of a bridge domain"
	case c.InnerVLAN != 0:
		return fmt.Sprintf("VLAN %d in %d of %s", c.InnerVLAN, c.VLAN, c.Parent)
	}
	return fmt.Sprintf("VLAN %d of %s", c.VLAN, c.Parent)
}

// Counters implements Port.
func (v *Virtual) Counters() Counters { return Counters{} }

// StopReceive implements Port.
func (v *Virtual) StopReceive() error { return nil }

// Close implements Port.
func (v *Virtual) Close() error { return nil }

// Lost implements Restorable.
func (v *Virtual) Lost() bool { return false }

// Pause implements Restorable.
func (v *Virtual) Pause() error { return nil }

// Detach implements Restorable.
func (v *Virtual) Detach(why error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.disabled = errors.Is(why, ErrDisabled)
	return nil
}

// GiveBack implements Restorable.
func (v *Virtual) GiveBack() error { return nil }

// Restore implements Restorable.
func (v *Virtual) Restore() error { return nil }

// Configure implements Restorable.
func (v *Virtual) Configure(c Config) (before Config) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before = v.config
	v.config, v.disabled = before.with(c), c.Disabled
	return before
}

// Restored implements Restorable.
func (v *Virtual) Restored() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.disabled = false
	return nil
}

// TPID is the type of a VLAN subinterface's outer tag.
func (c *Config) TPID() uint16 {
	if c.Protocol == Protocol8021ad || c.Protocol == "" && c.InnerVLAN != 0 {
		return packet.TypeServiceTag
	}
	return packet.TypeCustomerTag
}

// SubinterfaceName is the name of a VLAN subinterface without one: eth1.100, and eth1.100.20 with two tags.
func (c *Config) SubinterfaceName() string {
	name := fmt.Sprintf("%s.%d", c.Parent, c.VLAN)
	if c.InnerVLAN != 0 {
		name += fmt.Sprintf(".%d", c.InnerVLAN)
	}
	return name
}

// validateVirtual reports the faults of a port without a device. What says something about a device is refused rather than ignored.
func (c *Config) validateVirtual(fault func(string, ...any)) {
	what, where := "a VLAN subinterface", "its parent's"
	if c.Driver == DriverIRB {
		what, where = "a routed interface", "a"
	}
	for _, k := range []struct {
		key string
		set bool
	}{
		{"interface", c.Interface != ""}, {"socket", c.Socket != ""}, {"queues", c.Queues != 0}, {"mac", c.MAC != ""}, {"mtu", c.MTU != 0},
		{"tx_budget", c.TXBudget != 0}, {"busy_poll", c.BusyPoll != 0}, {"rate_bits", c.RateBits != 0}, {"queue_packets", c.QueuePackets != 0}, {"class", len(c.Classes) != 0},
		{"jumbo", c.Jumbo}, {"rss", c.RSS != RSSKeep}, {"optional", c.Optional}, {"disabled", c.Disabled}, {"keep", len(c.Keep) != 0},
		{"mode", c.Mode != "auto"},
	} {
		switch {
		case k.set && (k.key == "mac" || k.key == "mtu"):
			fault("%s: %s has none of its own: set it at its [[stages.l3.interface]]", k.key, what)
		case k.set && k.key == "disabled":
			fault("disabled: %s has no device to leave to the kernel: remove the port instead", what)
		case k.set:
			fault("%s: %s has no device: remove it, or set it at %s port", k.key, what, where)
		}
	}
	c.validateMemif(fault)
	if c.Driver == DriverIRB {
		c.validateTags(fault)
		if c.Name == "" {
			fault("name: missing: name the port, as a domain of [stages.l2] does")
		}
		return
	}
	if c.Parent == "" {
		fault("parent: missing: name the port whose packets have the tag")
	}
	if c.VLAN < 1 || c.VLAN > maxVLAN {
		fault("vlan: %d: choose 1 to %d", c.VLAN, maxVLAN)
	}
	if c.InnerVLAN < 0 || c.InnerVLAN > maxVLAN {
		fault("inner_vlan: %d: choose 1 to %d, or 0 for packets with one tag", c.InnerVLAN, maxVLAN)
	}
	if c.Protocol != "" && c.Protocol != Protocol8021Q && c.Protocol != Protocol8021ad {
		fault("protocol: %q: choose %q or %q", c.Protocol, Protocol8021Q, Protocol8021ad)
	}
}

// validateTags refuses the keys that VLAN subinterfaces alone have.
func (c *Config) validateTags(fault func(string, ...any)) {
	for _, k := range []struct {
		key string
		set bool
	}{{"parent", c.Parent != ""}, {"vlan", c.VLAN != 0}, {"inner_vlan", c.InnerVLAN != 0}, {"protocol", c.Protocol != ""}} {
		if k.set {
			fault("%s: the driver %s has none: remove it, or use driver = %q", k.key, c.Driver, DriverVLAN)
		}
	}
}

// virtualQueue is the queue of a port without a device. It refuses what reaches it, as a graph without the stage that
// gives packets another port would let happen.
type virtualQueue struct{ unshared }

func (virtualQueue) Receive(*packet.Batch) int            { return 0 }
func (virtualQueue) Transmit(*packet.Batch, []uint16) int { return 0 }
func (virtualQueue) Refusal() packet.Reason               { return packet.ReasonNoPort }
func (virtualQueue) Service() bool                        { return false }
func (virtualQueue) Depth() int                           { return 0 }
func (virtualQueue) FD() int                              { return -1 }
func (virtualQueue) Ended() bool                          { return true }
func (virtualQueue) Close() (Rest, error)                 { return Rest{}, nil }

// validateTunnel refuses the keys that say something about a device.
func (c *Config) validateTunnel(fault func(string, ...any)) {
	for _, k := range []struct {
		key string
		set bool
	}{
		{"interface", c.Interface != ""}, {"socket", c.Socket != ""}, {"queues", c.Queues != 0}, {"mac", c.MAC != ""}, {"mtu", c.MTU != 0},
		{"tx_budget", c.TXBudget != 0}, {"busy_poll", c.BusyPoll != 0}, {"rate_bits", c.RateBits != 0}, {"queue_packets", c.QueuePackets != 0}, {"class", len(c.Classes) != 0},
		{"jumbo", c.Jumbo}, {"rss", c.RSS != RSSKeep}, {"optional", c.Optional}, {"disabled", c.Disabled}, {"keep", len(c.Keep) != 0},
		{"mode", c.Mode != "auto"},
	} {
		if k.set {
			fault("%s: a tunnel has no device: remove it, and set it at the underlay's port", k.key)
		}
	}
	c.validateMemif(fault)
	if c.Name == "" {
		fault("name: missing: name the port, as a tunnel of [stages.tunnel] does")
	}
}
