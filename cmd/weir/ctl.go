package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
)

// ctlOptions are the flags of weir ctl.
type ctlOptions struct {
	socket  string
	name    string
	timeout time.Duration
	json    bool
	address string // over TCP, instead of socket and name
	tls     control.ClientTLS
	flow    string // of views that show flows
	limit   int
	ports   []string // that a view is limited to; none: all
}

func newCtlCommand() *cobra.Command {
	var o ctlOptions
	ctl := &cobra.Command{
		Use:   "ctl",
		Short: "Look into a running switch, and change it",
		Long: `Ctl talks to a running switch on its control socket, ` + control.DefaultSocket("NAME") + `
unless the switch's configuration says otherwise. With neither --name nor
--socket it takes the one switch that runs on this machine. With --address it talks
over TCP, and proves by --cert and --key who it is.

Users who may open the socket may read. Root, the switch's own user, and owners of a
certificate that control.tls.admins names may also change the switch.`,
	}
	p := ctl.PersistentFlags()
	p.StringVar(&o.socket, "socket", "", "the switch's control socket (`PATH`)")
	p.StringVar(&o.name, "name", "", "the switch's `NAME`")
	p.DurationVar(&o.timeout, "timeout", time.Minute, "how long to wait for the answer")
	p.StringVar(&o.address, "address", "", "talk over TCP to `HOST:PORT`, control.tls.listen of the switch")
	p.StringVar(&o.tls.Certificate, "cert", "", "the client's certificate (`FILE` in PEM)")
	p.StringVar(&o.tls.Key, "key", "", "its key (`FILE` in PEM)")
	p.StringVar(&o.tls.CA, "ca", "", "the certificates that sign the switch's (`FILE` in PEM)")
	p.StringVar(&o.tls.Name, "server-name", "", "the `NAME` in the switch's certificate; default: the host of --address")
	ctl.MarkFlagsMutuallyExclusive("socket", "name", "address")
	ctl.MarkFlagsRequiredTogether("address", "cert", "key", "ca")
	_ = ctl.RegisterFlagCompletionFunc("name", completeNames)
	show := &cobra.Command{Use: "show", Short: "Show what a switch has and counts"}
	show.PersistentFlags().BoolVar(&o.json, "json", false, "print as one JSON object")
	ctl.AddCommand(show, newReloadCommand(&o), newSaveCommand(&o), newSetCommand(&o), newClearCommand(&o), newTraceCommand(&o), newCaptureCommand(&o), newTopCommand(&o))
	for _, v := range append(views, pintViews()...) {
		rates, changing := ratesShown[v.name]
		var ro ratesOptions
		command := &cobra.Command{
			Use: v.name, Short: v.short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, args []string) error {
				o.ports = args
				if ro.watch || ro.once {
					return o.rates(cmd.Context(), ro, rates, cmd.OutOrStdout())
				}
				return o.show(cmd.Context(), v, cmd.OutOrStdout())
			},
		}
		if v.askSome != nil {
			command.Use, command.Args = v.name+" [PORT...]", cobra.ArbitraryArgs
		}
		if v.askFlows != nil {
			command.Flags().StringVar(&o.flow, "flow", "", "only this `FLOW`, \"10.0.0.1:1234 > 10.0.0.2:80 udp\", or those of an address, a prefix or \":80\"")
			command.Flags().IntVar(&o.limit, "limit", 20, "show the `N` flows of the most packets; 0: all")
		}
		if changing {
			f := command.Flags()
			f.BoolVar(&ro.once, "rates", false, "show rates over one interval instead of counts")
			f.BoolVarP(&ro.watch, "watch", "w", false, "show rates again and again, until Ctrl-C")
			f.DurationVar(&ro.interval, "interval", time.Second, "of --rates and --watch")
		}
		show.AddCommand(command)
	}
	for _, group := range []*cobra.Command{ctl, show} {
		group.Args = cobra.NoArgs
		group.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	return ctl
}

// view is one thing to show. ask returns the answer as JSON, and how to print
// it for people.
type view struct {
	name, short string
	ask         func(context.Context, *control.Client) (json.RawMessage, func(io.Writer) error, error)
	// askFlows replaces it in views with the flags of flows, askSome in those that can be limited to some ports.
	askFlows, askSome func(context.Context, *control.Client, *ctlOptions) (json.RawMessage, func(io.Writer) error, error)
}

var views = []view{
	{name: "ports", short: "The ports: modes, and what became of the packets that arrived there", askSome: askPorts},
	{name: "fdb", short: "The forwarding database of the l2 stage", ask: askFdb},
	{name: "groups", short: "The multicast groups that ports of the l2 stage have joined, queriers and routers", ask: askGroups},
	{name: "acl", short: "The access control list, and what each rule matched", ask: askAcl},
	{name: "routes", short: "The routes of the l3 stage", ask: askRoutes},
	{name: "neighbours", short: "The neighbours that the l3 stage knows or looks for", ask: askNeighbours},
	{name: "bonds", short: "The bonds, their members and what LACP knows of the other side", ask: askBonds},
	{name: "lldp", short: "The neighbours at the ends of cables that the lldp stage heard of", ask: askLldp},
	{name: "stages", short: "The stages: packets, drops and the time per packet", ask: askStages},
	{name: "workers", short: "The workers: cores, queues and load", ask: askWorkers},
	{name: "telemetry", short: "The stages' own measurements and counters, and the records sent", ask: askMetrics},
	{name: "config", short: "The configuration in force, with every default", ask: askConfig},
	{name: "report", short: "All counters at one moment", ask: askReport},
	{name: "version", short: "Which program the switch runs, and which capabilities it has kept", ask: askVersion},
}

func (o *ctlOptions) show(ctx context.Context, v view, stdout io.Writer) error {
	ask := v.ask
	if v.askFlows != nil || v.askSome != nil {
		ask = func(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
			if v.askSome != nil {
				return v.askSome(ctx, c, o)
			}
			return v.askFlows(ctx, c, o)
		}
	}
	var answer json.RawMessage
	var print func(io.Writer) error
	err := o.call(ctx, o.timeout, func(ctx context.Context, c *control.Client) (err error) {
		answer, print, err = ask(ctx, c)
		return err
	})
	if err != nil {
		return err
	}
	if o.json {
		_, err := fmt.Fprintf(stdout, "%s\n", answer)
		return err
	}
	return print(stdout)
}

// call makes a call, or some, that together may take as long; 0: without limit.
func (o *ctlOptions) call(ctx context.Context, most time.Duration, f func(context.Context, *control.Client) error) error {
	client, where, err := o.client()
	if errors.Is(err, errNoSwitch) {
		return err
	}
	if err != nil {
		return usageError(err)
	}
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	err = f(ctx, client)
	if err != nil && (errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), errNoAnswer)) {
		return fmt.Errorf("the switch at %s %w within %v: see whether it hangs, or raise --timeout", where, errNoAnswer, o.timeout)
	}
	if control.Refused(err) {
		return usageError(control.Reason(err))
	}
	if err = control.Reason(err); errors.Is(err, control.ErrBroken) {
		return o.brokenOff(where)
	}
	if errors.Is(err, os.ErrPermission) || errors.Is(err, control.ErrNotSocket) {
		return usageError(err)
	}
	return err
}

// errNoAnswer is of calls that the switch did not answer in time.
var errNoAnswer = errors.New("did not answer")

// unlessBegun adds to the error of a change that was not answered in time what may become of it.
func unlessBegun(err error) error {
	if !errors.Is(err, errNoAnswer) {
		return err
	}
	return fmt.Errorf("%w; the change is dropped unless the switch had begun with it: \"weir ctl show config\" has what is in force", err)
}

// closingWait is how long it may take from the end of a connection to that of the socket, of a process that ends.
const closingWait = time.Second

// brokenOff says why a switch did not complete its answer.
func (o *ctlOptions) brokenOff(where string) error {
	// The kernel closes the connections of a process that ends before or after its socket.
	for until := time.Now().Add(closingWait); o.address == "" && time.Now().Before(until); time.Sleep(closingWait / 10) {
		c, err := net.Dial("unix", where)
		if err == nil {
			_ = c.Close()
		}
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("the switch at %s ended before its answer was complete: its log says why, or that it was asked to", where)
		}
	}
	return fmt.Errorf("the switch at %s closed the connection before its answer was complete: it ended (its log says why), or has as many clients as it takes (control.md, weir_control_refused_connections_total)", where)
}

// client returns a client of the switch that is meant, and where that is.
func (o *ctlOptions) client() (c *control.Client, where string, err error) {
	if o.address != "" {
		c, err = control.NewTLSClient(o.address, o.tls)
		return c, o.address, err
	}
	if where, err = o.findSocket(); err != nil {
		return nil, "", err
	}
	return control.NewClient(where), where, nil
}

// completeNames completes --name with the switches of this machine.
func completeNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	found, _ := filepath.Glob(control.DefaultSocket("*"))
	return switchNames(found), cobra.ShellCompDirectiveNoFileComp
}

// switchNames are the names of the switches whose sockets are at the default path.
func switchNames(sockets []string) (names []string) {
	for _, path := range sockets {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".sock"))
	}
	return names
}

// findSocket finds the socket of the switch that is meant.
func (o *ctlOptions) findSocket() (string, error) {
	if o.socket != "" {
		return o.socket, nil
	}
	if o.name != "" {
		return control.DefaultSocket(o.name), nil
	}
	return chooseSocket(filepath.Glob(control.DefaultSocket("*")))
}

// errNoSwitch says that no switch runs here, which is no fault of the command line.
var errNoSwitch = errors.New("no switch")

// chooseSocket takes the one socket at which a switch answers. A killed switch leaves its socket behind.
func chooseSocket(found []string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	live, stale := control.Answering(found)
	switch {
	case len(live) == 1:
		return live[0], nil
	case len(live) > 1:
		return "", fmt.Errorf("there are several switches: choose one with --name, from %s", strings.Join(switchNames(live), ", "))
	case len(stale) > 0:
		return "", fmt.Errorf("%w runs: %s ended without removing its control socket: start it again, or name another switch's socket with --socket", errNoSwitch, strings.Join(switchNames(stale), ", "))
	}
	return "", fmt.Errorf("%w has a control socket at the default path: start one, or name its socket with --socket", errNoSwitch)
}

func askPorts(ctx context.Context, c *control.Client, o *ctlOptions) (json.RawMessage, func(io.Writer) error, error) {
	r, err := c.Ports(ctx, &api.PortsRequest{})
	if err != nil {
		return nil, nil, err
	}
	if r.Ports, err = portsOf(r.Ports, o.ports); err != nil {
		return nil, nil, err
	}
	return control.JSON(r), func(w io.Writer) error { return printPorts(w, r.Ports) }, nil
}

// portsOf are those of ports that names name; of no names all.
func portsOf(ports []*api.Port, names []string) (some []*api.Port, err error) {
	if len(names) == 0 {
		return ports, nil
	}
	var known []string
	for _, p := range ports {
		known = append(known, p.Name)
		if slices.Contains(names, p.Name) {
			some = append(some, p)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, usageError(fmt.Errorf("the switch has no port %q: choose from %s", name, strings.Join(known, ", ")))
		}
	}
	return some, nil
}

func askStages(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
	r, err := c.Stages(ctx, &api.StagesRequest{})
	if err != nil {
		return nil, nil, err
	}
	return control.JSON(r), func(w io.Writer) error { return printStages(w, r.Stages) }, nil
}

func askWorkers(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
	r, err := c.Workers(ctx, &api.WorkersRequest{})
	if err != nil {
		return nil, nil, err
	}
	return control.JSON(r), func(w io.Writer) error { return printWorkers(w, r.Workers) }, nil
}

func askMetrics(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
	r, err := c.Metrics(ctx, &api.MetricsRequest{})
	if err != nil {
		return nil, nil, err
	}
	return control.JSON(r), func(w io.Writer) error {
		return errors.Join(printMetrics(w, r.Metrics), printRecords(w, r.Records))
	}, nil
}

func askReport(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
	r, err := c.Report(ctx, &api.ReportRequest{})
	if err != nil {
		return nil, nil, err
	}
	return control.JSON(r), func(w io.Writer) error { return printReport(w, r) }, nil
}

func askVersion(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
	v, err := c.Version(ctx, &api.VersionRequest{})
	if err != nil {
		return nil, nil, err
	}
	return control.JSON(v), func(w io.Writer) error { return printRunning(w, v) }, nil
}

func askConfig(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
	r, err := c.Config(ctx, &api.ConfigRequest{})
	if err != nil {
		return nil, nil, err
	}
	return control.JSON(r), func(w io.Writer) error {
		_, err := io.WriteString(w, r.Toml)
		return err
	}, nil
}

// askFdb sorts what comes in no order: by domain or VLAN, then by address.
func askFdb(ctx context.Context, c *control.Client) (json.RawMessage, func(io.Writer) error, error) {
	entries, err := c.FdbEntries(ctx)
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(entries, func(a, b *api.FdbEntry) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Vlan, b.Vlan), cmp.Compare(a.Mac, b.Mac))
	})
	return control.JSON(&api.FdbResponse{Entries: entries}),
		func(w io.Writer) error { return printFdb(w, entries) }, nil
}
