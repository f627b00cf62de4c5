package node

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// TestSecurityGroupsOnWorkers: a bridge with security groups, whose connections are at two workers. Linux's hosts speak IPv4 and IPv6 from inside, and
// reach nothing from outside.
func TestSecurityGroupsOnWorkers(t *testing.T) {
	netnstest.Require(t)
	b := &bed{ns: netnstest.New(t, prefix), dir: t.TempDir()}
	b.file = b.dir + "/s1.toml"
	for i := range 3 { // the third one is not a port
		b.hosts = append(b.hosts, netnstest.NewHost(t, prefix, netnstest.Port{Namespace: b.ns, Name: fmt.Sprintf("p%d", i), Queues: 2},
			fmt.Sprintf("10.9.0.%d/24", i+1), fmt.Sprintf("fd09::%d/64", i+1)))
	}
	netnstest.Introduce(t, b.hosts...)
	b.write(t, `
[switch]
name = "s1"
id = 1
graph = ["parse", "conntrack", "l2"]
[dataplane]
audit = true
[workers]
count = 2
pin = false
[[port]]
name = "p0"
interface = "p0"
[[port]]
name = "p1"
interface = "p1"
[[stages.conntrack.group]]
name = "outside"
ports = ["p1"]
default = "deny"
[control]
socket = "$DIR/s.sock"
audit = ""
metrics = ""
`)
	b.start(t)
	inside, outside := b.hosts[0], b.hosts[1]
	for _, to := range []string{"10.9.0.2", "fd09::2"} {
		address := netip.MustParseAddr(to)
		if err := transfer(inside, outside, address, 4<<20); err != nil {
			t.Errorf("TCP to %s: %v", to, err)
		}
		for range 20 {
			if err := echo(inside, outside, address); err != nil {
				t.Errorf("UDP to %s: %v", to, err)
			}
		}
	}
	const forged = 2000
	s, err := outside.NS.PacketSocket(outside.Interface)
	check(t, err)
	defer s.Close()
	for i := range forged {
		check(t, s.Send(forgedUDP(inside, outside, uint16(i))))
	}
	b.await(t, "the forged packets", func() bool { return b.Node.Report().Dropped["ct_denied"] >= forged })
	r := b.Node.Report()
	var steered uint64
	for _, w := range r.Workers {
		steered += w.Steered
	}
	t.Logf("%d packets received, %d handed over, dropped: %v", r.Received, steered, r.Dropped)
	if r.Dropped["ct_denied"] != forged || steered == 0 || r.Dropped["handoff_full"]+r.Dropped["ct_invalid"] != 0 {
		t.Errorf("of %d forged packets %d were denied; %d packets handed over, dropped: %v", forged, r.Dropped["ct_denied"], steered, r.Dropped)
	}
	b.stop(t)
}

// forgedUDP is a packet to a port of the inside host that no connection has.
func forgedUDP(to, from *netnstest.Host, port uint16) []byte {
	frame := make([]byte, 60)
	copy(frame, to.MAC)
	copy(frame[6:], from.MAC)
	ip := frame[14:]
	copy(frame[12:], []byte{8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1, byte(port >> 8), byte(port), 0, 7, 0, 8, 0, 0})
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(ip[i])<<8 | uint32(ip[i+1])
	}
	sum = sum&0xffff + sum>>16
	ip[10], ip[11] = byte(^sum>>8), byte(^sum)
	return frame
}
