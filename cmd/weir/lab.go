package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/grade"
	"github.com/weirswitch/weir/dataplane/lab/labpath"
	"github.com/weirswitch/weir/telemetry/view/api"
)

// newLabCommand is `weir lab`: networks of switches and hosts on this machine.
func newLabCommand() *cobra.Command {
	var asJSON bool
	var keep string
	var linger bool
	command := &cobra.Command{
		Use:   "lab",
		Short: "Build a network of switches and hosts in network namespaces from one file",
	}
	command.PersistentFlags().BoolVar(&asJSON, "json", false, "report as one JSON object")
	add := func(use, short string, run func(context.Context, *lab.Command, string) error) *cobra.Command {
		sub := &cobra.Command{
			Use: use + " FILE", Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				// The context ends at a signal: an interrupted lab is taken down, not left behind.
				c := &lab.Command{Out: cmd.OutOrStdout(), Err: os.Stderr, JSON: asJSON, Keep: keep, Examine: gradeLab, Linger: linger, Switches: checkSwitches}
				return labStatus(run(cmd.Context(), c, args[0]))
			},
		}
		command.AddCommand(sub)
		return sub
	}
	runs := add("run", "Bring the lab up, send its traffic, report, and take it down",
		func(ctx context.Context, c *lab.Command, file string) error { return c.Run(ctx, file) })
	runs.Flags().StringVar(&keep, "keep", "", "empty or new folder in which the switches' records and the truth are left")
	runs.Flags().BoolVar(&linger, "linger", false, "behind the report, leave the collector and its page until Ctrl-C")
	add("check", "Check the file and the switches' configurations in it, draw the network, and exit",
		func(_ context.Context, c *lab.Command, file string) error {
			return c.Check(file, grade.Check)
		})
	add("up", "Bring the lab up and leave it running",
		func(ctx context.Context, c *lab.Command, file string) error { return c.Up(ctx, file) })
	add("down", "Take the lab down, also after a crash; FILE may be the lab's name",
		func(_ context.Context, c *lab.Command, file string) error { return c.Down(file) })
	add("status", "Show what there is of the lab; FILE may be the lab's name",
		func(_ context.Context, c *lab.Command, file string) error { return c.Status(file) })
	return command
}

// checkSwitches reports the faults in the switches' configurations.
func checkSwitches(c *lab.Config) error {
	_, err := labpath.Switches(c)
	return err
}

// gradeLab asks the lab's collector, or its records without one. An interrupted report comes with the error.
func gradeLab(ctx context.Context, e *lab.Evidence) (lab.Answers, error) {
	report, err := askLab(ctx, e)
	if report == nil {
		return nil, err
	}
	return report, err
}

func askLab(ctx context.Context, e *lab.Evidence) (*grade.Report, error) {
	if e.Collector == "" {
		return grade.Records(ctx, e)
	}
	client, err := api.NewClient("unix://"+e.Collector, api.ClientTLS{})
	if err != nil {
		return nil, err
	}
	return grade.Lab(ctx, e, client)
}

// labStatus gives a lab's failure the program's exit status.
func labStatus(err error) error {
	var failure *lab.Failure
	if errors.As(err, &failure) && failure.Status == statusUsage {
		return usageError(failure.Err)
	}
	return err
}
