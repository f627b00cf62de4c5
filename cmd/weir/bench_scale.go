package main

import (
	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/bench/scale"
)

func newBenchScaleCommand() *cobra.Command {
	var o bench.Options
	var output benchOutput
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Count what networks of 20 to 10,000 switches need of collectors",
		Long: `Scale runs a second of traffic at 100 Gbit/s through the data structures of one
switch, weighs the records that it makes, and counts what networks of many such
switches make and need: docs/scale.md has the assumptions and the formulas.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := scale.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			return output.print(cmd.OutOrStdout(), result)
		},
	}
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "seed of the traffic")
	output.add(cmd)
	return cmd
}
