package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/relay"
)

// newRelayCommand is what `weir lab` starts for a [[relay]], by the same contract as a switch: it says ready, relays
// until SIGTERM, and prints its report.
func newRelayCommand() *cobra.Command {
	var file, report string
	cmd := &cobra.Command{
		Use: lab.RelayCommand, Short: "Relay packets between two ports of a lab", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRelay(cmd, file, cmd.OutOrStdout()) },
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the relay's configuration")
	cmd.Flags().StringVar(&report, "report", "json", "the form of the report")
	return cmd
}

func runRelay(cmd *cobra.Command, file string, stdout io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return usageError(err)
	}
	c := &relay.Config{}
	if err := json.Unmarshal(text, c); err != nil {
		return usageError(fmt.Errorf("%s: %w", file, err))
	}
	waiting, err := newReadiness()
	if err != nil {
		return usageError(err)
	}
	var readyErr error
	r, err := relay.Run(cmd.Context(), c, func() { readyErr = waiting.ready() })
	if err == nil {
		err = readyErr
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(r)
}
