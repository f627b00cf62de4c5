package traffic

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/nic"
)

// ErrHiddenThreads says that threads of the kernel have no ids here, and so cannot be pinned.
var ErrHiddenThreads = errors.New("the kernel's threads are hidden in this PID namespace: run in the host's")

// SetThreaded moves the receive work of a port out of softirqs into kernel threads, one per
// receive queue, and pins them to the port's core; or back. A veth has such work only
// while it has an XDP program or generic receive offload on. See the package
// documentation for when that helps. Where the threads cannot be pinned (see ErrHiddenThreads), the work stays where it was.
func SetThreaded(port Port, on bool) error {
	link, err := port.Namespace.Link(port.Interface)
	if err != nil {
		return err
	}
	err = port.Namespace.Do(func() error {
		value := "0"
		if on {
			value = "1"
		}
		if err := write(port.Interface, "threaded", value); err != nil || !on {
			return err
		}
		if err := pinNAPI(link.Attrs().Index, port.Core); err != nil {
			return errors.Join(err, write(port.Interface, "threaded", "0"))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("move the receive work of %s to threads: %w", port, err)
	}
	return nil
}

// ReceiveThreads are the ids of the kernel threads that SetThreaded has made, for those who want to
// give them a priority.
func ReceiveThreads(port Port) (ids []int, err error) {
	link, err := port.Namespace.Link(port.Interface)
	if err != nil {
		return nil, err
	}
	err = port.Namespace.Do(func() error {
		ids, err = napiThreads(link.Attrs().Index)
		return err
	})
	return ids, err
}

// SetDeferral has the kernel leave a port's receive work to a program that polls the socket
// itself (SO_PREFER_BUSY_POLL) unless it has not done so for flush, and for rounds empty
// polls more. Zero and zero is the kernel's default. See napi_defer_hard_irqs and gro_flush_timeout
// in Documentation/networking/napi.rst.
func SetDeferral(port Port, rounds int, flush time.Duration) error {
	err := port.Namespace.Do(func() error {
		if err := write(port.Interface, "napi_defer_hard_irqs", strconv.Itoa(rounds)); err != nil {
			return err
		}
		return write(port.Interface, "gro_flush_timeout", strconv.FormatInt(flush.Nanoseconds(), 10))
	})
	if err != nil {
		return fmt.Errorf("defer the receive work of %s: %w", port, err)
	}
	return nil
}

// write writes a file of an interface's folder in sysfs.
func write(name, file, value string) error {
	device, err := nic.OpenSysfs(name)
	if err != nil {
		return err
	}
	defer device.Close()
	return device.Write(file, value)
}

// Numbers of the netlink family "netdev" (include/uapi/linux/netdev.h).
const (
	netdevNAPIGet     = 11
	netdevNAPIIfindex = 1
	netdevNAPIPID     = 4
)

// pinNAPI pins the receive threads of an interface of the calling thread's namespace.
func pinNAPI(ifindex, core int) error {
	if core == AnyCore {
		return nil
	}
	pids, err := napiThreads(ifindex)
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return errors.New("there is no receive thread: attach an XDP program or switch generic receive offload on first")
	}
	var set unix.CPUSet
	set.Set(core)
	for _, pid := range pids {
		if err := unix.SchedSetaffinity(pid, &set); err != nil {
			return fmt.Errorf("pin thread %d to core %d: %w", pid, core, err)
		}
	}
	return nil
}

func napiThreads(ifindex int) (pids []int, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("list the receive contexts (needs Linux 6.8 or newer): %w", err)
		}
	}()
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	family, err := conn.GetFamily("netdev")
	if err != nil {
		return nil, err
	}
	request := netlink.NewAttributeEncoder()
	request.Uint32(netdevNAPIIfindex, uint32(ifindex))
	data, err := request.Encode()
	if err != nil {
		return nil, err
	}
	header := genetlink.Header{Command: netdevNAPIGet, Version: 1}
	replies, err := conn.Execute(genetlink.Message{Header: header, Data: data}, family.ID, netlink.Request|netlink.Dump)
	if err != nil {
		return nil, err
	}
	for _, reply := range replies {
		attributes, err := netlink.NewAttributeDecoder(reply.Data)
		if err != nil {
			return nil, err
		}
		for attributes.Next() {
			if attributes.Type() == netdevNAPIPID {
				id := int(attributes.Uint32())
				if id == 0 {
					return nil, ErrHiddenThreads
				}
				pids = append(pids, id)
			}
		}
		if err := attributes.Err(); err != nil {
			return nil, err
		}
	}
	return pids, nil
}
