package node

import (
	"bytes"
	"slices"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netns"
)

// TestLoopedCable: a cable between two ports of a bridge, by which each broadcast comes back for ever, costs one of these two
// ports, and hosts go on talking.
func TestLoopedCable(t *testing.T) {
	b := newBed(t)
	check(t, netns.AddVeth(netns.End{Namespace: b.ns, Name: "l0"}, netns.End{Namespace: b.ns, Name: "l1"}, netns.Veth{}))
	check(t, b.ns.SetUp("l0"))
	check(t, b.ns.SetUp("l1"))
	b.write(t, `
[switch]
name = "r1"
id = 1
graph = ["parse", "l2"]
[dataplane]
audit = true
[[port]]
interface = "p0"
[[port]]
interface = "p1"
[[port]]
interface = "l0"
[[port]]
interface = "l1"
[control]
socket = "$DIR/s.sock"
audit = ""
metrics = ""
`)
	b.start(t)
	here, there := b.hosts[0], b.hosts[1]
	address(t, here, "10.9.0.1/24")
	far := address(t, there, "10.9.0.2/24")
	for _, h := range b.hosts[:2] {
		check(t, h.NS.SetARP(h.Interface, true)) // Introduce switched it off
	}
	// Their first packets loop.
	blocked := func() (ports []string) {
		for _, m := range b.Metrics() {
			if m.Name == "port_blocked" && m.Value != 0 {
				ports = append(ports, m.Labels["port"])
			}
		}
		return ports
	}
	socket := here.Packet(t)
	frame := append(bytes.Repeat([]byte{0xff}, 6), here.MAC[:]...)
	frame = append(frame, make([]byte, 48)...)
	b.await(t, "a port is blocked", func() bool {
		check(t, socket.Send(frame))
		return len(blocked()) > 0
	})
	if ports := blocked(); len(ports) != 1 || !slices.Contains([]string{"l0", "l1"}, ports[0]) {
		t.Errorf("blocked are %v", ports)
	}
	// A packet or two may still go where the loop has moved its station to: TCP sends them again.
	check(t, transfer(here, there, far, 1<<20))
	b.stop(t)
}
