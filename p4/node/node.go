// Package node is a P4 switch beside Weir's: it runs simple_switch, the P4 reference switch (BMv2), with Weir's P4
// program and a switch's configuration, and is its control plane until it ends.
//
//	config ──> p4/tables ──> p4/controller ── entries, registers ──> simple_switch ──> ports
//	                              ^ digests of stations learned          │ registers, copies at the CPU port
//	                                                                     v
//	                         export.Path: spool, shipper <── records ── p4/records
//
// Its report has the form of a Weir switch's (control/api), as far as BMv2 reports: docs/p4.md.
package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/controller"
	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Options are what a node has beside its configuration.
type Options struct {
	// Program is the P4 program: its source (.p4), or what p4c-bm2-ss compiled of it (.json).
	Program string
	// ThriftPort is the TCP port of simple_switch's runtime server.
	ThriftPort int
	// QueueRates limit ports' queues, by the port's name, in packets per second.
	QueueRates map[string]int64
	// Ready, if set, is called once by Run when the ports are open. An error ends Run.
	Ready func() error
}

// Node is a running simple_switch with its control plane. Its methods are for one goroutine.
type Node struct {
	config  *config.Config
	ready   func() error
	now     func() int64 // ns of CLOCK_TAI
	here    *netns.Namespace
	ports   *tables.Switch
	begin   map[string]netns.Counters // by interface, when its port opened
	sw      *bmv2.Switch
	plane   *controller.Controller
	records *recorder // nil: no records are made
}

// Now is the time of epochs that a switch's tables are written for: CLOCK_TAI in nanoseconds.
func Now() uint64 { return uint64(clock.Kernel.TAI()) }

// Tables is what the tables of a P4 switch are made of, in a switch's configuration.
func Tables(c *config.Config) *tables.Switch {
	s := &tables.Switch{ID: c.Switch.ID, Hash: c.Switch.Hash, Graph: c.Switch.Graph, Stages: c.Stages}
	for i := range c.Ports {
		s.Ports = append(s.Ports, pipeline.Port{Name: c.Ports[i].Name, BitsPerSecond: uint64(c.Ports[i].RateBits)})
	}
	return s
}

// options of the tables of a switch with a control plane, at a time.
func options(now int64) tables.Options {
	return tables.Options{CPUPort: tables.DefaultCPUPort, Now: uint64(now), LeastEpochBits: controller.LeastEpochBits}
}

// Check reports all that a P4 switch cannot do of a configuration; it touches nothing. The error joins faults that
// config.LoadFor finds the lines of.
func Check(c *config.Config) error {
	_, err := tables.Build(Tables(c), options(clock.Kernel.TAI()))
	return err
}

// CheckQueueRates reports ports that the configuration does not have, and rates that BMv2 does not have.
func CheckQueueRates(c *config.Config, rates map[string]int64) error {
	var errs []error
	ports := Tables(c)
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		if ports.PortNumber(name) < 0 {
			errs = append(errs, fmt.Errorf("queue rate: port %q is not defined: define [[port]] name = %q or correct the name", name, name))
		}
		if rate := rates[name]; rate < 1 || rate > bmv2.MaxQueueRate {
			errs = append(errs, fmt.Errorf("queue rate of port %q: %d packets per second: choose 1 to %d", name, rate, bmv2.MaxQueueRate))
		}
	}
	return errors.Join(errs...)
}

// Start compiles the program, if that is a source, starts simple_switch in the network namespace of the calling
// thread, loads tables and registers, and opens the ports behind that. Its errors are of the configuration or the
// machine, and leave nothing running. The configuration has passed [Check].
func Start(ctx context.Context, c *config.Config, o Options) (_ *Node, err error) {
	if err := CheckQueueRates(c, o.QueueRates); err != nil {
		return nil, err
	}
	n := &Node{config: c, ready: o.Ready, now: clock.Kernel.TAI, ports: Tables(c), begin: map[string]netns.Counters{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	fromSource := strings.HasSuffix(o.Program, ".p4")
	find := bmv2.FindSwitch
	if fromSource {
		find = bmv2.Find
	}
	programs, err := find()
	if err != nil {
		return nil, err
	}
	if !fromSource {
		if err := checkProgram(o.Program, c.Switch.Hash); err != nil {
			return nil, err
		}
	}
	if n.here, err = netns.Current(); err != nil {
		return nil, err
	}
	for i := range c.Ports {
		link, err := n.here.Link(c.Ports[i].Interface)
		if err != nil {
			return nil, err
		}
		n.ports.SetMTU(i, link.Attrs().MTU)
		if bits, err := nic.Speed(c.Ports[i].Interface); err == nil { // else it counts as 10 Gb/s, as in a Weir switch
			n.ports.SetSpeed(i, bits)
		}
	}
	compiled := o.Program
	if fromSource {
		dir, err := os.MkdirTemp("", "weir-p4-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		compiled = filepath.Join(dir, "weir.json")
		if err := programs.Compile(ctx, o.Program, compiled, tables.Defines(c.Switch.Hash)...); err != nil {
			return nil, err
		}
		if err := checkProgram(compiled, c.Switch.Hash); err != nil {
			return nil, err
		}
	}
	n.sw, err = bmv2.Start(ctx, bmv2.Config{Binary: programs.Switch, Program: compiled, Interfaces: map[int]string{}, ThriftPort: o.ThriftPort})
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(o.QueueRates)) {
		if err := n.sw.SetQueueRate(n.ports.PortNumber(name), o.QueueRates[name]); err != nil {
			return nil, err
		}
	}
	return n, n.load(n.sw)
}

// checkProgram reports a compiled program that hashes by another family than the switch.
func checkProgram(compiled string, f hash.Family) error {
	text, err := os.ReadFile(compiled)
	if err != nil {
		return fmt.Errorf("read a compiled program: %w", err)
	}
	program, err := tables.ReadProgram(text)
	if err == nil {
		err = program.CheckFamily(f)
	}
	if err != nil {
		return fmt.Errorf("the compiled program %s: %w", compiled, err)
	}
	return nil
}

// target is a switch that has just started: a [bmv2.Switch].
type target interface {
	controller.Switch
	Started(now func() int64) (at int64, within time.Duration, err error)
	AddPort(number int, name string) error
}

// load writes the clock and the tables, and opens the ports behind that, so that no packet is measured by another
// time or passes half a configuration.
func (n *Node) load(sw target) error {
	// Packets' timestamps count from the switch's start.
	offset, _, err := sw.Started(n.now)
	if err != nil {
		return err
	}
	if err := sw.WriteRegister("tai_offset", 0, uint64(offset)); err != nil {
		return err
	}
	if n.plane, err = controller.New(sw, n.ports, options(n.now())); err != nil {
		return err
	}
	if n.config.Telemetry.Spool != "" {
		if n.records, err = startRecorder(n); err != nil {
			return err
		}
	}
	for number := range n.config.Ports {
		name := n.config.Ports[number].Interface
		if n.begin[name], err = n.here.Counters(name); err != nil {
			return err
		}
		if err := sw.AddPort(number, name); err != nil {
			return err
		}
	}
	return nil
}

// Run is the control plane until ctx ends. Then it waits until packets that are in the switch have left, makes the last
// records, ends the switch, and returns the last report.
func (n *Node) Run(ctx context.Context) (_ *api.ReportResponse, err error) {
	defer func() { err = errors.Join(err, n.Close()) }()
	if n.ready != nil {
		if err := n.ready(); err != nil {
			return nil, err
		}
	}
	if err := n.plane.Serve(ctx, n.sw, n.now); err != nil {
		return nil, err
	}
	return finalReport(n.report, n.records)
}

// Close ends a node that does not run. Run does so at its end.
func (n *Node) Close() error {
	err := n.records.stop()
	if n.sw != nil {
		err = errors.Join(err, n.sw.Stop())
		n.sw = nil
	}
	if n.here != nil {
		n.here.Close()
		n.here = nil
	}
	return err
}
