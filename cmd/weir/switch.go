package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/node"
)

// switchOptions are the flags of weir switch.
type switchOptions struct {
	config string
	check  bool
	here   bool
	dump   bool
	report string
	// takeOver the running switch of the configuration's name.
	takeOver bool
	// reload it, or take it over if its program was replaced.
	reload bool
}

func newSwitchCommand() *cobra.Command {
	var o switchOptions
	cmd := &cobra.Command{
		Use:   "switch -c FILE",
		Short: "Run a switch",
		Long: `Switch runs a switch until SIGTERM or SIGINT, which drain it; a second one
ends it at once. It logs to standard error and reports to standard output at
its end.

--check reads the file, says all that is wrong with it, and exits. A file that
is good may be for another machine: cores and interfaces that this one does not
have, interfaces that another switch has, more workers than queues, and the
group, files, folders and addresses of control and telemetry that do not hold
here are listed with their lines, and the status is 0 all the same. With --here
it is 2. Not looked at are the sockets of vhost and memif ports and the control
socket's folder, locked memory, and the spool's lock. For interfaces that are there
it tells what their ports would be granted. --dump prints the configuration with every default.

--takeover takes the running switch of the configuration's control socket over
from its process, while packets flow; what fails leaves that process as it was
(docs/upgrade.md).

--reload is what ExecReload= of a systemd service runs: the running switch of the
configuration's control socket reads its file again, as by "weir ctl reload". If its
program was replaced meanwhile, as by an upgrade, and control.takeover is set, a new
process takes the switch over with the file, and is the service's main process then.

When the switch forwards, it writes the line "ready" to the descriptor that the
environment names in ` + readyVariable + `, and notifies systemd where that started it.

Exit status: 0 after a clean end; 1 if something failed at work, counters do
not add up or frames are lost; 2 if the switch could not be set up.`,
		Example: `  weir switch -c config/patch.toml --check
  weir switch -c config/patch.toml --report json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSwitch(cmd, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.config, "config", "c", "", "the switch's configuration `FILE`")
	f.BoolVar(&o.check, "check", false, "check the configuration and exit")
	f.BoolVar(&o.here, "here", false, "with --check: what keeps the switch from starting on this machine is a fault too (sockets of vhost and memif ports are not looked at)")
	f.BoolVar(&o.dump, "dump", false, "print the complete configuration and exit")
	f.StringVar(&o.report, "report", "text", "what to print at the end: text, json or none")
	f.BoolVar(&o.takeOver, "takeover", false, "take the running switch over from its process, while packets flow")
	f.BoolVar(&o.reload, "reload", false, "have the running switch read its file again, or take it over if its program was replaced: ExecReload= of a service")
	for _, other := range []string{"check", "dump", "takeover"} {
		cmd.MarkFlagsMutuallyExclusive("reload", other)
	}
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

// runSwitch is the command, top to bottom.
func runSwitch(cmd *cobra.Command, o switchOptions, stdout, stderr io.Writer) error {
	printReport, err := reportPrinter(o.report)
	if err != nil {
		return usageError(err)
	}
	c, err := config.Load(o.config)
	if err != nil {
		if lab.IsFile(o.config) {
			err = fmt.Errorf("%s is a lab's file, of several switches: weir lab run %s", o.config, o.config)
		}
		return usageError(err)
	}
	if o.here && !o.check {
		return usageError(errors.New("--here goes with --check alone: add it, or leave --here out"))
	}
	if o.dump {
		return c.Dump(stdout)
	}
	if o.check {
		for _, warning := range c.Warnings {
			fmt.Fprintf(stderr, "weir: warning: %s\n", warning)
		}
		_, here := config.LoadFor(o.config, node.CheckHere)
		if here != nil && o.here {
			return errors.Join(printPortPlans(stdout, c), usageError(here))
		}
		but, faults := "", []error(nil)
		if here != nil {
			but, faults = "; but on this machine it would not start now:", unjoin(here)
		}
		ports := "1 port"
		if len(c.Ports) != 1 {
			ports = fmt.Sprintf("%d ports", len(c.Ports))
		}
		_, err := fmt.Fprintf(stdout, "%s is good: switch %s, %s, graph %s%s\n",
			o.config, c.Switch.Name, ports, strings.Join(c.Switch.Graph, ", "), but)
		for _, fault := range faults {
			_, faultErr := fmt.Fprintf(stdout, "  %v\n", fault)
			err = errors.Join(err, faultErr)
		}
		return errors.Join(err, printPortPlans(stdout, c))
	}
	if o.reload {
		return reloadSwitch(cmd, o, c)
	}
	ctx := cmd.Context()
	log, level, err := newLogger(c.Log, stderr)
	if err != nil {
		return usageError(err)
	}
	for _, warning := range c.Warnings {
		log.Warn(warning)
	}
	warnOfCutOff(log, c)
	notifier, err := newReadiness()
	if err != nil {
		return usageError(err)
	}
	service, err := notifier.service()
	if err != nil {
		return err
	}
	stopNotes := func() bool { return true }
	var n *node.Node
	n, err = node.New(c, node.Options{Log: log, Level: &level, File: o.config, TakeOver: o.takeOver, Service: service, Ready: func() error {
		if nice, err := n.Favour(); err != nil {
			log.Warn("workers do not go first on cores that they share", zap.Error(err))
		} else {
			log.Info("workers go first on cores that they share", zap.Int("nice of other threads", nice))
		}
		kept, err := node.DropPrivileges(c)
		if err != nil {
			return err // with more privileges than it reports, it must not run
		}
		log.Info("privileges dropped", zap.Strings("capabilities kept", kept))
		if err := notifier.ready(); err != nil {
			log.Warn("cannot notify that the switch forwards", zap.Error(err))
		}
		stopNotes = context.AfterFunc(ctx, func() {
			log.Info("draining")
			if err := notifier.stopping(); err != nil {
				log.Warn("cannot notify that the switch ends", zap.Error(err))
			}
		})
		return nil
	}})
	if err != nil {
		return usageError(atLines(o.config, err))
	}
	hangups, reloaded := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, unix.SIGHUP)
	go func() {
		defer close(reloaded)
		for range hangups {
			_ = n.ReloadFile("SIGHUP") // it logs
		}
	}()
	err = n.Run(ctx)
	stopNotes() // an end without a signal is no drain
	signal.Stop(hangups)
	close(hangups)
	<-reloaded
	return errors.Join(err, printReport(stdout, n.Report()))
}

// atLines names interfaces that are missing by the file's lines, as --check does.
func atLines(file string, err error) error {
	var others []error
	missing := false
	for _, fault := range unjoin(err) {
		if port.IsMissing(fault) {
			missing = true
		} else {
			others = append(others, fault)
		}
	}
	if !missing {
		return err
	}
	_, faults := config.LoadFor(file, node.CheckInterfaces)
	if faults == nil { // they came meanwhile
		return err
	}
	return errors.Join(append([]error{faults}, others...)...)
}

// warnOfCutOff names the ports that take the host's own way to others. It does so before they open, as a remote login ends then.
func warnOfCutOff(log *zap.Logger, c *config.Config) {
	routes, err := nic.DefaultRoutes()
	if err != nil {
		log.Warn("whether a port cuts the host off is not known", zap.Error(err))
	}
	for _, p := range c.Ports {
		if route := routes[p.Interface]; p.OnInterface() && len(p.Keep) == 0 && route != "" {
			log.Warn("port cuts the host off", zap.String("port", p.Name), zap.String("why", nic.CutsOff(p.Interface, route)))
		}
	}
}

// reportPrinter chooses what becomes of the last report.
func reportPrinter(kind string) (func(io.Writer, *api.ReportResponse) error, error) {
	switch kind {
	case "text":
		return printReport, nil
	case "json":
		return func(w io.Writer, r *api.ReportResponse) error { return printJSON(w, r) }, nil
	case "none":
		return func(io.Writer, *api.ReportResponse) error { return nil }, nil
	}
	return nil, fmt.Errorf("--report %q: choose text, json or none", kind)
}
