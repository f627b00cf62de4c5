package forward

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/dataplane/traffic"
)

// Config says what is measured and how long.
type Config struct {
	// Devices under test by name; empty: all that are installed.
	Devices []string
	// Ports of the devices: PortsVeth, or those in shared memory. See the package documentation.
	Ports Ports
	// Sizes by name: a number of bytes on the wire, with frame check sequence, or "imix".
	Sizes []string
	// Rounds over all devices. Figures are medians of the rounds.
	Rounds int
	// Trial is the length of one trial.
	Trial time.Duration
	// Trials at one rate, at most; odd. See search.
	Trials int
	// Precision at which a search ends, as a share of the rate.
	Precision float64
	// Searches for NDR and PDR, and latencies, which need the NDR.
	Searches bool
	// Soak is how long each device runs at 90 % of its NDR at the end, at most a day; 0: not at all. It is
	// for Weir's devices.
	Soak time.Duration
	// Floods by name, which a hostile host sends by a third port while the source sends; see Floods. Without, none.
	Floods []string
	// Flows of the workload, 1 to traffic.MaxFlows.
	Flows int
	Seed  uint64
	Cores Cores
	// Placement of the receive work.
	Placement Placement
	// Weir is the command that behaves as weir.
	Weir []string
	// Before is that of another build, as of the commit before, which patch_before and l2_before are; empty: there is none.
	Before []string
	// Poll is how Weir's workers wait: workers.poll.
	Poll string
	// BusyPoll is busy_poll of Weir's xsk ports, in microseconds; 0 is off.
	BusyPoll int
	// Ring is how many packets each ring of Weir's xsk ports holds; 0: their default. A
	// ring bridges the moments in which others have the core: 16384 packets are 30 ms
	// at half a million per second.
	Ring int
	// Progress is called for each step.
	Progress bench.Progress
	// Raw gets each measurement as it is made, for the record; nil: none.
	Raw func(Sample)
}

// Ports is what joins the device with source and sink.
type Ports string

// The kinds of ports.
const (
	PortsVeth  Ports = "veth"
	PortsVhost Ports = "vhost"
	PortsMemif Ports = "memif"
)

// Cores by number. See the package documentation.
type Cores struct {
	Source, Device int
}

// Placement says where the receive work of the device's ports is done.
type Placement string

// The placements. See the package documentation.
const (
	// OnDevice: in kernel threads, bound to the device's core.
	OnDevice Placement = "device"
	// OnSource: in softirqs on the core where packets are sent from, as a veth has it.
	OnSource Placement = "source"
)

// DefaultConfig measures everything, in about half an hour.
func DefaultConfig() Config {
	return Config{
		Ports: PortsVeth, Sizes: []string{"64", "imix", "1518"}, Rounds: 3, Trial: time.Second, Trials: 3, Precision: 0.02,
		Searches: true, Flows: 1000, Seed: 1, Cores: defaultCores(), Placement: OnSource, Poll: "adaptive",
	}
}

// Quick shortens the configuration to a minute or two.
func (c *Config) Quick() {
	c.Sizes, c.Rounds, c.Trial, c.Precision = []string{"64"}, 1, 300*time.Millisecond, 0.05
}

// defaultCores are the first two cores that this process may use.
func defaultCores() Cores {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return Cores{0, 1}
	}
	var cores []int
	for core := 0; core < 1024 && len(cores) < 2; core++ {
		if set.IsSet(core) {
			cores = append(cores, core)
		}
	}
	if len(cores) < 2 {
		return Cores{0, 1}
	}
	return Cores{cores[0], cores[1]}
}

// Validate reports all faults at once.
func (c *Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	shared := c.Ports == PortsVhost || c.Ports == PortsMemif
	if !shared && c.Ports != PortsVeth {
		fault("ports: %q: choose %q, %q or %q", c.Ports, PortsVeth, PortsVhost, PortsMemif)
	}
	for _, size := range c.Sizes {
		if size == sizeLarge && c.Ports != PortsVhost {
			fault("size: %s: it needs ports = %q", size, PortsVhost)
		}
		if _, err := sizes(size); err != nil {
			errs = append(errs, err)
		}
	}
	if len(c.Sizes) == 0 {
		fault("sizes: name at least one")
	}
	if c.Rounds < 1 || c.Rounds > 1000 {
		fault("rounds: %d is not between 1 and 1000", c.Rounds)
	}
	if c.Trial < 10*time.Millisecond || c.Trial > time.Hour {
		fault("duration: %v is not between 10ms and 1h", c.Trial)
	}
	if c.Soak < 0 || c.Soak > 24*time.Hour {
		fault("soak: %v is not between 0 and 24h", c.Soak)
	}
	if c.Soak > 0 && !c.Searches {
		fault("soak: it needs the NDR: leave searches on")
	}
	if c.Ring != 0 && (c.Ring < 64 || c.Ring > 1<<16 || c.Ring&(c.Ring-1) != 0) {
		fault("ring: %d: choose a power of two from 64 to 65536, or 0 for the default", c.Ring)
	}
	if c.Trials < 1 || c.Trials%2 == 0 {
		fault("trials: %d is not odd", c.Trials)
	}
	if !(c.Precision >= 0.001 && c.Precision <= 0.5) {
		fault("precision: %v is not between 0.001 and 0.5", c.Precision)
	}
	if c.Placement != OnDevice && c.Placement != OnSource {
		fault("placement: %q: choose %q or %q", c.Placement, OnDevice, OnSource)
	}
	if len(c.Weir) == 0 {
		fault("the command of weir is missing")
	}
	if c.Cores.Source == c.Cores.Device {
		fault("cores: source and device share core %d: use two, or the one starves the other", c.Cores.Device)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		fault("cores: %w", err)
	}
	for _, core := range []int{c.Cores.Source, c.Cores.Device} {
		if core < 0 || core >= 1024 || !set.IsSet(core) {
			fault("cores: this process may not use core %d: two are needed", core)
		}
	}
	if shared {
		if c.Soak > 0 {
			fault("soak: it needs ports = %q", PortsVeth)
		}
		if _, err := chooseShared(c); err != nil {
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	c.checkFloods(fault)
	chosen, err := choose(c.Devices, len(c.Floods) > 0)
	for _, d := range chosen {
		if d.before && len(c.Before) == 0 {
			fault("%s: it is of another build of weir: name one with --before FILE", d.name)
		}
		if c.Soak > 0 && !d.weir {
			fault("soak: it reads memory and pauses of weir's own process, which %s has not: name Weir's devices", d.name)
		}
	}
	return errors.Join(append(errs, err)...)
}

// sizes turns a name into sizes in bytes, and sizeLabel into a word of metrics.
func sizes(name string) ([]int, error) {
	if strings.EqualFold(name, "imix") {
		return traffic.IMIX(), nil
	}
	if name == sizeLarge {
		return []int{largePacket}, nil
	}
	var size int
	if n, err := fmt.Sscanf(name+";", "%d;", &size); n != 1 || err != nil || size < 64 || size > 1518 {
		return nil, fmt.Errorf("size %q: write 64 to 1518 bytes, or imix", name)
	}
	return traffic.Fixed(size), nil
}

// sizeLarge is a size of vhost ports: packets of TCP that a guest leaves to its device to cut, 45 segments each.
const sizeLarge = "tso"

func sizeLabel(name string) string {
	if name == sizeLarge {
		return name
	}
	if strings.EqualFold(name, "imix") {
		return "IMIX"
	}
	return name + "B"
}
