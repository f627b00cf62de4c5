package stages_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/patch"
	"github.com/weirswitch/weir/stages/tunnel"
)

// twinTunnels are the tunnels of the twin's switch. Each is joined to a station's port, and has an end for itself.
var twinTunnels = []struct {
	kind       string
	vni        uint32
	six, learn bool
	end        string
}{
	{"vxlan", 1, false, false, "192.0.2.11"},
	{"vxlan", 2, true, false, "2001:db8::12"},
	{"geneve", 1, false, false, "192.0.2.13"}, // the VNI of another kind is another one
	{"geneve", 0xffffff, true, false, "2001:db8::14"},
	{"vxlan", 0x800000, false, true, "192.0.2.15"},
}

// The switch's own addresses, and one that is no end of any tunnel, by IP version.
var (
	twinOwn      = [2]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	twinStranger = [2]netip.Addr{netip.MustParseAddr("192.0.2.99"), netip.MustParseAddr("2001:db8::99")}
)

// outerSpec says what a packet of the underlay is like; the twin knows its fate from that alone, and the switch from the bytes.
type outerSpec struct {
	six      bool
	source   int // of twinTunnels; -1: a stranger
	foreign  bool
	fragment bool
	other    bool // another protocol than UDP
	port     uint16
	geneve   bool // what the UDP port says
	vni      uint32
	unset    bool // VXLAN without the flag I, Geneve of another version
	options  int  // words of Geneve
	critical bool
	control  bool
	protocol uint16
	checksum int // 0: none, 1: right, 2: wrong
	lengthBy int // of UDP, above the right one
	padding  int
	ecn      uint8
	inner    innerSpec
}

type innerSpec struct {
	kind   int // 0: IPv4, 1: IPv6, 2: neither
	ecn    uint8
	length int // of the frame
	flow   int
}

func drawOuter(r *rand.Rand) (s outerSpec) {
	chance := func(one int) bool { return r.IntN(one) == 0 }
	s.source = r.IntN(len(twinTunnels))
	t := &twinTunnels[s.source]
	s.six, s.geneve, s.vni, s.protocol, s.ecn = t.six, t.kind == "geneve", t.vni, 0x6558, uint8(r.IntN(4))
	s.checksum = r.IntN(2)
	if s.six {
		s.checksum = 1
	}
	if s.geneve && chance(4) {
		s.options = r.IntN(5)
	}
	s.inner = drawInner(r)
	if chance(8) {
		s.padding = r.IntN(20)
	}
	if !chance(3) {
		return s
	}
	switch r.IntN(13) { // one thing or several are other than they should be
	case 0:
		s.source = -1
	case 1:
		s.source = r.IntN(len(twinTunnels))
		s.six = twinTunnels[s.source].six
	case 2:
		s.foreign = true
	case 3:
		s.fragment = true
	case 4:
		s.other = true
	case 5:
		s.port = uint16(r.IntN(1 << 16))
	case 6:
		s.geneve = !s.geneve
	case 7:
		s.vni = [...]uint32{0, 1, 2, 3, 0x7fffff, 0x800000, 0xfffffe, 0xffffff}[r.IntN(8)]
	case 8:
		s.unset = true
	case 9:
		s.critical, s.control = chance(2), chance(2)
	case 10:
		s.protocol = uint16(r.IntN(1 << 16))
	case 11:
		s.checksum = r.IntN(3)
	case 12:
		s.lengthBy = r.IntN(41) - 20
	}
	if s.source < 0 || twinTunnels[s.source].six != t.six { // the checksum is by the outer version
		s.checksum = 1
	}
	return s
}

func drawInner(r *rand.Rand) innerSpec {
	s := innerSpec{kind: r.IntN(3), ecn: uint8(r.IntN(4)), length: 60 + r.IntN(200), flow: r.IntN(1000)}
	if s.kind == 2 && r.IntN(4) == 0 {
		s.length = 14 + r.IntN(10)
	}
	return s
}

// frame writes the inner frame.
func (s *innerSpec) frame() []byte {
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 1, 0, 0, 0, byte(s.flow)}, DstMAC: net.HardwareAddr{2, 2, 0, 0, 0, byte(s.flow >> 4)}, EthernetType: 0x88b5}
	payload := make([]byte, s.length-14)
	for i := range payload {
		payload[i] = byte(i + s.flow)
	}
	udp := &layers.UDP{SrcPort: layers.UDPPort(40000 + s.flow), DstPort: 9}
	switch s.kind {
	case 0:
		eth.EthernetType = layers.EthernetTypeIPv4
		ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, TOS: 0x28 | s.ecn, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
		return serialize(eth, ip, udp, gopacket.Payload(payload[:s.length-42]))
	case 1:
		eth.EthernetType = layers.EthernetTypeIPv6
		ip := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, TrafficClass: 0x28 | s.ecn, SrcIP: netip.MustParseAddr("fd00::1").AsSlice(), DstIP: netip.MustParseAddr("fd00::2").AsSlice()}
		return serialize(eth, ip, udp, gopacket.Payload(payload[:max(s.length-62, 0)]))
	}
	return serialize(eth, gopacket.Payload(payload))
}

// serialize has gopacket write lengths and checksums.
func serialize(all ...gopacket.SerializableLayer) []byte {
	for i, l := range all {
		udp, ok := l.(*layers.UDP)
		if ok && udp.Checksum == 0 {
			_ = udp.SetNetworkLayerForChecksum(all[i-1].(gopacket.NetworkLayer))
		}
	}
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// twinPort is the destination port of a packet.
func (s *outerSpec) twinPort() uint16 {
	if s.port != 0 {
		return s.port
	}
	if s.geneve {
		return 6081
	}
	return 4789
}

// bytes writes the packet.
func (s *outerSpec) bytes(inner []byte) []byte {
	version := 0
	if s.six {
		version = 1
	}
	src, dst := twinStranger[version], twinOwn[version]
	if s.source >= 0 {
		src = netip.MustParseAddr(twinTunnels[s.source].end)
	}
	if s.foreign {
		dst = twinStranger[version].Next()
	}
	head := make([]byte, 8)
	if s.geneve {
		head[0] = uint8(s.options)
		if s.unset {
			head[0] |= 1 << 6
		}
		if s.control {
			head[1] |= 1 << 7
		}
		if s.critical {
			head[1] |= 1 << 6
		}
		binary.BigEndian.PutUint16(head[2:], s.protocol)
		head = append(head, make([]byte, 4*s.options)...)
	} else if !s.unset {
		head[0] = 8
	}
	binary.BigEndian.PutUint32(head[4:], s.vni<<8)
	payload := gopacket.Payload(append(head, inner...))
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 9, 9, 9, 9, 9}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
	udp := &layers.UDP{SrcPort: 50000, DstPort: layers.UDPPort(s.twinPort())}
	protocol := layers.IPProtocolUDP
	if s.other {
		protocol = 99
	}
	var d []byte
	l4 := 34
	if s.six {
		eth.EthernetType, l4 = layers.EthernetTypeIPv6, 54
		d = serialize(eth, &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol, TrafficClass: s.ecn, SrcIP: src.AsSlice(), DstIP: dst.AsSlice()}, udp, payload)
	} else {
		eth.EthernetType = layers.EthernetTypeIPv4
		ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: protocol, TOS: s.ecn, SrcIP: src.AsSlice(), DstIP: dst.AsSlice()}
		if s.fragment {
			ip.Flags = layers.IPv4MoreFragments
		}
		d = serialize(eth, ip, udp, payload)
	}
	sum := binary.BigEndian.Uint16(d[l4+6:])
	switch s.checksum {
	case 0:
		sum = 0
	case 2:
		if sum++; sum == 0 {
			sum = 0x1234
		}
	}
	binary.BigEndian.PutUint16(d[l4+6:], sum)
	binary.BigEndian.PutUint16(d[l4+4:], binary.BigEndian.Uint16(d[l4+4:])+uint16(s.lengthBy))
	return append(d, make([]byte, s.padding)...)
}

// fate is the number of the tunnel that a packet comes out of, or why it is dropped, by what the documentation says.
func (s *outerSpec) fate(inner []byte) (at int, why packet.Reason) {
	if s.other || s.foreign {
		return 0, tunnel.ReasonUnderlay
	}
	if s.fragment && !s.six {
		return 0, tunnel.ReasonFragment
	}
	if p := s.twinPort(); p != 4789 && p != 6081 {
		return 0, tunnel.ReasonUnderlay
	}
	if s.lengthBy != 0 {
		return 0, tunnel.ReasonMalformed
	}
	if s.unset {
		return 0, tunnel.ReasonMalformed
	}
	if s.geneve && (s.control || s.critical || s.protocol != 0x6558) {
		return 0, tunnel.ReasonOption
	}
	at = -1
	for i, t := range twinTunnels {
		if (t.kind == "geneve") == s.geneve && t.vni == s.vni {
			at = i
		}
	}
	switch {
	case at < 0:
		return 0, tunnel.ReasonUnknownVNI
	case s.checksum == 2, s.checksum == 0 && s.six:
		return 0, tunnel.ReasonChecksum
	case !twinTunnels[at].learn && s.source != at:
		return 0, tunnel.ReasonRemote
	}
	// RFC 6040, 4.2.
	if s.inner.kind != 2 && s.ecn == 3 && s.inner.ecn == 0 {
		return 0, tunnel.ReasonECN
	}
	return at, 0
}

// left is the inner frame as it comes out: with the congestion that was marked outside (RFC 6040, 4.2).
func (s *outerSpec) left(inner []byte) []byte {
	if s.inner.kind == 2 || s.ecn == 0 || s.inner.ecn == 0 || s.inner.ecn == 3 || s.ecn == 2 || s.inner.ecn == s.ecn {
		return inner
	}
	marked := s.inner
	marked.ecn = s.ecn
	return marked.frame()
}

// TestTunnelTwin sends a million packets into tunnels and out of them. What comes out of them, and why others are dropped, is as a plain
// reading of the RFCs has it; what goes in, another's reading finds where it belongs.
func TestTunnelTwin(t *testing.T) {
	rounds := 8000
	if testing.Short() {
		rounds = 400
	}
	s := newTwinBed(t)
	r := rand.New(rand.NewPCG(7, 7))
	fates := map[packet.Reason]int{}
	const each = 64
	for range rounds {
		specs, inners, sent := make([]outerSpec, each), make([][]byte, each), make([][]byte, each)
		for i := range specs {
			specs[i] = drawOuter(r)
			inners[i] = specs[i].inner.frame()
			sent[i] = specs[i].bytes(inners[i])
		}
		out := s.run(0, sent...)
		for i, f := range out[:each] {
			at, why := specs[i].fate(inners[i])
			fates[f.reason]++
			if f.reason != why {
				t.Fatalf("%+v: %s, want %s: %x", specs[i], f.reason, why, sent[i])
			}
			if want := specs[i].left(inners[i]); why == 0 && (f.port != uint16(1+at) || !bytes.Equal(f.data, want)) {
				t.Fatalf("%+v leaves by %d:\n%x, want by %d\n%x", specs[i], f.port, f.data, 1+at, want)
			}
		}
		for k := range 4 { // the last tunnel's stations move with what is sent from anywhere
			for i := range specs {
				specs[i].inner = drawInner(r)
				sent[i] = specs[i].inner.frame()
			}
			for i, f := range s.run(uint16(1+k), sent[:each/4]...)[:each/4] {
				checkEncapsulated(t, k, &specs[i].inner, sent[i], f)
			}
		}
	}
	for _, why := range []packet.Reason{0, tunnel.ReasonUnderlay, tunnel.ReasonFragment, tunnel.ReasonMalformed, tunnel.ReasonOption, tunnel.ReasonUnknownVNI,
		tunnel.ReasonChecksum, tunnel.ReasonRemote, tunnel.ReasonECN} {
		if fates[why] < rounds/8 {
			t.Errorf("only %d packets: %s", fates[why], why)
		}
	}
}

// checkEncapsulated reads what went into tunnel k.
func checkEncapsulated(t *testing.T, k int, spec *innerSpec, inner []byte, f frame) {
	t.Helper()
	tunnel := &twinTunnels[k]
	if f.reason != 0 || f.port != 0 {
		t.Fatalf("%+v: %s, by port %d", spec, f.reason, f.port)
	}
	d := gopacket.NewPacket(f.data, layers.LayerTypeEthernet, gopacket.NoCopy)
	var udp *layers.UDP
	var tos uint8
	var to net.IP
	if tunnel.six {
		ip, ok := d.NetworkLayer().(*layers.IPv6)
		if !ok {
			t.Fatal(d)
		}
		udp, to, tos = d.TransportLayer().(*layers.UDP), ip.DstIP, ip.TrafficClass
		copied := *udp
		copied.Checksum = 0
		again := serialize(d.LinkLayer().(*layers.Ethernet), ip, &copied, gopacket.Payload(udp.Payload))
		if !bytes.Equal(again, f.data) {
			t.Fatalf("%x, with lengths and checksum computed anew %x", f.data, again)
		}
	} else {
		ip, ok := d.NetworkLayer().(*layers.IPv4)
		if !ok {
			t.Fatal(d)
		}
		udp, to, tos = d.TransportLayer().(*layers.UDP), ip.DstIP, ip.TOS
		if ip.Flags != layers.IPv4DontFragment || ip.TTL != 64 || udp.Checksum != 0 || int(udp.Length) != len(udp.Payload)+8 {
			t.Fatalf("%v", d)
		}
		if header.Checksum(f.data[14:34]) != 0 || int(ip.Length) != len(f.data)-14 {
			t.Fatalf("%x", f.data)
		}
	}
	want := make([]byte, 8)
	port := layers.UDPPort(4789)
	if tunnel.kind == "geneve" {
		port = 6081
		want[2], want[3] = 0x65, 0x58
	} else {
		want[0] = 8
	}
	binary.BigEndian.PutUint32(want[4:], tunnel.vni<<8)
	ecn := spec.ecn
	if spec.kind == 2 {
		ecn = 0
	}
	if udp.DstPort != port || udp.SrcPort < 49152 || !bytes.Equal(udp.Payload[:8], want) || !bytes.Equal(udp.Payload[8:], inner) ||
		!to.Equal(netip.MustParseAddr(tunnel.end).AsSlice()) || tos != ecn {
		t.Fatalf("%+v in tunnel %d:\n%v", spec, k, d)
	}
}

// newTwinBed is a switch whose tunnels' ends are known next hops: the underlay's port is 0, stations' ports are 1 on, and those of tunnels follow.
func newTwinBed(t *testing.T) *bed {
	t.Helper()
	c := tunnel.DefaultConfig()
	c.Underlays = []tunnel.Underlay{{Port: "up", Addresses: []string{"192.0.2.1/24", "2001:db8::1/64"}, MAC: "02:00:00:00:00:01"}}
	ports := []pipeline.Port{{Name: "up", MTU: 1500}}
	var tunnels []pipeline.Port
	var pairs patch.Config
	for i, x := range twinTunnels {
		name := fmt.Sprintf("vx%d", i)
		c.Tunnels = append(c.Tunnels, tunnel.Tunnel{Port: name, Kind: x.kind, VNI: int(x.vni), Remotes: []string{x.end}, LearnRemotes: x.learn})
		ports = append(ports, pipeline.Port{Name: fmt.Sprintf("vm%d", i)})
		tunnels = append(tunnels, pipeline.Port{Name: name})
		pairs.Pairs = append(pairs.Pairs, [2]string{fmt.Sprintf("vm%d", i), name})
	}
	env := pipeline.Env{ID: 1, Workers: 1, Ports: append(ports, tunnels...)}
	chain, err := stages.Build([]string{"parse", "tunnel", "patch", "encap"}, map[string]any{"tunnel": &c, "patch": &pairs}, env)
	if err != nil {
		t.Fatal(err)
	}
	stages.Inline(chain)
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 1024, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	s := &bed{t: t, graph: pipeline.NewGraph(chain, 0), batch: packet.NewBatch(pool.NewCache(), 256), now: int64(time.Hour), mac: [6]byte{2, 0, 0, 0, 0, 1}}
	for i, x := range twinTunnels { // each end answers the question for it
		in := innerSpec{kind: 0, length: 60}
		var request []byte
		for _, f := range s.run(uint16(1+i), in.frame()) {
			if f.reason == 0 {
				request = f.data
			}
		}
		peer := newBed(t, uint32(10+i), x.end+map[bool]string{false: "/24", true: "/64"}[x.six], tunnel.Tunnel{Kind: "vxlan", VNI: 9, Remotes: []string{twinOwn[map[bool]int{false: 0, true: 1}[x.six]].String()}}, nil)
		s.run(0, one(t, peer.run(under, request), under))
	}
	return s
}
