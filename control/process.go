package control

import (
	"fmt"
	"net"
	"os"

	"github.com/weirswitch/weir/internal/socket"
)

// ProcessAt finds the process that serves a control socket, and whether its program is another file than the calling one's: a package manager puts a new
// program in the place of the old one, which keeps its inode as long as it runs. The caller may look into that process, as root may.
func ProcessAt(path string) (process int, replaced bool, err error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return 0, false, fmt.Errorf("no switch answers at control.socket: %w: start it", err)
	}
	process = socket.PeerOf(c).PID
	if err := c.Close(); err != nil {
		return 0, false, err
	}
	theirs, err := os.Stat(fmt.Sprintf("/proc/%d/exe", process))
	if err != nil {
		return 0, false, fmt.Errorf("see which program the switch runs: %w: ask as root, on the switch's machine or in its container", err)
	}
	ours, err := os.Stat("/proc/self/exe")
	if err != nil {
		return 0, false, err
	}
	return process, !os.SameFile(theirs, ours), nil
}
