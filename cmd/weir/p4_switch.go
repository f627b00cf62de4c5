package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/controller"
	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/pipeline/clock"
	stagepint "github.com/weirswitch/weir/stages/pint"
)

// p4SwitchOptions are the flags of weir p4 switch.
type p4SwitchOptions struct {
	config, program, report string
	thriftPort              int
	queues                  queueRates
}

func newP4SwitchCommand() *cobra.Command {
	var o p4SwitchOptions
	cmd := &cobra.Command{
		Use:   "switch -c FILE",
		Short: "Run a switch's configuration on BMv2, by the P4 program",
		Long: `Switch runs simple_switch, the P4 reference switch, with p4/v1model/weir.p4 in place of
"weir switch", and is its control plane: it loads the tables of the configuration,
sets the clock, learns stations and forgets silent ones, and writes the schedules
of epochs, of 2^27 ns at least. Its ports open when all that is there. It ends at SIGTERM or
SIGINT and reports as "weir switch" does, as far as BMv2 tells (docs/p4.md).

The programs p4c-bm2-ss and simple_switch are found by P4C_BM2 and
SIMPLE_SWITCH, or on PATH; a compiled program needs no compiler.`,
		Example: `  weir p4 switch -c switch.toml --program p4/v1model/weir.p4`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runP4Switch(cmd.Context(), &o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.config, "config", "c", "", "the switch's configuration `FILE`")
	f.StringVar(&o.program, "program", "p4/v1model/weir.p4", "the program: its source, or JSON `FILE` of p4c-bm2-ss")
	f.StringVar(&o.report, "report", "text", "what to print at the end: text, json or none")
	f.IntVar(&o.thriftPort, "thrift-port", 9090, "TCP port of simple_switch's runtime server")
	f.StringToInt64Var((*map[string]int64)(&o.queues), "queue-rate", nil, "most packets per second that a port's queue lets out, as `PORT=PPS`; repeatable")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

// runP4Switch is the command, top to bottom.
func runP4Switch(ctx context.Context, o *p4SwitchOptions, stdout io.Writer) (err error) {
	printReport, err := reportPrinter(o.report)
	if err != nil {
		return usageError(err)
	}
	now := func() int64 { return clock.Kernel.Read().TAI }
	options := tables.Options{CPUPort: tables.DefaultCPUPort, Now: uint64(now()), LeastEpochBits: controller.LeastEpochBits}
	c, err := config.LoadFor(o.config, func(c *config.Config) error {
		_, err := tables.Build(p4Switch(c), options)
		return err
	})
	if err == nil {
		err = o.queues.check(c)
	}
	if err != nil {
		return usageError(err)
	}
	tell, err := newReadiness()
	if err != nil {
		return usageError(err)
	}
	s := &p4LiveSwitch{config: c, now: now}
	if err := s.open(ctx, o, options); err != nil {
		return usageError(errors.Join(err, s.close()))
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := tell.ready(); err != nil {
		return err
	}
	if err := s.plane.Serve(ctx, s.sw, s.now); err != nil {
		return err
	}
	report, err := finalReport(s.report, s.records)
	if err != nil {
		return err
	}
	return printReport(stdout, report)
}

// finalReport is taken when all packets have left the switch. The last records are made behind it, so all that it counts
// is in them, or counted with why not.
func finalReport(take func() (*api.ReportResponse, error), records *p4Records) (*api.ReportResponse, error) {
	r, err := settled(take)
	if err := errors.Join(err, records.stop()); err != nil {
		return nil, err
	}
	records.report(r)
	return r, nil
}

// p4LiveSwitch is a running simple_switch with its control plane.
type p4LiveSwitch struct {
	config  *config.Config
	now     func() int64 // ns of CLOCK_TAI
	here    *netns.Namespace
	ports   *tables.Switch
	begin   map[string]netns.Counters // by interface, when its port opened
	sw      *bmv2.Switch
	plane   *controller.Controller
	records *p4Records // nil: nobody is to have them
}

// open starts the switch; the caller closes it also if that fails.
func (s *p4LiveSwitch) open(ctx context.Context, o *p4SwitchOptions, options tables.Options) error {
	fromSource := strings.HasSuffix(o.program, ".p4")
	find := bmv2.FindSwitch
	if fromSource {
		find = bmv2.Find
	}
	programs, err := find()
	if err != nil {
		return err
	}
	if s.here, err = netns.Current(); err != nil {
		return err
	}
	s.ports, s.begin = p4Switch(s.config), map[string]netns.Counters{}
	interfaces := map[int]string{}
	for i := range s.config.Ports {
		p := &s.config.Ports[i]
		link, err := s.here.Link(p.Interface)
		if err != nil {
			return err
		}
		interfaces[i] = p.Interface
		setMTU(&s.ports.Ports[i], link.Attrs().MTU)
		if bits, err := port.Speed(p.Interface); err == nil { // else it counts as 10 Gb/s, as in a Weir switch
			setSpeed(&s.ports.Ports[i], bits)
		}
	}
	compiled := o.program
	if fromSource {
		dir, err := os.MkdirTemp("", "weir-p4-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		compiled = filepath.Join(dir, "weir.json")
		if err := programs.Compile(ctx, o.program, compiled); err != nil {
			return err
		}
	}
	s.sw, err = bmv2.Start(ctx, bmv2.Config{Binary: programs.Switch, Program: compiled, Interfaces: map[int]string{}, ThriftPort: o.thriftPort})
	if err != nil {
		return err
	}
	if err := o.queues.apply(s.sw, s.config); err != nil {
		return err
	}
	return s.fill(s.sw, interfaces, options)
}

// p4Fillable is a switch that has just started: a [bmv2.Switch].
type p4Fillable interface {
	controller.Switch
	Started(now func() int64) (at int64, within time.Duration, err error)
	AddPort(number int, name string) error
}

// fill tells the switch its clock and its tables, and opens its ports behind that, so that no packet is measured
// by another time or passes half a configuration.
func (s *p4LiveSwitch) fill(sw p4Fillable, interfaces map[int]string, options tables.Options) error {
	// Packets' timestamps count from the switch's start.
	offset, _, err := sw.Started(s.now)
	if err != nil {
		return err
	}
	if err := sw.WriteRegister("tai_offset", 0, uint64(offset)); err != nil {
		return err
	}
	options.Now = uint64(s.now())
	if s.plane, err = controller.New(sw, s.ports, options); err != nil {
		return err
	}
	if s.records, err = startP4Records(s, options.CPUPort); err != nil {
		return err
	}
	for _, number := range slices.Sorted(maps.Keys(interfaces)) {
		if s.begin[interfaces[number]], err = s.here.Counters(interfaces[number]); err != nil {
			return err
		}
		if err := sw.AddPort(number, interfaces[number]); err != nil {
			return err
		}
	}
	return nil
}

func (s *p4LiveSwitch) close() error {
	err := s.records.stop()
	if s.sw != nil {
		err = errors.Join(err, s.sw.Stop())
	}
	if s.here != nil {
		s.here.Close()
	}
	return err
}

// report is what the interfaces counted, and what the program did. What became of records is not in it.
func (s *p4LiveSwitch) report() (*api.ReportResponse, error) {
	r := &api.ReportResponse{
		Name: s.config.Switch.Name, Id: s.config.Switch.ID, Frames: &api.Frames{},
	}
	for i := range s.config.Ports {
		p := &s.config.Ports[i]
		c, err := s.here.Counters(p.Interface)
		if err != nil {
			return nil, err
		}
		before := s.begin[p.Interface]
		port := &api.Port{
			Name: p.Name, Interface: p.Interface, Driver: "bmv2", Mode: "bmv2", Queues: 1, Up: true,
			Received: c.RxPackets - before.RxPackets, Transmitted: c.TxPackets - before.TxPackets, RxDropped: c.RxDropped - before.RxDropped,
		}
		r.Ports = append(r.Ports, port)
		r.Modes = append(r.Modes, p.Name+": bmv2")
		r.Received += port.Received
		r.Forwarded += port.Transmitted
	}
	err := fates(r, func(name string, n int) (uint64, error) {
		packets, _, err := s.sw.Counter(name, n)
		return packets, err
	})
	if err != nil {
		return nil, err
	}
	s.stations(r)
	if err := s.measured(r); err != nil {
		return nil, err
	}
	r.Pint = s.pint()
	return r, s.latencies(r.Pint)
}

// fates tells what became of packets, and of the copies that flooding made of them, by the program's counters.
// Forwarded has all that was transmitted before.
func fates(r *api.ReportResponse, counter func(name string, n int) (uint64, error)) error {
	var err error
	count := func(name string, n int) uint64 {
		packets, counterErr := counter(name, n)
		err = errors.Join(err, counterErr)
		return packets
	}
	r.Copies = &api.Fate{Received: count("egress.copies", 0), Dropped: map[string]uint64{}}
	r.Dropped = map[string]uint64{}
	dropped, copiesDropped := uint64(0), uint64(0)
	for n, name := range tables.ReasonNames() {
		copies := count("egress.copies_dropped", n)
		packets := count("ingress.ingress_dropped", n) + count("egress.egress_dropped", n) - copies
		if name == "consumed" {
			r.Consumed += packets
		} else if packets != 0 {
			r.Dropped[name] = packets
		}
		if copies != 0 {
			r.Copies.Dropped[name] = copies
		}
		dropped, copiesDropped = dropped+packets, copiesDropped+copies
	}
	r.Copies.Forwarded = min(r.Copies.Received-copiesDropped, r.Forwarded)
	r.Forwarded -= r.Copies.Forwarded
	r.Balanced = r.Received == r.Forwarded+dropped && r.Copies.Received == r.Copies.Forwarded+copiesDropped
	return err
}

// stations tells what the control plane learned, by the names of the stage's metrics.
func (s *p4LiveSwitch) stations(r *api.ReportResponse) {
	if _, ok := s.ports.Learning(); !ok {
		return
	}
	c := s.plane.Stations()
	for _, m := range []struct {
		name  string
		value uint64
	}{
		{"learned_stations_total", c.Learned}, {"moved_stations_total", c.Moved}, {"aged_stations_total", c.Aged},
		{"fdb_full_total", c.Full},
	} {
		r.Metrics = append(r.Metrics, &api.Metric{Stage: "l2", Name: m.name, Value: float64(m.value)})
	}
}

// measured tells what the egress points of lds counted, from which the mean latency follows.
func (s *p4LiveSwitch) measured(r *api.ReportResponse) error {
	for register, name := range map[string]string{"measured": "measured_packets_total", "waited": "waited_ns_total"} {
		cells, err := s.sw.Registers("lds_egress.side." + register)
		if err != nil {
			return err
		}
		r.Metrics = append(r.Metrics, &api.Metric{Stage: "lds_egress", Name: name, Value: float64(cells[0])})
	}
	return nil
}

// pint names the plan, so that a lab can see that all switches have the same.
func (s *p4LiveSwitch) pint() *api.PintResponse {
	c, ok := s.config.Stages["pint"].(*stagepint.Config)
	if !ok {
		return nil
	}
	plan, err := c.SourcePlan()
	if err != nil {
		return nil
	}
	digest, err := plan.Digest()
	if err != nil {
		return nil
	}
	return &api.PintResponse{Plans: []*api.PintPlan{{Id: uint32(plan.ID), Digest: fmt.Sprintf("%016x", digest)}}}
}
