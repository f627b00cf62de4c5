package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Options are fixed when the program is loaded.
type Options struct {
	Keep      Keep // traffic left to the kernel
	MaxQueues int  // receive queues that may have a socket, 1 or more
	Frags     bool // packets of several buffers (multi-buffer, jumbo)
	// Longest is the longest packet that a frame of the sockets holds, in bytes; longer
	// ones are dropped and counted. 0, and with Frags, leaves them to the socket.
	Longest   int
	Timestamp Clock // write the arrival time in front of each packet, see TimestampSize
	// TagsOf is an interface of the calling thread's namespace, by its index, whose driver gives the program the VLAN tags that are
	// not in the packets (Linux 6.8). The program puts them there, and can be attached to this interface alone, natively. 0: none.
	TagsOf int
}

// Program is a loaded program with its socket map. Each interface needs its own, for the
// map is indexed by queue. Methods may be called by any goroutine.
type Program struct {
	program  *ebpf.Program
	sockets  *ebpf.Map
	counters *ebpf.Map
	options  Options
	tag      uint64
	device   int // the only interface that it may be attached to, or 0
}

// Load loads the program into the kernel.
func Load(options Options) (*Program, error) {
	if options.MaxQueues < 1 {
		return nil, fmt.Errorf("load XDP program: %d queues: want 1 or more", options.MaxQueues)
	}
	if err := options.Keep.Validate(); err != nil {
		return nil, fmt.Errorf("load XDP program: %w", err)
	}
	tag := uint64(0)
	if options.Timestamp != ClockNone {
		tag = newTag()
	}
	return load(&Program{options: options, tag: tag, device: options.TagsOf}, nil)
}

// load loads p, with the given maps instead of new ones.
func load(p *Program, maps map[string]*ebpf.Map) (*Program, error) {
	spec, err := loadRedirect()
	if err != nil {
		return nil, fmt.Errorf("read XDP program: %w", err)
	}
	if err := p.specialise(spec); err != nil {
		return nil, fmt.Errorf("set constants of XDP program: %w", err)
	}
	collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: maps})
	if err != nil {
		return nil, loadError(err)
	}
	defer collection.Close() // closes what is not detached below
	p.program = collection.DetachProgram(p.name())
	p.sockets, p.counters = collection.DetachMap("sockets"), collection.DetachMap("counters")
	return p, nil
}

// name is that of the variant in redirect.c.
func (p *Program) name() string {
	name := "redirect"
	switch {
	case p.options.TagsOf != 0:
		name += "_tags"
	case p.device != 0:
		name += "_hardware"
	}
	if p.options.Frags {
		name += "_frags"
	}
	return name
}

// specialise sets the constants and drops the variants that are not wanted.
func (p *Program) specialise(spec *ebpf.CollectionSpec) error {
	options := &p.options
	variant := spec.Programs[p.name()]
	spec.Programs = map[string]*ebpf.ProgramSpec{p.name(): variant}
	if p.device != 0 {
		variant.Ifindex = uint32(p.device)
		variant.Flags |= unix.BPF_F_XDP_DEV_BOUND_ONLY
	}
	spec.Maps["sockets"].MaxEntries = uint32(options.MaxQueues)

	var ethertypes [maxEtherTypes]uint16
	copy(ethertypes[:], options.Keep.EtherTypes)
	var protocols [256]bool
	for _, protocol := range options.Keep.Protocols {
		protocols[protocol] = true
	}
	var ports [maxPorts]uint32
	for i, t := range options.Keep.Ports {
		ports[i] = uint32(t.Protocol)<<16 | uint32(t.Port)
	}
	longest := uint32(options.Longest)
	if options.Frags {
		longest = 0
	}
	for name, value := range map[string]any{
		"longest":              longest,
		"keep_ethertype_count": uint32(len(options.Keep.EtherTypes)),
		"keep_ethertypes":      ethertypes,
		"keep_any_protocol":    len(options.Keep.Protocols) > 0,
		"keep_protocols":       protocols,
		"keep_port_count":      uint32(len(options.Keep.Ports)),
		"keep_ports":           ports,
		"timestamp_tag":        p.tag,
		"timestamp_tai":        options.Timestamp == ClockTAI,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func loadError(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("load XDP program: no privilege: run as root or grant CAP_BPF and CAP_NET_ADMIN "+
			"(before Linux 5.11 too little locked memory gives the same error: ulimit -l): %w", err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("load XDP program: this kernel has no BPF (CONFIG_BPF_SYSCALL): %w", err)
	default:
		return fmt.Errorf("load XDP program: %w", err)
	}
}

// Register directs the packets of a receive queue to a socket, by its descriptor.
func (p *Program) Register(queue, socketFD int) error {
	if err := p.sockets.Update(uint32(queue), uint32(socketFD), ebpf.UpdateAny); err != nil {
		return fmt.Errorf("direct queue %d to socket: %w", queue, err)
	}
	return nil
}

// Unregister leaves the packets of a queue to the kernel again. Packets that the program is
// handling at this moment may still arrive at the socket. It does nothing for a queue without socket.
func (p *Program) Unregister(queue int) error {
	if err := p.sockets.Delete(uint32(queue)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("take queue %d from its socket: %w", queue, err)
	}
	return nil
}

// Counters count packets since Load.
type Counters struct {
	Kept     uint64 // on the keep list, left to the kernel
	NoSocket uint64 // on a queue without socket, left to the kernel
	TooLong  uint64 // dropped, as they exceed Options.Longest
	Untimed  uint64 // given to a socket without the arrival time asked for
	// Of a program for one device (Program.ForDevice), packets that have the program's
	// time instead of the device's:
	Unstamped uint64 // the device gave none
	Astray    uint64 // it was more than 100 ms off the program's clock
	TagLost   uint64 // dropped, as there was no room in front of the packet for its VLAN tag
}

// Counters sums over the CPUs.
func (p *Program) Counters() (Counters, error) {
	var sums [7]uint64
	for i := range sums {
		var perCPU []uint64
		if err := p.counters.Lookup(uint32(i), &perCPU); err != nil {
			return Counters{}, fmt.Errorf("read counters of XDP program: %w", err)
		}
		for _, n := range perCPU {
			sums[i] += n
		}
	}
	return Counters{Kept: sums[0], NoSocket: sums[1], Untimed: sums[2], Unstamped: sums[3], Astray: sums[4], TooLong: sums[5], TagLost: sums[6]}, nil
}

// Close frees the program and its maps. Attachments keep the program alive; close them first.
func (p *Program) Close() error {
	return errors.Join(p.program.Close(), p.sockets.Close(), p.counters.Close())
}
