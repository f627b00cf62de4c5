package forward

import (
	"encoding/binary"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// TestTunnelledPackets: what the far guest sends are packets of VXLAN, by another's reading, with as many outer ports as flows are likely to have.
func TestTunnelledPackets(t *testing.T) {
	p := make([]byte, vxlanExtra+60)
	writeOuter(p)
	writeGuestPacket(p[vxlanExtra:], 1)
	ports := map[layers.UDPPort]bool{}
	for i := range uint32(1000) {
		flow := (guestPort+i)<<16 | guestPort
		writeEntropy(p, flow)
		writeFlow(p[vxlanExtra:], flow, flow)
		parsed := gopacket.NewPacket(p, layers.LayerTypeEthernet, gopacket.Default)
		if len(parsed.Layers()) < 7 {
			t.Fatal(parsed)
		}
		outer, inner := parsed.Layers()[1].(*layers.IPv4), parsed.Layers()[5].(*layers.IPv4)
		udp, vxlan := parsed.Layers()[2].(*layers.UDP), parsed.Layers()[3].(*layers.VXLAN)
		if int(outer.Length) != len(p)-14 || int(udp.Length) != len(p)-34 || vxlan.VNI != vxlanVNI || !vxlan.ValidIDFlag || inner.SrcIP.String() != "10.0.0.2" || udp.SrcPort < 49152 {
			t.Fatalf("%v", parsed)
		}
		if got := binary.BigEndian.Uint32(p[vxlanExtra+guestFlowAt:]); got != flow {
			t.Fatalf("the packet is of flow %d, not %d", got, flow)
		}
		ports[udp.SrcPort] = true
	}
	if len(ports) < 900 {
		t.Errorf("1,000 flows have %d outer ports", len(ports))
	}
	n := writeIntroduction(p)
	arp, ok := gopacket.NewPacket(p[:n], layers.LayerTypeEthernet, gopacket.Default).Layer(layers.LayerTypeARP).(*layers.ARP)
	if !ok || arp.Operation != layers.ARPReply || [4]byte(arp.SourceProtAddress) != vxlanFar.As4() || [6]byte(arp.SourceHwAddress) != vxlanFarMAC {
		t.Errorf("the introduction is %v", arp)
	}
}
