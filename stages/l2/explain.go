package l2

import (
	"fmt"

	"github.com/weirswitch/weir/pipeline/packet"
)

// Explain implements pipeline.Explainer. It looks the destination up again, so
// in the moment of learning it may know more than the decision did.
func (s *stage) Explain(b *packet.Batch, p *packet.Packet) string {
	if p.OutPort == packet.NoPort && s.ports[p.InPort].outside {
		return ""
	}
	vlan := s.vlanBehind(p)
	dst, src := addresses(b, p, vlan)
	text := fmt.Sprintf("%s, %s on %s to %s", s.vlanText(vlan), keyMAC(src), s.portName(p.InPort), keyMAC(dst))
	if p.OutPort >= flooded {
		return text
	}
	how := "known"
	t := s.fdb
	switch at, _, entry := t.find(t.mix(dst)); {
	case dst&macGroup != 0:
		how = s.explainGroup(b, p, vlan)
	case at == nil || p.Flags.Has(packet.FlagCopy) || t.port(entry) != p.OutPort:
		how = "unknown, flooded"
	case entry&t.static != 0:
		how = "static"
	}
	if s.ports[p.OutPort].routed {
		return fmt.Sprintf("%s: %s, to the router by %s", text, how, s.portName(p.OutPort))
	}
	return fmt.Sprintf("%s: %s, leaves by %s", text, how, s.portName(p.OutPort))
}

// vlanBehind returns the VLAN of a packet that Process has left with the tag of
// its output port, or untouched if it has none.
func (s *stage) vlanBehind(p *packet.Packet) uint16 {
	if p.OutPort >= flooded {
		return s.ports[p.InPort].classify(p)
	}
	return s.ports[p.OutPort].classify(p)
}

func (s *stage) portName(n uint16) string { return s.names[n] }

func (s *settings) vlanText(vlan uint16) string {
	if s.domains != nil {
		if int(vlan) < len(s.domains) {
			return "domain " + s.domains[vlan]
		}
		return "no domain"
	}
	if vlan == 0 {
		return "untagged"
	}
	return fmt.Sprintf("vlan %d", vlan)
}
