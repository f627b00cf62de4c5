package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/dataplane/traffic"
	"github.com/weirswitch/weir/internal/progress"
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

It says "receiving" on standard error as soon as no packet can be missed; on a
terminal, a line there has what arrives, each second. It
ends after --duration, when --count packets have arrived, when nothing of the
run has arrived for --idle, or at SIGINT. So --idle has to be longer than it
takes to start gen.

Exit status: 0 if a packet of the run arrived; 1 if none did.`,
		Example: `  weir sink -i eth0 --size imix --flows 100000 --order zipf --idle 10s`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSink(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	o.add(cmd)
	f.DurationVar(&o.Duration, "duration", 0, "how long to receive; 0: no limit")
	f.Uint64Var(&o.Count, "count", 0, "packets that are sent; 0: unknown")
	f.DurationVar(&o.Idle, "idle", 0, "end after so long without a packet of the run, from the start on; 0: never")
	f.StringVar(&o.kind, "sink", "xdp", "xdp, tc or packet")
	f.BoolVar(&o.generic, "generic", false, "the kernel's generic XDP, for drivers without it")
	f.BoolVar(&o.latency, "latency", false, "report the stream that measures latency beside the load, too")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

// runSink is the command, top to bottom.
func runSink(ctx context.Context, o sinkOptions, stdout, stderr io.Writer) (err error) {
	w, err := o.workload()
	if err != nil {
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
	seen, stop := watchReceiving(stderr, o.End)
	o.Seen = seen
	r, err := traffic.Receive(ctx, sink, o.End)
	stop()
	if err != nil {
		return err
	}
	report := received(sink.Name(), r, o.Count)
	if probe == nil {
		return errors.Join(report.print(stdout, o.asJSON), report.nothing())
	}
	beside, err := probe.Report()
	if err != nil {
		return err
	}
	stream := received(probe.Name(), beside, 0)
	report.Stream = &stream
	// The stream's packets are foreign to the sink of the load, and the load's to the stream's.
	report.Foreign -= min(report.Foreign, stream.Packets)
	return errors.Join(report.print(stdout, o.asJSON), report.nothing())
}

// watchReceiving returns a function that writes what a sink has received, each second, and how much of the run is done, if w is a
// terminal. The last line stays.
func watchReceiving(w io.Writer, end traffic.End) (seen func(*traffic.Report), stop func()) {
	if !progress.Terminal(w) {
		return nil, func() {}
	}
	start := time.Now()
	at, before, drawn := start, traffic.Report{}, false
	seen = func(r *traffic.Report) {
		now := time.Now()
		seconds := now.Sub(at).Seconds()
		if seconds < 1 {
			return
		}
		done := ""
		switch {
		case end.Count > 0:
			done = fmt.Sprintf(" (%.0f %%)", 100*min(float64(r.Unique())/float64(end.Count), 1))
		case end.Duration > 0:
			done = fmt.Sprintf(" (%.0f %%)", 100*min(float64(now.Sub(start))/float64(end.Duration), 1))
		}
		fmt.Fprintf(w, "\r\x1b[K%3.0f s%s: %s packets, %s packets/s, %sbit/s, lost %d, foreign %d", now.Sub(start).Seconds(), done,
			scaled(float64(r.Packets)), scaled(float64(r.Packets-before.Packets)/seconds), scaled(8*float64(r.Bytes-before.Bytes)/seconds), r.Lost(r.NextSeq), r.Foreign)
		at, before, drawn = now, *r, true
	}
	return seen, func() {
		if drawn {
			fmt.Fprintln(w)
		}
	}
}

// sinkReport is the JSON form.
type sinkReport struct {
	Sink       string  `json:"sink"`
	Packets    uint64  `json:"packets"` // duplicates included
	Bytes      uint64  `json:"bytes"`   // without frame check sequences
	Lost       *uint64 `json:"lost"`    // nil: unknown, as nothing arrived and no count is given
	Duplicates uint64  `json:"duplicates"`
	Reordered  uint64  `json:"reordered"` // behind a later packet of their flow
	Late       uint64  `json:"late"`      // behind a later packet of any flow
	Stale      uint64  `json:"stale"`     // too late to detect duplicates; counted as lost
	Foreign    uint64  `json:"foreign"`   // not of this run
	Overflow   uint64  `json:"overflow"`  // found the sink's socket full
	NextSeq    uint64  `json:"next_seq"`
	Rate       float64 `json:"rate_pps"` // from the first arrival to the last
	// LatencyNs is nil where nothing arrived.
	LatencyNs *sinkLatency `json:"latency_ns"`
	// Stream is the one that measures latency beside the load.
	Stream *sinkReport `json:"latency_stream,omitempty"`
}

// sinkLatency is in ns, of all packets but duplicates and stale ones.
type sinkLatency struct {
	Min  int64 `json:"min"`
	P50  int64 `json:"p50"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
	Max  int64 `json:"max"`
}

func (l *sinkLatency) String() string {
	return fmt.Sprintf("least %v, median %v, 99 %% %v, 99.9 %% %v, most %v", time.Duration(l.Min), time.Duration(l.P50), time.Duration(l.P99), time.Duration(l.P999), time.Duration(l.Max))
}

// received makes the report. count is how many packets are sent; 0: unknown, so that loss is up to the highest number seen.
func received(name string, r *traffic.Report, count uint64) sinkReport {
	s := sinkReport{
		Sink: name, Packets: r.Packets, Bytes: r.Bytes, Duplicates: r.Duplicates,
		Reordered: r.Reordered, Late: r.Late, Stale: r.Stale, Foreign: r.Foreign, Overflow: r.Overflow,
		NextSeq: r.NextSeq, Rate: r.Rate(),
	}
	if sent := cmp.Or(count, r.NextSeq); sent > 0 {
		lost := r.Lost(sent)
		s.Lost = &lost
	}
	if h := r.Latency; h != nil && h.TotalCount() > 0 {
		s.LatencyNs = &sinkLatency{Min: h.Min(), Max: h.Max(), P50: h.ValueAtQuantile(50), P99: h.ValueAtQuantile(99), P999: h.ValueAtQuantile(99.9)}
	}
	return s
}

// nothing is the error of a run of which no packet arrived.
func (s *sinkReport) nothing() error {
	switch {
	case s.Packets > 0:
		return nil
	case s.Foreign > 0:
		return fmt.Errorf("nothing of this run arrived (foreign packets: %d): see that what gen sends arrives here at all, and that --run, --tcp, --vlan, --mpls, --vxlan and the kind of addresses are those of gen; packets of a capture bear no numbers", s.Foreign)
	}
	return errors.New("nothing of this run arrived, and nothing else: see that gen ran meanwhile, that the links are up (ip -br link), and that a device on the way forwards to here")
}

// loss is how many were lost, for a reader.
func (s *sinkReport) loss() string {
	if s.Lost == nil {
		return "unknown"
	}
	return strconv.FormatUint(*s.Lost, 10)
}

func (s *sinkReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return indentJSON(w, s)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `received %d packets, %d bytes: %.0f per second
lost %s, duplicated %d, reordered %d, late %d, foreign %d, overflow %d
`, s.Packets, s.Bytes, s.Rate, s.loss(), s.Duplicates, s.Reordered, s.Late, s.Foreign, s.Overflow)
	if s.Late > 0 {
		fmt.Fprintln(&b, "(late: behind a later packet of any flow; reordered: of its own flow; neither is lost)")
	}
	if s.LatencyNs != nil {
		fmt.Fprintf(&b, "latency: %v\n", s.LatencyNs)
	}
	if s.Stream != nil {
		fmt.Fprintf(&b, "latency stream: received %d packets, lost %s, duplicated %d\n", s.Stream.Packets, s.Stream.loss(), s.Stream.Duplicates)
		if s.Stream.LatencyNs != nil {
			fmt.Fprintf(&b, "its latency: %v\n", s.Stream.LatencyNs)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
