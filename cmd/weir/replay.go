package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/bench/netsim/intmd"
	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/internal/bitrate"
	"github.com/weirswitch/weir/internal/progress"
	"github.com/weirswitch/weir/node/replay"
)

// replayOptions are the flags of weir replay.
type replayOptions struct {
	config  string
	graph   string
	in      []string // [PORT=]FILE
	out     []string // [PORT=]FILE
	records string   // folder
	json    bool
	trace   int
	chain   int

	carrier  string
	metadata string // of INT
	linkRate string
	mtu      int
}

func newReplayCommand() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay [-c FILE | --graph STAGES] --in [PORT=]PCAP... [--out [PORT=]PCAP...]",
		Short: "Run a switch's pipeline over a capture, without root",
		Long: `Replay runs a capture through the pipeline of a switch: the same workers and
stages, on capture files instead of interfaces. It needs no privilege.

Without -c the switch has two ports, p0 and p1; patch joins them, l2 learns and
floods between them. The capture arrives on the first port; --in PORT=FILE,
given several times, feeds several ports in the order of capture times. "-" is
the standard input or output.

--out FILE gets all packets that leave, in order; --out PORT=FILE those that
leave by one port. Captures are pcap or pcapng, plain or gzipped, read by what
is in them and written by their names: .pcapng, .gz. A packet that the pipeline
does not change keeps its bytes, its lengths and its time.

Exit status: 0 if the counters add up; 1 if they do not, or writing failed;
2 for bad usage, and for a capture that is not Ethernet, cut off or corrupt.
What was readable of it is processed and reported all the same.`,
		Example: `  weir replay --in trace.pcap.gz --out out.pcap
  weir replay --graph parse,l2 --in p0=left.pcap --in p1=right.pcap --json
  weir replay -c switch.toml --in trace.pcap --trace 3
  weir replay --graph parse,patch,pint --chain 5 --carrier int-md --link-rate 1Gbps --in trace.pcap`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return replayCaptures(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.config, "config", "c", "", "take ports and stages from this `FILE` of a switch")
	f.StringVar(&o.graph, "graph", "parse,patch", "the `STAGES` of the pipeline, in order")
	f.StringArrayVar(&o.in, "in", nil, "receive the capture, on the first port or the named one (`[PORT=]PCAP`)")
	f.StringArrayVar(&o.out, "out", nil, "write what leaves, by any port or the named one (`[PORT=]PCAP`)")
	f.StringVar(&o.records, "records", "", "write the records of what the stages measured into this `FOLDER`")
	f.BoolVar(&o.json, "json", false, "report as one JSON object")
	f.IntVar(&o.chain, "chain", 0, "run `N` switches in a row, each with the stages, with hosts at both ends; pint's edges are set, and records are those of s1 to sN")
	f.StringVar(&o.carrier, "carrier", "", "send packets through the chain with this `CARRIER`, too, int-md, and compare what it costs and says with pint")
	f.StringVar(&o.metadata, "int-metadata", "switch_id,hop_latency,egress_utilisation", "with int-md each hop writes this `LIST`, of switch_id, ports, hop_latency, queue_occupancy, ingress_time, egress_time, egress_utilisation")
	f.StringVar(&o.linkRate, "link-rate", "", "links of the chain have this `RATE`, as 10Gbps, so that packets queue; without it they take no time, with --carrier 10Gbps")
	f.IntVar(&o.mtu, "mtu", 0, "links of the chain have this MTU in `BYTES`, which telemetry may exceed; 0: no limit")
	f.IntVar(&o.trace, "trace", 0, "print the path of the first `N` packets through the stages")
	cmd.MarkFlagsMutuallyExclusive("config", "graph")
	return cmd
}

// replayCaptures runs the command. Its error carries the exit status.
func replayCaptures(ctx context.Context, o replayOptions, stdout, stderr io.Writer) error {
	c := replay.Config{Records: o.records, Chain: o.chain, Trace: o.trace, MTU: o.mtu}
	if err := o.links(&c); err != nil {
		return usageError(err)
	}
	var err error
	if o.config == "" {
		c.Switch = replay.DefaultSwitch(strings.FieldsFunc(o.graph, func(r rune) bool { return r == ',' || r == ' ' })...)
	} else if c.Switch, err = config.Load(o.config); err != nil {
		return usageError(err)
	}
	var names []string
	for i := range c.Switch.Ports {
		names = append(names, c.Switch.Ports[i].Name)
	}
	var inErr, outErr error
	c.In, inErr = assignFiles("--in", o.in, names, names[0])
	c.Out, outErr = assignFiles("--out", o.out, names, "")
	if len(o.in) == 0 {
		inErr = errors.New("no capture is named: add --in FILE")
	}
	if err := errors.Join(inErr, outErr); err != nil {
		return usageError(err)
	}
	r, err := replay.New(c)
	if err != nil {
		return usageError(hintPorts(err, c.In, names))
	}
	_, total := r.Progress()
	stop := progress.Bytes(stderr, "replay", total, func() int64 { read, _ := r.Progress(); return read })
	report, err := r.Run(ctx)
	stop()
	for _, path := range c.Out {
		if path == "-" {
			stdout = stderr // a report does not belong in a capture
		}
	}
	if capture := (*replay.CaptureError)(nil); errors.As(err, &capture) {
		err = usageError(err)
	}
	if o.json {
		return errors.Join(err, indentJSON(stdout, report))
	}
	return errors.Join(err, report.WriteText(stdout))
}

// defaultLinkRate is what stages take a link for whose speed is not known.
const defaultLinkRate = 10_000_000_000

// links takes over what concerns the links of a chain.
func (o *replayOptions) links(c *replay.Config) error {
	var errs []error
	if o.linkRate != "" {
		rate, err := bitrate.Parse(o.linkRate)
		if err != nil {
			err = fmt.Errorf("--link-rate: %w", err)
		}
		c.LinkRate, errs = uint64(rate), append(errs, err)
	}
	switch o.carrier {
	case "":
	case "int-md":
		metadata, err := intmd.ParseInstructions(o.metadata)
		if err != nil {
			err = fmt.Errorf("--int-metadata: %w", err)
		}
		errs = append(errs, err)
		c.INT = &intmd.Config{Instructions: metadata, MaxHops: 255}
		if o.linkRate == "" {
			c.LinkRate = defaultLinkRate
		}
	default:
		errs = append(errs, fmt.Errorf("--carrier %s: there is int-md, beside what the stage pint writes", o.carrier))
	}
	return errors.Join(errs...)
}

// assignFiles reads [PORT=]FILE arguments. The text before the first '=' counts
// as a port only if it is one: file names may have a '=' too.
func assignFiles(flag string, args, ports []string, unnamed string) (map[string]string, error) {
	files := map[string]string{}
	for _, arg := range args {
		name, path := unnamed, arg
		for _, port := range ports {
			if rest, ok := strings.CutPrefix(arg, port+"="); ok {
				name, path = port, rest
			}
		}
		if path == "" {
			return nil, fmt.Errorf("%s %q names no file: write %s [PORT=]FILE", flag, arg, flag)
		}
		if before, ok := files[name]; ok {
			return nil, fmt.Errorf("%s %s: %s has that port already: name another port, as in %s %s=FILE",
				flag, arg, before, flag, ports[len(ports)-1])
		}
		files[name] = path
	}
	return files, nil
}

// hintPorts explains the fault of --in eth7=FILE for a missing port.
func hintPorts(err error, in map[string]string, ports []string) error {
	for _, path := range in {
		if name, _, ok := strings.Cut(path, "="); ok && errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w (if %q was to be a port: there are %s)", err, name, strings.Join(ports, ", "))
		}
	}
	return err
}
