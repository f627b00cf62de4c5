package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/internal/keyfile"
)

func newKeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make and check a network's secret key",
		Long: `A network's key decides what its switches hash packets and flows to. Who knows it can send
packets that are never measured, or that stand for millions: no host may have it.
All switches of a network and its collectors have the same one, each in a file of mode
0600: copy it over a connection that others do not read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "new FILE",
		Short:   "Write a new random key to a file that is not there yet",
		Example: `  weir key new /etc/weir/network.key`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := keyfile.Create(args[0]); err != nil {
				return usageError(fmt.Errorf("make a key: %w", err))
			}
			return showKey(cmd, args[0])
		},
	}, &cobra.Command{
		Use:     "check FILE",
		Short:   "Check a key's file, and print the key's id, which is no secret",
		Example: `  weir key check /etc/weir/network.key`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return showKey(cmd, args[0]) },
	})
	return cmd
}

// showKey prints the id of a key.
func showKey(cmd *cobra.Command, path string) error {
	family, err := config.LoadKey(path)
	if err != nil {
		return usageError(fmt.Errorf("read the key: %w", err))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: key %04x\n", path, family.KeyID())
	return err
}
