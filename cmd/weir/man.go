package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newManCommand writes the man pages of all commands, which packages install.
func newManCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    "man --out DIR",
		Short:  "Write a man page of each command",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return usageError(fmt.Errorf("write the man pages: %w: name a folder that can be made", err))
			}
			root := cmd.Root()
			keepLines(root)
			root.InitDefaultVersionFlag() // cobra adds it to the command that runs alone
			// The date of the pages is that of SOURCE_DATE_EPOCH, if it is set.
			return doc.GenManTree(root, &doc.GenManHeader{
				Title: "WEIR", Section: "1", Source: "Weir " + version().Version, Manual: "Weir",
			}, dir)
		},
	}
	cmd.Flags().StringVar(&dir, "out", "", "the folder `DIR` to write them to")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

// keepLines marks the indented lines of descriptions, which are tables and drawings, as text that a page does not fill.
func keepLines(cmd *cobra.Command) {
	const fence = "```"
	var lines []string
	inside := false
	for line := range strings.SplitSeq(cmd.Long, "\n") {
		if indented := strings.HasPrefix(line, "  "); indented != inside {
			inside = indented
			if indented {
				lines = append(lines, "") // which a fence behind a paragraph needs
			}
			lines = append(lines, fence)
		}
		lines = append(lines, line)
	}
	if inside {
		lines = append(lines, fence)
	}
	cmd.Long = strings.Join(lines, "\n")
	for _, sub := range cmd.Commands() {
		keepLines(sub)
	}
}
