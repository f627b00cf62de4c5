package records

import (
	"net/netip"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/l3"
)

// Why a packet is the control plane's own.
const (
	PuntARP       = "arp"                 // requests and replies, which are not answered
	PuntDiscovery = "neighbour_discovery" // as ARP
	PuntForUs     = "to_the_switch"       // to one of its addresses, link-local ones apart
	PuntNeighbour = "neighbour_unknown"   // the next hop has no MAC address in the tables
	PuntChecksum  = "bad_checksum"        // a message of neighbour discovery whose checksum is wrong: the program cannot sum up a payload
)

// punts counts packets that a router hands to its control plane, which does nothing with them.
type punts struct {
	own    map[netip.Addr]bool
	counts map[string]uint64
}

func newPunts(c *l3.Config) *punts {
	p := &punts{own: map[netip.Addr]bool{}, counts: map[string]uint64{}}
	if c == nil {
		return p
	}
	for _, i := range c.Interfaces {
		for _, text := range i.Addresses {
			if a, err := netip.ParsePrefix(text); err == nil {
				p.own[a.Addr()] = true
			}
		}
	}
	return p
}

// count counts a parsed packet by its reason.
func (n *punts) count(data []byte, p *packet.Packet) { n.counts[n.reason(data, p)]++ }

func (n *punts) reason(data []byte, p *packet.Packet) string {
	switch k, ok := p.Key(data); {
	case p.Flags.Has(packet.FlagARP) || p.EtherType == header.TypeARP:
		return PuntARP
	case l3.Discovery(p, data):
		if l3.DiscoveryChecksum(p, data) {
			return PuntDiscovery
		}
		return PuntChecksum
	case ok && n.own[k.DstAddr()]:
		return PuntForUs
	}
	return PuntNeighbour
}
