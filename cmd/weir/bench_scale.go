package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/bench/scale"
	"github.com/weirswitch/weir/bench/scale/live"
	"github.com/weirswitch/weir/internal/progress"
)

// benchScaleOptions are the flags of weir bench scale.
type benchScaleOptions struct {
	live.Config
	live   bool
	part   string
	output benchOutput
}

func newBenchScaleCommand() *cobra.Command {
	o := benchScaleOptions{Config: live.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Count or run what networks of 20 to 10,000 switches need of collectors",
		Long: `Scale runs a second of traffic at 100 Gbit/s through the data structures of one
switch, weighs the records that it makes, and counts what networks of many such
switches make and need: docs/scale.md has the assumptions and the formulas.

With --live it runs such a network on this machine: switches with all systems and a
connection each, whose packets are simulated, publish within --budget to a cluster of
three servers with two collectors, which are asked meanwhile. The server that leads the
stream is killed after a quarter of --length, and a collector after a half; both return.
At the end each record that a switch wrote is looked for in the stream: one that is
neither there once nor counted as dropped is a fault, with status 1, and so is one that
a collector did not apply. It needs no root, and disk for all records three times in
--folder.`,
		Example: `  weir bench scale
  weir bench scale --live
  weir bench scale --live --switches 100 --budget 10kB/s --epoch-bits 33 --packets 2000 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.part != "":
				return live.RunPart(cmd.Context(), o.part)
			case o.live:
				return runBenchScaleLive(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			if name := changedLive(cmd.Flags()); name != "" {
				return usageError(fmt.Errorf("--%s: it is for --live: add that, or leave it out", name))
			}
			result, err := scale.Run(cmd.Context(), bench.Options{Seed: o.Seed})
			if err != nil {
				return err
			}
			return o.output.print(cmd.OutOrStdout(), result)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the traffic")
	f.BoolVar(&o.live, "live", false, "run a network against servers and collectors")
	f.IntVar(&o.Switches, "switches", o.Switches, "with --live: `N` switches, a multiple of 5")
	f.TextVar(&o.Budget, "budget", o.Budget, "with --live: `RATE` of records of each switch, or none")
	f.IntVar(&o.EpochBits, "epoch-bits", o.EpochBits, "with --live: records are of 2^`BITS` ns")
	f.IntVar(&o.Packets, "packets", o.Packets, "with --live: packets per second, each past five switches")
	f.IntVar(&o.Flows, "flows", o.Flows, "with --live: flows of each five switches")
	f.DurationVar(&o.Length, "length", o.Length, "with --live: how long records are made")
	f.IntVar(&o.Publishers, "publishers", o.Publishers, "with --live: processes of switches")
	f.Int64Var(&o.StoreBytes, "store-bytes", o.StoreBytes, "with --live: memory of a collector for records")
	f.StringVar(&o.Folder, "folder", "", "with --live: `FOLDER` for files; default: that for temporary files")
	f.StringVar(&o.part, "live-part", "", "what a process of --live is")
	_ = f.MarkHidden("live-part") // it is there
	o.output.add(cmd)
	return cmd
}

// changedLive is a flag that was given and is for a live run only; empty: there is none.
func changedLive(f *pflag.FlagSet) (name string) {
	f.Visit(func(x *pflag.Flag) {
		if strings.HasPrefix(x.Usage, "with --live") {
			name = x.Name
		}
	})
	return name
}

func runBenchScaleLive(ctx context.Context, o benchScaleOptions, stdout, stderr io.Writer) error {
	if err := o.Validate(); err != nil {
		return usageError(err)
	}
	self, err := selfCommand()
	if err != nil {
		return err
	}
	o.Program = self[0]
	var stop func()
	o.Progress, stop = progress.Steps(stderr, live.Name)
	result, err := live.Run(ctx, o.Config)
	stop()
	if errors.Is(err, live.ErrRoom) {
		return usageError(err)
	}
	if result == nil {
		return interrupted(err, false)
	}
	return errors.Join(o.output.print(stdout, result), err) // an account that does not hold has a report
}
