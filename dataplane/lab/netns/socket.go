package netns

import (
	"context"
	"fmt"
	"net"
	"os/exec"
)

// Start starts a command inside the namespace. The child keeps the caller's
// mounts: its /sys/class/net shows the interfaces of the namespace in which
// /sys was mounted, so it should ask netlink instead.
//
// The command must not set SysProcAttr.Pdeathsig: the kernel would send the signal when the
// thread that started the child ends, not the process.
func (ns *Namespace) Start(command *exec.Cmd) error {
	return ns.Do(command.Start)
}

// Listen is [net.Listen] inside the namespace.
func (ns *Namespace) Listen(network, address string) (listener net.Listener, err error) {
	err = ns.Do(func() error {
		listener, err = net.Listen(network, address)
		return err
	})
	return listener, ns.wrap(err)
}

// ListenPacket is [net.ListenPacket] inside the namespace: UDP, or raw IP such as
// "ip4:icmp".
func (ns *Namespace) ListenPacket(network, address string) (conn net.PacketConn, err error) {
	err = ns.Do(func() error {
		conn, err = net.ListenPacket(network, address)
		return err
	})
	return conn, ns.wrap(err)
}

// Dial connects inside the namespace. The address must be a literal IP and
// port: name resolution runs on threads that are elsewhere.
func (ns *Namespace) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = ns.Do(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, ns.wrap(err)
}

func (ns *Namespace) wrap(err error) error {
	if err != nil {
		return fmt.Errorf("in namespace %s: %w", ns.name, err)
	}
	return nil
}
