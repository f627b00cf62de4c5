package conntrack

import (
	"fmt"

	"github.com/weirswitch/weir/pipeline/ipmatch"
)

// Warnings names the rules of groups that no packet matches, as what they want contradicts itself, and those that none reaches, as
// a rule of the group before decides all that they match. Of rules that only several others together cover it says nothing.
func (c *Config) Warnings() (all []string) {
	for i := range c.Groups {
		var errs faults
		var rules []rule
		for j := range c.Groups[i].Rules {
			rules = append(rules, c.Groups[i].Rules[j].compile("", &errs))
		}
		if errs != nil {
			continue // Validate says it
		}
		for j := range rules {
			if why := rules[j].contradiction(); why != "" {
				all = append(all, fmt.Sprintf("group[%d].rule[%d]: no packet matches it: %s", i, j, why))
				continue
			}
			for k := range rules[:j] {
				if rules[k].covers(&rules[j]) {
					all = append(all, fmt.Sprintf("group[%d].rule[%d]: no packet reaches it: rule[%d] decides all that it matches: put it before that one, or remove it", i, j, k))
					break
				}
			}
		}
	}
	return all
}

func (r *rule) contradiction() string {
	return ipmatch.Contradiction(r.src, r.dst, uint16(r.proto), r.anyProto, r.srcPort.Needed || r.dstPort.Needed)
}

// covers reports whether all connections that o matches match r too.
func (r *rule) covers(o *rule) bool {
	return (r.anyProto || !o.anyProto && r.proto == o.proto) &&
		ipmatch.CoversPrefix(r.src, o.src) && ipmatch.CoversPrefix(r.dst, o.dst) && r.srcPort.Covers(o.srcPort) && r.dstPort.Covers(o.dstPort)
}
