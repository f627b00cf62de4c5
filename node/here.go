package node

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/metrics"
	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/internal/socket"
)

// CheckHere reports what keeps the switch of a good configuration from starting on this machine as it is now, joined, each
// beginning with its full key: cores, interfaces that are missing or taken, or whose MTU is beyond a frame, workers without a queue, and what control and telemetry
// name: a group, files, folders and addresses. It looks at the network namespace of the calling
// thread, and makes and changes nothing; sockets and memory of guests are not looked at. Interfaces of a switch that runs with the same control socket are not taken:
// the configuration may be meant for its next reload.
func CheckHere(c *config.Config) error {
	mine := socket.Listens(c.Control.Socket)
	errs := []error{worker.CheckCores(c.Workers), c.Control.CheckHere(mine), c.Telemetry.CheckSpool(), c.Telemetry.CheckSending()}
	if !mine {
		errs = append(errs, checkMetrics(c.Control.Metrics))
	}
	frame := c.Dataplane.FrameSizeFor(c.Ports)
	var queues []int
	for i := range c.Ports {
		p := c.Ports[i]
		p.Workers = c.Workers.Count
		if err := checkPortHere(p, frame, c.Control.Socket, mine); err != nil {
			errs = append(errs, fmt.Errorf("port[%d].%w", i, err))
		}
		if n, err := port.QueuesOf(p); err == nil && n > 0 {
			queues = append(queues, n)
		}
	}
	if len(queues) == len(c.Ports) { // else it is not known which workers have some
		errs = append(errs, worker.CheckQueues(c.Workers.Count, queues))
	}
	return errors.Join(errs...)
}

// CheckInterfaces is the part of CheckHere about interfaces that are missing.
func CheckInterfaces(c *config.Config) error {
	var errs []error
	for i := range c.Ports {
		if p := &c.Ports[i]; p.OnInterface() && p.Driver != port.DriverTap {
			if _, err := nic.Look(p.Interface); errors.Is(err, nic.ErrMissing) {
				if err := missingHere(p); err != nil {
					errs = append(errs, fmt.Errorf("port[%d].%w", i, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// missingHere is the fault of a port whose interface does not exist; nil: it may come later.
func missingHere(p *port.Config) error {
	switch {
	case p.Optional:
		return nil
	case len(p.Interface) >= unix.IFNAMSIZ:
		return fmt.Errorf("interface: no interface %s here, and the name of one has at most %d characters: correct it, or give one that alternative name (ip link property add)",
			p.Interface, unix.IFNAMSIZ-1)
	}
	return fmt.Errorf("interface: no interface %s here: create it or correct the name (ip link shows what there is)", p.Interface)
}

// checkMetrics takes the address for a moment.
func checkMetrics(address string) error {
	l, err := metrics.Listen(address)
	if l == nil {
		return err
	}
	return l.Close()
}

func checkPortHere(p port.Config, frame int, control string, mine bool) error {
	if p.Driver == port.DriverTap {
		if _, err := nic.Look(p.Interface); err == nil && !mine {
			return fmt.Errorf("interface: %s exists already, and the driver tap makes its own: choose another name", p.Interface)
		}
		if p.Disabled { // its interface is made later
			return nil
		}
		return underKey("mtu", port.CheckMTU(&p, p.TapMTU(), frame))
	}
	if !p.OnInterface() {
		return nil
	}
	i, err := nic.Look(p.Interface)
	if errors.Is(err, nic.ErrMissing) {
		return missingHere(&p)
	}
	if err != nil {
		return fmt.Errorf("interface: %w", err)
	}
	if taken := i.Program != 0 && !p.Disabled; taken && !(mine && (i.Holder == nil || i.Holder.Socket == control)) {
		return fmt.Errorf("interface: another XDP program is attached to %s: %s", p.Interface, i.Holder.Remedy(p.Interface))
	}
	if _, err := port.QueuesOf(p); err != nil {
		return fmt.Errorf("queues: %w", err)
	}
	return underKey("interface", port.CheckMTU(&p, i.MTU, frame))
}

// underKey puts a key in front of an error, if there is one.
func underKey(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}
