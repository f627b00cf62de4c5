package forward

import (
	"context"
	"fmt"
	"io"
	"os/exec"
)

// Peer is a rival that has to be installed.
type Peer struct {
	Device  string `json:"device"`  // its name in Devices
	Name    string `json:"name"`    // of the program
	Package string `json:"package"` // of Debian, that carries it
	Path    string `json:"path"`    // of the program; empty where it is not installed
	Version string `json:"version"`
}

// Installed reports whether the rival can be measured.
func (p Peer) Installed() bool { return p.Path != "" }

// Peers lists all rivals that have to be installed, and whether they are.
func Peers() (peers []Peer) {
	for _, d := range devices {
		if d.peer != nil {
			peers = append(peers, d.peer())
		}
	}
	return append(peers, peerOVSDPDK())
}

// InstallPeers has apt-get install the Debian packages of the peers that are missing, and writes what that says (root).
func InstallPeers(ctx context.Context, w io.Writer) error {
	var packages []string
	for _, p := range Peers() {
		if !p.Installed() {
			packages = append(packages, p.Package)
		}
	}
	if len(packages) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install the programs by the system's own means (Debian's packages are %v): %w", packages, err)
	}
	for _, arguments := range [][]string{{"update"}, append([]string{"install", "--yes", "--no-install-recommends"}, packages...)} {
		apt := exec.CommandContext(ctx, "apt-get", arguments...)
		apt.Stdout, apt.Stderr = w, w
		if err := apt.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", arguments[0], err)
		}
	}
	return nil
}
