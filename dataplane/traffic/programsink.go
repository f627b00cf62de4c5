package traffic

import (
	"errors"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/traffic/bpf"
)

// subBits is the number of bits of a latency that the program's histogram keeps behind
// the leading one, so its buckets are at most 1/128 of their value wide.
const subBits = 7

const flowsPerLine = 16

// programSink is a sink in a BPF program. Loss and duplicates are exact within Window. The
// order of flows is exact while each flow stays on one receive queue, latency
// is to 0.4 %, and arrival is when the program runs.
type programSink struct {
	objects bpf.SinkObjects
	link    link.Link
	w       Workload
	options SinkOptions
}

// XDPSink counts and drops packets in an XDP program, so receiving costs little CPU,
// and that in the receiving softirq. Packets that come to a veth as socket buffers, as from
// an AF_XDP socket in copy mode, the kernel first copies into pages fit for XDP, at about
// 0.2 µs each; see TCSink.
type XDPSink struct{ programSink }

// NewXDPSink attaches the program in native mode; generic selects the kernel's
// generic mode for drivers without XDP. It needs CAP_BPF and CAP_NET_ADMIN, and Linux
// 6.6 or newer. The port's core plays no part: the receiving softirq does the work.
func NewXDPSink(port Port, w Workload, options SinkOptions, generic bool) (*XDPSink, error) {
	s := &XDPSink{}
	err := s.open(port, w, options, func(ifindex int) (link.Link, error) {
		flags := link.XDPDriverMode
		if generic {
			flags = link.XDPGenericMode
		}
		return link.AttachXDP(link.XDPOptions{Program: s.objects.Sink, Interface: ifindex, Flags: flags})
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Name is "xdp".
func (s *XDPSink) Name() string { return "xdp" }

// TCSink counts and drops packets in a program at the traffic control hook, where a host's
// stack begins: each packet costs what it costs any host, however it was sent. It sees the
// first part of a packet that is in pieces.
type TCSink struct{ programSink }

// NewTCSink attaches the program in front of others. It needs CAP_BPF and CAP_NET_ADMIN, and Linux
// 6.6 or newer. Frames that a peer's XDP program redirects to a veth reach it only with generic
// receive offload on.
func NewTCSink(port Port, w Workload, options SinkOptions) (*TCSink, error) {
	s := &TCSink{}
	err := s.open(port, w, options, func(ifindex int) (link.Link, error) {
		return link.AttachTCX(link.TCXOptions{
			Program: s.objects.SinkTc, Interface: ifindex, Attach: ebpf.AttachTCXIngress, Anchor: link.Head(),
		})
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Name is "tc".
func (s *TCSink) Name() string { return "tc" }

func (s *programSink) open(port Port, w Workload, options SinkOptions, attach func(ifindex int) (link.Link, error)) error {
	if err := w.Validate(); err != nil {
		return err
	}
	s.w, s.options = w, options
	spec, err := s.specialise()
	if err != nil {
		return err
	}
	device, err := port.Namespace.Link(port.Interface)
	if err != nil {
		return err
	}
	_ = rlimit.RemoveMemlock() // kernels before 5.11 count maps against it; newer ones do not care
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return fmt.Errorf("load the sink program (needs CAP_BPF and CAP_NET_ADMIN): %w", err)
	}
	err = port.Namespace.Do(func() (err error) {
		s.link, err = attach(device.Attrs().Index)
		return err
	})
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		err = fmt.Errorf("another XDP program is there, as of a second sink or of a switch (%w): end what attached it (bpftool net show dev %s), or count with --sink tc or packet", err, port.Interface)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("attach the sink program to %s: %w", port, err), s.objects.Close())
	}
	return nil
}

// specialise sets the constants and sizes of the programs.
func (s *programSink) specialise() (*ebpf.CollectionSpec, error) {
	spec, err := bpf.LoadSink()
	if err != nil {
		return nil, err
	}
	w, options, sides := s.w, s.options, newSides(s.w)
	config := bpf.SinkConfig{
		SrcNet: sides.srcNet, SrcBits: uint32(sides.srcBits), Flows: uint32(w.Flows),
		Ipv6: flag(w.isIPv6()), Reversed: flag(w.Reversed), Tai: flag(w.Clock == TAI),
		Bins: flag(options.Bins), Order: flag(options.FlowOrder), Exact: flag(options.Duplicates), Run: w.Run,
		Offset: uint8(w.extraLen()), Vlans: uint8(len(w.VLANs)), Untyped: flag(len(w.MPLS) > 0), Tcp: flag(w.TCP),
	}
	if err := spec.Variables["config"].Set(config); err != nil {
		return nil, fmt.Errorf("configure the sink program: %w", err)
	}
	if options.FlowOrder {
		spec.Maps["order"].MaxEntries = uint32((w.Flows + flowsPerLine - 1) / flowsPerLine)
	}
	if !options.Duplicates {
		spec.Maps["window"].MaxEntries = 1
	}
	return spec, nil
}

// Close detaches the program.
func (s *programSink) Close() error { return errors.Join(s.link.Close(), s.objects.Close()) }

// Reset begins to count anew. The packets before it keep their sequence numbers: those that come
// again or late are still detected. Call it while nothing arrives.
func (s *programSink) Reset() error {
	cores, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	if err := s.objects.Stats.Update(uint32(0), make([]bpf.SinkStats, cores), ebpf.UpdateAny); err != nil {
		return fmt.Errorf("clear the sink's counters: %w", err)
	}
	return nil
}

// Report implements [Sink].
func (s *programSink) Report() (*Report, error) {
	var cores []bpf.SinkStats
	if err := s.objects.Stats.Lookup(uint32(0), &cores); err != nil {
		return nil, fmt.Errorf("read the sink's counters: %w", err)
	}
	r := &Report{Latency: newHistogram()}
	for i := range cores {
		addCore(r, &cores[i])
	}
	if s.options.Bins {
		ring := make([]uint64, 0, bins)
		var value uint64
		for i := range uint32(bins) {
			if err := s.objects.Bins.Lookup(i, &value); err != nil {
				return nil, fmt.Errorf("read the sink's bins: %w", err)
			}
			ring = append(ring, value)
		}
		r.SentPerBin = trimBins(ring)
	}
	return r, nil
}

func addCore(r *Report, c *bpf.SinkStats) {
	r.Packets += c.Packets
	r.Bytes += c.Bytes
	r.Foreign += c.Foreign
	r.Duplicates += c.Duplicates
	r.Stale += c.Stale
	r.Reordered += c.Reordered
	r.Late += c.Late
	r.Ahead += c.Ahead
	r.NextSeq = max(r.NextSeq, c.NextSeq)
	r.LastNs = max(r.LastNs, c.LastNs)
	if c.FirstNs != 0 && (r.FirstNs == 0 || c.FirstNs < r.FirstNs) {
		r.FirstNs = c.FirstNs
	}
	fillHistogram(r.Latency, c)
}

// fillHistogram records each bucket at its middle, but the outermost ones within the
// exact minimum and maximum.
func fillHistogram(h *hdrhistogram.Histogram, c *bpf.SinkStats) {
	low, high := int64(^c.LatencyMin), int64(c.LatencyMax)
	for i, n := range c.Latency {
		if n != 0 {
			value := min(max(bucketMiddle(i), low), high)
			_ = h.RecordValues(min(value, h.HighestTrackableValue()), int64(n)) // in range, so it cannot fail
		}
	}
}

// bucketMiddle is the middle of a bucket of the program's histogram, in ns. Bucket i
// below 128 is the value i; each further 128 share one power of two.
func bucketMiddle(i int) int64 {
	if i < 1<<subBits {
		return int64(i)
	}
	shift := i>>subBits - 1
	return int64(1<<subBits|i&(1<<subBits-1))<<shift + 1<<shift>>1
}
