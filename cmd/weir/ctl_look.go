package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/internal/plural"
)

const filterHelp = `
FILTER is a part of what tcpdump knows, with the same words: "tcp and port 80", "udp
and host 10.0.0.1 and not port 53", "arp or icmp", "vlan 10", "src net 10.0.0.0/8",
"ether 02:00:00:00:00:01", "ethertype 0x88b5"; "and", "or", "not" and brackets join them.`

func newTraceCommand(o *ctlOptions) *cobra.Command {
	var count int
	var wait time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "trace [FILTER...]",
		Short: "Follow packets through the stages, in words",
		Long: `Trace follows the next packets that match FILTER through the stages, and prints what
each stage did to them. Until they have come, batches take a slower path through
the graph.

Exit status: 0 if a packet came, or Ctrl-C ended the wait; 1 if none came.
` + filterHelp,
		Example: `  weir ctl trace --count 3
  weir ctl trace udp and port 53`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 || count > 1000 {
				return usageError(fmt.Errorf("--count %d: choose 1 to 1000 packets", count))
			}
			q := &api.TraceRequest{Count: int64(count), Filter: strings.Join(args, " "), WaitNs: int64(wait)}
			var r *api.TraceResponse
			err := o.call(cmd.Context(), wait+o.timeout, func(ctx context.Context, c *control.Client) (err error) {
				r, err = c.Trace(ctx, q)
				return err
			})
			if err != nil && cmd.Context().Err() != nil { // Ctrl-C, or SIGTERM
				fmt.Fprintln(cmd.ErrOrStderr(), "interrupted before all the packets came")
				return nil
			}
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), r)
			} else {
				err = printTraces(cmd.OutOrStdout(), r)
			}
			if err == nil && len(r.Packets) == 0 {
				return noPacket(q.Filter, wait)
			}
			return err
		},
	}
	cmd.Flags().IntVarP(&count, "count", "c", 1, "follow so many packets, up to 1000")
	cmd.Flags().DurationVar(&wait, "wait", 5*time.Second, "for the packets, up to a minute")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as one JSON object")
	return cmd
}

// noPacket is the error of a trace that followed none.
func noPacket(filter string, wait time.Duration) error {
	if filter == "" {
		return fmt.Errorf("no packet came within %v: wait longer with --wait, or see with \"weir ctl top\" whether any arrives", wait)
	}
	return fmt.Errorf("no packet that matches %q came within %v: wait longer with --wait, or see without the filter what arrives", filter, wait)
}

func printTraces(w io.Writer, r *api.TraceResponse) error {
	var b strings.Builder
	for i, p := range r.Packets {
		fmt.Fprintf(&b, "packet %d: %d bytes from %s\n", i+1, p.Length, p.Port)
		for _, step := range p.Steps {
			fmt.Fprintf(&b, "  %-10s %s\n", step.Stage, step.Text)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// captureOptions are the flags of weir ctl capture.
type captureOptions struct {
	q        api.CaptureRequest
	file     string
	duration time.Duration
}

func newCaptureCommand(o *ctlOptions) *cobra.Command {
	var co captureOptions
	cmd := &cobra.Command{
		Use:   "capture [FILTER...]",
		Short: "Capture packets at a stage's edge, as pcapng",
		Long: `Capture writes the packets that FILTER wants, as they are at a stage's edge, as
pcapng to a file or to a pipe: all that enter the graph, or --at STAGE those that are
about to enter the stage (--edge before), have passed it (after), or were
dropped by it (dropped).

It ends after --count packets, after --duration, or by Ctrl-C. The switch keeps 8 MiB for
what was captured and not yet sent; what comes beyond is not captured, but counted, and no
packet waits. If the switch ends meanwhile, what came before is in the file, and the
status is 1.
` + filterHelp,
		Example: `  weir ctl capture -w web.pcapng --count 100 tcp and port 80
  weir ctl capture -w - --at acl --edge dropped | tcpdump -r -
  weir ctl capture -w - | wireshark -k -i -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			co.q.Filter = strings.Join(args, " ")
			return runCapture(cmd.Context(), o, &co, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&co.file, "write", "w", "", "write to `FILE`; -: standard output")
	f.StringVar(&co.q.Stage, "at", "", "the `STAGE`; default: the first one")
	f.StringVar(&co.q.Edge, "edge", "before", "before, after or dropped")
	f.Uint64VarP(&co.q.Count, "count", "c", 0, "end after so many packets; 0: do not")
	f.Uint32Var(&co.q.Truncate, "truncate", 0, "keep so many `BYTES` of each packet; 0: all in its frames")
	f.DurationVar(&co.duration, "duration", 0, "end so long after the switch began; 0: do not")
	_ = cmd.MarkFlagRequired("write")
	_ = cmd.RegisterFlagCompletionFunc("edge", cobra.FixedCompletions([]string{"before", "after", "dropped"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("at", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return completeStages(cmd.Context(), o), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// completeStages asks the switch that is meant for its stages.
func completeStages(ctx context.Context, o *ctlOptions) (names []string) {
	if ctx == nil {
		ctx = context.Background()
	}
	_ = o.call(ctx, time.Second, func(ctx context.Context, c *control.Client) error {
		r, err := c.Stages(ctx, &api.StagesRequest{})
		for _, s := range r.GetStages() {
			names = append(names, s.Name)
		}
		return err
	})
	return names
}

// runCapture is the command, top to bottom.
func runCapture(ctx context.Context, o *ctlOptions, co *captureOptions, stdout, stderr io.Writer) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(o.timeout, func() { cancel(errNoAnswer) })
	defer late.Stop()
	w := &captureWriter{file: co.file, stdout: stdout, begun: func() {
		if late.Stop() && co.duration > 0 {
			time.AfterFunc(co.duration, func() { cancel(nil) })
		}
	}}
	defer func() { err = errors.Join(err, w.close()) }()
	err = o.call(ctx, 0, func(ctx context.Context, c *control.Client) error { return w.receive(ctx, c, &co.q) })
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errNoAnswer) { // what ends with ctx was asked for
		err = nil
	}
	if err == nil || w.packets > 0 {
		fmt.Fprintf(stderr, "captured %s; %d more were dropped for want of room\n", plural.Counted(int(w.packets), "packet"), w.dropped)
	}
	return err
}

// captureWriter writes a stream of captured packets as pcapng.
type captureWriter struct {
	file             string // or -
	stdout           io.Writer
	begun            func() // called once the switch captures
	opened           *os.File
	out              *bufio.Writer
	ng               *pcapfile.Writer
	packets, dropped uint64
	failed           bool // a write did: the error was returned, and out has no more to write
}

func (w *captureWriter) receive(ctx context.Context, c *control.Client, q *api.CaptureRequest) error {
	stream, err := c.Capture(ctx, q)
	if err != nil {
		return err
	}
	defer stream.Close()
	// A switch that accepts the request sends the names of its ports at once. A refused one leaves the file as it is.
	for stream.Receive() {
		if w.out == nil {
			w.begun()
			if err := w.open(); err != nil {
				return unwritten("capture", w.file, err, "name a file that may be written")
			}
		}
		if err := w.write(stream.Msg()); err != nil {
			w.failed = true
			return unwritten("capture", w.file, err, "")
		}
	}
	return stream.Err()
}

func (w *captureWriter) open() (err error) {
	out := w.stdout
	if w.file != "-" {
		if w.opened, err = os.Create(w.file); err != nil {
			return err
		}
		out = w.opened
	}
	w.out = bufio.NewWriterSize(out, 1<<16)
	return nil
}

func (w *captureWriter) close() (err error) {
	if w.out != nil && !w.failed {
		err = w.out.Flush()
	}
	if w.opened != nil {
		err = errors.Join(err, w.opened.Close())
	}
	return err
}

// write writes a piece and flushes, so that the reader of a pipe sees it.
func (w *captureWriter) write(m *api.CaptureResponse) (err error) {
	if w.ng == nil {
		format := pcapfile.Format{NG: true, Nano: true, LinkField: uint32(pcapfile.Ethernet)}
		if w.ng, err = pcapfile.NewWriter(w.out, format, m.Ports...); err != nil {
			return err
		}
	}
	for _, p := range m.Packets {
		h := pcapfile.Header{Time: p.TimeNs, CapLen: uint32(len(p.Data)), WireLen: max(p.Length, uint32(len(p.Data))), Interface: p.Port}
		if err := w.ng.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.ng.Write(p.Data); err != nil {
			return err
		}
		w.packets++
	}
	w.dropped = m.Dropped
	return w.out.Flush()
}
