package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/bench/forward"
	"github.com/weirswitch/weir/internal/progress"
)

// benchForwardOptions are the flags of weir bench forward.
type benchForwardOptions struct {
	forward.Config
	quick     bool
	mrrOnly   bool
	output    benchOutput
	raw       string
	before    string // path
	placement string
	ports     string
	// sizesNamed: --size was given.
	sizesNamed bool
	wire       wireOptions
}

func newBenchForwardCommand() *cobra.Command {
	o := benchForwardOptions{Config: forward.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "forward",
		Short: "Measure forwarding, next to other forwarders (root)",
		Long: `Forward measures a device under test between a source and a sink, each in a
network namespace, in the manner of RFC 2544:

  source eth0 ---- p0 device p1 ---- eth0 sink

  mrr  packets per second that arrive when far too many are sent
  pdr  highest rate at which at most 0.5 % are lost
  ndr  highest rate at which none is lost

and at 10, 50 and 90 % of ndr the latency. All devices take turns, in rounds;
figures are medians of the rounds, ratios medians of the ratios in each round.

Devices:
` + deviceList() + `
With --flood a hostile host has a third port, and sends at 10 % of the device's mrr while
the source sends at 50 %; the source's loss, its latency, and how many of its packets
the hostile host got are measured. Devices are bridge, ovs_normal, l2 and l2_all. Floods:
` + floodList() + `
Two cores are needed. The source has the first, with nothing of the device but,
with --placement source, the kernel's receive work of the device's port, which
is where a veth has it; with --placement device, that is on the device's core,
with all else.

With --ports vhost or memif the ports are in shared memory; it takes huge pages.
Devices are patch, conntrack (and patch), l2, all (patch and all four telemetry
systems), testpmd, and with vhost ovs, ovs_normal and ovs_conntrack (Open vSwitch
with DPDK: one flow each way, a learning switch, and connections). Two guests of our own send to each other; mrr, pdr, ndr
and processor time are measured.

With --tx and --rx it measures a device of your own, which joins two interfaces of
this machine, by RFC 2544 with RFC 9004 and RFC 8219: for each of the seven frame
sizes the throughput, the loss by rate, the latency under load and the longest
burst. --html, --csv and --json write the report. Trials of 2 s take about ten minutes
for all sizes, the 60 s that RFC 2544 wants (--duration 60s) five hours. --quick takes
a minute and is no trial of RFC 2544: three sizes, 0.2 s each, and a search that ends
at 5 %; the report says so. With --rounds 7 two reports can be compared
("weir bench compare").`,
		Example: `  weir bench forward --quick --json
  weir bench forward --dut patch,bridge --size 64 --rounds 5
  weir bench forward --dut patch,patch_before --before ./weir.before
  weir bench forward --tx eth1 --rx eth2 --html report.html --csv report.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.sizesNamed = cmd.Flags().Changed("size")
			if o.wire.TX != "" || o.wire.RX != "" {
				return o.wire.run(cmd, &o)
			}
			for _, name := range ofWires {
				if cmd.Flags().Changed(name) {
					return usageError(fmt.Errorf("--%s: it is for a device of your own: name its interfaces with --tx and --rx", name))
				}
			}
			if o.quick {
				quick := o.Config
				quick.Quick()
				o.Config = keepChanged(cmd, o.Config, quick)
			}
			return runBenchForward(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.quick, "quick", false, "short trials, of 64 B in one round, or with --tx of three sizes: a minute or two; no trials of RFC 2544")
	f.StringVar(&o.ports, "ports", string(o.Ports), "what joins the devices: veth, vhost or memif")
	f.StringSliceVar(&o.Floods, "flood", nil, "what a hostile host at a third port sends, at 10 % of the device's mrr: "+strings.Join(forward.Floods(), ", ")+", or all")
	f.BoolVar(&o.mrrOnly, "mrr-only", false, "measure mrr and processor time alone: seconds")
	f.StringSliceVar(&o.Devices, "dut", nil, "devices under test; default: all that are installed")
	f.StringSliceVar(&o.Sizes, "size", o.Sizes, "bytes on the wire, 64 to 1518, or imix, or with vhost tso (packets of 64 KiB that guests leave to the device to cut); with --tx 64 to 9018, and by default the seven of RFC 2544")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "rounds over all devices; with --tx by default 1")
	f.DurationVar(&o.Soak, "soak", 0, "run each device so long at 90 % of its ndr at the end; for Weir's devices")
	f.DurationVar(&o.Trial, "duration", o.Trial, "length of a trial; with --tx by default 2s")
	f.IntVar(&o.Trials, "trials", o.Trials, "trials at a rate at most, odd; most of them decide")
	f.Float64Var(&o.Precision, "precision", o.Precision, "relative error at which a search ends")
	f.IntVar(&o.Flows, "flows", o.Flows, "flows, drawn uniformly")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the draw")
	f.StringVar(&o.before, "before", "", "`FILE` of another build of weir, as of the commit before, for the devices patch_before and l2_before")
	f.StringVar(&o.placement, "placement", string(o.Placement), "where the kernel receives for the device: source or device")
	f.IntVar(&o.Cores.Source, "source-core", o.Cores.Source, "core of the source")
	f.IntVar(&o.Cores.Device, "dut-core", o.Cores.Device, "core of the device")
	f.IntVar(&o.BusyPoll, "busy-poll", o.BusyPoll, "busy_poll of Weir's xsk ports in microseconds; 0: off")
	f.IntVar(&o.Ring, "ring", 0, "packets in each ring of Weir's ports; 0: the default")
	f.StringVar(&o.Poll, "poll", o.Poll, "how Weir's worker waits: busy, adaptive or interrupt")
	f.StringVar(&o.raw, "raw", "", "write each measurement to `FILE`, one JSON object per line")
	o.wire.add(cmd)
	o.output.add(cmd)
	return cmd
}

func deviceList() string {
	var b strings.Builder
	for _, name := range forward.Devices() {
		fmt.Fprintf(&b, "  %-12s %s\n", name, forward.About(name))
	}
	return b.String()
}

func floodList() string {
	var b strings.Builder
	for _, name := range forward.Floods() {
		fmt.Fprintf(&b, "  %-9s %s\n", name, forward.AboutFlood(name))
	}
	return b.String()
}

// keepChanged takes the quick configuration, but what the command line sets.
func keepChanged(cmd *cobra.Command, given, quick forward.Config) forward.Config {
	f := cmd.Flags()
	if f.Changed("size") {
		quick.Sizes = given.Sizes
	}
	if f.Changed("rounds") {
		quick.Rounds = given.Rounds
	}
	if f.Changed("duration") {
		quick.Trial = given.Trial
	}
	if f.Changed("precision") {
		quick.Precision = given.Precision
	}
	return quick
}

// rawHead is the first line of a file of raw figures.
type rawHead struct {
	Command []string      `json:"command"`
	Time    time.Time     `json:"time"`
	Machine bench.Machine `json:"machine"`
}

func runBenchForward(ctx context.Context, o benchForwardOptions, stdout, stderr io.Writer) (err error) {
	c := o.Config
	if slices.Equal(c.Floods, []string{"all"}) {
		c.Floods = forward.Floods()
	}
	c.Searches = !o.mrrOnly && len(c.Floods) == 0
	c.Ports = forward.Ports(o.ports)
	c.Placement = forward.Placement(o.placement)
	if c.Weir, err = selfCommand(); err != nil {
		return err
	}
	if o.before != "" {
		c.Before = []string{o.before}
	}
	if err := c.Validate(); err != nil {
		return usageError(err)
	}
	if o.raw != "" {
		file, err := os.Create(o.raw)
		if err != nil {
			return usageError(err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		lines := json.NewEncoder(file)
		if err := lines.Encode(rawHead{append([]string{"weir"}, os.Args[1:]...), time.Now().UTC(), bench.ThisMachine()}); err != nil {
			return err
		}
		c.Raw = func(s forward.Sample) { _ = lines.Encode(s) } // a full disk shows when the file is closed
	}
	var stop func()
	c.Progress, stop = progress.Steps(stderr, "forward")
	result, err := forward.Run(ctx, c)
	stop()
	err = interrupted(err, result != nil)
	if result == nil {
		return err
	}
	return errors.Join(o.output.print(stdout, result), err)
}
