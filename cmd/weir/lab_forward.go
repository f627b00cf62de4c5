package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/dataplane/lab"
)

// newForwardCommand is what `weir lab` starts next to a collector: it carries connections from other namespaces to it
// until SIGTERM.
func newForwardCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: lab.ForwardCommand, Short: "Carry connections to a lab's collector", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runForward(cmd, file) },
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "what is carried where")
	return cmd
}

func runForward(cmd *cobra.Command, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return usageError(err)
	}
	c := &lab.ForwardConfig{}
	if err := json.Unmarshal(text, c); err != nil {
		return usageError(fmt.Errorf("%s: %w", file, err))
	}
	waiting, err := newReadiness()
	if err != nil {
		return usageError(err)
	}
	var readyErr error
	if err := lab.Forward(cmd.Context(), c, func() { readyErr = waiting.ready() }); err != nil {
		return err
	}
	return readyErr
}
