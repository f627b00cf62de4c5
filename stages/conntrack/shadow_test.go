package conntrack

import (
	"slices"
	"testing"
)

// TestUnreachable: rules that contradict themselves, and those that one before covers, are named, and no others.
func TestUnreachable(t *testing.T) {
	const shadowed = "group[0].rule[1]: no packet reaches it: rule[0] decides all that it matches: put it before that one, or remove it"
	for _, tt := range []struct {
		what  string
		rules []Rule
		want  string
	}{
		{"all before one", []Rule{{Action: Permit}, {Action: Deny, Dst: "10.0.0.1"}}, shadowed},
		{"one before all", []Rule{{Action: Permit, Dst: "10.0.0.1"}, {Action: Deny}}, ""},
		{"a larger network and range", []Rule{{Action: Deny, Src: "10.0.0.0/8", Protocol: "udp", DstPort: "1-99"}, {Action: Permit, Src: "10.1.0.0/16", Protocol: "udp", DstPort: "53"}}, shadowed},
		{"another protocol", []Rule{{Action: Deny, Protocol: "udp"}, {Action: Permit, Protocol: "tcp"}}, ""},
		{"any protocol behind one", []Rule{{Action: Deny, Protocol: "udp"}, {Action: Permit}}, ""},
		{"all ports, which ICMP has not", []Rule{{Action: Deny, DstPort: "0-65535"}, {Action: Permit, Protocol: "icmp"}}, ""},
		{"ports of ICMP", []Rule{{Action: Deny, Protocol: "icmp", DstPort: "8"}},
			"group[0].rule[0]: no packet matches it: packets of protocol 1 have no ports: leave src_port and dst_port out, or name tcp, udp or sctp"},
		{"ICMP of the other version", []Rule{{Action: Permit, Protocol: "icmp", Src: "2001:db8::/32"}},
			"group[0].rule[0]: no packet matches it: protocol icmp is of IPv4, and 2001:db8::/32 of IPv6: write icmpv6"},
	} {
		c := DefaultConfig()
		c.Groups = []Group{{Name: "g", Ports: []string{"p0"}, Default: Deny, Rules: tt.rules}}
		if err := c.Validate([]string{"p0"}); err != nil {
			t.Fatalf("%s: %v", tt.what, err)
		}
		var want []string
		if tt.want != "" {
			want = []string{tt.want}
		}
		if got := c.Warnings(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tt.what, got, want)
		}
	}
}
