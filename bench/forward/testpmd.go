package forward

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/weirswitch/weir/dataplane/traffic"
)

// testpmdDevice is DPDK's forwarder, in its plainest mode: no look at the packet.
type testpmdDevice struct{ *child }

// startTestpmd runs it as the DPDK guide for net_af_xdp has it, without huge pages. Both its
// threads are on the device's core; the first one only waits for the end of its input.
func startTestpmd(r *rig, _ deviceOptions) (running, error) {
	core := r.cores.Device
	for _, port := range []string{portA, portB} {
		// What the guide recommends for busy polling, which the driver asks for.
		if err := traffic.SetDeferral(traffic.Port{Namespace: r.mid, Interface: port}, 2, 200*time.Microsecond); err != nil {
			return nil, err
		}
	}
	// stdbuf has it print line by line, also to a file.
	cmd := exec.Command("stdbuf", "-oL", "dpdk-testpmd",
		"--no-huge", "-m", "1024", "--no-pci", "--no-telemetry",
		"--file-prefix", fmt.Sprintf("%s%d", prefix, os.Getpid()),
		"--lcores", fmt.Sprintf("0@%d,1@%d", core, core),
		"--vdev", "net_af_xdp0,iface="+portA, "--vdev", "net_af_xdp1,iface="+portB,
		"--", "--forward-mode=io", "--auto-start", "--nb-cores=1", "--no-mlockall", "--mp-alloc=anon")
	c, err := startChild(r.mid, onCores(core), r.dir, cmd)
	if err != nil {
		return nil, err
	}
	if err := c.waitFor("forwarding", startWait, func() bool { return c.printed("Press enter to exit") }); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return testpmdDevice{c}, nil
}

// stop cannot say more: the driver does not print what the kernel granted.
func (d testpmdDevice) stop() (string, error) {
	return "AF_XDP, driver's defaults", d.child.stop()
}

func peerTestpmd() Peer {
	p := Peer{Device: "testpmd", Name: "DPDK testpmd", Package: "dpdk-dev"}
	path, err := exec.LookPath("dpdk-testpmd")
	if err != nil {
		return p
	}
	p.Path = path
	if out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", p.Package).Output(); err == nil {
		p.Version = strings.TrimSpace(string(out))
	}
	return p
}
