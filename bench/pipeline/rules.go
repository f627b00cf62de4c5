package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weirswitch/weir/stages/acl"
)

// Variant is a configuration with which a stage is measured beside its own, in the
// same rounds.
type Variant struct {
	Name   string
	Config any
	// Over names an earlier variant, over whose cost this one's is reported; empty: none.
	Over string
}

// ruleCounts are the sizes of access control lists that acl is measured with.
var ruleCounts = []int{10, 1000, 10_000}

// ACLVariants returns access control lists of 10, 1,000 and 10,000 rules, each the
// beginning of the next, and the same of rules that overlap by the thousand.
func ACLVariants(seed uint64) []Variant {
	r := rand.New(rand.NewPCG(seed, 0x61636c))
	return slices.Concat(lists("rules", r, randomRule), lists("overlapping", r, overlappingRule))
}

// lists are lists of all sizes of the rules that draw draws.
func lists(name string, r *rand.Rand, draw func(*rand.Rand) acl.Rule) (all []Variant) {
	c := acl.DefaultConfig()
	for i, n := range ruleCounts {
		for len(c.Rules) < n {
			c.Rules = append(c.Rules, draw(r))
		}
		list := c
		list.Rules = c.Rules[:n:n]
		v := Variant{Name: fmt.Sprint(name, n), Config: &list}
		if i > 0 {
			v.Over = all[0].Name
		}
		all = append(all, v)
	}
	return all
}

// randomRule draws a rule as firewalls have them: a service, at a host or in a small
// network of the workload's destinations, for all the world or for a network of the
// sources. Those for UDP, which the packets are, permit, and the others deny, so nothing
// is dropped, and the next stage works the same with any list.
func randomRule(r *rand.Rand) acl.Rule {
	rule := acl.Rule{Action: acl.Permit, Protocol: "udp", Dst: randomPrefix(r, 19, 24, 32)}
	if r.IntN(2) == 0 {
		rule.Action, rule.Protocol = acl.Deny, "tcp"
	}
	if r.IntN(2) == 0 {
		rule.Src = randomPrefix(r, 18, 16, 32)
	}
	low := 1 + r.IntN(65_000)
	if rule.DstPort = fmt.Sprint(low); r.IntN(4) == 0 {
		rule.DstPort = fmt.Sprintf("%d-%d", low, min(low+r.IntN(1000), 65_535))
	}
	return rule
}

// randomPrefix draws a network of 198.second.0.0/16.
func randomPrefix(r *rand.Rand, second byte, least, most int) string {
	bits := least + r.IntN(most-least+1)
	host := r.Uint32N(1<<16) >> (32 - bits) << (32 - bits)
	return fmt.Sprintf("198.%d.%d.%d/%d", second, host>>8, host&255, bits)
}

// overlappingRule draws a rule that leaves out what it can, and of which thousands
// match the same address: the worst that a list can be.
func overlappingRule(r *rand.Rand) acl.Rule {
	rule := randomRule(r)
	if rule.Dst = ""; r.IntN(2) == 0 {
		rule.Dst = randomPrefix(r, 19, 16, 20)
	}
	rule.SrcPort = fmt.Sprintf("%d-%d", 1+r.IntN(30_000), 35_000+r.IntN(30_000))
	return rule
}
