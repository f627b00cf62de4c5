package parse

import (
	"fmt"
	"net"
	"strings"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Explain implements pipeline.Explainer: the headers from the outside to the
// inside, and what is wrong with them.
func (s *stage) Explain(b *packet.Batch, p *packet.Packet) string {
	data := b.Data(p)
	if len(data) < header.EthernetLen {
		return fmt.Sprintf("%d bytes", len(data))
	}
	parts := []string{explainLink(p, data)}
	switch key, ok := p.Key(data); {
	case ok:
		parts = append(parts, explainIP(p, key))
	case p.Flags.Has(packet.FlagARP):
		parts = append(parts, explainARP(header.ARPAt(data, int(p.L3))))
	default:
		parts = append(parts, explainType(p.EtherType))
	}
	if p.Flags.Has(packet.FlagMalformed) {
		again := *p // the fault is counted, not kept: parse once more
		fault := headers(&again, data)
		parts = append(parts, fmt.Sprintf("malformed: %s (%s)", fault, fault.Help()))
	}
	return strings.Join(parts, ", ")
}

func explainLink(p *packet.Packet, data []byte) string {
	eth := header.EthernetAt(data, 0)
	src, dst := eth.Src(), eth.Dst()
	text := fmt.Sprintf("Ethernet %s > %s", net.HardwareAddr(src[:]), net.HardwareAddr(dst[:]))
	if p.Flags.Has(packet.FlagVLAN) {
		text += fmt.Sprintf(", VLAN %d", p.VLAN&0xfff)
	}
	if p.Flags.Has(packet.FlagQinQ) {
		text += " and inner tags"
	}
	return text
}

func explainIP(p *packet.Packet, k packet.FlowKey) string {
	text := fmt.Sprintf("IPv%d %s > %s ", k.Version, k.SrcAddr(), k.DstAddr())
	if name, ok := protoNames[p.Proto]; ok {
		text += name
	} else {
		text += fmt.Sprintf("protocol %d", p.Proto)
	}
	if p.Flags.Has(packet.FlagPorts) {
		text += fmt.Sprintf(" %d > %d", p.SrcPort, p.DstPort)
	}
	text += fmt.Sprintf(", TTL %d", p.TTL)
	if p.Flags.Has(packet.FlagIPOptions) {
		text += ", options"
	}
	switch {
	case p.Flags.Has(packet.FlagLaterFragment):
		text += ", later fragment"
	case p.Flags.Has(packet.FlagFragment):
		text += ", first fragment"
	}
	return text
}

func explainARP(a *header.ARP) string {
	sender, target := net.IP(a[14:18]), net.IP(a[24:28])
	switch a.Op() {
	case header.ARPRequest:
		return fmt.Sprintf("ARP who has %s, tell %s", target, sender)
	case header.ARPReply:
		hw := a.SenderHW()
		return fmt.Sprintf("ARP %s is at %s", sender, net.HardwareAddr(hw[:]))
	}
	return fmt.Sprintf("ARP operation %d", a.Op())
}

func explainType(etherType uint16) string {
	switch {
	case etherType < header.MinEtherType:
		return fmt.Sprintf("802.3 length %d", etherType)
	case etherType == header.TypeMPLS || etherType == header.TypeMPLSMulticast:
		return "MPLS"
	}
	return fmt.Sprintf("EtherType 0x%04x", etherType)
}

var protoNames = map[uint8]string{
	header.ProtoICMP:    "ICMP",
	header.ProtoIGMP:    "IGMP",
	header.ProtoTCP:     "TCP",
	header.ProtoUDP:     "UDP",
	header.ProtoDCCP:    "DCCP",
	header.ProtoIPv6:    "IPv6",
	header.ProtoGRE:     "GRE",
	header.ProtoESP:     "ESP",
	header.ProtoAH:      "AH",
	header.ProtoICMPv6:  "ICMPv6",
	header.ProtoNoNext:  "no next header",
	header.ProtoSCTP:    "SCTP",
	header.ProtoUDPLite: "UDP-Lite",
}
