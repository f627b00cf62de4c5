package nic

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Interface is a network interface as it was when Look read it. Each part that a driver does
// not tell is zero.
type Interface struct {
	Name          string `json:"name"`
	Index         int    `json:"index"`
	MAC           string `json:"mac"`
	MTU           int    `json:"mtu"` // bytes behind the Ethernet header
	Up            bool   `json:"up"`  // it is up and has its carrier
	Driver        string `json:"driver"`
	Version       string `json:"version"`         // of the driver
	Firmware      string `json:"firmware"`        // of the device
	Bus           string `json:"bus"`             // address of the device, as of PCI
	NUMANode      int    `json:"numa_node"`       // -1: none, or not known
	BitsPerSecond uint64 `json:"bits_per_second"` // speed of the link; 0: not known
	// Promiscuous is how many users of the interface have asked for all that arrives.
	Promiscuous int `json:"promiscuous"`
	// Program is the id of the XDP program that is attached, 0: none.
	Program uint32 `json:"program"`
	// Holder is the process that keeps the program there; nil if it is not known.
	Holder   *Holder            `json:"holder,omitempty"`
	Queues   Queues             `json:"queues"`
	Rings    Rings              `json:"rings"`
	RSS      RSS                `json:"rss"`
	Features map[string]Feature `json:"features"`
	XDP      XDP                `json:"xdp"`
	// HeaderSplit is On or Off; empty where the driver does not tell.
	HeaderSplit string `json:"tcp_data_split"`
	// Peer is the other end of a veth, if it is in the same namespace.
	Peer *Peer `json:"peer,omitempty"`
	// Held are the settings that a switch has changed: one that runs, or one that was killed if Left.
	Held []Change `json:"held,omitempty"`
	Left bool     `json:"left,omitempty"`
	// VirtualFunction: of SR-IOV, whose host may restrict the addresses.
	VirtualFunction bool `json:"virtual_function,omitempty"`

	// Rounds and Flush are DeferRounds and DeferFlush; empty without the privilege to read them.
	Rounds string `json:"napi_defer_hard_irqs"`
	Flush  string `json:"gro_flush_timeout"`

	counts     channelCounts
	processors int    // that the kernel may get (nr_cpu_ids)
	virtio     string // the features of a virtio device, a digit each
}

// Queues are the receive queues of an interface.
type Queues struct {
	Receive int `json:"receive"` // in use
	Max     int `json:"max"`     // that there can be; 0: not known
	// Channels is the value of the setting; empty where the driver has none.
	Channels string `json:"channels"`
	// Settable: the driver lets us choose how many there are.
	Settable bool `json:"settable"`
}

// Peer is the other end of a veth.
type Peer struct {
	Name string `json:"name"`
	// Checksum: it leaves checksums of what it sends to its peer, which has none to compute.
	Checksum bool `json:"tx_checksum"`
	// VLAN: it sends VLAN tags outside the packets, where a switch does not see them.
	VLAN bool `json:"tx_vlan"`
}

// veth's driver hands over packets as the far end made them, so some settings mean nothing there.
const vethDriver = "veth"

// Look reads an interface of the calling thread's namespace. It changes nothing.
func Look(name string) (*Interface, error) {
	d, err := open(name)
	if err != nil {
		return nil, err
	}
	i, err := d.look()
	if err == nil {
		if i.Program != 0 {
			i.Holder = FindHolder(i.Program)
		}
		var o owner
		if o, err = here(name, d.index); err == nil {
			i.Held, i.Left = held(o)
		}
	}
	return i, errors.Join(err, d.close())
}

// LookAll reads all interfaces of the calling thread's namespace that can be ports, by their index.
func LookAll() ([]*Interface, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	slices.SortFunc(links, func(a, b netlink.Link) int { return a.Attrs().Index - b.Attrs().Index })
	var all []*Interface
	for _, l := range links {
		if l.Attrs().Flags&net.FlagLoopback != 0 || l.Attrs().EncapType != "ether" {
			continue
		}
		i, err := Look(l.Attrs().Name)
		if errors.Is(err, ErrMissing) {
			continue // it went since
		}
		if err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	return all, nil
}

func (d *device) look() (*Interface, error) {
	link, err := d.handle.LinkByIndex(d.index)
	if err != nil {
		return nil, missing(err)
	}
	a := link.Attrs()
	i := &Interface{
		Name: a.Name, Index: a.Index, MAC: a.HardwareAddr.String(), MTU: a.MTU, NUMANode: -1, Promiscuous: a.Promisc,
		Up: a.Flags&net.FlagUp != 0 && a.RawFlags&unix.IFF_RUNNING != 0, Queues: Queues{Receive: a.NumRxQueues},
	}
	if a.Xdp != nil && a.Xdp.Attached {
		i.Program = a.Xdp.ProgId
	}
	if info, err := d.driver(d.name); err == nil {
		i.Driver, i.Version, i.Firmware, i.Bus = text(info.Driver[:]), text(info.Version[:]), text(info.Fw_version[:]), text(info.Bus_info[:])
	}
	if i.Features, err = d.features(d.name); err != nil {
		return nil, fmt.Errorf("read the features of %s: %w", d.name, err)
	}
	// What follows not every driver has.
	i.BitsPerSecond, _ = d.speed(d.name)
	i.Rings, _ = d.rings(d.name)
	i.RSS, _ = d.rss(d.name)
	i.XDP, _ = XDPFeatures(d.index)
	i.HeaderSplit, _ = d.headerSplit()
	i.processors, _ = ebpf.PossibleCPU()
	if d.sysfs != nil {
		i.virtio, _ = d.sysfs.Read("device/features")
		_, err := d.sysfs.Read("device/physfn/vendor") // of the physical function
		i.VirtualFunction = err == nil
		i.Rounds, _ = d.read(DeferRounds)
		i.Flush, _ = d.read(DeferFlush)
		if text, err := d.sysfs.Read("device/numa_node"); err == nil {
			if node, err := strconv.Atoi(text); err == nil {
				i.NUMANode = node
			}
		}
	}
	if c, err := d.channels(d.name); err == nil && c.receive() != 0 {
		i.counts = c
		err := d.setChannels(d.name, c) // no change: whether it could be one
		i.Queues = Queues{
			Receive: c.receive(), Max: int(max(c.maxCombined, c.maxRx)), Channels: c.String(),
			// The two ends of a veth must fit: with fewer receive queues than the peer has to transmit, XDP is refused.
			Settable: (err == nil || errors.Is(err, unix.EPERM)) && i.Driver != vethDriver,
		}
	}
	if i.Driver == vethDriver && a.NetNsID < 0 && a.ParentIndex != 0 {
		i.Peer, _ = d.peer(a.ParentIndex)
	}
	return i, nil
}

// peer reads the other end of a veth.
func (d *device) peer(index int) (*Peer, error) {
	link, err := d.handle.LinkByIndex(index)
	if err != nil {
		return nil, err
	}
	all, err := d.features(link.Attrs().Name)
	if err != nil {
		return nil, err
	}
	return &Peer{Name: link.Attrs().Name, Checksum: all["tx-checksum-ip-generic"].On, VLAN: all["tx-vlan-hw-insert"].On}, nil
}
