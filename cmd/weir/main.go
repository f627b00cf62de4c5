// Weir is a userspace software switch that forwards packets through AF_XDP.
// This is its one binary: a file per subcommand, which joins the packages and
// holds no logic.
//
//	weir switch ...  ->  switch.go  ->  config.Load  ->  node.Run  ->  worker.Run  ->  pipeline.Graph.Run  ->  <stage>.Process
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/telemetry/view/text"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// The exit statuses of all commands.
const (
	statusGood    = 0
	statusFailure = 1 // something went wrong at work
	statusUsage   = 2 // what was asked for cannot be: command line, configuration, setup
)

// run is the whole program: it executes a command line and returns the exit
// status. Tests call it, in their own process or in another of their binary.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := withSignals(stderr)
	defer stop()
	began := false
	root := newRootCommand()
	refuseTimes(root)
	noteBegin(root, &began)
	for _, sub := range root.Commands() {
		if !slices.Contains(undoing, sub.Name()) {
			boundEnd(sub)
		}
	}
	root.SetArgs(append([]string{}, args...)) // of nil cobra takes the process's own
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.InitDefaultCompletionCmd() // before the line is looked at, so that a shell that it does not know is found
	for _, refused := range []func(*cobra.Command, []string) error{unknownCommand, oneDash} {
		if err := refused(root, args); err != nil {
			return conclude(usageError(err), stderr)
		}
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !began {
		// cobra itself refused the command line.
		err = usageError(refusedLine(cmd, err))
	}
	return conclude(err, stderr)
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "A userspace switch that forwards through AF_XDP and measures what it carries",
		Long: `Weir is a userspace software switch: it forwards packets between network
interfaces through AF_XDP, on a pipeline of stages that a TOML file names.

  weir switch -c FILE          run a switch
  weir ctl show ports          look into a running one
  weir collect -c FILE         receive the records of switches, with a page
  weir query path --dst NET    ask what they measured
  weir plan --queries FILE     make the plan of stage pint from queries
  weir lab run FILE            run a network of switches and hosts on this machine
  weir bench forward           measure against other switches, or a device of your own
  weir replay --in FILE.pcap   run the same pipeline over a capture, without root

Exit status: 0 good; 1 something failed at work, as where no switch answers or a disk
is full; 2 the command line, the configuration or the machine does not allow what was
asked for, or the caller may not ask it.`,
		Version:       versionLine(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.DisableAutoGenTag = true // a man page has the date of its release, not of its making
	root.SetVersionTemplate("{{.Version}}")
	root.AddCommand(
		newSwitchCommand(),
		newCtlCommand(),
		newCollectCommand(),
		newNICCommand(),
		newLabCommand(),
		newQueryCommand(),
		newRelayCommand(), newForwardCommand(),
		newPlanCommand(),
		newKeyCommand(),
		newP4Command(),
		newReplayCommand(),
		newGenCommand(),
		newSinkCommand(),
		newBenchCommand(),
		newVersionCommand(),
		newManCommand(),
	)
	return root
}

// noteBegin has every command note that it began. What fails before is a fault
// of the command line, which cobra finds.
func noteBegin(cmd *cobra.Command, began *bool) {
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*began = true
			return work(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		noteBegin(sub, began)
	}
}

// refuseTimes has every command refuse flags with times that cannot be meant, before it begins.
func refuseTimes(cmd *cobra.Command) {
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := wrongTimes(cmd.Flags()); err != nil {
				return usageError(err)
			}
			return work(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		refuseTimes(sub)
	}
}

// wrongTimes reports times below 0, and of 0 where that has no meaning of its own: 0 is the default of the flags where it has.
func wrongTimes(flags *pflag.FlagSet) error {
	var faults []error
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.Type() != "duration" {
			return
		}
		none := f.DefValue == "0s"
		d, err := time.ParseDuration(f.Value.String())
		switch {
		case err != nil || d > 0 || d == 0 && none:
		case none:
			faults = append(faults, fmt.Errorf("--%s %v: choose a length of time above 0, or leave it out", f.Name, d))
		default:
			faults = append(faults, fmt.Errorf("--%s %v: choose a length of time above 0, as %s", f.Name, d, strings.Replace(f.DefValue, "m0s", "m", 1)))
		}
	})
	return errors.Join(faults...)
}

// undoing are the commands that take namespaces, queues or other processes away before they end, which must not be cut
// short. The processes that they started are themselves bound.
var undoing = []string{"lab", "bench", "nic", "p4"}

// boundEnd has a command and those below it end in time.
func boundEnd(cmd *cobra.Command) {
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			defer endInTime(cmd.Context(), cmd.ErrOrStderr())()
			return work(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		boundEnd(sub)
	}
}

// withSignals returns a context that the first SIGINT or SIGTERM cancels. The
// second one ends the process at once: its sender does not want to wait
// for the drain. One within againAfter is the same wish: timeout(1) sends to the process and to its group. The kernel cleans up then: sockets, memory and XDP programs
// go with the process.
func withSignals(stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	done := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case first.IsZero():
					first = time.Now()
				case time.Since(first) >= againAfter:
					fmt.Fprintf(stderr, "weir: %v again: ending at once\n", s)
					os.Exit(statusFailure)
				}
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}

// againAfter is how long after a signal another one counts as a second one.
const againAfter = 100 * time.Millisecond

// stopVariable names the environment's variable with another stopWait, for machines that are very slow.
const stopVariable = "WEIR_STOP_WAIT"

// stopWait is how long a command may go on after the signal that ends it.
const stopWait = 5 * time.Second

// endInTime ends the process when ctx has ended and what it does then takes longer than it may: whatever phase of
// its start or its end it is in. The kernel cleans up, as after a second signal. over says that it ended by itself.
func endInTime(ctx context.Context, stderr io.Writer) (over func()) {
	wait := stopWait
	if d, err := time.ParseDuration(os.Getenv(stopVariable)); err == nil {
		wait = d
	}
	var timer atomic.Pointer[time.Timer]
	stop := context.AfterFunc(ctx, func() {
		timer.Store(time.AfterFunc(wait, func() {
			fmt.Fprintf(stderr, "weir: not at an end %v after the signal: ending at once\n", wait)
			os.Exit(statusFailure)
		}))
	})
	return func() {
		stop()
		if t := timer.Load(); t != nil {
			t.Stop()
		}
	}
}

// statusError is an error with its own exit status.
type statusError struct {
	status int
	error
}

func (e statusError) Unwrap() error { return e.error }

// usageError marks what the user can fix before the next start: the command
// line, the configuration, the machine. It keeps nil.
func usageError(err error) error {
	if err == nil {
		return nil
	}
	return statusError{statusUsage, err}
}

// conclude prints what went wrong, a line per fault, and returns the exit status.
func conclude(err error, stderr io.Writer) int {
	if err == nil {
		return statusGood
	}
	for _, fault := range unjoin(err) {
		fmt.Fprintf(stderr, "%s %v\n", text.Paint(stderr, text.Red, "weir:"), fault)
	}
	if marked := (statusError{}); errors.As(err, &marked) {
		return marked.status
	}
	return statusFailure
}

// unjoin takes joined errors apart.
func unjoin(err error) []error {
	if marked, ok := err.(statusError); ok {
		return unjoin(marked.error)
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	// An error that joins others and says more is left whole.
	if whole := err.Error(); whole != errors.Join(joined.Unwrap()...).Error() {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, unjoin(e)...)
	}
	return all
}
