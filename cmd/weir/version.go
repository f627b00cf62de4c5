package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/node"
)

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print which program this is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), version())
			}
			return printVersion(cmd.OutOrStdout(), version())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "report as one JSON object")
	return cmd
}

// version is what the Go tool has noted in the binary.
func version() *api.VersionResponse { return node.Version() }

// versionLine is what weir --version prints.
func versionLine() string {
	var b strings.Builder
	_ = printVersion(&b, version())
	return b.String()
}

func printVersion(w io.Writer, v *api.VersionResponse) error {
	revision := ""
	if v.Revision != "" {
		revision = ", revision " + v.Revision
	}
	if v.Time != "" {
		revision += " of " + v.Time
	}
	if v.Modified {
		revision += " with changes"
	}
	_, err := fmt.Fprintf(w, "weir %s%s, %s, %s\n", v.Version, revision, v.Go, v.Platform)
	return err
}

// printRunning adds what a running switch has kept.
func printRunning(w io.Writer, v *api.VersionResponse) error {
	if err := printVersion(w, v); err != nil {
		return err
	}
	kept := "none"
	if len(v.Capabilities) != 0 {
		kept = strings.Join(v.Capabilities, ", ")
	}
	_, err := fmt.Fprintf(w, "capabilities kept: %s\n", kept)
	return err
}

// printJSON writes a message of the API on one line.
func printJSON(w io.Writer, m proto.Message) error {
	_, err := fmt.Fprintf(w, "%s\n", control.JSON(m))
	return err
}
