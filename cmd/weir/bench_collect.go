package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/bench/collect"
	"github.com/weirswitch/weir/internal/progress"
)

// benchCollectOptions are the flags of weir bench collect.
type benchCollectOptions struct {
	collect.Config
	output benchOutput
}

func newBenchCollectCommand() *cobra.Command {
	o := benchCollectOptions{Config: collect.DefaultConfig()}
	quick := false
	cmd := &cobra.Command{
		Use:   "collect",
		Short: "Measure the collector: records and digests per second, and questions",
		Long: `Collect measures the collector with the records of a network of 20 switches over
100 epochs: from publication over an embedded NATS JetStream, with files on disk,
into the store; questions to that store, cold and warm; and two collectors that
share the digests, next to one.

All of it runs in one process and shares its cores. It needs no root, up to 6 GB of
memory, and a few GB of disk in --folder while it runs.`,
		Example: `  weir bench collect --quick
  weir bench collect --rounds 5 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if quick {
				given := o.Config
				o.Shorten()
				if cmd.Flags().Changed("rounds") {
					o.Rounds = given.Rounds
				}
				if cmd.Flags().Changed("packets") {
					o.Packets = given.Packets
				}
			}
			return runBenchCollect(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&quick, "quick", false, "fewer packets and rounds: a minute")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "rounds over all rows")
	f.IntVar(&o.Switches, "switches", o.Switches, "switches of the network")
	f.IntVar(&o.Epochs, "epochs", o.Epochs, "epochs, of a second or so")
	f.IntVar(&o.Flows, "flows", o.Flows, "flows of the network")
	f.IntVar(&o.Packets, "packets", o.Packets, "packets of an epoch, each past five switches")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the traffic")
	f.StringVar(&o.Folder, "folder", "", "`FOLDER` for the server's files; default: that for temporary files")
	o.output.add(cmd)
	return cmd
}

func runBenchCollect(ctx context.Context, o benchCollectOptions, stdout, stderr io.Writer) error {
	if err := o.Validate(); err != nil {
		return usageError(err)
	}
	if _, err := os.Stat(o.Folder); err != nil && o.Folder != "" {
		return usageError(fmt.Errorf("--folder: %w: make it, or name another one", err))
	}
	var stop func()
	o.Progress, stop = progress.Steps(stderr, collect.Name)
	result, err := collect.Run(ctx, o.Config)
	stop()
	if err != nil {
		return err
	}
	return o.output.print(stdout, result)
}
