package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/dataplane/traffic"
)

// sinkOptions are the flags of weir sink.
type sinkOptions struct {
	workloadFlags
	traffic.End
	kind    string
	generic bool
	latency bool
	asJSON  bool
}

func newSinkCommand() *cobra.Command {
	var o sinkOptions
	cmd := &cobra.Command{
		Use:   "sink -i INTERFACE",
		Short: "Count what a weir gen sends: loss, duplicates, order, latency (root)",
		Long: `Sink receives what "weir gen" sends, and needs the same flags. It prints
how many packets were lost, duplicated or reordered within their flows, and
their latency. Loss is counted up to the highest sequence number seen; with
--count, up to that number.

Sinks:
  xdp     an XDP program: cheapest; drops what it counts, passes the rest on
  tc      a program at the traffic control hook, where a host's stack begins
  packet  an AF_PACKET socket, exact for any number of queues, slower

Of the packets that arrive
  reordered   came behind a later packet of their own flow
  late        came behind a later packet of any flow, reordered ones included: where
              flows take several ways this is no fault
  duplicated  came before
  foreign     are not of this run
  overflow    found the socket of the sink full

With --latency it reports the stream of "weir gen --latency" by itself. Its
packets pass to an AF_PACKET socket, so their latency has the way to user space
in it.

It says "receiving" on standard error as soon as no packet can be missed. It
ends after --duration, when --count packets have arrived, when nothing has
arrived for --idle after the first packet, or at SIGINT.`,
		Example: `  weir sink -i eth0 --size imix --flows 100000 --order zipf --idle 2s`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSink(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	o.add(cmd)
	f.DurationVar(&o.Duration, "duration", 0, "how long to receive; 0: no limit")
	f.Uint64Var(&o.Count, "count", 0, "packets that are sent; 0: unknown")
	f.DurationVar(&o.Idle, "idle", 0, "end after so long a silence; 0: never")
	f.StringVar(&o.kind, "sink", "xdp", "xdp, tc or packet")
	f.BoolVar(&o.generic, "generic", false, "the kernel's generic XDP, for drivers without it")
	f.BoolVar(&o.latency, "latency", false, "report the stream that measures latency beside the load, too")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

// runSink is the command, top to bottom.
func runSink(ctx context.Context, o sinkOptions, stdout, stderr io.Writer) (err error) {
	w, err := o.workload()
	errs := []error{err}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"duration", o.Duration}, {"idle", o.Idle}} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("--%s: %v is negative: choose a time, or 0 for no limit", f.name, f.value))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return usageError(err)
	}
	port, err := o.port()
	if err != nil {
		return usageError(err)
	}
	defer port.Namespace.Close()
	sink, err := traffic.NewSink(o.kind, port, w, o.generic)
	if err != nil {
		return usageError(err)
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	var probe *traffic.PacketSink
	if o.latency {
		if probe, err = traffic.NewPacketSink(port, latencyStream(w), traffic.DefaultSinkOptions()); err != nil {
			return usageError(err)
		}
		defer func() { err = errors.Join(err, probe.Close()) }()
	}
	fmt.Fprintf(stderr, "receiving on %s\n", port)
	r, err := traffic.Receive(ctx, sink, o.End)
	if err != nil {
		return err
	}
	sent := r.NextSeq
	if o.Count > 0 {
		sent = o.Count
	}
	report := received(sink.Name(), r, sent)
	if probe == nil {
		return report.print(stdout, o.asJSON)
	}
	beside, err := probe.Report()
	if err != nil {
		return err
	}
	stream := received(probe.Name(), beside, beside.NextSeq)
	report.Stream = &stream
	// The stream's packets are foreign to the sink of the load, and the load's to the stream's.
	report.Foreign -= min(report.Foreign, stream.Packets)
	return report.print(stdout, o.asJSON)
}

// sinkReport is the JSON form.
type sinkReport struct {
	Sink       string  `json:"sink"`
	Packets    uint64  `json:"packets"` // duplicates included
	Bytes      uint64  `json:"bytes"`   // without frame check sequences
	Lost       uint64  `json:"lost"`
	Duplicates uint64  `json:"duplicates"`
	Reordered  uint64  `json:"reordered"` // behind a later packet of their flow
	Late       uint64  `json:"late"`      // behind a later packet of any flow
	Stale      uint64  `json:"stale"`     // too late to detect duplicates; counted as lost
	Foreign    uint64  `json:"foreign"`   // not of this run
	Overflow   uint64  `json:"overflow"`  // found the sink's socket full
	NextSeq    uint64  `json:"next_seq"`
	Rate       float64 `json:"rate_pps"` // from the first arrival to the last
	LatencyNs  struct {
		Min  int64 `json:"min"`
		P50  int64 `json:"p50"`
		P99  int64 `json:"p99"`
		P999 int64 `json:"p999"`
		Max  int64 `json:"max"`
	} `json:"latency_ns"`
	// Stream is the one that measures latency beside the load.
	Stream *sinkReport `json:"latency_stream,omitempty"`
}

func received(name string, r *traffic.Report, sent uint64) sinkReport {
	s := sinkReport{
		Sink: name, Packets: r.Packets, Bytes: r.Bytes, Lost: r.Lost(sent), Duplicates: r.Duplicates,
		Reordered: r.Reordered, Late: r.Late, Stale: r.Stale, Foreign: r.Foreign, Overflow: r.Overflow,
		NextSeq: r.NextSeq, Rate: r.Rate(),
	}
	l := &s.LatencyNs
	if h := r.Latency; h.TotalCount() > 0 {
		l.Min, l.Max = h.Min(), h.Max()
		l.P50, l.P99, l.P999 = h.ValueAtQuantile(50), h.ValueAtQuantile(99), h.ValueAtQuantile(99.9)
	}
	return s
}

func (s *sinkReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return indentJSON(w, s)
	}
	l := &s.LatencyNs
	_, err := fmt.Fprintf(w, `received %d packets, %d bytes: %.0f per second
lost %d, duplicated %d, reordered %d, late %d, foreign %d, overflow %d
`, s.Packets, s.Bytes, s.Rate, s.Lost, s.Duplicates, s.Reordered, s.Late, s.Foreign, s.Overflow)
	if err == nil && s.Late > 0 {
		_, err = fmt.Fprintln(w, "(late: behind a later packet of any flow; reordered: of its own flow; neither is lost)")
	}
	if err == nil && s.Packets > 0 {
		_, err = fmt.Fprintf(w, "latency: least %v, median %v, 99 %% %v, 99.9 %% %v, most %v\n",
			time.Duration(l.Min), time.Duration(l.P50), time.Duration(l.P99), time.Duration(l.P999), time.Duration(l.Max))
	}
	if err == nil && s.Packets == 0 && s.Foreign == 0 {
		_, err = fmt.Fprintln(w, "nothing arrived, so what was lost is not known but by what gen says that it sent: see that the links are up (ip -br link), and that a device on the way forwards to here")
	}
	if err == nil && s.Packets == 0 && s.Foreign > 0 {
		_, err = fmt.Fprintln(w, "nothing that arrived is of this run: see that what gen sends arrives here at all, and that --run, --tcp, --vlan, --mpls, --vxlan and the kind of addresses are those of gen; packets of a capture bear no numbers")
	}
	if err == nil && s.Stream != nil {
		l = &s.Stream.LatencyNs
		_, err = fmt.Fprintf(w, "latency stream: received %d packets, lost %d, duplicated %d\nits latency: least %v, median %v, 99 %% %v, 99.9 %% %v, most %v\n",
			s.Stream.Packets, s.Stream.Lost, s.Stream.Duplicates, time.Duration(l.Min), time.Duration(l.P50), time.Duration(l.P99), time.Duration(l.P999), time.Duration(l.Max))
	}
	return err
}
