package port

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/nic"
)

// ethernetOverhead is what the device may add to its MTU: the Ethernet header
// and one VLAN tag.
const ethernetOverhead = 14 + 4

// link is a network interface. Its netlink socket belongs to the namespace of
// the thread that found it, so it may be asked from any thread.
type link struct {
	handle *netlink.Handle
	driver *nic.Driver
	name   string
	index  int
	kind   string // the kernel's for a software interface: "veth", "tuntap"; else kindDevice
	module string // the driver's name
	rx     int    // receive queues, as of countQueues
	mac    string

	mu      sync.Mutex
	mtu     int
	up      bool
	gone    bool   // it was not there when we looked last
	speed   uint64 // bits per second, or 0
	rxNow   int    // receive queues
	first   losses
	last    losses
	stopped bool
}

type losses struct{ txDrops, rxErrors uint64 }

// missingInterface is the name of an interface that does not exist.
type missingInterface string

func (m missingInterface) Error() string {
	return fmt.Sprintf("no interface %s in this network namespace: create it or correct the name (ip link shows what there is)", string(m))
}

// IsMissing reports whether err means that a port's interface does not exist.
func IsMissing(err error) bool { return errors.As(err, new(missingInterface)) }

func findLink(name string) (*link, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel for interface %s: %w", name, err)
	}
	found, err := h.LinkByName(name)
	if err != nil {
		h.Close()
		if errors.As(err, new(netlink.LinkNotFoundError)) {
			return nil, missingInterface(name)
		}
		return nil, fmt.Errorf("ask the kernel for interface %s: %w", name, err)
	}
	a := found.Attrs()
	driver, err := nic.OpenDriver()
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("ask the driver of interface %s: %w", name, err)
	}
	l := &link{handle: h, driver: driver, name: name, index: a.Index, mtu: a.MTU, rxNow: a.NumRxQueues, mac: a.HardwareAddr.String(),
		kind: found.Type(), module: driver.Name(a.Name)}
	l.read()
	l.countQueues()
	l.first = l.last
	return l, nil
}

// countQueues notes how many receive queues there are, for those who ask whether there are others since.
func (l *link) countQueues() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read()
	l.rx = l.rxNow
}

// kindDevice is the kind of interfaces that are no software of the kernel's.
const kindDevice = "device"

// partialChecksums reports whether packets may come with a checksum that their sender has left to a
// device: from software interfaces, and from paravirtual ones, whose other end is a kernel's memory.
func (l *link) partialChecksums() bool {
	return l.kind != kindDevice || slices.Contains([]string{"virtio_net", "xen_netfront", "vif", "vmxnet3", "hv_netvsc", "ibmveth"}, l.module)
}

func (l *link) maxFrame() int { return l.mtu + ethernetOverhead }

func (l *link) info(name, driver string, queues int) Info {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read()
	i := Info{
		Name: name, Interface: l.name, Index: l.index, Driver: driver, Queues: queues,
		MTU: l.mtu, MaxFrame: l.maxFrame(), MAC: l.mac, Up: l.up, State: StateUp, Speed: l.speed,
	}
	switch {
	case l.gone:
		i.State = StateGone
	case !l.up:
		i.State = StateDown
	}
	return i
}

// losses returns the device's own loss counters since the port was opened.
func (l *link) losses() (txDrops, rxErrors uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read()
	return l.last.txDrops - l.first.txDrops, l.last.rxErrors - l.first.rxErrors
}

// read refreshes state and counters; what cannot be read any more stays.
func (l *link) read() {
	if l.stopped {
		return
	}
	found, err := l.handle.LinkByIndex(l.index)
	if err != nil {
		l.up, l.gone = false, errors.As(err, new(netlink.LinkNotFoundError))
		return
	}
	l.gone = false
	a := found.Attrs()
	// A driver may know its speed only while the link is up; the last one stays.
	if speed, err := l.driver.Speed(a.Name); err == nil {
		l.speed = speed
	}
	if n, err := l.driver.Queues(a.Name); err == nil {
		l.rxNow = n
	}
	l.up, l.mtu = isUp(a), a.MTU
	if s := a.Statistics; s != nil {
		// What a NIC had no buffer for should be in none of its errors (include/uapi/linux/if_link.h). Drivers count it as missed, as
		// an error of their FIFO, or, as igc does, as both.
		l.last = losses{s.TxDropped, s.RxErrors + max(s.RxMissedErrors, s.RxFifoErrors)}
	}
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read()
	l.stopped = true
	l.handle.Close()
	_ = l.driver.Close()
}
