package acl

import (
	"fmt"

	"github.com/weirswitch/weir/pipeline/packet"
)

// Explain implements pipeline.Explainer.
func (s *stage) Explain(b *packet.Batch, p *packet.Packet) string {
	if p.Reason == reasonTinyFragment {
		return "a fragment that keeps its transport header from the rules"
	}
	f := fieldsOf(p, b.Data(p))
	var counting []string
	for i := range s.rules.rules {
		r := &s.rules.rules[i]
		if !r.mayMatch(&f) {
			continue
		}
		if r.action == actionCount {
			counting = append(counting, r.name)
			continue
		}
		who := fmt.Sprintf("rule %q", r.name)
		if !r.matches(&f) {
			who = fmt.Sprintf("%s, which looks at %s, and that could not be parsed:", who, f.unknown)
		}
		return explained(who, r.action == actionPermit, counting)
	}
	return explained("no rule, so the default", s.rules.permit, counting)
}

func explained(who string, permit bool, counting []string) string {
	does := "denies it"
	if permit {
		does = "permits it"
	}
	if counting == nil {
		return who + " " + does
	}
	return fmt.Sprintf("%s %s; counted by %q", who, does, counting)
}
