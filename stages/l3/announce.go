package l3

import (
	"net/netip"

	"github.com/weirswitch/weir/pipeline/header"
)

// Announce implements pipeline.Announcer: the port's own addresses, by ARP announcements (RFC 5227, 3) and unsolicited neighbour advertisements (RFC
// 4861, 7.2.6).
func (m *Module) Announce(port uint16, send func(frame []byte)) {
	ports := m.tables.Load().ports
	if int(port) >= len(ports) || ports[port].routed { // a routed interface's domain announces it
		return
	}
	p := &ports[port]
	for _, prefix := range p.prefixes {
		if a := prefix.Addr(); a.Is4() {
			send(announce4(p.hardware(), a.As4()))
		} else {
			send(announce6(p.hardware(), a))
		}
	}
	if p.local6.IsValid() {
		send(announce6(p.hardware(), p.local6))
	}
}

func announce4(own [6]byte, a [4]byte) []byte {
	const length = 60 // the least Ethernet frame without FCS
	frame := make([]byte, length)
	eth := header.EthernetAt(frame, 0)
	eth.SetDst([6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	eth.SetSrc(own)
	eth.SetType(header.TypeARP)
	header.ARPAt(frame, header.EthernetLen).Init(header.ARPRequest, own, a, [6]byte{}, a)
	return frame
}

func announce6(own [6]byte, a netip.Addr) []byte {
	const n = header.NeighbourLen + header.NeighbourOptLen
	all := netip.IPv6LinkLocalAllNodes().As16()
	frame := make([]byte, plain6+n)
	eth := header.EthernetAt(frame, 0)
	eth.SetDst(header.MulticastMAC6(all))
	eth.SetSrc(own)
	eth.SetType(header.TypeIPv6)
	ip := header.IPv6At(frame, header.EthernetLen)
	ip.Init(a.As16(), all, header.ProtoICMPv6, linkHopLimit, n)
	message := frame[plain6:]
	icmp := header.ICMPAt(message, 0)
	icmp.Init(header.ICMPv6NeighbourAdvert, 0, header.NeighbourRouter|header.NeighbourOverride)
	header.NeighbourAt(message, 0).SetTarget(a.As16())
	header.PutLinkOption((*[header.NeighbourOptLen]byte)(message[header.NeighbourLen:]), header.OptTargetLink, own)
	icmp.SetChecksum(^header.Sum(message, header.PseudoSum6(ip, header.ProtoICMPv6, n)))
	return frame
}
