package node

import (
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/internal/testpmd"
	"github.com/weirswitch/weir/pipeline/packet"
)

// TestKernelHostsByDPDK: kernel hosts reach each other through ports in shared memory, as they do through interfaces: pings and TCP in
// both directions, and nothing is refused, or dropped but for a full ring. DPDK is between each host and its port: a packet socket on the host's
// cable at one side, and its driver of virtio-user or memif at the other.
func TestKernelHostsByDPDK(t *testing.T) {
	huge := testpmd.HugePages(t)
	pings, size := "10000", int64(128<<20)
	if testing.Short() {
		pings, size = "300", 4<<20
	}
	for _, c := range []struct {
		name    string
		port    string // of the configuration, with %d for its number
		device  string // of DPDK, with %d for its number and %s for the folder
		graph   string
		workers int
	}{
		{"vhost", "driver = \"vhost\"\nsocket = \"$DIR/v%d\"", "net_virtio_user%d,queue_size=1024,path=%s/v%[1]d", "patch", 1},
		{"vhost client", "driver = \"vhost\"\nmode = \"client\"\nsocket = \"$DIR/v%d\"", "net_virtio_user%d,queue_size=1024,server=1,path=%s/v%[1]d", "l2", 2},
		{"vhost packed", "driver = \"vhost\"\nsocket = \"$DIR/v%d\"", "net_virtio_user%d,queue_size=1024,packed_vq=1,path=%s/v%[1]d", "l2", 1},
		{"memif", "driver = \"memif\"\nsocket = \"$DIR/m\"\nid = %d", "net_memif%d,id=%[1]d,socket=%s/m,socket-abstract=no,role=client", "patch", 1},
		{"memif client", "driver = \"memif\"\nmode = \"client\"\nsocket = \"$DIR/m\"\nid = %d", "net_memif%d,id=%[1]d,socket=%s/m,socket-abstract=no,role=server", "l2", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			text := fmt.Sprintf("[switch]\nname = \"r1\"\nid = 1\ngraph = [\"parse\", %q]\n[workers]\ncount = %d\npin = false\n[dataplane]\naudit = true\n", c.graph, c.workers)
			var devices []string
			for i := range 2 {
				text += fmt.Sprintf("[[port]]\nname = \"v%d\"\n%s\n", i, fmt.Sprintf(c.port, i))
				devices = append(devices, fmt.Sprintf("net_af_packet%d,iface=p%d,framecnt=2048", i, i), fmt.Sprintf(c.device, i, b.dir))
			}
			if c.graph == "patch" {
				text += "[stages.patch]\npairs = [[\"v0\", \"v1\"]]\n"
			}
			b.write(t, text+"[control]\nsocket = \"$DIR/s.sock\"\naudit = \"\"\nmetrics = \"\"\n")
			var far []netip.Addr
			for i, h := range b.hosts[:2] {
				far = append(far, address(t, h, fmt.Sprintf("10.9.0.%d/24", i+1)))
				check(t, h.NS.SetARP(h.Interface, true))
				check(t, b.ns.SetOffload(fmt.Sprintf("p%d", i), netns.GRO, false)) // DPDK's driver cuts what GRO has joined
			}
			b.start(t)
			p := testpmd.Start(t, testpmd.Config{Dir: b.dir, HugePages: huge, Forward: "io", Devices: devices, Start: func(c *exec.Cmd) error { return b.ns.Start(c) }})
			b.await(t, "both ports are up", func() bool { return p.Ended() || b.portState("v0") == "up" && b.portState("v1") == "up" })
			// testpmd connects before it forwards.
			b.await(t, "a ping passes", func() bool {
				one := exec.Command("ping", "-q", "-c", "1", "-W", "1", far[1].String())
				return p.Ended() || b.hosts[0].NS.Start(one) == nil && one.Wait() == nil
			})

			ping := exec.Command("ping", "-q", "-c", pings, "-i", "0.001", "-W", "60", far[1].String())
			var out strings.Builder
			ping.Stdout = &out
			check(t, b.hosts[0].NS.Start(ping))
			if err := ping.Wait(); err != nil || !strings.Contains(out.String(), pings+" received") {
				t.Errorf("ping: %v\n%s", err, &out)
			}
			check(t, transfer(b.hosts[0], b.hosts[1], far[1], size))
			check(t, transfer(b.hosts[1], b.hosts[0], far[0], size))
			p.Quit()
			if <-p.Done; p.Err != nil {
				t.Fatalf("testpmd: %v\n%s", p.Err, &p.Text)
			}
			r := b.Report()
			for _, port := range r.Ports {
				delete(port.Dropped, packet.ReasonTxFull.String()) // a ring may be full: TCP sends again
				if port.RxInvalid+port.TxInvalid+port.RingFaults != 0 || len(port.Dropped) != 0 {
					t.Errorf("port %s: %d and %d packets were refused, %d ring faults, dropped %v", port.Name, port.RxInvalid, port.TxInvalid, port.RingFaults, port.Dropped)
				}
			}
			if err := b.end(); err != nil {
				t.Error(err)
			}
			if r = b.Report(); !r.Balanced || r.Frames.Lost != 0 {
				t.Errorf("balanced %t, %d frames lost", r.Balanced, r.Frames.Lost)
			}
			if left, _ := filepath.Glob(filepath.Join(b.dir, "*.sock")); len(left) != 0 {
				t.Errorf("sockets are left: %v", left)
			}
		})
	}
}
