package tunnel

import (
	"encoding/binary"
	"fmt"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Explain implements pipeline.Explainer.
func (s *decap) Explain(_ *packet.Batch, p *packet.Packet) string {
	if int(p.InPort) >= len(s.roles) || s.roles[p.InPort].kind != isTunnel {
		return ""
	}
	t := &s.tunnels[s.roles[p.InPort].index]
	return fmt.Sprintf("out of %s %d, enters by %s", t.kind(), t.vni, t.name)
}

// Explain implements pipeline.Explainer.
func (s *encap) Explain(b *packet.Batch, p *packet.Packet) string {
	if int(p.OutPort) >= len(s.roles) {
		return ""
	}
	switch r := s.roles[p.OutPort]; {
	case r.kind == isTunnel && p.Reason != 0:
		return "to " + s.tunnels[r.index].name
	case r.kind == isUnderlay && p.Reason == 0 && p.Proto == header.ProtoGRE && int(p.L4)+erspanLen <= int(p.Len):
		return fmt.Sprintf("into ERSPAN session %d by %s", binary.BigEndian.Uint32(b.Data(p)[p.L4+8:])&maxSession, s.names[p.OutPort])
	case r.kind != isUnderlay || p.Reason != 0 || !p.Flags.Has(packet.FlagPorts):
		return ""
	}
	data := b.Data(p)
	h, key, kind := header.TunnelAt(data, int(p.Payload)), packet.FlowKey{}, "VXLAN"
	if p.DstPort == s.geneve {
		kind = "Geneve"
	}
	key, _ = p.Key(data)
	return fmt.Sprintf("into %s %d: %v to %v by %s, UDP source port %d", kind, h.VNI(), key.SrcAddr(), key.DstAddr(), s.names[p.OutPort], p.SrcPort)
}
