package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/internal/bitrate"
)

// workloadFlags are the flags that weir gen and weir sink share: both need the same.
type workloadFlags struct {
	namespace, device string
	core              int
	sizes             []string
	order             string
	srcMAC, dstMAC    string
	srcNet, dstNet    string
	tai               bool
	vlans             []uint
	mpls              []uint
	vni               int
	vxlanSrc          string
	vxlanDst          string
	capture           string
	packets           *traffic.Capture // of capture, once workload was called
	sized             func() bool      // --size was given
	traffic.Workload
}

func (w *workloadFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	w.Workload = traffic.DefaultWorkload()
	w.Exponent = 1
	f.StringVarP(&w.device, "interface", "i", "", "the network `INTERFACE`")
	f.StringVar(&w.namespace, "namespace", "", "the network namespace that holds it; default: this one")
	f.IntVar(&w.core, "core", traffic.AnyCore, "the core to work on; -1: any")
	f.StringSliceVar(&w.sizes, "size", []string{"64"}, "bytes on the wire with frame check sequence, in turn, imix, or capture; default: 64, or what the headers need")
	w.sized = func() bool { return f.Changed("size") }
	f.StringVar(&w.capture, "capture", "", "a capture `FILE`: its packets are sent, or with --size capture packets of its sizes")
	f.IntVar(&w.Flows, "flows", w.Flows, "number of flows, to 10,000,000")
	f.StringVar(&w.order, "order", w.Order.String(), "how flows are drawn: uniform, zipf or round-robin")
	f.Float64Var(&w.Exponent, "exponent", w.Exponent, "exponent of Zipf's law")
	f.StringVar(&w.srcMAC, "src-mac", w.Source.MAC.String(), "first source MAC address")
	f.StringVar(&w.dstMAC, "dst-mac", w.Destination.MAC.String(), "first destination MAC address")
	f.IntVar(&w.Source.MACs, "src-macs", 1, "number of source MAC addresses")
	f.IntVar(&w.Destination.MACs, "dst-macs", 1, "number of destination MAC addresses")
	f.StringVar(&w.srcNet, "src-net", w.Source.Net.String(), "network of the source addresses, IPv4 or IPv6")
	f.StringVar(&w.dstNet, "dst-net", w.Destination.Net.String(), "network of the destination addresses")
	f.BoolVar(&w.TCP, "tcp", false, "packets of TCP, not UDP")
	f.UintSliceVar(&w.vlans, "vlan", nil, "VLAN `TAGS`, the outer one first, one or two")
	f.UintSliceVar(&w.mpls, "mpls", nil, "MPLS `LABELS`, the top of the stack first, up to four")
	f.IntVar(&w.vni, "vxlan", -1, "each frame in a VXLAN tunnel of this network `VNI`")
	f.StringVar(&w.vxlanSrc, "vxlan-src", "192.0.2.1", "the `ADDRESS` at which the tunnel begins")
	f.StringVar(&w.vxlanDst, "vxlan-dst", "192.0.2.2", "the `ADDRESS` at which it ends")
	f.BoolVar(&w.UDPChecksum, "udp-checksum", false, "fill in the UDP checksum over IPv4")
	f.BoolVar(&w.Reversed, "reversed", false, "the answers' direction: source and destination swapped")
	f.Uint64Var(&w.Seed, "seed", w.Seed, "seed of the draw of flows")
	f.Uint16Var(&w.Run, "run", w.Run, "number of the run, which identifies its packets")
	f.BoolVar(&w.tai, "tai", false, "send times of CLOCK_TAI, for two machines, not CLOCK_MONOTONIC")
}

// workload makes the workload of the flags, with all faults at once.
func (w *workloadFlags) workload() (traffic.Workload, error) {
	var errs []error
	note := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	out := w.Workload
	var err error
	if w.capture != "" {
		w.packets, err = traffic.ReadCapture(w.capture)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: name a file of pcap or pcapng", err)
		}
		note("capture", err)
	}
	if !w.capturedSizes() {
		out.Sizes, err = parseSizes(w.sizes)
		note("size", err)
	} else if w.capture == "" {
		note("size", errors.New("capture: name the file with --capture"))
	}
	out.Order, err = traffic.ParseOrder(w.order)
	note("order", err)
	out.Source.MAC, err = parseMAC(w.srcMAC)
	note("src-mac", err)
	out.Destination.MAC, err = parseMAC(w.dstMAC)
	note("dst-mac", err)
	out.Source.Net, err = parseNet(w.srcNet)
	note("src-net", err)
	out.Destination.Net, err = parseNet(w.dstNet)
	note("dst-net", err)
	for _, id := range w.vlans {
		if id < 1 || id > 4094 {
			note("vlan", fmt.Errorf("%d is no VLAN: choose 1 to 4094", id))
		}
		out.VLANs = append(out.VLANs, uint16(id))
	}
	for _, label := range w.mpls {
		if label >= 1<<20 {
			note("mpls", fmt.Errorf("%d is no label: choose 0 to 1048575", label))
		}
		out.MPLS = append(out.MPLS, uint32(label))
	}
	if w.vni < -1 || w.vni >= 1<<24 {
		note("vxlan", fmt.Errorf("%d is no network: choose 0 to 16777215", w.vni))
	}
	if w.vni >= 0 {
		tunnel := &traffic.VXLAN{VNI: uint32(w.vni)}
		tunnel.Source, err = parseAddr(w.vxlanSrc)
		note("vxlan-src", err)
		tunnel.Destination, err = parseAddr(w.vxlanDst)
		note("vxlan-dst", err)
		out.VXLAN = tunnel
	}
	if w.tai {
		out.Clock = traffic.TAI
	}
	note("core", checkCore(w.core))
	if len(errs) == 0 && w.capturedSizes() {
		out.Sizes = w.packets.Sizes(out.MinSize())
	}
	if len(errs) == 0 {
		if !w.sized() {
			out.Sizes = traffic.Fixed(max(out.Sizes[0], out.MinSize()))
		}
		errs = append(errs, out.Validate())
	}
	return out, errors.Join(errs...)
}

// mostCores is how many cores the kernel's calls here know of: those of unix.CPUSet.
const mostCores = 1024

// processCores are those that the process may work on. They are read as it starts: later its threads may be bound to some of them.
var processCores, errProcessCores = func() (set unix.CPUSet, err error) {
	err = unix.SchedGetaffinity(0, &set)
	return set, err
}()

// checkCore reports a core that this process may not work on. -1 is any.
func checkCore(core int) error {
	if core == traffic.AnyCore {
		return nil
	}
	if errProcessCores != nil {
		return fmt.Errorf("read the cores of this process: %w", errProcessCores)
	}
	if core >= 0 && processCores.IsSet(core) {
		return nil
	}
	var may []string
	for i := range mostCores {
		if processCores.IsSet(i) {
			may = append(may, strconv.Itoa(i))
		}
	}
	return fmt.Errorf("this process may not work on core %d: choose one of %s, or -1 for any (lscpu -e)", core, strings.Join(may, ","))
}

// latencyStream is the workload of the stream beside the load that measures latency: the smallest frames of the same kinds, of the next run.
func latencyStream(load traffic.Workload) traffic.Workload {
	load.Run++
	load.Sizes = traffic.Fixed(load.MinSize())
	load.Order, load.Part, load.Parts = traffic.RoundRobin, 0, 0
	return load
}

// capturedSizes reports whether packets have the sizes of a capture.
func (w *workloadFlags) capturedSizes() bool { return len(w.sizes) == 1 && w.sizes[0] == "capture" }

// port opens the interface; close its namespace at the end.
func (w *workloadFlags) port() (traffic.Port, error) {
	if w.device == "" {
		return traffic.Port{}, errors.New("--interface: name the network interface (ip link shows what there is)")
	}
	return traffic.OpenPort(w.namespace, w.device, w.core)
}

func parseMAC(text string) (net.HardwareAddr, error) {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return nil, fmt.Errorf("%q is no MAC address: write it as 02:00:00:00:00:01", text)
	}
	return mac, nil
}

func parseAddr(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, fmt.Errorf("%q is no address: write it as 192.0.2.1 or fd00::1", text)
	}
	return a, nil
}

// parseNet reads a network of addresses.
func parseNet(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		if a, err := netip.ParseAddr(text); err == nil {
			return p, fmt.Errorf("%s is one address: write %s/%d, or a larger network", text, text, a.BitLen())
		}
		return p, fmt.Errorf("%q is no network: write 10.0.0.0/8 or fd00::/8", text)
	}
	return p, nil
}

func parseSizes(names []string) ([]int, error) {
	if len(names) == 1 && strings.EqualFold(names[0], "imix") {
		return traffic.IMIX(), nil
	}
	var sizes []int
	for _, name := range names {
		n, err := strconv.Atoi(name)
		if err != nil {
			return nil, fmt.Errorf("%q is no number of bytes: write 64 to 9018, several with commas, imix, or capture", name)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// rateFlag is a rate: packets per second, bits per second of frames, or a share of the interface's speed. The zero value
// is no rate, as fast as possible.
type rateFlag struct {
	pps   float64
	bits  bitrate.Rate
	share float64 // 0 to 1
}

func (r *rateFlag) String() string {
	switch {
	case r.bits != 0:
		return r.bits.String()
	case r.share != 0:
		return strconv.FormatFloat(100*r.share, 'g', -1, 64) + "%"
	case r.pps == 0:
		return "max"
	}
	return strconv.FormatFloat(r.pps, 'f', -1, 64)
}

func (r *rateFlag) Type() string { return "rate" }

func (r *rateFlag) Set(text string) error {
	fault := errors.New(`write packets per second, as in 250000, 250k or 1.5M; bits per second, as in 10Gbps; a share of the interface's speed, as in 50%; or max`)
	if text == "max" {
		*r = rateFlag{}
		return nil
	}
	if number, ok := strings.CutSuffix(text, "%"); ok {
		v, err := strconv.ParseFloat(number, 64)
		if err == nil && v > 100 {
			return errors.New("it is more than the interface's speed: write 100% at most, or max")
		}
		if err != nil || !(v > 0) {
			return fault
		}
		*r = rateFlag{share: v / 100}
		return nil
	}
	if strings.Contains(text, "b") {
		v, err := bitrate.Parse(text)
		if err != nil || v == 0 {
			return fault
		}
		*r = rateFlag{bits: v}
		return nil
	}
	scale := 1.0
	for suffix, factor := range map[string]float64{"pps": 1, "kpps": 1e3, "Mpps": 1e6, "k": 1e3, "M": 1e6} {
		if number, ok := strings.CutSuffix(text, suffix); ok && (suffix != "pps" || !strings.HasSuffix(text, "kpps") && !strings.HasSuffix(text, "Mpps")) {
			text, scale = number, factor
			break
		}
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || !(rate > 0) {
		return fault
	}
	*r = rateFlag{pps: rate * scale}
	return nil
}

// wireGap is what a frame takes on Ethernet beside its own bytes: preamble, start and gap between frames.
const wireGap = 20

// packets is the rate in packets per second; 0: as fast as possible. mean is the mean frame in bytes with FCS, and speed what
// the interface carries in bits per second, asked for only if needed; an unknown one refuses no rate in bits.
func (r *rateFlag) packets(mean float64, speed func() (uint64, error)) (float64, error) {
	switch {
	case r.bits != 0:
		if bits, err := speed(); err == nil && bits > 0 && uint64(r.bits) > bits {
			return 0, fmt.Errorf("--rate %s: it is more than the interface's speed, %s: write %s or 100%% at most, or max", r, bitrate.Rate(bits), bitrate.Rate(bits))
		}
		return float64(r.bits) / (8 * mean), nil
	case r.share != 0:
		bits, err := speed()
		if err != nil || bits == 0 {
			return 0, fmt.Errorf("--rate %s: the interface does not say how fast it is: give the rate in packets or bits per second (%w)", r, cmp.Or(err, errors.New("its speed is 0")))
		}
		return r.share * float64(bits) / (8 * (mean + wireGap)), nil
	}
	return r.pps, nil
}

// meanSize is the mean of sizes.
func meanSize(sizes []int) float64 {
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	return float64(sum) / float64(max(len(sizes), 1))
}
