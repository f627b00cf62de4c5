package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/control/metrics"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/l2"
)

// switchOptions are the flags of weir switch.
type switchOptions struct {
	config string
	check  bool
	dump   bool
	report string
}

func newSwitchCommand() *cobra.Command {
	var o switchOptions
	cmd := &cobra.Command{
		Use:   "switch -c FILE",
		Short: "Run a switch",
		Long: `Switch runs a switch until SIGTERM or SIGINT, which drain it; a second one
ends it at once. It logs to standard error and reports to standard output at
its end.

--check reads the file, says all that is wrong with it, and exits; interfaces
need not be there. --dump prints the configuration with every default.

When the switch forwards, it writes the line "ready" to the descriptor that the
environment names in ` + readyVariable + `, and notifies systemd where that started it.

Exit status: 0 after a clean end; 1 if something failed at work, counters do
not add up or frames are lost; 2 if the switch could not be set up.`,
		Example: `  weir switch -c config/patch.toml --check
  weir switch -c config/patch.toml --report json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSwitch(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.config, "config", "c", "", "the switch's configuration `FILE`")
	f.BoolVar(&o.check, "check", false, "check the configuration and exit")
	f.BoolVar(&o.dump, "dump", false, "print the complete configuration and exit")
	f.StringVar(&o.report, "report", "text", "what to print at the end: text, json or none")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

// runSwitch is the command, top to bottom.
func runSwitch(ctx context.Context, o switchOptions, stdout, stderr io.Writer) error {
	printReport, err := reportPrinter(o.report)
	if err != nil {
		return usageError(err)
	}
	c, err := config.Load(o.config)
	if err != nil {
		return usageError(err)
	}
	if o.dump {
		return c.Dump(stdout)
	}
	if o.check {
		_, err := fmt.Fprintf(stdout, "%s is good: switch %s, %d ports, graph %s\n",
			o.config, c.Switch.Name, len(c.Ports), strings.Join(c.Switch.Graph, ", "))
		return err
	}
	log, level, err := newLogger(c.Log, stderr)
	if err != nil {
		return usageError(err)
	}
	tell, err := newReadiness()
	if err != nil {
		return usageError(err)
	}
	s, err := newLiveSwitch(c, log)
	if err != nil {
		return usageError(err)
	}
	s.file, s.level = o.config, level
	report, err := s.run(ctx, tell)
	message := reportMessage(report)
	message.Metrics, message.Records = s.Metrics(), s.Records()
	message.Pint = pintReport(s.chain)
	return errors.Join(err, judge(report), printReport(stdout, message))
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

// judge says what a report shows to be wrong.
func judge(r *worker.Report) error {
	var errs []error
	if !r.Balanced {
		errs = append(errs, fmt.Errorf("the counters do not add up: received %d, forwarded %d, consumed %d, dropped %d; copied %d, forwarded %d, dropped %d",
			r.Received, r.Forwarded, r.Consumed, r.DroppedTotal(), r.Copies.Received, r.Copies.Forwarded, r.Copies.DroppedTotal()))
	}
	if r.Frames.Lost != 0 {
		errs = append(errs, fmt.Errorf("%d of %d frames are lost", r.Frames.Lost, r.Frames.Total))
	}
	if r.Frames.Faults != 0 {
		errs = append(errs, fmt.Errorf("the audit refused %d changes of a frame's owner", r.Frames.Faults))
	}
	return errors.Join(errs...)
}

// liveSwitch is a switch on network interfaces with its control socket.
type liveSwitch struct {
	config   *config.Config // at the start; inForce has what changed since
	log      *zap.Logger
	level    zap.AtomicLevel
	file     string // of the configuration
	socket   net.Listener
	tcp      net.Listener // nil: the API is not served over TCP
	scrape   net.Listener // nil: metrics are not served
	audit    *control.Audit
	server   atomic.Pointer[control.Server]
	meters   *metrics.Server
	pool     *packet.Pool
	memory   *port.UMEM
	chain    []pipeline.Named
	sw       *worker.Switch
	export   *exporting
	statuses *statuses

	changing sync.Mutex // one change of the configuration at a time
	inForce  atomic.Pointer[inForce]
	ports    []pipeline.Port          // by number, as the stages know them; guarded by changing
	names    atomic.Pointer[[]string] // of the ports by number, also of those that went
	// portsChanged is told that an interface may be other than the stages know it.
	portsChanged chan struct{}
	looking      sync.Mutex // one trace or capture at a time
}

var _ control.Switch = (*liveSwitch)(nil)

// newLiveSwitch sets a switch up, all but its start, in the network namespace
// of the calling thread. On failure it leaves the machine as it was.
func newLiveSwitch(c *config.Config, log *zap.Logger) (*liveSwitch, error) {
	force, err := newInForce(c)
	if err != nil {
		return nil, err
	}
	queues, err := countQueues(c.Ports)
	if err != nil {
		return nil, err
	}
	if err := c.Dataplane.CheckFrames(queues); err != nil {
		return nil, fmt.Errorf("dataplane.%w", err)
	}
	s := &liveSwitch{config: c, log: log, portsChanged: make(chan struct{}, 1)}
	s.inForce.Store(force)
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.setUp(queues); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// listen opens what control needs, in one go with all faults.
func (s *liveSwitch) listen() error {
	c := s.config.Control
	var errs [4]error
	s.socket, errs[0] = control.Listen(c.Socket, c.Group)
	s.tcp, errs[1] = control.ListenTLS(c.TLS)
	s.audit, errs[2] = control.OpenAudit(c.Audit)
	s.scrape, errs[3] = metrics.Listen(c.Metrics)
	return errors.Join(errs[:]...)
}

// countQueues counts the queues that the ports will serve, and reports all
// interfaces that are missing or have too few.
func countQueues(ports []port.Config) (int, error) {
	total := 0
	var errs []error
	for _, c := range ports {
		n, err := port.QueuesOf(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("port %s: %w", c.Name, err))
		}
		total += n
	}
	return total, errors.Join(errs...)
}

func (s *liveSwitch) setUp(queues int) (err error) {
	c := s.config
	s.pool, err = packet.NewPool(packet.PoolConfig{
		Frames:    c.Dataplane.FramesFor(queues, c.Workers.Count),
		FrameSize: c.Dataplane.FrameSize,
		HugePages: c.Dataplane.HugePages,
		Audit:     c.Dataplane.Audit,
	})
	if err != nil {
		return err
	}
	if s.memory, err = port.NewUMEM(s.pool, c.Dataplane); err != nil {
		return err
	}
	ports, err := openPorts(c, s.memory)
	if err != nil {
		return err
	}
	env := pipeline.Env{Name: c.Switch.Name, ID: c.Switch.ID, Workers: c.Workers.Count, Hash: c.Switch.Hash}
	for _, p := range ports {
		env.Ports = append(env.Ports, stagePort(p.Info(), c))
	}
	s.ports = env.Ports
	names := pipeline.PortNames(s.ports)
	s.names.Store(&names)
	if s.chain, err = stages.Build(c.Switch.Graph, c.Stages, env); err != nil {
		return errors.Join(err, closePorts(ports))
	}
	s.statuses = newStatuses(s)
	if err = checkSending(c.Telemetry); err != nil {
		return errors.Join(err, closePorts(ports))
	}
	if s.export, err = newExporting(c.Telemetry, c.Switch, s.chain, s.statuses); err != nil {
		return errors.Join(err, closePorts(ports))
	}
	s.export.log = s.log
	s.sw, err = worker.New(c.Workers, worker.Parts{
		Name: c.Switch.Name, ID: c.Switch.ID, Pool: s.pool, Ports: ports, Chain: s.chain, OnEvent: s.portChanged,
	})
	return err
}

// portChanged logs what became of a port's interface, and has the stages told.
func (s *liveSwitch) portChanged(e worker.PortEvent) {
	select {
	case s.portsChanged <- struct{}{}:
	default:
	}
	fields := []zap.Field{zap.String("port", e.Port), zap.String("state", string(e.State)), zap.Int("index", e.Index)}
	if e.Error != nil || e.State != port.StateUp {
		s.log.Warn("port changed", append(fields, zap.NamedError("reason", e.Error))...)
		return
	}
	s.log.Info("port changed", fields...)
}

// openPorts opens all ports, or none: every one that cannot be is reported.
func openPorts(c *config.Config, memory *port.UMEM) ([]port.Port, error) {
	var ports []port.Port
	var errs []error
	for _, pc := range c.Ports {
		p, err := openPort(pc, c.Dataplane, memory)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		ports = append(ports, p)
	}
	if errs != nil {
		return nil, errors.Join(append(errs, closePorts(ports))...)
	}
	return ports, nil
}

func openPort(c port.Config, d port.DataplaneConfig, memory *port.UMEM) (port.Port, error) {
	if c.Driver == port.DriverAsavie {
		p, err := port.NewAsavie(c, d)
		if err != nil {
			return nil, err // not p: a nil pointer in an interface is not nil
		}
		return p, nil
	}
	p, err := port.NewXSK(c, memory)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func closePorts(ports []port.Port) error {
	var errs []error
	for _, p := range ports {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// run forwards until ctx ends or something fails, takes everything down, and
// returns the last report.
func (s *liveSwitch) run(ctx context.Context, tell *readiness) (*worker.Report, error) {
	noted := func() bool { return true }
	if s.export.spool != nil { // else nobody would hear it
		defer s.statuses.start()()
	}
	stopExport := s.export.start(s.config.Telemetry)
	stopReload := s.reloadOnSignal()
	defer stopReload()
	stopFollow := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() { s.followPorts(stopFollow) })
	defer following.Wait()
	defer close(stopFollow)
	ctx, end := context.WithCancel(ctx)
	defer end()
	var dropErr error
	runErr := s.sw.Run(ctx, func() {
		if dropErr = s.dropPrivileges(); dropErr != nil {
			end() // with more privileges than it says, it shall not run
			return
		}
		s.serve()
		for _, m := range s.sw.Report().Modes {
			s.log.Info("port open", zap.String("mode", m))
		}
		s.log.Info("forwarding", zap.String("switch", s.config.Switch.Name), zap.String("control", s.config.Control.Socket))
		if err := tell.ready(); err != nil {
			s.log.Warn("cannot tell that the switch forwards", zap.Error(err))
		}
		noted = context.AfterFunc(ctx, func() {
			s.log.Info("draining")
			if err := tell.stopping(); err != nil {
				s.log.Warn("cannot tell that the switch ends", zap.Error(err))
			}
		})
	})
	noted() // an end by itself is no drain
	runErr = errors.Join(dropErr, runErr, stopExport())
	report := s.sw.Report()
	if server := s.server.Load(); server != nil {
		runErr = errors.Join(runErr, server.Close())
		s.socket, s.tcp = nil, nil // closed by the server
	}
	if s.meters != nil {
		runErr = errors.Join(runErr, s.meters.Close())
		s.scrape = nil
	}
	return &report, errors.Join(runErr, s.close())
}

// dropPrivileges gives up what the switch does not need any more, and says what
// it keeps.
func (s *liveSwitch) dropPrivileges() error {
	keep := portCapabilities
	if !s.config.Control.KeepCapabilities {
		keep = nil
	}
	if err := dropPrivileges(keep); err != nil {
		return err
	}
	s.log.Info("privileges dropped", zap.Strings("capabilities kept", capabilities()))
	return nil
}

// serve answers what arrives at the control socket.
func (s *liveSwitch) serve() {
	s.server.Store(control.Serve(s.socket, s, control.Options{
		Log: s.log, Audit: s.audit, TCP: s.tcp, Admins: s.config.Control.TLS.Admins,
	}))
	if s.scrape != nil {
		s.meters = metrics.Serve(s.scrape, s, s.log)
	}
}

// close gives back what is neither a worker's nor a port's.
func (s *liveSwitch) close() error {
	var errs []error
	if s.socket != nil {
		errs = append(errs, s.socket.Close())
	}
	if s.tcp != nil {
		errs = append(errs, s.tcp.Close())
	}
	if s.scrape != nil {
		errs = append(errs, s.scrape.Close())
	}
	if s.audit != nil {
		errs = append(errs, s.audit.Close())
	}
	if s.pool != nil {
		errs = append(errs, s.pool.Close())
	}
	return errors.Join(errs...)
}

// Version implements control.Switch.
func (s *liveSwitch) Version() *api.VersionResponse {
	v := version()
	v.Capabilities = capabilities()
	return v
}

// Report implements control.Switch.
func (s *liveSwitch) Report() *api.ReportResponse {
	r := s.sw.Report()
	m := reportMessage(&r)
	m.Metrics, m.Records = s.Metrics(), s.Records()
	return m
}

// Metrics implements control.Switch.
func (s *liveSwitch) Metrics() []*api.Metric {
	return append(metricsOf(s.chain, s.export), controlMetrics(s.server.Load())...)
}

// Records implements control.Switch.
func (s *liveSwitch) Records() *api.Records { return s.export.records() }

// Config implements control.Switch.
func (s *liveSwitch) Config() string { return s.inForce.Load().text }

// Fdb implements control.Switch.
func (s *liveSwitch) Fdb() (iter.Seq[*api.FdbEntry], bool) {
	for _, n := range s.chain {
		if m, ok := n.Module.(*l2.Module); ok {
			return s.fdbOf(m), true
		}
	}
	return nil, false
}

func (s *liveSwitch) fdbOf(m *l2.Module) iter.Seq[*api.FdbEntry] {
	return func(yield func(*api.FdbEntry) bool) {
		names := s.portNames()
		for _, e := range m.Entries(nil, taiNow()) {
			entry := &api.FdbEntry{
				Mac: e.MAC.String(), Vlan: uint32(e.VLAN), Port: names[e.Port],
				AgeNs: int64(e.Age), Static: e.Static,
			}
			if !yield(entry) {
				return
			}
		}
	}
}

// taiNow reads CLOCK_TAI, by which the table's ages count.
func taiNow() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_TAI, &ts) // the clock exists wherever AF_XDP does
	return ts.Nano()
}
