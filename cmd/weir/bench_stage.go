package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/bench/pipeline"
	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/internal/progress"
)

// benchStageOptions are the flags of weir bench stage.
type benchStageOptions struct {
	pipeline.Config
	stage  pipeline.Stage
	config string
	size   string
	output benchOutput
}

func newBenchStageCommand() *cobra.Command {
	o := benchStageOptions{Config: pipeline.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "stage NAME",
		Short: "Measure what one stage costs for each packet",
		Long: `Stage measures a graph with a stage and the same graph without it, in turns, and
prints the difference in nanoseconds per packet: over parse and patch, or over
parse alone for a stage that chooses the output port. What the parser does only
because the stage asks for it is part of that, and has its own row.

The stage has its default configuration, or the one that a switch's
configuration file gives it. Packets arrive at the first two ports of the file.
acl by default is measured with 10, 1,000 and 10,000 rules, too, in the same rounds:
as firewalls have them, and such that thousands overlap.`,
		Example: `  weir bench stage l2 --stations 100000
  weir bench stage l2 --config config/l2.toml --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.size != "" {
				result, err := pipeline.Size(args[0], o.size)
				if err != nil {
					return usageError(fmt.Errorf("--size: %w", err))
				}
				return o.output.print(cmd.OutOrStdout(), result)
			}
			o.stage.Name = args[0]
			shortenPipeline(cmd, &o.Config)
			return runBenchStage(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	addPipelineFlags(cmd, &o.Config)
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "a switch's configuration `FILE` with the stage in its graph")
	f.IntVar(&o.stage.Flows, "flows", 10_000, "flows, drawn uniformly, to 10,000,000")
	f.IntVar(&o.stage.Stations, "stations", 10_000, "Ethernet addresses, half of them behind each port")
	o.output.add(cmd)
	f.StringVar(&o.size, "size", "", pipeline.SizeHelp)
	return cmd
}

func runBenchStage(ctx context.Context, o benchStageOptions, stdout, stderr io.Writer) error {
	if err := o.Validate(); err != nil {
		return usageError(err)
	}
	if err := o.readConfig(); err != nil {
		return usageError(err)
	}
	if o.stage.Name == "acl" && o.config == "" {
		o.stage.Variants = pipeline.ACLVariants(o.Seed)
	}
	var stop func()
	o.Progress, stop = progress.Steps(stderr, "stage "+o.stage.Name)
	result, err := pipeline.RunStage(ctx, o.Config, o.stage)
	stop()
	if err != nil {
		return usageError(err) // nothing but a faulty stage or workload stops it
	}
	return o.output.print(stdout, result)
}

// readConfig takes the stages and the ports from the configuration file, if one is named.
func (o *benchStageOptions) readConfig() error {
	if o.config == "" {
		return nil
	}
	c, err := config.Load(o.config)
	if err != nil {
		return err
	}
	if _, ok := c.Stages[o.stage.Name]; !ok {
		return fmt.Errorf("%s: the graph has no stage %q", o.config, o.stage.Name)
	}
	o.stage.Configs, o.stage.Hash = c.Stages, c.Switch.Hash
	for _, p := range c.Ports {
		o.stage.Ports = append(o.stage.Ports, p.Name)
	}
	return nil
}
