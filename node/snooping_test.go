package node

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

const snoopingBridge = `
[switch]
name = "snoop"
id = 1
graph = ["parse", "l2"]
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
[stages.l2]
snooping = true
flood_unregistered = false
[control]
socket = "$DIR/s.sock"
`

// TestSnooping: hosts of Linux join and leave groups of IPv4 and IPv6 in all versions of IGMP and MLD that it speaks, and a Linux bridge is the querier. Hosts that have joined
// get a group's packets, others do not; a leave ends that, and sources are told apart.
func TestSnooping(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("ip is missing: apt-get install iproute2")
	}
	b := newBed(t)
	b.write(t, snoopingBridge)
	b.start(t)
	querier, first, second := b.hosts[0], b.hosts[1], b.hosts[2]
	for i, h := range b.hosts {
		check(t, h.NS.SetARP(h.Interface, true)) // newBed switched it off
		if i != 0 {
			address(t, h, fmt.Sprintf("10.1.0.%d/24", i+1))
			address(t, h, fmt.Sprintf("fe80::%d/64", i+1))
		}
	}
	watch := []*netns.PacketSocket{querier.Packet(t), first.Packet(t), second.Packet(t)}
	const group4, group6, other4, other6 = "239.1.2.3", "ff15::1:2:3", "239.9.9.9", "ff15::9"

	// Without a querier all is flooded.
	for _, group := range []string{group4, group6} {
		if got := reached(t, watch, 2, group, 1); got != "0 1" {
			t.Errorf("without a querier packets to %s reach %q", group, got)
		}
	}
	for _, line := range []string{
		"link add br0 type bridge mcast_snooping 1 mcast_querier 1 mcast_query_interval 300 mcast_query_response_interval 100 mcast_startup_query_interval 100 mcast_mld_version 2 mcast_igmp_version 3",
		"link set eth0 master br0", "link set br0 up", "address add fe80::1/64 dev br0 nodad",
	} {
		runIn(t, querier, "ip", strings.Fields(line)...)
	}
	vlans := func() map[string]*api.SnoopedVlan {
		r, ok := b.Groups()
		if !ok {
			t.Fatal("no groups")
		}
		all := map[string]*api.SnoopedVlan{}
		for _, v := range r.Vlans {
			all[v.Protocol] = v
		}
		return all
	}
	b.await(t, "queriers of both families are heard", func() bool {
		v := vlans()
		return v["igmp"] != nil && v["mld"] != nil && v["igmp"].Active && v["mld"].Active
	})
	for protocol, v := range vlans() {
		if v.QuerierPort != "p0" || fmt.Sprint(v.Routers) != "[p0]" || v.Version == 0 {
			t.Errorf("%s: %+v", protocol, v)
		}
	}
	if q := vlans()["mld"]; q.Querier != "fe80::1" || q.Version != 2 {
		t.Errorf("the querier of MLD is %+v", q)
	}
	membership := func(group, port string) *api.GroupMembership {
		r, _ := b.Groups()
		for _, m := range r.Memberships {
			if m.Group == group && m.Port == port {
				return m
			}
		}
		return nil
	}
	joined := func(group, port string) {
		t.Helper()
		b.await(t, port+" has joined "+group, func() bool { return membership(group, port) != nil })
	}
	left := func(group, port string) {
		t.Helper()
		b.await(t, port+" has left "+group, func() bool { return membership(group, port) == nil })
	}
	reach := func(from int, group string, source byte, want string) {
		t.Helper()
		if got := reached(t, watch, from, group, source); got != want {
			t.Errorf("packets of p%d to %s, source %d, reach %q, want %q", from, group, source, got, want)
		}
	}
	// Groups that no host has joined go to the router alone; what is of the link goes to all.
	for _, group := range []string{other4, other6} {
		reach(2, group, 1, "0")
		reach(0, group, 1, "")
	}
	for _, group := range []string{"224.0.0.251", "ff02::fb", "ff02::1"} {
		reach(2, group, 1, "0 1")
	}
	// A host joins: its kernel receives, also by its socket, and the other host gets nothing.
	quiet := second.Packet(t)
	a4, a6 := join(t, first, group4, ""), join(t, first, group6, "")
	joined(group4, "p1")
	joined(group6, "p1")
	for _, group := range []string{group4, group6} {
		reach(0, group, 1, "1")
		reach(2, group, 1, "0 1")
		reach(1, group, 1, "0")
	}
	for _, c := range []net.PacketConn{a4, a6} {
		check(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		buf := make([]byte, 64)
		if _, _, err := c.ReadFrom(buf); err != nil {
			t.Errorf("the host's socket got none: %v", err)
		}
	}
	// Reports come to the querier, and not to the other host.
	if n := reports(t, quiet); n != 0 {
		t.Errorf("%d reports of a host came to another one", n)
	}
	// Older versions.
	writeIn(t, second, "/proc/sys/net/ipv4/conf/eth0/force_igmp_version", "2")
	writeIn(t, second, "/proc/sys/net/ipv6/conf/eth0/force_mld_version", "1")
	b4, b6 := join(t, second, group4, ""), join(t, second, group6, "")
	joined(group4, "p2")
	joined(group6, "p2")
	for group, version := range map[string]uint32{group4: 2, group6: 1} {
		if m := membership(group, "p2"); m.Version != version || !m.Exclude || len(m.Sources) != 0 {
			t.Errorf("%+v", m)
		}
		if m := membership(group, "p1"); m.Version != version+1 {
			t.Errorf("%+v", m)
		}
		reach(0, group, 1, "1 2")
	}
	// They leave: the querier asks, no one answers, and packets end. The other one's stay.
	check(t, a4.Close())
	check(t, a6.Close())
	left(group4, "p1")
	left(group6, "p1")
	for _, group := range []string{group4, group6} {
		reach(0, group, 1, "2")
	}
	check(t, b4.Close())
	check(t, b6.Close())
	left(group4, "p2")
	left(group6, "p2")
	for _, group := range []string{group4, group6} {
		reach(0, group, 1, "")
		reach(2, group, 1, "0")
	}
	// A host of one source gets the packets of that one.
	s4, s6 := join(t, first, "232.1.1.1", "10.1.0.77"), join(t, first, "ff35::7", "fe80::77")
	joined("232.1.1.1", "p1")
	joined("ff35::7", "p1")
	for _, group := range []string{"232.1.1.1", "ff35::7"} {
		if m := membership(group, "p1"); m.Exclude || len(m.Sources) != 1 {
			t.Errorf("%+v", m)
		}
		reach(0, group, 0x77, "1")
		reach(0, group, 0x78, "")
	}
	check(t, s4.Close())
	check(t, s6.Close())
	left("232.1.1.1", "p1")
	left("ff35::7", "p1")
	b.stop(t)
}

// runIn runs a program in a host's namespace.
func runIn(t *testing.T, h *netnstest.Host, name string, args ...string) {
	t.Helper()
	c := exec.Command(name, args...)
	said := &bytes.Buffer{}
	c.Stdout, c.Stderr = said, said
	check(t, h.NS.Start(c))
	if err := c.Wait(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, said)
	}
}

func writeIn(t *testing.T, h *netnstest.Host, path, value string) {
	t.Helper()
	check(t, h.NS.Do(func() error { return os.WriteFile(path, []byte(value), 0) }))
}

// groupPort is the UDP port of test packets.
const groupPort = 5000

// join has a host's kernel join a group, of a source or of all. Closing the socket leaves it.
func join(t *testing.T, h *netnstest.Host, group, source string) net.PacketConn {
	t.Helper()
	var c *net.UDPConn
	check(t, h.NS.Do(func() error {
		iface, err := net.InterfaceByName(h.Interface)
		if err != nil {
			return err
		}
		to := &net.UDPAddr{IP: net.ParseIP(group), Port: groupPort}
		if source == "" {
			network := "udp4"
			if to.IP.To4() == nil {
				network = "udp6"
			}
			c, err = net.ListenMulticastUDP(network, iface, to)
			return err
		}
		if c, err = net.ListenUDP("udp", &net.UDPAddr{IP: to.IP}); err != nil {
			return err
		}
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		// struct group_source_req
		request := make([]byte, 8+128+128)
		binary.NativeEndian.PutUint32(request, uint32(iface.Index))
		level := unix.IPPROTO_IP
		for at, ip := range map[int]net.IP{8: to.IP, 8 + 128: net.ParseIP(source)} {
			if four := ip.To4(); four != nil {
				binary.NativeEndian.PutUint16(request[at:], unix.AF_INET)
				copy(request[at+4:], four)
				continue
			}
			level = unix.IPPROTO_IPV6
			binary.NativeEndian.PutUint16(request[at:], unix.AF_INET6)
			copy(request[at+8:], ip)
		}
		return errors.Join(raw.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), level, unix.MCAST_JOIN_SOURCE_GROUP, string(request))
		}), err)
	}))
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		}
	})
	return c
}

// groupSequence numbers the packets of reached.
var groupSequence uint32

// reached sends a packet to a group from the host of a port, and then a broadcast behind it, and returns to which others the first one came.
func reached(t *testing.T, watch []*netns.PacketSocket, from int, group string, source byte) string {
	t.Helper()
	groupSequence++
	mark := binary.BigEndian.AppendUint32([]byte("to the group"), groupSequence)
	end := binary.BigEndian.AppendUint32([]byte("to everybody"), groupSequence)
	check(t, watch[from].Send(groupPacket(t, group, source, mark)))
	check(t, watch[from].Send(append(append([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 9, byte(from), 0x88, 0xb5}, end...), make([]byte, 40)...)))
	var all []string
	buf := make([]byte, 2048)
	for i, s := range watch {
		check(t, s.SetDeadline(time.Now().Add(time.Minute)))
		n := 0
		for i != from && !bytes.Contains(buf[:n], end) {
			var err error
			if n, err = s.Receive(buf); err != nil {
				t.Fatalf("the host of p%d did not get the broadcast: %v", i, err)
			}
			if bytes.Contains(buf[:n], mark) {
				all = append(all, fmt.Sprint(i))
			}
		}
	}
	return strings.Join(all, " ")
}

// groupPacket is a UDP packet to a group.
func groupPacket(t *testing.T, group string, source byte, payload []byte) []byte {
	t.Helper()
	to := net.ParseIP(group)
	udp := &layers.UDP{SrcPort: groupPort, DstPort: groupPort}
	ether := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 9, source}}
	var ip gopacket.SerializableLayer
	if four := to.To4(); four != nil {
		x := &layers.IPv4{Version: 4, TTL: 8, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 1, 0, source/16*10 + source%16}, DstIP: four}
		check(t, udp.SetNetworkLayerForChecksum(x))
		ether.EthernetType, ether.DstMAC, ip = layers.EthernetTypeIPv4, net.HardwareAddr{1, 0, 0x5e, four[1] & 0x7f, four[2], four[3]}, x
	} else {
		x := &layers.IPv6{Version: 6, HopLimit: 8, NextHeader: layers.IPProtocolUDP, SrcIP: net.IP{0xfe, 0x80, 15: source}, DstIP: to}
		check(t, udp.SetNetworkLayerForChecksum(x))
		ether.EthernetType, ether.DstMAC, ip = layers.EthernetTypeIPv6, net.HardwareAddr{0x33, 0x33, to[12], to[13], to[14], to[15]}, x
	}
	s := gopacket.NewSerializeBuffer()
	check(t, gopacket.SerializeLayers(s, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ether, ip, udp, gopacket.Payload(payload)))
	return s.Bytes()
}

// reports counts the reports that wait at a host.
func reports(t *testing.T, s *netns.PacketSocket) (n int) {
	t.Helper()
	buf := make([]byte, 2048)
	check(t, s.SetDeadline(time.Now().Add(10*time.Millisecond)))
	for {
		length, err := s.Receive(buf)
		if err != nil {
			return n
		}
		p := gopacket.NewPacket(buf[:length], layers.LayerTypeEthernet, gopacket.Default)
		if ip, ok := p.NetworkLayer().(*layers.IPv4); ok && ip.Protocol == layers.IPProtocolIGMP && ip.Payload[0] != 0x11 {
			n++
		}
		if p.Layer(layers.LayerTypeMLDv2MulticastListenerReport) != nil || p.Layer(layers.LayerTypeMLDv1MulticastListenerReport) != nil {
			n++
		}
	}
}
