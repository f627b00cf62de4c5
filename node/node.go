// Package node is one switch as a Go API: it opens the ports and the stages that a
// configuration names, forwards, takes changes while packets flow, and reports what it
// counts. "weir switch" is a thin program around it.
//
//	          config.Load, config.Parse              a program, or weir ctl by the control socket
//	                   │                              │ Change, Reload, Set, Clear    ^ Report, Trace,
//	                   v                              v                               │ Capture, Fdb, ...
//	New ──> ┌ Node ─────────────────────────────────────────────────────────────────────────┐
//	        │ ports ──> worker: batch ──> graph of stages ──> ports       the packet path   │
//	        │                               │ epochs                                        │
//	        │                               v                                               │
//	        │ statuses ───────────> export.Path: exporter, spool, shipper the record path   │──> collector
//	        └───────────────────────────────────────────────────────────────────────────────┘
//	Run(ctx) starts all of it; when ctx ends it drains the ports and takes all down.
//
// A program that has packets of its own gives ports in [Options]; all others are network
// interfaces, which need CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF.
package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/metrics"
	"github.com/weirswitch/weir/dataplane/hostif"
	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/internal/handover"
	"github.com/weirswitch/weir/internal/privilege"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/local"
)

// Options are what a node has beside its configuration. The zero value runs the
// configuration as it is, without a log.
type Options struct {
	// Log takes events, never packets; nil: none. A change of log.level sets Level, if it
	// is there.
	Log   *zap.Logger
	Level *zap.AtomicLevel
	// File is the configuration's file, which Reload reads again.
	File string
	// Ports are ports that the program made, by their names; each needs a [[port]] of that
	// name in the configuration, whose interface is not opened then. They are the node's
	// from New on, which closes them, also when New fails. No change can touch them.
	Ports map[string]port.Port
	// TakeOver has the node take a running switch over from another process, which ends then. New prepares that while the other one forwards, and
	// Run does it; what fails by then leaves the other process as it was.
	TakeOver bool
	// Service is what supervises the process, nil for nothing. A process of the same service alone may take the switch over then.
	Service *Service
	// NoControl opens no control socket, TLS or metrics listener: only the program itself
	// reads and changes the node.
	NoControl bool
	// Ready, if set, is called once by Run when all workers forward, before control
	// answers. An error ends Run.
	Ready func() error
}

// Node is a switch. Run and Close are for one goroutine; all other methods may be called
// from any goroutine, from New on and also after Run. Answers belong to the caller.
type Node struct {
	config  *config.Config // at the start; inForce has what changed since
	options Options
	log     *zap.Logger

	socket net.Listener // nil: the API is not served here
	tcp    net.Listener // nil: the API is not served over TCP
	scrape net.Listener // nil: metrics are not served
	audit  *control.Audit
	server atomic.Pointer[control.Server]
	meters *metrics.Server
	sflow  []net.Conn // to the collectors of the stage sflow; guarded by changing

	takeovers       net.Listener   // nil: no process can take the switch over
	taking          *taking        // nil: nothing is taken over
	leaving         *handover.Conn // to the process that has taken the switch over, else nil
	leavingErr      error          // why that may not go on
	takeoversFailed atomic.Uint64
	blocked         atomic.Int64 // nanoseconds in which no process forwarded when this one took over, 0 if it did not

	space  *port.Space // where interfaces are opened
	kernel *hostif.Watch
	// kernelRead has the outcome of the kernel's first reading; holds one.
	kernelRead chan error
	pool       *packet.Pool
	memory     *port.UMEM // nil until the first port that needs it
	sw         *worker.Switch
	path       *export.Path
	digests    atomic.Pointer[local.Digests] // nil: the node answers no questions
	statuses   *statuses

	changing     sync.Mutex // one change of the configuration at a time
	inForce      atomic.Pointer[inForce]
	ports        []pipeline.Port          // by number, as the stages know them; guarded by changing
	names        atomic.Pointer[[]string] // of the ports by number, also of those that went
	portsChanged chan struct{}            // an interface may be other than the stages know it
	graphChanged chan struct{}            // the graph is another one
	bonds        sync.Map                 // by name: a bond's *port.Virtual
	looking      sync.Mutex               // guards looks
	looks        bool                     // a trace or a capture is under way
	settings     sync.Map                 // by port: its settings as they were logged last, a text

	// Assignments that were not taken, and when the log had one last; of the goroutine that listens for them.
	refusedAssignments uint64
	assignmentLogged   time.Time

	began bool
	final atomic.Pointer[worker.Report] // taken when Run ended
	once  sync.Once                     // of Close
}

var _ control.Switch = (*Node)(nil)

// New sets a node up, all but its start: memory, ports, stages, spool and listeners. It
// opens interfaces in the network namespace of the calling thread, and so does each later
// change. The error joins all
// faults that were found; the machine is as it was then. The node keeps c, which may not
// change any more.
func New(c *config.Config, o Options) (*Node, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	n := &Node{config: c, options: o, log: o.Log, portsChanged: make(chan struct{}, 1), graphChanged: make(chan struct{}, 1), kernelRead: make(chan error, 1)}
	if err := n.setUp(); err != nil {
		if n.taking != nil {
			err = errors.Join(err, n.taking.close(err))
		}
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// checkPrivileges reports which capabilities the process lacks to open the ports that it does not have yet.
func checkPrivileges(c *config.Config, given map[string]bool) error {
	missing := privilege.MissingForPorts()
	for i := range c.Ports {
		if p := &c.Ports[i]; p.OnInterface() && !p.Disabled && !given[p.Name] && len(missing) > 0 {
			return fmt.Errorf("no privilege to open ports on interfaces, as %s missing: run as root, or give the program capabilities (setcap cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon,cap_ipc_lock+ep FILE)", are(missing))
		}
	}
	return nil
}

// are is "A is", or "A, B are".
func are(names []string) string {
	verb := " are"
	if len(names) == 1 {
		verb = " is"
	}
	return strings.Join(names, ", ") + verb
}

func (n *Node) setUp() (err error) {
	c := n.config
	var opened []port.Port // until the workers have them
	defer func() {
		for _, p := range opened {
			err = errors.Join(err, p.Close())
		}
	}()
	given := map[string]bool{}
	for name, p := range n.options.Ports {
		opened = append(opened, p)
		if c.PortNamed(name) == nil {
			err = errors.Join(err, fmt.Errorf("port %s: the configuration has no [[port]] of that name: add it", name))
		}
		given[name] = true
	}
	var spaceErr error
	if n.space, spaceErr = port.CurrentSpace(); spaceErr != nil {
		return errors.Join(err, spaceErr)
	}
	n.kernel = hostif.New(n.space.Do)
	if n.options.TakeOver {
		n.kernel.Hold() // the other process has the host interfaces
	}
	queues, held := 0, 0
	err = errors.Join(checkPrivileges(c, given), err) // first, as all else follows from it
	for _, pc := range c.Ports {
		if given[pc.Name] {
			queues += n.options.Ports[pc.Name].Info().Queues
			continue
		}
		if port.Deviceless(pc.Driver) {
			continue // it has no rings
		}
		count, queuesErr := port.QueuesOf(n.withWorkers(pc))
		if queuesErr != nil {
			err = errors.Join(err, fmt.Errorf("port %s: %w", pc.Name, queuesErr))
		}
		queues += count
		held += count * pc.Held()
	}
	if err != nil {
		return err
	}
	if err := c.Dataplane.CheckFrames(queues, held); err != nil {
		return fmt.Errorf("dataplane.%w", err)
	}
	if err := c.Telemetry.CheckSending(); err != nil {
		return err
	}
	force, err := newInForce(c)
	if err != nil {
		return err
	}
	n.inForce.Store(force)
	if n.options.TakeOver {
		if n.taking, err = n.take(queues, held); err != nil {
			return err
		}
	} else if err := n.listen(); err != nil {
		return err
	}
	if n.pool, err = packet.NewPool(n.poolConfig(queues, held)); err != nil {
		return err
	}
	var ports []port.Port // in the order of the configuration
	for _, pc := range c.Ports {
		p := n.options.Ports[pc.Name]
		if p == nil {
			var openErr error
			if share := n.shareOf(pc.Name); share != nil {
				p, openErr = n.openTaken(pc, share)
			} else {
				p, openErr = n.openPort(pc)
			}
			if openErr != nil {
				err = errors.Join(err, openErr) // report all ports that cannot be opened
				continue
			}
			opened = append(opened, p)
		}
		n.addBond(p)
		ports = append(ports, p)
	}
	if err != nil {
		return err
	}
	env := c.StageEnv()
	for _, p := range ports {
		env.Ports = append(env.Ports, stagePort(p.Info(), c))
	}
	c.CompletePorts(env.Ports)
	n.ports = env.Ports
	names := pipeline.Devices(n.ports)
	n.names.Store(&names)
	chain, err := stages.Build(c.Switch.Graph, c.Stages, env)
	if err != nil {
		return err
	}
	if n.sflow, err = n.openSFlow(chain); err != nil {
		return err
	}
	n.statuses = newStatuses(n)
	n.followBlocks(chain)
	digests, err := NewDigests(c.Telemetry, chain)
	if err != nil {
		return err
	}
	n.digests.Store(digests)
	telemetry := c.Telemetry
	if n.taking != nil {
		telemetry.Spool = "" // it is the other process's still
	}
	if n.path, err = export.NewPath(telemetry, c.Switch.ID, c.Switch.Name, c.Switch.Hash, digests.Local(), n.logSending,
		append([]export.Source{n.statuses}, sourcesOf(chain)...)...); err != nil {
		return err
	}
	if telemetry.Spool != c.Telemetry.Spool {
		n.path.Expect()
	}
	n.path.OnAssignments(func(body []byte) { n.assign(n.chain(), body) })
	if err := checkMembers(n.ports, nil); err != nil {
		return err
	}
	if n.taking != nil {
		if err := n.takeShared(chain); err != nil {
			return err
		}
	}
	opened = nil
	n.sw, err = worker.New(c.Workers, worker.Parts{
		Name: c.Switch.Name, ID: c.Switch.ID, Pool: n.pool, Ports: ports, Chain: chain, OnEvent: n.portChanged,
	})
	if err != nil {
		return err
	}
	n.joinPorts(chain)
	if n.taking == nil { // else bonds have what the process before knows of them
		n.followBonds()
	}
	return n.sw.FollowGraph()
}

// withWorkers is a port's configuration with what the switch adds to it.
func (n *Node) withWorkers(c port.Config) port.Config {
	c.Workers = n.config.Workers.Count
	return c
}

// openPort opens an interface as a port.
func (n *Node) openPort(c port.Config) (port.Port, error) {
	c = n.withWorkers(c)
	if c.Driver == port.DriverAsavie {
		d := n.config.Dataplane
		d.FrameSize = n.pool.FrameSize()
		p, err := port.NewAsavie(c, d)
		if err != nil {
			return nil, err // not p: a nil pointer in an interface is not nil
		}
		return p, nil
	}
	if c.Driver == port.DriverVhost {
		p, err := port.NewVhost(c, n.pool.FrameSize())
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	if c.Driver == port.DriverTap {
		d := n.config.Dataplane
		d.FrameSize = n.pool.FrameSize()
		p, err := port.NewTap(c, d)
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	if port.Deviceless(c.Driver) {
		return port.NewVirtual(c), nil
	}
	if c.Driver == port.DriverMemif {
		p, err := port.NewMemif(c, n.pool.FrameSize())
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	if err := n.makeMemory(); err != nil {
		return nil, err
	}
	p, err := port.NewXSK(c, n.memory)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// makeMemory makes the packet memory that of AF_XDP sockets.
func (n *Node) makeMemory() (err error) {
	if n.memory == nil {
		n.memory, err = port.NewUMEM(n.pool, n.config.Dataplane)
	}
	return err
}

// listen opens what control is served at.
func (n *Node) listen() error {
	if n.options.NoControl {
		return nil
	}
	c := &n.config.Control
	var errs [5]error
	n.socket, errs[0] = control.Listen(c.Socket, c.Group)
	n.tcp, errs[1] = control.ListenTLS(c.TLS)
	n.audit, errs[2] = control.OpenAudit(c.Audit)
	n.scrape, errs[3] = metrics.Listen(c.Metrics)
	errs[4] = n.listenTakeovers()
	return errors.Join(errs[:]...)
}

// portChanged logs a new state of a port's interface, and wakes followPorts.
func (n *Node) portChanged(e worker.PortEvent) {
	select {
	case n.portsChanged <- struct{}{}:
	default:
	}
	fields := []zap.Field{zap.String("port", e.Port), zap.String("state", string(e.State)), zap.Int("index", e.Index)}
	if e.Note != "" {
		fields = append(fields, zap.String("note", e.Note))
	}
	if e.Error != nil || e.State != port.StateUp {
		n.log.Warn("port changed", append(fields, zap.NamedError("reason", e.Error))...)
		return
	}
	n.log.Info("port changed", fields...)
	if n.sw != nil && e.Note == "" {
		for _, info := range n.sw.Infos() {
			if info.Name == e.Port {
				n.logSettings(info)
			}
		}
	}
}

// logSettings logs which settings of its interface a port has changed, and which it could not, unless it did so before.
func (n *Node) logSettings(i port.Info) {
	text := fmt.Sprint(i.Settings, i.Refused)
	if before, known := n.settings.Swap(i.Name, text); known && before == text {
		return
	}
	for _, s := range i.Settings {
		n.log.Info("setting changed", zap.String("port", i.Name), zap.String("setting", s.Name), zap.String("was", s.Was), zap.String("is", s.Is))
	}
	for _, s := range i.Refused {
		n.log.Warn("setting not changed", zap.String("port", i.Name), zap.String("setting", s.Name), zap.String("reason", s.Why))
	}
}

// assign gives stages what the collector sent for them. It is called by one goroutine. Switches can have the server send each other texts that are no assignments, as acknowledgements of
// records, so the log has one line of such in a minute, with their number.
func (n *Node) assign(chain []pipeline.Named, body []byte) {
	for _, stage := range chain {
		s, ok := stage.Module.(interface {
			Assign(now int64, body []byte) error
		})
		if !ok {
			continue
		}
		err := s.Assign(clock.Kernel.TAI(), body)
		if err == nil {
			continue
		}
		if n.refusedAssignments++; time.Since(n.assignmentLogged) > time.Minute {
			n.assignmentLogged = time.Now()
			n.log.Warn("what the collector assigned is not taken", zap.Error(err), zap.Uint64("refused", n.refusedAssignments))
		}
	}
}

func (n *Node) logSending(s export.Status) {
	if s.State == export.Connected {
		n.log.Info("records are sent", zap.String("server", s.Server))
		return
	}
	n.log.Warn("records wait in the spool", zap.String("reason", s.LastError))
}

// Run forwards until ctx ends, all ports have received their last packet, or something
// fails. Then it drains the ports, sends the last records within some seconds, closes the
// node, and returns what failed: a worker, a port that did not close, counters that do not
// add up, frames that are lost. It can be called once.
//
// Run sets GOMAXPROCS, since each worker occupies a processor.
func (n *Node) Run(ctx context.Context) error {
	if n.began {
		return errors.New("a node runs once: make another")
	}
	n.began = true
	stop := make(chan struct{})
	var beside sync.WaitGroup // goroutines beside the packet path
	// What changed since the stages were built.
	select {
	case n.portsChanged <- struct{}{}:
	default:
	}
	beside.Go(func() { n.followKernel(stop) })
	stopExport := func() error { return nil }
	startExport := func() {
		if n.path.Spool != nil {
			beside.Go(func() { n.statuses.run(stop) })
		}
		if err := n.path.Configure(n.config.Telemetry); err != nil {
			// The files were good when the node was set up; a reload may mend it.
			n.log.Error("records are not sent", zap.Error(err))
		}
		stopExport = n.path.Start(clock.Kernel.TAI)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	if n.taking == nil {
		startExport()
	} else if err := n.enter(ctx); err != nil {
		err = errors.Join(fmt.Errorf("take switch %s over: %w", n.config.Switch.Name, err), n.taking.close(err)) // first: the other process's workers may rest
		close(stop)
		beside.Wait()
		n.began = false // Close closes what did not run
		return errors.Join(err, n.Close())
	}
	beside.Go(func() { n.followPorts(stop) }) // bonds that were taken over are up from here on, where stations are known by them
	var readyErr error
	err := n.sw.Run(ctx, func() {
		if n.taking != nil {
			if err := n.entered(); err != nil {
				n.log.Error("not all was taken over", zap.Error(err))
			}
			startExport()
		}
		if n.takeovers != nil {
			beside.Go(func() { n.serveTakeovers(ctx) })
		}
		if n.options.Ready != nil {
			if readyErr = n.options.Ready(); readyErr != nil {
				end()
				return
			}
		}
		if n.socket != nil {
			n.server.Store(control.Serve(n.socket, n, control.Options{
				Log: n.log, Audit: n.audit, TCP: n.tcp, Admins: n.config.Control.TLS.Admins, Readers: n.config.Control.TLS.Readers,
			}))
		}
		if n.scrape != nil {
			n.meters = metrics.Serve(n.scrape, n, n.log)
		}
		for _, i := range n.sw.Infos() {
			n.log.Info("port open", zap.String("port", i.Name), zap.String("mode", i.Mode),
				zap.String("reception", i.Reception), zap.Strings("fallbacks", i.Fallbacks))
			if i.State == port.StateDown && i.Index > 0 {
				n.log.Warn("port has no link", zap.String("port", i.Name), zap.String("remedy", (&nic.Interface{Name: i.Interface}).NoLink()))
			}
		}
		for _, info := range n.sw.Infos() {
			n.logSettings(info)
		}
		n.log.Info("forwarding", zap.String("switch", n.config.Switch.Name), zap.String("control", n.config.Control.Socket))
	})
	end()
	if n.leaving != nil {
		n.path.Leave()
	}
	err = errors.Join(readyErr, err, stopExport())
	close(stop)
	beside.Wait()
	if n.leaving != nil {
		err = errors.Join(err, n.closeControl(), n.left())
	}
	r := n.sw.Report()
	n.final.Store(&r)
	return errors.Join(err, n.Close(), judge(&r))
}

// judge returns what a last report shows to be wrong.
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

// Close frees a node that does not run. Run does so at its end; Close behind it does
// nothing, so a program may defer it behind New.
func (n *Node) Close() (err error) {
	n.once.Do(func() {
		errs := []error{n.closeControl()}
		n.changing.Lock()
		for _, conn := range n.sflow {
			errs = append(errs, conn.Close())
		}
		n.changing.Unlock()
		if n.audit != nil {
			errs = append(errs, n.audit.Close())
		}
		if n.path != nil && n.path.Spool != nil && !n.began {
			errs = append(errs, n.path.Spool.Close())
		}
		if n.taking != nil && !n.began {
			errs = append(errs, n.taking.close(errors.New("the new process was closed before it ran")))
		}
		if n.sw != nil && !n.began {
			errs = append(errs, n.sw.Close())
		}
		if n.pool != nil {
			errs = append(errs, n.pool.Close())
		}
		if n.space != nil {
			n.space.Close()
		}
		err = errors.Join(errs...)
	})
	return err
}

// closeControl ends what control is served at.
func (n *Node) closeControl() error {
	var errs []error
	if server := n.server.Swap(nil); server != nil {
		errs = append(errs, server.Close())
		n.socket, n.tcp = nil, nil // closed by the server
	}
	if n.meters != nil {
		errs = append(errs, n.meters.Close())
		n.meters, n.scrape = nil, nil
	}
	for _, listener := range []net.Listener{n.socket, n.tcp, n.scrape} {
		if listener != nil {
			errs = append(errs, listener.Close())
		}
	}
	if n.takeovers != nil {
		if err := n.takeovers.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	n.socket, n.tcp, n.scrape, n.takeovers = nil, nil, nil, nil
	return errors.Join(errs...)
}

// moduleOf finds the module of a type in a graph.
func moduleOf[M pipeline.Module](chain []pipeline.Named) (m M, ok bool) {
	for _, stage := range chain {
		if m, ok := stage.Module.(M); ok {
			return m, true
		}
	}
	return m, false
}
