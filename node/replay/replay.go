// Package replay runs captures through the pipeline of a switch: the workers and stages of a live one, with capture files
// in place of interfaces and the captures' time in place of the clock. It needs no privilege, and the same captures
// give the same packets, counters and records.
//
//	captures ──> port.Pcap ──> worker: batch ──> graph of stages ──> port.Pcap ──> captures
//	                                             │ or Chain: switches in a row (bench/netsim)
//	                                             v
//	                               export.Path, each of a switch ──> files of records
package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/bench/netsim/intmd"
	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/patch"
	"github.com/weirswitch/weir/telemetry/export"
)

// Config says what to replay.
type Config struct {
	// Switch is the switch: its name, number and hash, the names of its ports, its graph and stages, and of [telemetry]
	// what bounds records. The rest, as interfaces, spool and collector, has no effect. Load one, or take DefaultSwitch.
	Switch *config.Config
	// In are the captures that ports receive, in the order of capture times; by the ports' names, at least one. Captures
	// are pcap or pcapng, plain or gzipped; "-" is the standard input.
	In map[string]string
	// Out are the captures into which packets that leave are written, by the ports' names; under "" that of all ports
	// without their own. Their names say their format: .pcapng, .gz; "-" is the standard output.
	Out map[string]string
	// Records is a folder for the records of what the stages measured; empty: none are written.
	Records string
	// Budget bounds these records of each switch, in bytes per second of the capture's time; 0: no bound.
	Budget export.ByteRate
	// Chain is how many switches are in a row, with hosts at both ends; each has the stages, the numbers are 1 to Chain
	// and the names s1 to sN. The edges of stage pint are set. 0: the switch alone.
	Chain int
	// LinkRate is the speed of the links of a chain, in bits per second: a switch sends packets one after the other, by their
	// lengths without telemetry. 0: packets take no time.
	LinkRate uint64
	// MTU is that of these links, in bytes behind the Ethernet header. Packets that are longer without telemetry pass; 0: no limit.
	MTU int
	// INT, if set, sends a copy of each packet through the chain with a header stack of In-band Network Telemetry, for Report.Carriers. It
	// needs a LinkRate and two switches.
	INT *intmd.Config
	// Trace is of how many packets the report has the steps.
	Trace int
}

// maxChain bounds Chain: the hop field ends at 255.
const maxChain = 255

// localBytes is the memory for digests of a switch without a configuration: it holds those of a long capture.
const localBytes = 1 << 30

// DefaultSwitch is a switch of two ports, p0 and p1, with stages of default configurations; patch joins the ports.
func DefaultSwitch(graph ...string) *config.Config {
	c := config.Default()
	c.Switch.Name, c.Switch.Graph = "replay", graph
	c.Ports = []port.Config{{Name: "p0"}, {Name: "p1"}}
	c.Stages["patch"] = &patch.Config{Pairs: [][2]string{{"p0", "p1"}}}
	c.Telemetry.LocalBytes = localBytes
	return c
}

// Replay is a switch with its captures open. Its methods are for one goroutine, but for Progress.
type Replay struct {
	config Config
	names  []string // of the ports
	chain  []pipeline.Named
	row    *rowModule // in the place of the chain's stages; nil: the switch is alone

	pool    *packet.Pool
	ins     []*pcapfile.In
	outs    []*pcapfile.Out
	ports   []*port.Pcap
	handed  bool          // the workers have the ports, which have the captures
	records []*recordPath // of each switch

	recordsClosed bool
	sw            *worker.Switch   // nil: it was not made, or has ended
	tracer        *pipeline.Tracer // nil: nothing is traced
}

// frameSize holds the longest record that captures have, 256 KiB, and the headroom. Memory that no packet touches costs
// nothing.
const frameSize = 512 << 10

// New opens captures and makes the switch. The error joins what is wrong with the configuration or the files; nothing is
// written then if one of the captures to read is refused. [Replay.Run] or [Replay.Close] closes what is open.
func New(c Config) (_ *Replay, err error) {
	if len(c.In) == 0 {
		return nil, errors.New("no capture to read is named")
	}
	if c.Trace < 0 {
		return nil, fmt.Errorf("trace %d: choose 0 or more packets", c.Trace)
	}
	if c.Chain < 0 || c.Chain > maxChain {
		return nil, fmt.Errorf("chain %d: choose 1 to %d switches", c.Chain, maxChain)
	}
	if err := c.checkLinks(); err != nil {
		return nil, err
	}
	r := &Replay{config: c}
	sw := &c.Switch.Switch
	env := pipeline.Env{Name: sw.Name, ID: sw.ID, Workers: 1, Hash: sw.Hash}
	for i := range c.Switch.Ports {
		r.names = append(r.names, c.Switch.Ports[i].Name)
		env.Ports = append(env.Ports, pipeline.Port{Name: r.names[i], MaxFrame: port.PcapRoom(frameSize)})
	}
	for name := range c.In {
		if !slices.Contains(r.names, name) {
			return nil, fmt.Errorf("capture to read: the switch has no port %q: there are %s", name, strings.Join(r.names, ", "))
		}
	}
	for name := range c.Out {
		if name != "" && !slices.Contains(r.names, name) {
			return nil, fmt.Errorf("capture to write: the switch has no port %q: there are %s", name, strings.Join(r.names, ", "))
		}
	}
	if r.chain, err = stages.Build(sw.Graph, c.Switch.Stages, env); err != nil {
		return nil, err
	}
	// One thread does everything here, so learning can be exact: the same
	// capture gives the same output.
	stages.Inline(r.chain)
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	r.pool, err = packet.NewPool(packet.PoolConfig{
		// A batch, and a copy of each packet for each port that it is flooded to.
		Frames:    packet.BatchSize * (min(len(r.names), 64) + 2),
		FrameSize: frameSize,
	})
	if err != nil {
		return nil, err
	}
	if c.Chain > 0 {
		if err := r.chainSwitches(); err != nil {
			return nil, err
		}
	}
	if err := r.openCaptures(); err != nil {
		return nil, err
	}
	if err := r.openRecords(); err != nil {
		return nil, err
	}
	workers := worker.DefaultConfig()
	workers.Pin, workers.Poll = false, worker.PollBusy
	ports := make([]port.Port, len(r.ports))
	for i, p := range r.ports {
		ports[i] = p
	}
	r.handed = true
	r.sw, err = worker.New(workers, worker.Parts{
		Name: sw.Name, ID: sw.ID, Pool: r.pool, Ports: ports, Chain: r.chain, ArrivalTime: true,
		OnTick: func(now int64) {
			for _, p := range r.records {
				p.Poll(now)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if c.Trace > 0 {
		r.tracer = pipeline.NewTracer(c.Trace, nil)
		r.sw.SetTracer(r.tracer)
	}
	return r, nil
}

// openCaptures opens the captures: first all that are read, so that nothing is written if one of them is refused. Those
// that are written have the format of the first one that is read.
func (r *Replay) openCaptures() error {
	ports := make([]port.PcapConfig, len(r.names))
	for i, name := range r.names {
		ports[i].Name = name
		path, ok := r.config.In[name]
		if !ok {
			continue
		}
		in, err := pcapfile.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: name a capture that is there, in pcap or pcapng", err)
		}
		if err != nil {
			return err
		}
		r.ins = append(r.ins, in)
		if err := in.CheckEthernet(); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		ports[i].In = in
	}
	byKey := map[string]*port.PcapOutput{}
	for i, key := range r.names {
		path, ok := r.config.Out[key]
		if !ok {
			key = ""
			if path, ok = r.config.Out[key]; !ok {
				continue
			}
		}
		if byKey[key] == nil {
			out, err := r.create(path, key)
			if err != nil {
				return err
			}
			byKey[key] = port.NewPcapOutput(out)
		}
		ports[i].Out = byKey[key]
	}
	var set port.PcapSet
	for i := range ports {
		r.ports = append(r.ports, set.Add(ports[i]))
	}
	return nil
}

// create creates the capture of one port, or under "" of all ports without their own, unless its file is in use here.
func (r *Replay) create(path, key string) (*pcapfile.Out, error) {
	for _, in := range r.ins {
		if in.Same(path) {
			return nil, fmt.Errorf("%s would be written over while it is read: choose another file", path)
		}
	}
	for _, out := range r.outs {
		if out.Same(path) {
			return nil, fmt.Errorf("%s is to be written twice: choose a file for each port, or one for all without a port's name", path)
		}
	}
	var writers []string
	for _, name := range r.names {
		if _, ok := r.config.Out[name]; name == key || key == "" && !ok {
			writers = append(writers, name)
		}
	}
	out, err := pcapfile.Create(path, r.ins[0].Format(), writers...)
	if err == nil {
		r.outs = append(r.outs, out)
	}
	return out, err
}

// Progress returns how many bytes of the captures have been read, and how many there are. It may be called while Run
// runs.
func (r *Replay) Progress() (read, total int64) {
	for _, in := range r.ins {
		n, size := in.Progress()
		read, total = read+n, total+size
	}
	return read, total
}

// CaptureError is a capture that could not be read to its end. What was readable has been processed and is reported.
type CaptureError struct{ Err error }

// Error implements error.
func (e *CaptureError) Error() string { return e.Err.Error() }

// Unwrap returns why it could not be read.
func (e *CaptureError) Unwrap() error { return e.Err }

// Run takes the captures through the pipeline, until they or ctx end, and closes the replay. It is called once. The
// report is there also with an error, which is that of the run, of a file that could not be written, of counters that do
// not add up, or a [CaptureError].
func (r *Replay) Run(ctx context.Context) (*Report, error) {
	start := time.Now()
	err := errors.Join(r.sw.Run(ctx, nil), r.closeRecords())
	seconds := time.Since(start).Seconds()
	counted := r.sw.Report()
	r.sw = nil
	report := r.report(&counted, seconds)
	err = errors.Join(err, r.addDecoded(report))
	if r.row != nil && r.row.beside != nil {
		var wrong uint64
		if report.Carriers, wrong = r.carriers(report.Decoded); wrong > 0 && err == nil {
			err = fmt.Errorf("INT-MD stacks of %d packets say what the packets did not meet: this is a fault of weir, please report it", wrong)
		}
	}
	var read error // of the first capture that ended early
	for _, p := range r.ports {
		if e := p.ReadError(); e != nil && read == nil {
			read = &CaptureError{fmt.Errorf("read %s: %w", p.Info().Interface, e)}
		}
	}
	// A fault of the switch, or of writing, counts more than a bad capture.
	switch f := &counted.Frames; {
	case err != nil:
	case f.Lost != 0 || f.Faults != 0:
		err = fmt.Errorf("%d frames were lost and %d were in the wrong hands: this is a fault of weir, please report it", f.Lost, f.Faults)
	case !report.Balanced:
		err = errors.New("the counters do not add up: this is a fault of weir, please report it")
	case ctx.Err() != nil:
		err = errors.New("interrupted: the rest of the capture was not read")
	case read != nil:
		report.Truncated = errors.Is(read, pcapfile.ErrTruncated)
		err = read
	}
	if err != nil {
		report.Error = err.Error()
	}
	return report, errors.Join(err, r.Close())
}

// Close closes a replay that does not run. Run does so at its end.
func (r *Replay) Close() error {
	var errs []error
	if r.sw != nil {
		errs = append(errs, r.sw.Close())
		r.sw = nil
	}
	if !r.handed {
		for _, in := range r.ins {
			errs = append(errs, in.Close())
		}
		for _, out := range r.outs {
			errs = append(errs, out.Close())
		}
		r.handed = true
	}
	errs = append(errs, r.closeRecords())
	if r.pool != nil {
		errs = append(errs, r.pool.Close())
		r.pool = nil
	}
	return errors.Join(errs...)
}
