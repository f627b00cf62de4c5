package port

import "github.com/weirswitch/weir/pipeline/packet"

// Tunnel is a port without a device: the stage tunnel gives it to packets that came out of a tunnel, and the stage encap puts
// packets that leave by it into the tunnel. Its one queue receives nothing and takes nothing.
type Tunnel struct{ config Config }

// NewTunnel returns the port of a configuration.
func NewTunnel(c Config) *Tunnel { return &Tunnel{c} }

// Open implements Port.
func (t *Tunnel) Open(uint16, int, *packet.Cache) (Queue, error) { return tunnelQueue{}, nil }

// Info implements Port. A tunnel has the MTU that its underlay leaves it, which the stage encap knows; 0 here.
func (t *Tunnel) Info() Info {
	return Info{Name: t.config.Name, Driver: DriverTunnel, Mode: "tunnel", Queues: 1, Up: true, State: StateUp}
}

// Counters implements Port.
func (t *Tunnel) Counters() Counters { return Counters{} }

// StopReceive implements Port.
func (t *Tunnel) StopReceive() error { return nil }

// Close implements Port.
func (t *Tunnel) Close() error { return nil }

// tunnelQueue refuses what reaches it, as a graph without the stage encap would let happen.
type tunnelQueue struct{ unshared }

func (tunnelQueue) Receive(*packet.Batch) int            { return 0 }
func (tunnelQueue) Transmit(*packet.Batch, []uint16) int { return 0 }
func (tunnelQueue) Refusal() packet.Reason               { return packet.ReasonNoPort }
func (tunnelQueue) Service() bool                        { return false }
func (tunnelQueue) Depth() int                           { return 0 }
func (tunnelQueue) FD() int                              { return -1 }
func (tunnelQueue) Ended() bool                          { return true }
func (tunnelQueue) Close() (Rest, error)                 { return Rest{}, nil }

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
