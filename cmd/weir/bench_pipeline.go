package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/bench/pipeline"
	"github.com/weirswitch/weir/internal/progress"
)

// benchPipelineOptions are the flags of weir bench pipeline.
type benchPipelineOptions struct {
	pipeline.Config
	output benchOutput
}

func newBenchPipelineCommand() *cobra.Command {
	o := benchPipelineOptions{Config: pipeline.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "pipeline",
		Short: "Measure stages, graphs and workers without any I/O",
		Long: `Pipeline measures what Weir itself costs for each packet: descriptors of frames
in memory run through the real graphs on one core, 64 B packets, up to 10
million flows and a million addresses; then whole workers between ports of
memory, one and two.

Baselines come first: drop fills descriptors alone, touch reads a byte of each
header. All rows take turns, in rounds; figures are medians of wall time, with
the best round, the thread's processor time and the spread. It needs no root.`,
		Example: `  weir bench pipeline --quick
  weir bench pipeline --rows parse_patch,all,all_1M
  weir bench pipeline --rounds 25 --json --plot pipeline.svg`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			shortenPipeline(cmd, &o.Config)
			return runBenchPipeline(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	addPipelineFlags(cmd, &o.Config)
	cmd.Flags().StringSliceVar(&o.Rows, "rows", nil, "only these rows, `NAME,...`, and \"workers\" and \"steering\" for whole workers")
	_ = cmd.RegisterFlagCompletionFunc("rows", cobra.FixedCompletions(pipeline.RowNames(), cobra.ShellCompDirectiveNoFileComp))
	o.output.add(cmd)
	return cmd
}

// addPipelineFlags adds what weir bench pipeline and weir bench stage share.
func addPipelineFlags(cmd *cobra.Command, c *pipeline.Config) {
	f := cmd.Flags()
	f.BoolVar(&c.Quick, "quick", false, "five short rounds: seconds")
	f.IntVar(&c.Rounds, "rounds", c.Rounds, "rounds over all rows")
	f.DurationVar(&c.Slice, "slice", c.Slice, "how long a row is timed in a round")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of flows and of the frames' order")
	f.IntVar(&c.Core, "core", c.Core, "core that graphs are measured on")
	f.IntVar(&c.Warm, "warm", c.Warm, "packets through each row with all systems before it is timed")
	f.IntVar(&c.Frames, "frames", c.Frames, "frames of the ring, 2 KiB each")
}

// shortenPipeline takes the quick configuration, but what the command line sets.
func shortenPipeline(cmd *cobra.Command, c *pipeline.Config) {
	if !c.Quick {
		return
	}
	given := *c
	c.Shorten()
	if cmd.Flags().Changed("rounds") {
		c.Rounds = given.Rounds
	}
	if cmd.Flags().Changed("slice") {
		c.Slice = given.Slice
	}
}

func runBenchPipeline(ctx context.Context, o benchPipelineOptions, stdout, stderr io.Writer) error {
	if err := o.Validate(); err != nil {
		return usageError(err)
	}
	var stop func()
	o.Progress, stop = progress.Steps(stderr, pipeline.Name)
	result, err := pipeline.Run(ctx, o.Config)
	stop()
	if err != nil {
		return err
	}
	return o.output.print(stdout, result)
}
