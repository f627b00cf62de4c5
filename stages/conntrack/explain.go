package conntrack

import (
	"fmt"
	"net/netip"

	"github.com/weirswitch/weir/pipeline/packet"
)

// Explain implements pipeline.Explainer. It looks the connection up again, behind the packet, so it shows the state that the packet has led to.
func (s *stage) Explain(b *packet.Batch, p *packet.Packet) string {
	var l look
	kind := s.keyOf(&l, p, b.Data(p))
	group := "no group"
	if name := s.groups[s.byPort[p.InPort]].name; name != "" {
		group = fmt.Sprintf("group %q", name)
	}
	switch {
	case kind == kindPass:
		return "not tracked"
	case kind == kindInvalid:
		return "cannot be tracked: a header is missing or contradicts itself"
	case kind == kindLater:
		return "a later fragment, which shares the fate of the first"
	case p.Reason == reasonDenied:
		return fmt.Sprintf("%s of port %s denies it", group, s.portName(p.InPort))
	}
	l.tag = uint32(l.key.hash(&s.table.seed))
	n, byAlias := s.table.find(&l.key, l.tag)
	if n == none {
		return "belongs to no connection"
	}
	e := &s.table.entries[n]
	t := e.key.tuple(e.flags&flagFromFirst != 0)
	text := fmt.Sprintf("%s > %s protocol %d, begun from %s: %s", t.end(true), t.end(false), t.proto, s.portName(e.inPort), e.stateName())
	if e.flags&flagTranslated != 0 {
		a := &s.table.aliases[n]
		other := a.key.tuple(a.fromFirst)
		text += fmt.Sprintf(", translated to %s > %s", other.end(true), other.end(false))
	}
	switch {
	case kind == kindError:
		return "an error about a packet of " + text
	case s.table.direction(n, &l, byAlias) != 0:
		return text + ", an answer"
	}
	return fmt.Sprintf("%s, permitted by %s", text, group)
}

// end returns one end as text.
func (t *tuple) end(source bool) string {
	a, port := t.dst, t.dstPort
	if source {
		a, port = t.src, t.srcPort
	}
	if !t.ports {
		return a.String()
	}
	return netip.AddrPortFrom(a, port).String()
}
