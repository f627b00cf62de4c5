package guard

import (
	"net"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

var testPorts = []pipeline.Port{{Name: "host"}, {Name: "dhcp"}, {Name: "router"}, {Name: "up"}, {Name: "up.5", Parent: 3, VLAN: 5}, {Name: "host.5", Parent: 0, VLAN: 5}}

func newModule(t testing.TB) *Module {
	t.Helper()
	m, err := New(Config{DHCPServers: []string{"dhcp", "up"}, Routers: []string{"router", "up"}}, pipeline.Env{Ports: testPorts})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newBatch(t testing.TB) *packet.Batch {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 1, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return packet.NewBatch(pool.NewCache(), packet.BatchSize)
}

// TestVerdicts: each kind of message, from each kind of port.
func TestVerdicts(t *testing.T) {
	m, b := newModule(t), newBatch(t)
	udp := func(flags packet.Flags, src, dst uint16) packet.Packet {
		return packet.Packet{Flags: flags | packet.FlagL4 | packet.FlagPorts, Proto: 17, SrcPort: src, DstPort: dst, L4: 40, Len: 100}
	}
	icmp := func(typ byte) packet.Packet {
		p := packet.Packet{Flags: packet.FlagIPv6 | packet.FlagL4, Proto: 58, L4: 54 + uint16(typ), Len: 1000}
		b.Mem[p.L4] = typ
		return p
	}
	const v4, v6, frag, later, bad = packet.FlagIPv4, packet.FlagIPv6, packet.FlagFragment, packet.FlagFragment | packet.FlagLaterFragment, packet.FlagMalformed
	for _, c := range []struct {
		name               string
		p                  packet.Packet
		host, dhcp, router packet.Reason
	}{
		{"DHCP of a client", udp(v4, 68, 67), 0, 0, 0},
		{"DHCP of a server", udp(v4, 67, 68), reasonDHCP, 0, reasonDHCP},
		{"of a server that has another port", udp(v4, 999, 68), reasonDHCP, 0, reasonDHCP},
		{"of a server to a relay", udp(v4, 67, 67), reasonDHCP, 0, reasonDHCP},
		{"the first fragment of it", udp(v4|frag, 67, 68), reasonDHCP, 0, reasonDHCP},
		{"DHCPv6 of a client", udp(v6, 546, 547), 0, 0, 0},
		{"DHCPv6 of a server", udp(v6, 547, 546), reasonDHCP, 0, reasonDHCP},
		{"ports of the other version", udp(v6, 67, 68), 0, 0, 0},
		{"TCP by these ports", packet.Packet{Flags: v4 | packet.FlagL4 | packet.FlagPorts, Proto: 6, SrcPort: 67, DstPort: 68}, 0, 0, 0},
		{"router advertisement", icmp(134), reasonRA, reasonRA, 0},
		{"redirect", icmp(137), reasonRA, reasonRA, 0},
		{"router solicitation", icmp(133), 0, 0, 0},
		{"neighbour advertisement", icmp(136), 0, 0, 0},
		{"a first fragment without its header, IPv6", packet.Packet{Flags: v6 | frag, Proto: 60}, reasonUndetermined, reasonUndetermined, reasonUndetermined},
		{"a first fragment without its header, UDP", packet.Packet{Flags: v4 | frag, Proto: 17}, reasonUndetermined, 0, reasonUndetermined},
		{"IPv6 whose headers go on in another frame", packet.Packet{Flags: v6, Proto: 60}, reasonUndetermined, reasonUndetermined, reasonUndetermined},
		{"a first fragment of another protocol", packet.Packet{Flags: v4 | frag, Proto: 89}, 0, 0, 0},
		{"a later fragment", packet.Packet{Flags: v6 | later, Proto: 58}, 0, 0, 0},
		{"malformed IPv6", packet.Packet{Flags: bad, EtherType: 0x86dd}, reasonUndetermined, reasonUndetermined, reasonUndetermined},
		{"malformed IPv4", packet.Packet{Flags: v4 | bad, EtherType: 0x0800, Proto: 17}, reasonUndetermined, 0, reasonUndetermined},
		{"malformed ARP", packet.Packet{Flags: bad, EtherType: 0x0806}, 0, 0, 0},
		{"no IP", packet.Packet{EtherType: 0x88b5}, 0, 0, 0},
		{"dropped before", packet.Packet{Flags: v4 | packet.FlagL4 | packet.FlagPorts, Proto: 17, SrcPort: 67, Reason: packet.ReasonNoPort}, packet.ReasonNoPort, packet.ReasonNoPort, packet.ReasonNoPort},
	} {
		for port, want := range []packet.Reason{c.host, c.dhcp, c.router, c.p.Reason, c.p.Reason, c.host, c.host} {
			b.Reset()
			p := b.Append()
			*p = c.p
			p.InPort = uint16(port)
			if m.Stage(0).Process(b); p.Reason != want {
				t.Errorf("%s at port %d: %v, want %v", c.name, port, p.Reason, want)
			}
		}
	}
	if got := m.Stage(0).(*stage).Explain(b, &packet.Packet{InPort: 3}); got != "the port is trusted with DHCP servers and routers" {
		t.Error(got)
	}
}

func TestFaults(t *testing.T) {
	c := Config{DHCPServers: []string{"x", ""}, Routers: []string{"p0", "y"}}
	err := c.Validate([]string{"p0", ""})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`dhcp_servers[0]: port "x"`, "dhcp_servers[1]", `routers[1]: port "y"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

func TestDoesNotAllocate(t *testing.T) {
	m, b := newModule(t), newBatch(t)
	for range packet.BatchSize {
		*b.Append() = packet.Packet{Flags: packet.FlagIPv4 | packet.FlagL4 | packet.FlagPorts, Proto: 17, SrcPort: 5}
	}
	s := m.Stage(0)
	if n := testing.AllocsPerRun(100, func() { s.Process(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzVerdict: whatever the parser may say of any bytes, nothing panics, and what is not dropped at a host's port is neither of a server nor
// an advertisement, in the eyes of gopacket.
func FuzzVerdict(f *testing.F) {
	s := gopacket.NewSerializeBuffer()
	_ = gopacket.SerializeLayers(s, gopacket.SerializeOptions{FixLengths: true},
		&layers.Ethernet{SrcMAC: make(net.HardwareAddr, 6), DstMAC: make(net.HardwareAddr, 6), EthernetType: layers.EthernetTypeIPv6},
		&layers.IPv6{Version: 6, NextHeader: layers.IPProtocolICMPv6, HopLimit: 255, SrcIP: net.IPv6loopback, DstIP: net.IPv6loopback},
		&layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(134, 0)}, gopacket.Payload(make([]byte, 12)))
	f.Add(s.Bytes(), uint16(packet.FlagIPv6|packet.FlagL4), uint8(58), uint16(54), uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, flags uint16, proto uint8, l4, src, dst uint16) {
		if len(data) > 1500 {
			return
		}
		m, b := newModule(t), newBatch(t)
		copy(b.Mem, data)
		p := b.Append()
		*p = packet.Packet{Flags: packet.Flags(flags), Proto: proto, L4: l4, SrcPort: src, DstPort: dst, Len: uint32(len(data))}
		m.Stage(0).Process(b)
		g := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.NoCopy)
		v6, _ := g.Layer(layers.LayerTypeIPv6).(*layers.IPv6)
		if v6 != nil && v6.NextHeader == layers.IPProtocolICMPv6 && l4 == 54 && proto == 58 && p.Flags == packet.FlagIPv6|packet.FlagL4 && len(data) > 54 &&
			(data[54] == 134 || data[54] == 137) && p.Reason == 0 {
			t.Error("an advertisement passes")
		}
	})
}
