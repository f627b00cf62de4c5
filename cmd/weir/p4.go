package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/config"
	p4node "github.com/weirswitch/weir/p4/node"
	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/view/text"
)

func newP4Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "p4",
		Short: "Configure P4 switches next to Weir's",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newP4TablesCommand(), newP4SwitchCommand())
	return cmd
}

// p4TablesOptions are the flags of weir p4 tables.
type p4TablesOptions struct {
	tables.Options
	config, format, out    string
	info, program          string
	mtu, speed             map[string]int // by port
	binary, epochs, asJSON bool
	target                 tables.Target
}

func newP4TablesCommand() *cobra.Command {
	o := p4TablesOptions{Options: tables.Options{CPUPort: tables.DefaultCPUPort}, target: tables.Target{Election: 1}}
	cmd := &cobra.Command{
		Use:   "tables -c FILE",
		Short: "Write the tables of a P4 switch from a switch's configuration",
		Long: `Tables makes, from the configuration of a switch, all that p4/v1model/weir.p4 receives
before its first packet: table entries, default actions, registers, clone
sessions, multicast groups and the parameters of its CRCs (docs/p4.md).

With --format commands it writes the runtime commands of BMv2, for
simple_switch_CLI; with --format p4runtime a WriteRequest of P4Runtime, whose ids
are those of our program, or of another compiler's output with --p4info.

A compiled program has one hash family, xxhash or crc, and is refused where [switch] hash
is another one.

A source of PINT's shims has to know how long frames may be: --mtu says it of the ports that
lead to other switches. The use of links, if the plan asks for it, is measured against their
--speed; rate_bits of a [[port]] is one, too. Without them there is a warning.

What a P4 target cannot do is refused: all of it at once, with the line and the remedy.`,
		Example: `  weir p4 tables -c switch.toml -o commands.txt
  simple_switch_CLI <commands.txt
  weir p4 tables -c switch.toml --mtu core0=1508 --speed core0=25000 --format p4runtime -o write.txtpb`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError(writeP4Tables(&o, cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.config, "config", "c", "", "the switch's configuration `FILE`")
	f.StringVar(&o.format, "format", "commands", "what to write: commands or p4runtime")
	f.StringVarP(&o.out, "out", "o", "", "`FILE` to write; without it, standard output")
	f.StringVar(&o.program, "program", "", "compiled program (JSON `FILE` of p4c-bm2-ss), for the names of its CRCs and its hash family; without it, ours of the switch's family")
	f.StringVar(&o.info, "p4info", "", "P4Info `FILE` of the compiler, text or binary; without it, ours of the switch's family")
	f.BoolVar(&o.binary, "binary", false, "with --format p4runtime: protobuf's binary form instead of text")
	f.IntVar(&o.CPUPort, "cpu-port", o.CPUPort, "number of the target's port to the control plane")
	f.StringToIntVar(&o.mtu, "mtu", nil, "MTU of a port's link in bytes, as `PORT=N`; again for each port")
	f.StringToIntVar(&o.speed, "speed", nil, "speed of a port's link in Mb/s, as `PORT=N`; again for each port")
	f.Uint64Var(&o.Now, "at", 0, "the time in `ns` of CLOCK_TAI whose epoch's keys to write, and the next one's; 0: now")
	f.BoolVar(&o.epochs, "epochs", false, "only the registers of the present epoch and of the next: to be written anew in each epoch")
	f.Uint64Var(&o.target.Device, "device", 0, "with --format p4runtime: the device's id")
	f.Uint64Var(&o.target.Election, "election", o.target.Election, "with --format p4runtime: the client's election id")
	f.BoolVar(&o.asJSON, "json", false, "with -o: report what was written as one JSON object")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

// writeP4Tables is the command, top to bottom.
func writeP4Tables(o *p4TablesOptions, stdout, stderr io.Writer) error {
	if o.asJSON && o.out == "" {
		return errors.New("--json reports what was written: name a file with -o")
	}
	if o.format != "commands" && o.format != "p4runtime" {
		return fmt.Errorf("--format %q: choose commands or p4runtime", o.format)
	}
	if o.Now == 0 {
		o.Now = p4node.Now()
	}
	var contents *tables.Contents
	var s *tables.Switch
	_, err := config.LoadFor(o.config, func(c *config.Config) (err error) {
		s = p4node.Tables(c)
		err = errors.Join(eachPort(s, "mtu", o.mtu, minMTU, maxMTU, s.SetMTU),
			eachPort(s, "speed", o.speed, minMegabits, maxMegabits, func(port, megabits int) { s.SetSpeed(port, uint64(megabits)*1_000_000) }))
		if err != nil {
			return err
		}
		contents, err = tables.Build(s, o.Options)
		return err
	})
	if err != nil {
		return err
	}
	write, err := o.writer(s.Hash)
	if err != nil {
		return err
	}
	if o.epochs {
		contents = contents.OnlyEpochs()
	} else {
		warnOfLinks(s, stderr)
	}
	var text strings.Builder
	if err := write(contents, &text); err != nil {
		return err
	}
	if o.out == "" {
		_, err := io.WriteString(stdout, text.String())
		return err
	}
	if err := os.WriteFile(o.out, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("%w: choose another file with -o", err)
	}
	return o.report(contents, stdout)
}

// warnOfLinks says what of the links is not known, and what is done then.
func warnOfLinks(s *tables.Switch, stderr io.Writer) {
	if ports := s.UnknownMTUs(); len(ports) != 0 {
		fmt.Fprintf(stderr, "weir: warning: the MTU of %s is not known: PINT's source puts shims into frames of any length, and the link drops what becomes too long: add --mtu %s=N\n",
			strings.Join(ports, ", "), strings.Join(ports, "=N --mtu "))
	}
	if ports := s.UnknownSpeeds(); len(ports) != 0 {
		fmt.Fprintf(stderr, "weir: warning: the speed of %s is not known: PINT measures the use of the link as if it were 10000 Mb/s: add --speed %s=N\n",
			strings.Join(ports, ", "), strings.Join(ports, "=N --speed "))
	}
}

// The MTUs that links have: IPv4's least one (RFC 791), and its longest packet; and their speeds in Mb/s.
const (
	minMTU, maxMTU           = 68, 65535
	minMegabits, maxMegabits = 10, 1_000_000
)

// eachPort sets the values of a flag, by the port's name, that are from least to most.
func eachPort(s *tables.Switch, flag string, values map[string]int, least, most int, set func(port, value int)) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := s.PortNumber(name)
		switch n := values[name]; {
		case i < 0:
			errs = append(errs, fmt.Errorf("--%s %s=%d: the switch has no port %q: name one of its [[port]]", flag, name, n, name))
		case n < least || n > most:
			errs = append(errs, fmt.Errorf("--%s %s=%d: no link has that: choose %d to %d", flag, name, n, least, most))
		default:
			set(i, n)
		}
	}
	return errors.Join(errs...)
}

// writer is what writes the chosen format, for a program of the switch's hash family.
func (o *p4TablesOptions) writer(f hash.Family) (func(*tables.Contents, io.Writer) error, error) {
	crcs, info := tables.WeirCalculations(f), tables.WeirInfo(f)
	if o.program != "" {
		text, err := os.ReadFile(o.program)
		if err != nil {
			return nil, fmt.Errorf("--program: %w", err)
		}
		program, err := tables.ReadProgram(text)
		if err == nil {
			err = program.CheckFamily(f)
		}
		if err != nil {
			return nil, fmt.Errorf("--program %s: %w", o.program, err)
		}
		crcs = program.CRC32C
	}
	if o.info != "" {
		text, err := os.ReadFile(o.info)
		if err != nil {
			return nil, fmt.Errorf("--p4info: %w", err)
		}
		if info, err = tables.ReadInfo(text); err == nil {
			err = info.CheckFamily(f)
		}
		if err != nil {
			return nil, fmt.Errorf("--p4info %s: %w", o.info, err)
		}
	}
	if o.epochs {
		crcs = nil
	}
	if o.format == "p4runtime" {
		return func(c *tables.Contents, w io.Writer) error { return c.WriteP4Runtime(w, info, o.target, o.binary) }, nil
	}
	return func(c *tables.Contents, w io.Writer) error { return c.WriteCommands(w, crcs) }, nil
}

// report says what was written.
func (o *p4TablesOptions) report(c *tables.Contents, w io.Writer) error {
	s := c.Summary()
	if o.asJSON {
		return json.NewEncoder(w).Encode(s)
	}
	t := text.NewTable("TABLE", ">ENTRIES")
	for _, x := range s.Tables {
		t.Row(x.Name, x.Entries)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d default actions, %d register cells, %d clone sessions, %d multicast groups, %d digests\n",
		s.Defaults, s.Registers, s.Clones, s.Groups, s.Digests)
	return err
}

// p4SwitchOptions are the flags of weir p4 switch.
type p4SwitchOptions struct {
	p4node.Options
	config, report string
}

func newP4SwitchCommand() *cobra.Command {
	var o p4SwitchOptions
	cmd := &cobra.Command{
		Use:   "switch -c FILE",
		Short: "Run a switch's configuration on BMv2, by the P4 program",
		Long: `Switch runs simple_switch, the P4 reference switch, with p4/v1model/weir.p4 instead of
"weir switch", and is its control plane: it loads the tables of the configuration,
sets the clock, learns stations and forgets silent ones, and writes the schedules
of epochs, of 2^27 ns at least. Its ports open when all that is there. It ends at SIGTERM or
SIGINT and reports as "weir switch" does, as far as BMv2 reports it (docs/p4.md).

The programs p4c-bm2-ss and simple_switch are found by P4C_BM2 and
SIMPLE_SWITCH, or on PATH; a compiled program needs no compiler. A source is compiled
for the hash family of [switch] hash; a compiled program of another one is refused.`,
		Example: `  weir p4 switch -c switch.toml --program p4/v1model/weir.p4`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runP4Switch(cmd.Context(), &o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.config, "config", "c", "", "the switch's configuration `FILE`")
	f.StringVar(&o.Program, "program", "p4/v1model/weir.p4", "the program: its source, or JSON `FILE` of p4c-bm2-ss")
	f.StringVar(&o.report, "report", "text", "what to print at the end: text, json or none")
	f.IntVar(&o.ThriftPort, "thrift-port", 9090, "TCP port of simple_switch's runtime server")
	f.StringToInt64Var(&o.QueueRates, "queue-rate", nil, "most packets per second that a port's queue lets out, as `PORT=PPS`; repeatable")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

// runP4Switch is the command, top to bottom.
func runP4Switch(ctx context.Context, o *p4SwitchOptions, stdout io.Writer) error {
	printReport, err := reportPrinter(o.report)
	if err != nil {
		return usageError(err)
	}
	c, err := config.LoadFor(o.config, p4node.Check)
	if err == nil {
		err = p4node.CheckQueueRates(c, o.QueueRates)
	}
	if err != nil {
		return usageError(err)
	}
	notifier, err := newReadiness()
	if err != nil {
		return usageError(err)
	}
	o.Ready = notifier.ready
	n, err := p4node.Start(ctx, c, o.Options)
	if err != nil {
		return usageError(err)
	}
	report, err := n.Run(ctx)
	if err != nil {
		return err
	}
	return printReport(stdout, report)
}
