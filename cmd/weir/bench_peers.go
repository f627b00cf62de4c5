package main

import (
	"errors"
	"io"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/weirswitch/weir/bench/forward"
	"github.com/weirswitch/weir/telemetry/view/text"
)

func newBenchPeersCommand() *cobra.Command {
	var install, asJSON bool
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "Show which rivals are installed, and install those of Debian",
		Long: `Peers shows the rivals of weir bench forward that have to be installed, their
versions, and the Debian packages that carry them. Without them their rows are
left out.

--install runs apt-get for the missing packages (root). Debian starts Open
vSwitch as a service then; the benchmark does not use it, and
"systemctl disable --now openvswitch-switch" ends it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if install {
				err := forward.InstallPeers(cmd.Context(), cmd.ErrOrStderr())
				if errors.Is(err, exec.ErrNotFound) {
					err = usageError(err)
				}
				if err != nil {
					return err
				}
			}
			return printPeers(cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&install, "install", false, "install what is missing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printPeers(w io.Writer, asJSON bool) error {
	peers := forward.Peers()
	if asJSON {
		return indentJSON(w, peers)
	}
	t := text.NewTable("DEVICE", "PROGRAM", "VERSION", "PACKAGE", "PATH")
	for _, p := range peers {
		if !p.Installed() {
			p.Path, p.Version = "not installed: weir bench peers --install", "-"
		}
		t.Row(p.Device, p.Name, p.Version, p.Package, p.Path)
	}
	return t.Write(w)
}
