package node

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

const guardedBridge = `
[switch]
name = "guarded"
id = 1
graph = ["parse", "guard", "l2"]
[dataplane]
audit = true
[workers]
poll = "interrupt"
[[port]]
interface = "p0"
[[port]]
interface = "p1"
[[port]]
interface = "p2"
[stages.guard]
dhcp_servers = ["p2"]
routers = ["p2"]
[control]
socket = "$DIR/s.sock"
`

// TestGuard: of two real servers of DHCP the one at a port that is not trusted gives no lease, and router advertisements from there come to
// no host.
func TestGuard(t *testing.T) {
	for _, program := range []string{"dnsmasq", "udhcpc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("a DHCP server or client is missing: apt-get install dnsmasq-base udhcpc")
		}
	}
	b := newBed(t)
	b.write(t, guardedBridge)
	b.start(t)
	client, rogue, server := b.hosts[0], b.hosts[1], b.hosts[2]
	for _, h := range b.hosts {
		check(t, h.NS.SetARP(h.Interface, true)) // newBed switched it off
	}
	address(t, rogue, "10.66.0.1/24")
	address(t, server, "10.1.0.1/24")
	watch := client.Packet(t)
	serve := func(h *netnstest.Host, pool string) {
		said := &bytes.Buffer{}
		d := exec.Command("dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--interface="+h.Interface, "--bind-interfaces", "--leasefile-ro", "--user=root",
			"--pid-file=", "--dhcp-authoritative", "--no-ping", "--dhcp-range="+pool)
		d.Stderr = said
		check(t, h.NS.Start(d))
		t.Cleanup(func() {
			_ = d.Process.Kill()
			_ = d.Wait()
			if t.Failed() {
				t.Logf("%s: %s", pool, said)
			}
		})
	}
	serve(rogue, "10.66.0.10,10.66.0.99,1h")
	drops := func(reason string) (n uint64) {
		for _, p := range b.Report().Ports {
			if p.Name == "p1" {
				n = p.Dropped[reason]
			}
		}
		return n
	}
	lease := func(tries string) string {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, "udhcpc", "-f", "-q", "-n", "-t", tries, "-T", "1", "-i", client.Interface, "-s", "/bin/true")
		said := &bytes.Buffer{}
		c.Stdout, c.Stderr = said, said
		check(t, client.NS.Start(c))
		_ = c.Wait()
		return said.String()
	}
	// The rogue server alone: it answers, which is counted, and the client gets nothing.
	limit := time.Now().Add(2 * time.Minute)
	advertise(t, rogue, 0x66)
	for drops("dhcp_guard") == 0 || drops("ra_guard") == 0 {
		if time.Now().After(limit) {
			t.Fatalf("the rogue server has sent nothing: %v", b.Report().Ports[1])
		}
		if text := lease("3"); strings.Contains(text, "obtained") {
			t.Fatalf("a lease of the rogue server:\n%s", text)
		}
	}
	serve(server, "10.1.0.10,10.1.0.99,1h")
	for text := ""; !strings.Contains(text, "lease of 10.1.0."); {
		if text = lease("5"); strings.Contains(text, "10.66.") || time.Now().After(limit.Add(2*time.Minute)) {
			t.Fatalf("the client got:\n%s", text)
		}
	}
	// The client's host gets advertisements of the trusted router, and none of the other one.
	advertise(t, server, 0x01)
	buf := make([]byte, 2048)
	check(t, watch.SetDeadline(time.Now().Add(2*time.Minute)))
	for {
		n, err := watch.Receive(buf)
		if err != nil {
			t.Fatalf("no advertisement of the trusted router: %v", err)
		}
		if n < 55 || buf[12] != 0x86 || buf[20] != 58 || buf[54] != 134 {
			continue
		}
		if buf[11] != 0x01 {
			t.Fatalf("an advertisement of % x", buf[6:12])
		}
		break
	}
	b.stop(t)
}

// advertise sends a router advertisement from a host, whose addresses end with a number.
func advertise(t *testing.T, h *netnstest.Host, number byte) {
	t.Helper()
	s := gopacket.NewSerializeBuffer()
	ip := &layers.IPv6{Version: 6, NextHeader: layers.IPProtocolICMPv6, HopLimit: 255, SrcIP: net.IP{0xfe, 0x80, 15: number}, DstIP: net.IP{0xff, 0x02, 15: 1}}
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(layers.ICMPv6TypeRouterAdvertisement, 0)}
	check(t, icmp.SetNetworkLayerForChecksum(ip))
	check(t, gopacket.SerializeLayers(s, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		&layers.Ethernet{SrcMAC: net.HardwareAddr{2, 5: number}, DstMAC: net.HardwareAddr{0x33, 0x33, 5: 1}, EthernetType: layers.EthernetTypeIPv6}, ip, icmp,
		&layers.ICMPv6RouterAdvertisement{HopLimit: 64, RouterLifetime: 1800}))
	check(t, h.Packet(t).Send(s.Bytes()))
}
