package port

import "github.com/weirswitch/weir/pipeline/packet"

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
