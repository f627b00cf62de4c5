package port

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/weirswitch/weir/dataplane/xdp"
	"github.com/weirswitch/weir/dataplane/xsk"
)

// Config is one port of the configuration, [[port]].
type Config struct {
	// Name is the port's name in this switch; default: the interface's.
	Name string `toml:"name"`
	// Interface is the network interface.
	Interface string `toml:"interface"`
	// Driver is "xsk", "asavie", "vhost", "memif", "tap", "tunnel", "vlan", "irb" or "bond". A port with "vhost" is a virtual machine's, by vhost-user: of the
	// keys of a port it has name, socket, mode, queues, rate_bits and queue_packets. A port with "memif" is a container's or
	// another program's: it has the same keys, and id, ring_size and secret_file. A port with "tap" is the host's
	// own: it makes a TAP interface, which vanishes with the switch, and has name, interface, queues, mac, mtu, disabled,
	// rate_bits and queue_packets. A port with "tunnel" has a name alone: the stages tunnel and encap are its device. A port with
	// "vlan" is a VLAN subinterface of another one, and has name, parent, vlan, inner_vlan and protocol. A port with "irb" is a
	// routed interface of a bridge domain, and has a name alone. A port with "bond" joins others to one, its members, and has name, members,
	// mode, hash, lacp_rate, min_links, primary, system_priority and mac.
	Driver string `toml:"driver"`
	// Socket is the path of the Unix socket by which the switch and the other side find each other; driver = "vhost" and "memif"
	// alone have it.
	Socket string `toml:"socket"`
	// Queues is how many queues the interface shall have for the port; 0 is one for each worker. Where the
	// driver has no choice, 0 serves all that there are, and a number those from queue 0:
	// packets of other queues stay with the kernel, and are counted. With driver = "vhost" it is how many pairs of
	// rings the guest shall use, and 0 is one; with "memif", how many pairs the peer has at most.
	Queues int `toml:"queues"`
	// Mode is where the XDP program runs: "auto" (native where the driver has
	// it, else generic), "native" or "generic". With driver = "vhost" or "memif" it is who opens the socket: "server"
	// (the switch; also "auto") or "client" (the other side). With driver = "bond" it is how members are used: "active-backup" (one
	// at a time), "balance-xor" (all that have a link, by flow) or "lacp" (all on which LACP agrees with the other side, by flow).
	Mode string `toml:"mode"`
	// ID is the number of a memif interface, unique among the servers of a socket: with driver = "memif" several ports
	// may have the same socket.
	ID int `toml:"id"`
	// RingSize is how many descriptors each ring of a memif has, a power of two from 2 to 16384; 0 means 1024. The client
	// decides.
	RingSize int `toml:"ring_size"`
	// SecretFile is a file with what a memif client must know, 1 to 24 bytes in a line; empty: no secret.
	SecretFile string `toml:"secret_file"`
	// Offloads lets a virtual machine, or the host, leave to the switch the checksums of what it sends, and the cutting of large
	// packets into segments: "on" (also empty) or "off". The switch does both when the packets arrive. driver = "vhost" and
	// "tap" have it.
	Offloads string `toml:"offloads"`
	// TXBudget is how many packets one system call sends in copy mode; 0 leaves
	// the kernel's own number, 32.
	TXBudget int `toml:"tx_budget"`
	// BusyPoll lets the worker itself run the interface's receive work, when it
	// finds nothing, for up to so many microseconds per call; 0 leaves it to
	// interrupts. It pays where receive work and worker share a core, and costs
	// where other cores would receive. While the port is open the interface
	// defers its interrupts, so a packet that finds the worker asleep waits up to
	// 2 ms: best with poll = "busy".
	BusyPoll int `toml:"busy_poll"`
	// MAC is the MAC address of the interface that driver = "tap" makes; default: a random one, and for the host
	// interface of a router's port that port's. With driver = "bond" it is the system's in LACP; default: that of the first member.
	MAC string `toml:"mac"`
	// MTU is that of the interface that driver = "tap" makes, in bytes behind the Ethernet header; 0 is 1500. It may be
	// changed later (ip link set).
	MTU int `toml:"mtu"`
	// RateBits bounds what leaves the port, in bits per second of packets without
	// FCS, shared by its queues; 0 is no bound.
	RateBits int64 `toml:"rate_bits"`
	// QueuePackets is how many packets wait for that rate in each queue, a power of
	// two; 0 means 1024.
	QueuePackets int `toml:"queue_packets"`
	// Classes are the classes of what leaves the port, at most 8; none: all packets wait in one queue.
	Classes []Class `toml:"class"`
	// Jumbo admits packets longer than a frame, by multi-buffer.
	Jumbo bool `toml:"jumbo"`
	// RSS is how the interface chooses the queue of a packet: "keep" (as it is set) or
	// "symmetric" (both directions of a flow the same, where the driver can).
	RSS string `toml:"rss"`
	// Optional lets the switch start without the interface, and open the port once
	// there is one. The number of queues must be set then.
	Optional bool `toml:"optional"`
	// Disabled leaves the interface to the kernel, as if the switch did not have the
	// port, until control switches it on. A port in shared memory has no socket meanwhile.
	Disabled bool `toml:"disabled"`
	// Keep is the traffic left to the kernel: "arp", "lldp", "icmp", "icmpv6", "ospf" or "ssh"; "tcp/N", "udp/N" (a source
	// or destination port), "proto/N" (an IP protocol), "ethertype/N".
	Keep []string `toml:"keep"`
	// Parent is the name of the port whose packets with a tag are those of a VLAN subinterface; driver = "vlan" alone has it, and the
	// next three keys. Without a name the port is called eth1.100, or eth1.100.20.
	Parent string `toml:"parent"`
	// VLAN is that of the tag, the outer one if there are two.
	VLAN int `toml:"vlan"`
	// InnerVLAN is that of a second tag behind it; 0: what is behind the first one is the packet's own.
	InnerVLAN int `toml:"inner_vlan"`
	// Protocol is the type of the outer tag when packets leave: "802.1Q" or "802.1ad"; default: "802.1ad" with inner_vlan, else "802.1Q".
	// Either arrives.
	Protocol string `toml:"protocol"`
	// Members are the names of the ports that a bond joins; driver = "bond" alone has them, and the next five keys.
	Members []string `toml:"members"`
	// Hash is of what a flow's member is chosen: "layer3+4" (addresses, protocol and ports; also empty), "layer2+3" (the addresses of
	// Ethernet and IP) or "layer2" (those of Ethernet).
	Hash string `toml:"hash"`
	// LACPRate is how often the other side shall send LACPDUs: "slow" (each 30 s; also empty) or "fast" (each second). Three that are
	// missing end the member's use.
	LACPRate string `toml:"lacp_rate"`
	// MinLinks is how many members must carry packets for the bond to be up; 0 is 1.
	MinLinks int `toml:"min_links"`
	// Primary is the member that an active-backup bond uses whenever it has a link; empty: the one in use stays.
	Primary string `toml:"primary"`
	// SystemPriority is the switch's in LACP, 1 to 65535, the lowest one first; 0 is 65535.
	SystemPriority int `toml:"system_priority"`
	// Workers is how many workers the switch has, for Queues; 0 stands for enough. The
	// switch sets it.
	Workers int `toml:"-"`
}

// The drivers: for network interfaces, virtual machines, containers and the host, and for ports that are in the switch alone.
const (
	DriverXSK    = "xsk"
	DriverAsavie = "asavie"
	DriverVhost  = "vhost"
	DriverMemif  = "memif"
	DriverTap    = "tap"
	DriverTunnel = "tunnel"
	DriverVLAN   = "vlan"
	DriverIRB    = "irb"
	DriverBond   = "bond"
)

// InSharedMemory reports whether the port has a socket and a peer, and no interface.
func (c *Config) InSharedMemory() bool { return InSharedMemory(c.Driver) }

// InSharedMemory reports whether ports of a driver are.
func InSharedMemory(driver string) bool { return driver == DriverVhost || driver == DriverMemif }

// Whether a guest has offloads.
const (
	OffloadsOn  = "on"
	OffloadsOff = "off"
)

// Who opens the socket of a port in shared memory.
const (
	ModeServer = "server"
	ModeClient = "client"
)

// The bounds of a port's rate and queue.
const (
	minRate         = 8_000 // a kilobyte per second
	maxRate         = 1_000_000_000_000
	minQueuePackets = 64
	maxQueuePackets = 1 << 16
)

// OnInterface reports whether the port is on a network interface that others made.
func (c *Config) OnInterface() bool { return c.Driver == DriverXSK || c.Driver == DriverAsavie }

func (c *Config) queuePackets() int {
	if c.QueuePackets == 0 {
		return 1024
	}
	return c.QueuePackets
}

// with returns a port's configuration with what another one may change of it.
func (c Config) with(next Config) Config {
	c.Mode, c.TXBudget, c.BusyPoll, c.RSS = next.Mode, next.TXBudget, next.BusyPoll, next.RSS
	c.RateBits, c.QueuePackets, c.Classes = next.RateBits, next.QueuePackets, next.Classes
	c.Optional, c.Disabled = next.Optional, next.Disabled
	return c
}

// Fixed names the keys in which a configuration differs from another one of the same
// port, that cannot change while the port is open: such a change replaces the port.
func (c *Config) Fixed(next *Config) (keys []string) {
	for _, k := range []struct {
		key  string
		same bool
	}{
		{"interface", c.Interface == next.Interface},
		{"driver", c.Driver == next.Driver},
		{"socket", c.Socket == next.Socket},
		{"mode", c.Mode == next.Mode || !c.InSharedMemory() && c.Driver != DriverBond},
		{"offloads", c.Offloads == next.Offloads},
		{"id", c.ID == next.ID},
		{"ring_size", c.RingSize == next.RingSize},
		{"secret_file", c.SecretFile == next.SecretFile},
		{"queues", c.Queues == next.Queues},
		{"mac", c.MAC == next.MAC},
		{"mtu", c.MTU == next.MTU},
		{"jumbo", c.Jumbo == next.Jumbo},
		{"keep", slices.Equal(c.Keep, next.Keep)},
		{"parent", c.Parent == next.Parent},
		{"vlan", c.VLAN == next.VLAN},
		{"inner_vlan", c.InnerVLAN == next.InnerVLAN},
		{"protocol", c.Protocol == next.Protocol},
		{"members", slices.Equal(c.Members, next.Members)},
		{"hash", c.Hash == next.Hash},
		{"lacp_rate", c.LACPRate == next.LACPRate},
		{"min_links", c.MinLinks == next.MinLinks},
		{"primary", c.Primary == next.Primary},
		{"system_priority", c.SystemPriority == next.SystemPriority},
	} {
		if !k.same {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// maxBusyPoll is 10 ms, in microseconds: what one call may keep a worker.
const maxBusyPoll = 10_000

// DefaultConfig returns a port with the best modes that are granted.
func DefaultConfig() Config {
	return Config{Driver: DriverXSK, Mode: "auto", RSS: RSSKeep}
}

// Validate reports all faults, each beginning with its key.
func (c *Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Driver != DriverVhost && c.Driver != DriverTap && c.Offloads != "" {
		fault("offloads: the driver %s has none: remove it, or use driver = %q or %q", c.Driver, DriverVhost, DriverTap)
	} else if c.Offloads != "" && c.Offloads != OffloadsOn && c.Offloads != OffloadsOff {
		fault("offloads: %q: choose %q or %q", c.Offloads, OffloadsOn, OffloadsOff)
	}
	if c.Driver == DriverBond {
		c.validateBond(fault)
		return errors.Join(errs...)
	}
	c.validateMembers(fault)
	if c.Driver == DriverTunnel {
		c.validateTags(fault)
		c.validateTunnel(fault)
		return errors.Join(errs...)
	}
	if Deviceless(c.Driver) {
		c.validateVirtual(fault)
		return errors.Join(errs...)
	}
	c.validateTags(fault)
	if c.InSharedMemory() {
		c.validateShared(fault)
		return errors.Join(errs...)
	}
	if c.Driver == DriverTap {
		c.validateTap(fault)
		return errors.Join(errs...)
	}
	if c.Interface == "" {
		fault("interface: missing: name the network interface (ip link shows what there is)")
	}
	if c.Driver != DriverXSK && c.Driver != DriverAsavie {
		fault("driver: %q: choose %q, %q, %q, %q, %q, %q, %q, %q or %q", c.Driver, DriverXSK, DriverAsavie, DriverVhost, DriverMemif, DriverTap,
			DriverTunnel, DriverVLAN, DriverIRB, DriverBond)
	}
	if c.Socket != "" {
		fault("socket: an interface has none: remove it, or use driver = %q or %q", DriverVhost, DriverMemif)
	}
	if c.MAC != "" || c.MTU != 0 {
		fault("mac, mtu: an interface that exists has its own: remove them (ip link set), or use driver = %q", DriverTap)
	}
	c.validateMemif(fault)
	if c.Queues < 0 || c.Queues > 256 {
		fault("queues: %d: choose 1 to 256, or 0 for one per worker", c.Queues)
	}
	if _, err := xdp.ParseMode(c.Mode); err != nil {
		fault("mode: %w", err)
	}
	if c.RSS != RSSKeep && c.RSS != RSSSymmetric {
		fault("rss: %q: choose %q or %q", c.RSS, RSSKeep, RSSSymmetric)
	}
	if c.TXBudget != 0 && c.TXBudget < 32 {
		fault("tx_budget: %d: choose 32 or more, or 0 for the kernel's own", c.TXBudget)
	}
	if c.BusyPoll < 0 || c.BusyPoll > maxBusyPoll {
		fault("busy_poll: %d: choose up to %d microseconds, or 0 for interrupts", c.BusyPoll, maxBusyPoll)
	}
	if c.BusyPoll != 0 && c.Driver == DriverAsavie {
		fault("busy_poll: the driver asavie cannot: use driver = %q", DriverXSK)
	}
	if keep, err := xdp.ParseKeep(c.Keep); err != nil {
		fault("keep: %w", err)
	} else if c.Driver == DriverAsavie && !keep.Empty() {
		fault("keep: the driver asavie has no keep list: use driver = %q", DriverXSK)
	}
	c.validateRate(fault)
	if c.Optional && c.Queues == 0 {
		fault("queues: 0, but an interface that is not there cannot be asked: say how many, or set optional = false")
	}
	if c.Optional && c.Driver == DriverAsavie {
		fault("optional: the driver asavie cannot wait for its interface: use driver = %q", DriverXSK)
	}
	if c.Driver == DriverAsavie && c.Jumbo {
		fault("jumbo: the driver asavie has no multi-buffer: use driver = %q", DriverXSK)
	}
	return errors.Join(errs...)
}

// validateMemif reports the faults of the keys that memif alone has.
func (c *Config) validateMemif(fault func(string, ...any)) {
	if c.Driver != DriverMemif {
		for _, k := range []struct {
			key string
			set bool
		}{{"id", c.ID != 0}, {"ring_size", c.RingSize != 0}, {"secret_file", c.SecretFile != ""}} {
			if k.set {
				fault("%s: the driver %s has none: remove it, or use driver = %q", k.key, c.Driver, DriverMemif)
			}
		}
		return
	}
	if c.ID < 0 || c.ID > math.MaxUint32 {
		fault("id: %d: choose 0 to %d", c.ID, uint32(math.MaxUint32))
	}
	if n := c.RingSize; n != 0 && (n < 2 || n > 1<<14 || bits.OnesCount(uint(n)) != 1) {
		fault("ring_size: %d: choose a power of two from 2 to %d, or 0 for 1024", n, 1<<14)
	}
}

func (c *Config) ringSize() int {
	if c.RingSize == 0 {
		return 1024
	}
	return c.RingSize
}

// validateShared reports the faults of a port in shared memory.
func (c *Config) validateShared(fault func(string, ...any)) {
	c.validateMemif(fault)
	if c.Socket == "" {
		fault("socket: missing: name the path of the Unix socket, as the other side has it")
	}
	if len(c.Socket) > maxSocket {
		fault("socket: %d bytes: the kernel takes paths of up to %d", len(c.Socket), maxSocket)
	}
	if c.Mode != "auto" && c.Mode != ModeServer && c.Mode != ModeClient {
		fault("mode: %q: choose %q or %q with driver = %q", c.Mode, ModeServer, ModeClient, c.Driver)
	}
	if c.Queues < 0 || c.Queues > 64 {
		fault("queues: %d: choose 1 to 64, or 0 for 1", c.Queues)
	}
	// What says something about an interface alone is refused rather than ignored.
	for _, k := range []struct {
		key string
		set bool
	}{
		{"interface", c.Interface != ""}, {"mac", c.MAC != ""}, {"mtu", c.MTU != 0}, {"tx_budget", c.TXBudget != 0}, {"busy_poll", c.BusyPoll != 0}, {"jumbo", c.Jumbo},
		{"rss", c.RSS != RSSKeep}, {"optional", c.Optional}, {"keep", len(c.Keep) != 0},
	} {
		if k.set {
			fault("%s: the driver %s has no interface: remove it, or use driver = %q", k.key, c.Driver, DriverXSK)
		}
	}
	c.validateRate(fault)
}

// maxSocket is the longest path of a Unix socket, in bytes (struct sockaddr_un, with its end).
const maxSocket = 107

func (c *Config) validateRate(fault func(string, ...any)) {
	if c.RateBits != 0 && (c.RateBits < minRate || c.RateBits > maxRate) {
		fault("rate_bits: %d: choose %d to %d bits per second, or 0 for no bound", c.RateBits, minRate, int64(maxRate))
	}
	if n := c.QueuePackets; n != 0 && (n < minQueuePackets || n > maxQueuePackets || bits.OnesCount(uint(n)) != 1) {
		fault("queue_packets: %d: choose a power of two from %d to %d, or 0 for 1024", n, minQueuePackets, maxQueuePackets)
	}
	c.validateClasses(fault)
}

// DataplaneConfig is what all ports of a switch share, [dataplane]: the memory,
// the sizes of rings, and what the kernel decides once per UMEM.
type DataplaneConfig struct {
	// Frames is the number of frames; 0 computes what the rings can hold.
	Frames int `toml:"frames"`
	// FrameSize is in bytes: 2048 or 4096, or 0 for 4096 with NICs, some of which need
	// it for zero-copy, and 2048 with software interfaces alone.
	FrameSize int `toml:"frame_size"`
	// HugePages asks for 2 MiB pages.
	HugePages bool `toml:"huge_pages"`
	// Audit keeps the owner of each frame and counts wrong changes.
	Audit bool `toml:"audit"`
	// The ring sizes are in packets, powers of two.
	RXRing         int `toml:"rx_ring"`
	TXRing         int `toml:"tx_ring"`
	FillRing       int `toml:"fill_ring"`
	CompletionRing int `toml:"completion_ring"`
	// Copy is who writes packets into frames: "auto" (the device where it can,
	// else the kernel), "zero-copy" or "copy".
	Copy string `toml:"copy"`
	// NeedWakeup lets the kernel say when it needs a system call.
	NeedWakeup bool `toml:"need_wakeup"`
	// Timestamps is where a packet's arrival time comes from, if a stage needs
	// it: "batch" (the clock at its batch's beginning), "xdp" (the XDP program
	// reads the clock for each packet, before it waits in the RX ring),
	// "hardware" (the device's own receive times, where its driver gives them to
	// native XDP and its clock keeps TAI, else as "xdp", and the mode says why) or
	// "auto" (the program where it can, else the batch, and the mode says why).
	Timestamps string `toml:"timestamps"`
}

// Where arrival times come from.
const (
	TimestampsBatch    = "batch"
	TimestampsXDP      = "xdp"
	TimestampsHardware = "hardware"
	TimestampsAuto     = "auto"
)

// DefaultDataplaneConfig returns rings of 2048 packets.
func DefaultDataplaneConfig() DataplaneConfig {
	return DataplaneConfig{
		RXRing: 2048, TXRing: 2048, FillRing: 2048, CompletionRing: 2048,
		Copy: "auto", NeedWakeup: true, Timestamps: TimestampsBatch,
	}
}

// The sizes of frames, in bytes.
const (
	smallFrame = 2048
	largeFrame = 4096
)

// FrameSizeFor returns the size of frames, in bytes, for those ports: FrameSize where that is set. It looks at the
// interfaces, in the network namespace of the calling thread.
func (c *DataplaneConfig) FrameSizeFor(ports []Config) int {
	if c.FrameSize != 0 {
		return c.FrameSize
	}
	for i := range ports {
		if ports[i].InSharedMemory() || ports[i].Driver == DriverTap || Deviceless(ports[i].Driver) {
			continue
		}
		if l, err := findLink(ports[i].Interface); err == nil {
			nic := l.kind == kindDevice
			l.close()
			if nic {
				return largeFrame
			}
		}
	}
	return smallFrame
}

// FramesFor returns the number of frames for that many queues and workers:
// what all fill and TX rings can hold, room for the workers' caches, and held frames, which wait for rates
// and in classes (Config.Held). It is Frames where that is set.
func (c *DataplaneConfig) FramesFor(queues, held, workers int) int {
	if c.Frames != 0 {
		return c.Frames
	}
	return queues*(c.FillRing+c.TXRing) + held + workers*2048
}

// Validate reports all faults, each beginning with its key.
func (c *DataplaneConfig) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Frames != 0 && (c.Frames < 256 || c.Frames > 1<<24) {
		fault("frames: %d: choose 256 to 16777216, or 0 for as many as the rings hold", c.Frames)
	}
	if c.FrameSize != 0 && c.FrameSize != smallFrame && c.FrameSize != largeFrame {
		fault("frame_size: %d: choose %d or %d, or 0 for what the ports need", c.FrameSize, smallFrame, largeFrame)
	}
	for _, ring := range []struct {
		key  string
		size int
	}{
		{"rx_ring", c.RXRing}, {"tx_ring", c.TXRing}, {"fill_ring", c.FillRing}, {"completion_ring", c.CompletionRing},
	} {
		if ring.size < 64 || ring.size > 1<<16 || bits.OnesCount(uint(ring.size)) != 1 {
			fault("%s: %d: choose a power of two from 64 to 65536", ring.key, ring.size)
		}
	}
	if c.CompletionRing < c.TXRing {
		fault("completion_ring: %d is less than tx_ring = %d: the kernel sends no more than it can confirm", c.CompletionRing, c.TXRing)
	}
	if _, err := xsk.ParseMode(c.Copy); err != nil {
		fault("copy: %w", err)
	}
	switch c.Timestamps {
	case TimestampsBatch, TimestampsXDP, TimestampsHardware, TimestampsAuto:
	default:
		fault("timestamps: %q: choose %q, %q, %q or %q", c.Timestamps, TimestampsBatch, TimestampsXDP, TimestampsHardware, TimestampsAuto)
	}
	return errors.Join(errs...)
}
