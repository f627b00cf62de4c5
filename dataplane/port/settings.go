package port

import (
	"errors"
	"fmt"

	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/xdp"
)

// How a port's interface chooses the queue of a packet.
const (
	RSSKeep      = "keep"      // as it is set
	RSSSymmetric = "symmetric" // the same for both directions of a flow
)

// NIC is what the port of a configuration needs of its interface.
func (c *Config) NIC() nic.Config {
	return nic.Config{Queues: c.Queues, Workers: c.Workers, Generic: c.Mode == xdp.Generic.String(), Symmetric: c.RSS == RSSSymmetric, Poll: c.BusyPoll != 0}
}

// planQueues returns how many queues a port will serve, and changes nothing.
func planQueues(l *link, c *Config) (int, error) {
	i, err := nic.Look(l.name)
	if err != nil {
		return 0, err
	}
	n := i.Serve(c.NIC())
	if i.Queues.Settable && n <= i.Queues.Max {
		return n, nil
	}
	return n, l.check(n)
}

// prepare gives an interface the settings that the port needs, and the configuration the number of queues that
// it serves. It comes before the XDP program, which some drivers refuse beside LRO.
func prepare(l *link, c *Config) (*nic.Held, error) {
	held, err := nic.Take(l.name, c.NIC())
	if err != nil {
		return nil, err
	}
	l.countQueues()
	if err := l.check(held.Queues()); err != nil {
		return nil, errors.Join(err, held.Release())
	}
	c.Queues = held.Queues()
	return held, nil
}

// check refuses to serve more queues than there are.
func (l *link) check(n int) error {
	if n <= l.rx {
		return nil
	}
	return fmt.Errorf("%d queues are configured but %s has %d: set queues = %d, or give the interface more (ethtool -L)",
		n, l.name, l.rx, l.rx)
}

// queueFault says what is wrong if the interface has got other queues since the port was opened; empty if
// nothing is.
func (l *link) queueFault(served int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.rxNow > l.rx && l.rxNow > served:
		return fmt.Sprintf("%s has %d receive queues now, and had %d: packets on %s go to the kernel (no_socket); give it %d again (ethtool -L), or restart the switch",
			l.name, l.rxNow, l.rx, nic.QueueRange(served, l.rxNow-1), l.rx)
	case l.rxNow < served:
		return fmt.Sprintf("%s has %d receive queues now, and the port serves %d: give it as many (ethtool -L), or restart the switch", l.name, l.rxNow, served)
	}
	return ""
}

// describe adds to a port's description what was set on its interface.
func (b *beneath) describe(i *Info) {
	i.Settings, i.Refused = b.settings.Changed(), b.settings.Refused()
	if i.Error == "" {
		i.Error = b.link.queueFault(i.Queues)
	}
}
