package main

import (
	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/dataplane/lab"
)

// newRelayCommand is what `weir lab` starts for a [[relay]].
func newRelayCommand() *cobra.Command {
	var file, report string
	cmd := &cobra.Command{
		Use: lab.RelayCommand, Short: "Relay packets between two ports of a lab", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			waiting, err := newReadiness()
			if err != nil {
				return usageError(err)
			}
			return lab.RunRelay(cmd.Context(), file, waiting.ready, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the relay's configuration")
	cmd.Flags().StringVar(&report, "report", "json", "the form of the report")
	return cmd
}
