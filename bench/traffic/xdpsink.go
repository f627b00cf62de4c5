package traffic

import (
	"errors"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"github.com/weirswitch/weir/bench/traffic/bpf"
)

// subBits is the number of bits of a latency that the program's histogram keeps behind
// the leading one, so its buckets are at most 1/128 of their value wide.
const subBits = 7

const flowsPerLine = 16

// XDPSink counts and drops packets in an XDP program, so receiving costs little CPU,
// and that in the receiving softirq. Loss and duplicates are exact within Window. The
// order of flows is exact while each flow stays on one receive queue, latency
// is to 0.4 %, and arrival is when the program runs.
type XDPSink struct {
	objects bpf.SinkObjects
	link    link.Link
	w       Workload
	options SinkOptions
}

// NewXDPSink attaches the program in native mode; generic selects the kernel's
// generic mode for drivers without XDP. It needs CAP_BPF and CAP_NET_ADMIN, and Linux
// 6.1 or newer. The port's core plays no part: the receiving softirq does the work.
func NewXDPSink(port Port, w Workload, options SinkOptions, generic bool) (_ *XDPSink, err error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	spec, err := bpf.LoadSink()
	if err != nil {
		return nil, err
	}
	sides := newSides(w)
	config := bpf.SinkConfig{
		SrcNet: sides.srcNet, SrcBits: uint32(sides.srcBits), Flows: uint32(w.Flows),
		Ipv6: flag(w.IPv6()), Reversed: flag(w.Reversed), Tai: flag(w.Clock == TAI),
		Bins: flag(options.Bins), Order: flag(options.FlowOrder), Exact: flag(options.Duplicates), Run: w.Run,
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
	_ = rlimit.RemoveMemlock() // kernels before 5.11 count maps against it; newer ones do not care
	s := &XDPSink{w: w, options: options}
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return nil, fmt.Errorf("load the sink program (needs CAP_BPF and CAP_NET_ADMIN): %w", err)
	}
	if err := s.attach(port, generic); err != nil {
		return nil, errors.Join(err, s.objects.Close())
	}
	return s, nil
}

func (s *XDPSink) attach(port Port, generic bool) error {
	device, err := port.Namespace.Link(port.Interface)
	if err != nil {
		return err
	}
	flags := link.XDPDriverMode
	if generic {
		flags = link.XDPGenericMode
	}
	return port.Namespace.Do(func() error {
		s.link, err = link.AttachXDP(link.XDPOptions{Program: s.objects.Sink, Interface: device.Attrs().Index, Flags: flags})
		if err != nil {
			return fmt.Errorf("attach the sink program to %s: %w", port, err)
		}
		return nil
	})
}

// Name is "xdp".
func (s *XDPSink) Name() string { return "xdp" }

// Close detaches the program.
func (s *XDPSink) Close() error { return errors.Join(s.link.Close(), s.objects.Close()) }

// Reset begins to count anew. The packets before it keep their sequence numbers: those that come
// again or late are still told. Call it while nothing arrives.
func (s *XDPSink) Reset() error {
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
func (s *XDPSink) Report() (*Report, error) {
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
