package l3

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// hostConfig is testConfig, where p3 is the host interface of p0.
func hostConfig() Config {
	c := testConfig()
	c.Interfaces[0].Host = "p3"
	return c
}

// hostFrame builds a packet to a port of the router.
func hostFrame(t testing.TB, to net.HardwareAddr, more ...gopacket.SerializableLayer) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: hostMAC, DstMAC: to, EthernetType: layers.EthernetTypeIPv4}
	switch ip := more[0].(type) {
	case *layers.IPv4:
		ip.Version, ip.IHL, ip.TTL = 4, 5, max(ip.TTL, 1)
		if u, ok := more[1].(*layers.UDP); ok {
			_ = u.SetNetworkLayerForChecksum(ip)
		}
		if u, ok := more[1].(*layers.TCP); ok {
			_ = u.SetNetworkLayerForChecksum(ip)
		}
	case *layers.ARP:
		eth.EthernetType = layers.EthernetTypeARP
	}
	buf := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, options, append([]gopacket.SerializableLayer{eth}, more...)...); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(buf.Bytes())
}

func ipv4(dst string, protocol layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{SrcIP: net.IP{10, 0, 1, 2}, DstIP: net.ParseIP(dst), Protocol: protocol, TTL: 1}
}

// TestHostGetsControlTraffic: what is for the router itself leaves by the host interface, unchanged; the rest as ever.
func TestHostGetsControlTraffic(t *testing.T) {
	group := net.HardwareAddr{1, 0, 0x5e, 0, 0, 5}
	arpReply := &layers.ARP{AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4,
		Operation: layers.ARPReply, SourceHwAddress: hostMAC, SourceProtAddress: []byte{10, 0, 1, 2}, DstHwAddress: ownMAC(0), DstProtAddress: []byte{10, 0, 1, 1}}
	arpRequest := *arpReply
	arpRequest.Operation = layers.ARPRequest
	echo := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0)}
	answer := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(0, 0)}
	for _, c := range []struct {
		name   string
		data   []byte
		toHost bool
		reason string
	}{
		{"BGP", hostFrame(t, ownMAC(0), ipv4("10.0.1.1", layers.IPProtocolTCP), &layers.TCP{DstPort: 179, SYN: true}), true, ""},
		{"BGP to another own address", hostFrame(t, ownMAC(0), ipv4("10.0.2.1", layers.IPProtocolTCP), &layers.TCP{SrcPort: 179, SYN: true}), true, ""},
		{"UDP", hostFrame(t, ownMAC(0), ipv4("10.0.1.1", layers.IPProtocolUDP), &layers.UDP{DstPort: 5}), true, ""},
		{"OSPF", hostFrame(t, group, ipv4("224.0.0.5", layers.IPProtocolOSPF), gopacket.Payload("hello")), true, ""},
		{"echo reply", hostFrame(t, ownMAC(0), ipv4("10.0.1.1", layers.IPProtocolICMPv4), answer), true, ""},
		{"ARP reply", hostFrame(t, ownMAC(0), arpReply), true, ""},
		{"ARP request", hostFrame(t, net.HardwareAddr{255, 255, 255, 255, 255, 255}, &arpRequest), false, ""},
		{"echo request", hostFrame(t, ownMAC(0), ipv4("10.0.1.1", layers.IPProtocolICMPv4), echo), false, ""},
		{"another group", hostFrame(t, group, ipv4("239.0.0.5", layers.IPProtocolUDP), &layers.UDP{}), false, "multicast"},
		{"not for us", hostFrame(t, hostMAC, ipv4("10.0.1.1", layers.IPProtocolTCP), &layers.TCP{DstPort: 179}), false, "not_for_us"},
		{"expired", hostFrame(t, ownMAC(0), ipv4("10.9.0.1", layers.IPProtocolUDP), &layers.UDP{}), false, "ttl_expired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, hostConfig())
			left := b.run(in{0, c.data})
			got := false
			for _, o := range left {
				if o.port == 3 {
					got = true
					if !bytes.Equal(o.data, c.data) {
						t.Errorf("sent %x, want %x", o.data, c.data)
					}
				}
			}
			if got != c.toHost {
				t.Errorf("to the host: %v, dropped for %v", got, b.got.reasons)
			}
			if c.reason != "" && b.got.reasons[c.reason] != 1 {
				t.Errorf("dropped for %v, want %s", b.got.reasons, c.reason)
			}
		})
	}
}

// TestHostSends: what comes in by the host interface leaves by its port unchanged, whatever it is, if it fits.
func TestHostSends(t *testing.T) {
	b := newBench(t, hostConfig())
	for _, data := range [][]byte{
		hostFrame(t, hostMAC, ipv4("10.0.1.2", layers.IPProtocolTCP), &layers.TCP{SrcPort: 179}),
		append(bytes.Repeat([]byte{0xff}, 12), make([]byte, 48)...), // no protocol that the router knows
	} {
		left := b.run(in{3, data})
		if len(left) != 1 || left[0].port != 0 || !bytes.Equal(left[0].data, data) {
			t.Errorf("%x: %+v", data, left)
		}
	}
	if left := b.run(in{3, make([]byte, 1515)}); len(left) != 0 || b.got.reasons["mtu_exceeded"] != 1 {
		t.Errorf("%d packets, dropped for %v", len(left), b.got.reasons)
	}
	if c := b.module.Counters(); c.FromHost != 2 || c.ToHost != 0 {
		t.Errorf("%+v", c)
	}
}

// TestHostLimit: a flood to an own address is limited, and takes nothing from routing protocols.
func TestHostLimit(t *testing.T) {
	c := hostConfig()
	c.HostRate = 100
	b := newBench(t, c)
	flood := hostFrame(t, ownMAC(0), ipv4("10.0.1.1", layers.IPProtocolUDP), &layers.UDP{DstPort: 5})
	var batch []in
	for range 50 {
		batch = append(batch, in{0, flood})
	}
	batch = append(batch, in{0, hostFrame(t, ownMAC(0), ipv4("10.0.1.1", layers.IPProtocolTCP), &layers.TCP{DstPort: 179})})
	left := b.run(batch...)
	if len(left) != 11 || b.got.reasons["host_limited"] != 40 {
		t.Errorf("%d packets, dropped for %v; want the burst of 10, BGP's, and 40", len(left), b.got.reasons)
	}
}

// TestKernelRoutes: the kernel's routes forward, beside the configuration's, which come first; what is gone does not.
func TestKernelRoutes(t *testing.T) {
	c := hostConfig()
	c.Interfaces[1].Host = "p4"
	env := testEnv(1)
	env.Ports = append(env.Ports, env.Ports[0])
	env.Ports[4].Name = "p4"
	b := newBenchOf(t, c, env)
	gateway := func(text string) netip.Addr { return netip.MustParseAddr(text) }
	state := HostState{
		Addresses:  []HostAddress{{1, netip.MustParsePrefix("10.0.22.1/24")}, {1, netip.MustParsePrefix("10.0.2.1/24")}},
		Neighbours: []HostNeighbour{{1, gateway("10.0.22.2"), [6]byte{2, 0xaa, 0, 0, 22, 2}}},
		Routes: []HostRoute{
			{Prefix: netip.MustParsePrefix("10.77.0.0/16"), Origin: "bird", Hops: []HostHop{{1, gateway("10.0.2.2"), 1}}},
			{Prefix: netip.MustParsePrefix("10.78.0.0/16"), Origin: "bird", Hops: []HostHop{{1, gateway("10.0.22.2"), 2}, {1, gateway("10.0.2.2"), 1}}},
			{Prefix: netip.MustParsePrefix("10.77.9.0/24"), Origin: "bird"},
			{Prefix: netip.MustParsePrefix("fd77::/32"), Origin: "bird", Hops: []HostHop{{1, gateway("fd00:2::2"), 1}}},
			{Prefix: netip.MustParsePrefix("10.9.0.0/16"), Origin: "bird", Hops: []HostHop{{0, gateway("10.0.1.2"), 1}}},  // configured
			{Prefix: netip.MustParsePrefix("10.79.0.0/16"), Origin: "bird", Hops: []HostHop{{2, gateway("10.0.3.2"), 1}}}, // p2 has no host interface
			{Prefix: netip.MustParsePrefix("fe80::/64"), Origin: "kernel", Hops: []HostHop{{Port: 1, Weight: 1}}},         // never
		},
	}
	if ignored := b.module.SetHostState(state); ignored != 2 {
		t.Errorf("%d routes ignored, want 2", ignored)
	}
	to := func(dst string) string {
		ip := ipv4(dst, layers.IPProtocolUDP)
		ip.TTL = 9
		left := b.run(in{0, hostFrame(t, ownMAC(0), ip, &layers.UDP{DstPort: 5})})
		if len(left) != 1 || left[0].copy {
			return "dropped"
		}
		return fmt.Sprintf("p%d %s", left[0].port, net.HardwareAddr(left[0].data[:6]))
	}
	for dst, want := range map[string]string{
		"10.77.1.1": "p1 02:aa:00:00:02:02", "10.77.9.1": "dropped", "10.9.1.1": "p1 02:aa:00:00:02:02", "10.79.0.1": "dropped",
		"10.0.22.2": "p1 02:aa:00:00:16:02",
	} {
		if got := to(dst); got != want {
			t.Errorf("%s: %s, want %s", dst, got, want)
		}
	}
	if got := to("10.78.0.1"); !strings.HasPrefix(got, "p1 ") {
		t.Errorf("10.78.0.1: %s", got)
	}
	hops := 0
	for _, r := range b.module.Routes() {
		if r.Origin == "bird" && r.Kind != "kernel" {
			t.Errorf("%+v", r)
		}
		if r.Prefix.String() == "10.78.0.0/16" {
			hops = len(r.Hops)
		}
	}
	if hops != 3 {
		t.Errorf("%d hops, want 3", hops)
	}
	// A change of the configuration leaves the kernel's routes.
	if err := b.module.Apply(c); err != nil {
		t.Fatal(err)
	}
	if got := to("10.77.1.1"); got != "p1 02:aa:00:00:02:02" {
		t.Error(got)
	}
	b.module.SetHostState(HostState{})
	for _, dst := range []string{"10.77.1.1", "10.0.22.2"} {
		if got := to(dst); got != "dropped" {
			t.Errorf("%s: %s", dst, got)
		}
	}
	if c := b.module.Counters(); c.HostRoutes != 0 || c.HostIgnored != 0 {
		t.Errorf("%+v", c)
	}
}

// TestHostFaults: what cannot be a host interface is refused by its key.
func TestHostFaults(t *testing.T) {
	names := []string{"p0", "p1", "p2", "p3"}
	for want, change := range map[string]func(*Config){
		"interface[0].host: port \"x\" is not defined":                                func(c *Config) { c.Interfaces[0].Host = "x" },
		"interface[0].host: port \"p1\" takes part in routing itself":                 func(c *Config) { c.Interfaces[0].Host = "p1" },
		"interface[1].host: port \"p3\" is the host interface of port \"p0\" already": func(c *Config) { c.Interfaces[1].Host = "p3" },
		"interface[1].host_echo: there is no host interface":                          func(c *Config) { c.Interfaces[1].HostEcho = true },
		"host_rate: 0 is out of range: choose 1 to 1000000":                           func(c *Config) { c.HostRate = 0 },
	} {
		c := hostConfig()
		change(&c)
		if err := c.Validate(names); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
