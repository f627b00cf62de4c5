package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/internal/progress"
)

// genOptions are the flags of weir gen.
type genOptions struct {
	workloadFlags
	rate     rateFlag
	duration time.Duration
	count    uint64
	first    uint64
	source   string
	cores    []int
	latency  float64
	speed    float64
	// speedGiven: --speed is on the command line.
	speedGiven bool
	timed      bool // no rate is given: a capture has its own times
	asJSON     bool
}

func newGenCommand() *cobra.Command {
	var o genOptions
	cmd := &cobra.Command{
		Use:   "gen -i INTERFACE",
		Short: "Send packets that a weir sink can account for (root)",
		Long: `Gen sends packets of UDP, or with --tcp of TCP, out of an interface at a steady
rate. Each bears its sequence number and send time, so that "weir sink", with
the same flags, knows of each whether it was lost, duplicated, reordered or
late. Flows are of IPv4 or IPv6, as --src-net and --dst-net are; --vlan, --mpls
and --vxlan encapsulate them.

Sources:
  live    the kernel's live-frame mode: millions per second, also on veth, whose
          far end needs an XDP program or generic receive offload; UDP, without
          encapsulation
  xsk     an AF_XDP socket, zero-copy where the driver has it
  packet  an AF_PACKET socket: any interface, any size, slower

Without --source it is the first of them that the interface takes and that holds
the frames: a veth whose far end has neither of the two takes no live frames,
nor does a frame above 4100 bytes go through xsk.

With --cores 2,3 as many sources send at a time, each on its core, its queue of
the interface (from 0 on, for xsk) and its part of the flows.

With --latency 1000 a stream of small packets measures the latency beside the
load: they are of the next run, and "weir sink --latency" reports them by
themselves.

With --capture FILE it sends the packets of a capture instead, as they are, by
xsk or packet: at the capture's own times, --speed times as fast, or at
--rate. They bear no numbers, so a sink counts them as foreign. With --size
capture only the sizes are the capture's, and all else is as above.

It ends after --duration or --count, or at SIGINT; a capture without either is sent
once.`,
		Example: `  weir gen -i eth0 --rate 250k --duration 10s --size imix --flows 100000 --order zipf
  weir gen -i eth0 --rate 50% --size 1518 --duration 1m
  weir gen -i eth0 --namespace lab-h1 --rate max --count 1000000 --json
  weir gen -i eth0 --rate max --cores 2,3 --source xsk --latency 1000
  weir gen -i eth0 --rate 1M --vlan 10 --vxlan 5000 --src-net fd00:1::/112 --dst-net fd00:2::/112
  weir gen -i eth0 --capture trace.pcap.gz --speed 2 --source xsk`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.timed, o.speedGiven = !cmd.Flags().Changed("rate"), cmd.Flags().Changed("speed")
			return runGen(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.rate.pps = 10_000
	f := cmd.Flags()
	o.add(cmd)
	f.Var(&o.rate, "rate", "packets per second (250000, 250k, 1.5M), bits per second of frames with FCS (10Gbps), share of the interface's speed (50%), or max")
	f.DurationVar(&o.duration, "duration", 0, "how long to send; 0: no limit")
	f.Uint64Var(&o.count, "count", 0, "how many packets to send; 0: no limit")
	f.Uint64Var(&o.first, "first", 0, "first sequence number, to go on with a run")
	f.StringVar(&o.source, "source", "", "live, xsk or packet; without it the first of them that the interface takes and that holds the frames; with --capture: packet")
	f.IntSliceVar(&o.cores, "cores", nil, "`CORES` to send from, a source on each, in place of --core")
	f.Float64Var(&o.latency, "latency", 0, "packets per second of a stream that measures latency beside the load; 0: none")
	cmd.MarkFlagsMutuallyExclusive("core", "cores")
	cmd.MarkFlagsMutuallyExclusive("cores", "capture")
	f.Float64Var(&o.speed, "speed", 1, "how many times as fast as it was captured")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

// runGen is the command, top to bottom.
func runGen(ctx context.Context, o genOptions, stdout, stderr io.Writer) (err error) {
	w, err := o.workload()
	load := traffic.Load{Rate: o.rate.pps, Duration: o.duration, Count: o.count, FirstSeq: o.first}
	beside := traffic.Load{Rate: o.latency}
	errs := []error{err, load.Validate()}
	if err := beside.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--latency: %w: choose packets per second, or 0 for none", err))
	}
	for i, core := range o.cores {
		if err := checkCore(core); err != nil {
			errs = append(errs, fmt.Errorf("--cores: %w", err))
		}
		if core != traffic.AnyCore && slices.Contains(o.cores[:i], core) {
			errs = append(errs, fmt.Errorf("--cores: core %d is named twice, where two sources would share it: name another, or -1 for any", core))
		}
	}
	if len(o.cores) > o.Flows && o.Flows > 0 {
		errs = append(errs, fmt.Errorf("--cores: %d sources each send their part of the flows, and there is only %d of these: raise --flows, or name fewer cores", len(o.cores), o.Flows))
	}
	if o.speedGiven && o.capture == "" {
		errs = append(errs, errors.New("--speed: it is of a capture: name its file with --capture, or choose a --rate"))
	}
	if err := errors.Join(errs...); err != nil {
		return usageError(err)
	}
	port, err := o.port()
	if err != nil {
		return usageError(err)
	}
	defer port.Namespace.Close()
	mean := meanSize(w.Sizes)
	if o.replays() {
		mean = meanSize(o.packets.Sizes(0))
	} else if err := port.Carries(w.MaxSize(), len(w.VLANs) > 0); err != nil {
		return usageError(fmt.Errorf("--size: %w", err))
	}
	load.Rate, err = o.rate.packets(mean, func() (bits uint64, err error) {
		return bits, port.Namespace.Do(func() (err error) { bits, err = nic.Speed(port.Interface); return err })
	})
	if err == nil {
		err = load.Validate()
	}
	if err != nil {
		return usageError(err)
	}
	if o.replays() {
		switch {
		case o.timed:
			load.Rate = 0 // its own times
		case load.Rate == 0:
			o.speed = maxSpeed
		}
	}
	source, err := o.open(port, w)
	if err != nil {
		return usageError(err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	var probe traffic.Source
	if o.latency > 0 {
		if probe, err = traffic.NewSource("packet", port, 0, latencyStream(w)); err != nil {
			return usageError(err)
		}
		defer func() { err = errors.Join(err, probe.Close()) }()
	}
	before, err := port.Namespace.Counters(port.Interface)
	if err != nil {
		return err
	}
	stop := watchSending(stderr, port, load)
	sent, probed, err := runBeside(ctx, source, load, probe, beside)
	stop()
	if err != nil {
		return err
	}
	err = o.printSent(stdout, source.Name(), sent, probed)
	if left, e := leftPort(port, before, sent); e != nil || !left {
		err = errors.Join(err, cmp.Or(e, fmt.Errorf("they did not leave %s: see that the link is up at both ends (ip link set dev %s up), or use --source xsk", port, port.Interface)))
	}
	return err
}

// leftPort reports whether more than a hundredth of what was sent left the interface. Live frames over a veth may be lost uncounted, and its far
// end's receive work counts those that are not, maybe after the end of the run. Other drivers count as they like: all left that was not refused.
func leftPort(port traffic.Port, before netns.Counters, sent traffic.Sent) (bool, error) {
	if sent.Packets > 0 && sent.Refused >= sent.Packets {
		return false, nil
	}
	link, err := port.Namespace.Link(port.Interface)
	if err != nil || link.Type() != "veth" {
		return true, err
	}
	for deadline := time.Now().Add(time.Second); ; time.Sleep(5 * time.Millisecond) {
		now, err := port.Namespace.Counters(port.Interface)
		if err != nil {
			return false, err
		}
		if 100*(now.TxPackets-before.TxPackets) >= sent.Packets {
			return true, nil
		}
		if time.Now().After(deadline) {
			return false, nil
		}
	}
}

// open opens the source, or several that send at a time.
func (o *genOptions) open(port traffic.Port, w traffic.Workload) (traffic.Source, error) {
	kind := o.source
	if kind == "" && o.replays() {
		kind = "packet"
	}
	if o.replays() {
		return traffic.NewCaptureSource(kind, port, o.packets, o.speed)
	}
	if len(o.cores) == 0 {
		return traffic.NewSource(kind, port, 0, w)
	}
	var sources []traffic.Source
	for i, core := range o.cores {
		w.Part, w.Parts = i, len(o.cores)
		port.Core = core
		source, err := traffic.NewSource(kind, port, i, w)
		if err != nil {
			for _, s := range sources {
				err = errors.Join(err, s.Close())
			}
			return nil, err
		}
		sources = append(sources, source)
	}
	return traffic.NewParallel(sources), nil
}

// runBeside runs a load, and another one beside it for as long, from probe; nil: there is none.
func runBeside(ctx context.Context, source traffic.Source, load traffic.Load, probe traffic.Source, other traffic.Load) (sent, probed traffic.Sent, err error) {
	if probe == nil {
		sent, err = source.Run(ctx, load)
		return sent, probed, err
	}
	ctxBeside, end := context.WithCancel(ctx)
	var probeErr error
	var running sync.WaitGroup
	running.Go(func() { probed, probeErr = probe.Run(ctxBeside, other) })
	sent, err = source.Run(ctx, load)
	end()
	running.Wait()
	return sent, probed, errors.Join(err, probeErr)
}

// maxSpeed of a capture leaves no gaps.
const maxSpeed = 1e6

// replays reports whether the packets are a capture's.
func (o *genOptions) replays() bool { return o.packets != nil && !o.capturedSizes() }

// genReport is the JSON form.
type genReport struct {
	Source        string  `json:"source"`
	Packets       uint64  `json:"packets"`
	Bytes         uint64  `json:"bytes"`   // without frame check sequences
	Refused       uint64  `json:"refused"` // of packets, by the device itself
	NextSeq       uint64  `json:"next_seq"`
	Seconds       float64 `json:"seconds"`
	Offered       float64 `json:"offered_pps"` // the rate asked for; 0: as fast as possible
	Rate          float64 `json:"rate_pps"`
	SourceLimited bool    `json:"source_limited"`
	Restarts      int     `json:"restarts"`
	// Of a capture: packets that it has less of than was on the wire, and records that are left out.
	Cut     int `json:"cut,omitempty"`
	Skipped int `json:"skipped,omitempty"`
	// Latency is how many packets of the stream beside the load were sent.
	Latency uint64 `json:"latency_packets,omitempty"`
}

// leastElapsed is how long as many packets as possible are to be sent for a rate to say anything.
const leastElapsed = 10 * time.Millisecond

func (o *genOptions) printSent(w io.Writer, name string, s, probed traffic.Sent) error {
	cut, skipped := 0, 0
	if c := o.packets; c != nil {
		cut, skipped = c.Cut(), c.Skipped()
	}
	if o.asJSON {
		return indentJSON(w, genReport{
			name, s.Packets, s.Bytes, s.Refused, s.NextSeq, s.Elapsed.Seconds(), s.Offered, s.Rate, s.SourceLimited, s.Restarts, cut, skipped, probed.Packets,
		})
	}
	rate := fmt.Sprintf("%.0f per second", s.Rate)
	if s.Offered == 0 && s.Elapsed < leastElapsed {
		rate = "too short a time for a rate"
	}
	packets := fmt.Sprintf("%d packets", s.Packets)
	if s.Packets == 1 {
		packets = "1 packet"
	}
	_, err := fmt.Fprintf(w, "sent %s, %d bytes, in %.3f s with %s: %s\n", packets, s.Bytes, s.Elapsed.Seconds(), name, rate)
	if err == nil && probed.Packets > 0 {
		_, err = fmt.Fprintf(w, "beside it %d packets that measure latency, of run %d\n", probed.Packets, o.Run+1)
	}
	if err == nil && s.Refused > 0 {
		_, err = fmt.Fprintf(w, "%d of them were refused by the interface itself\n", s.Refused)
	}
	if err == nil && cut+skipped > 0 {
		_, err = fmt.Fprintf(w, "the capture holds %d packets only in part, and %d that are not of Ethernet or too short\n", cut, skipped)
	}
	if err == nil && s.SourceLimited && s.Offered > 0 {
		_, err = fmt.Fprintf(w, "the source could not keep the %.0f per second asked for\n", s.Offered)
	}
	return err
}

// watchSending writes what leaves the interface, each second, after its own counters, and how much of the load is done, if w is a
// terminal. The last line stays.
func watchSending(w io.Writer, port traffic.Port, load traffic.Load) (stop func()) {
	if !progress.Terminal(w) {
		return func() {}
	}
	type moment struct {
		at             time.Time
		packets, bytes uint64
	}
	now := func() (m moment, ok bool) {
		link, err := port.Namespace.Link(port.Interface)
		if err != nil || link.Attrs().Statistics == nil {
			return m, false
		}
		s := link.Attrs().Statistics
		return moment{time.Now(), s.TxPackets, s.TxBytes}, true
	}
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		first, ok := now()
		before := first
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for ok {
			select {
			case <-done:
				fmt.Fprintln(w)
				return
			case <-tick.C:
			}
			var is moment
			if is, ok = now(); !ok {
				return
			}
			seconds := is.at.Sub(before.at).Seconds()
			done := ""
			switch {
			case load.Duration > 0:
				done = fmt.Sprintf(" (%.0f %%)", 100*min(float64(is.at.Sub(first.at))/float64(load.Duration), 1))
			case load.Count > 0:
				done = fmt.Sprintf(" (%.0f %%)", 100*min(float64(is.packets-first.packets)/float64(load.Count), 1))
			}
			fmt.Fprintf(w, "\r\x1b[K%3.0f s%s: %s packets, %s packets/s, %sbit/s", is.at.Sub(first.at).Seconds(), done,
				scaled(float64(is.packets-first.packets)), scaled(float64(is.packets-before.packets)/seconds), scaled(8*float64(is.bytes-before.bytes)/seconds))
			before = is
		}
	})
	return func() {
		close(done)
		ended.Wait()
	}
}
