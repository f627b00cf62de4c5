package acl

import (
	"strings"
	"testing"
)

// TestShadowed: a rule that an earlier one wholly covers is named, and no other.
func TestShadowed(t *testing.T) {
	for _, tt := range []struct {
		what          string
		first, second Rule
		want          bool
	}{
		{"all before one", Rule{Action: Permit}, Rule{Action: Deny, Dst: "10.0.0.1"}, true},
		{"one before all", Rule{Action: Permit, Dst: "10.0.0.1"}, Rule{Action: Deny}, false},
		{"the same twice", Rule{Action: Deny, Protocol: "tcp", DstPort: "80"}, Rule{Action: Permit, Protocol: "tcp", DstPort: "80"}, true},
		{"a larger network", Rule{Action: Deny, Src: "10.0.0.0/8"}, Rule{Action: Permit, Src: "10.1.0.0/16"}, true},
		{"a smaller network", Rule{Action: Deny, Src: "10.1.0.0/16"}, Rule{Action: Permit, Src: "10.0.0.0/8"}, false},
		{"of another family", Rule{Action: Deny, Src: "0.0.0.0/0"}, Rule{Action: Permit, Src: "2001:db8::/64"}, false},
		{"a larger range", Rule{Action: Deny, Protocol: "udp", DstPort: "1-100"}, Rule{Action: Permit, Protocol: "udp", DstPort: "53"}, true},
		{"ranges that overlap", Rule{Action: Deny, Protocol: "udp", DstPort: "1-100"}, Rule{Action: Permit, Protocol: "udp", DstPort: "53-200"}, false},
		{"all ports, which fragments have not", Rule{Action: Deny, Protocol: "udp", DstPort: "0-65535"}, Rule{Action: Permit, Protocol: "udp"}, false},
		{"a count", Rule{Action: Count}, Rule{Action: Deny, Dst: "10.0.0.1"}, false},
		{"more ports", Rule{Action: Deny, InPorts: []string{"p0", "p1"}}, Rule{Action: Permit, InPorts: []string{"p1"}}, true},
		{"one port", Rule{Action: Deny, InPorts: []string{"p0"}}, Rule{Action: Permit}, false},
		{"a tag and none", Rule{Action: Deny, VLAN: "5"}, Rule{Action: Permit, VLAN: "none"}, false},
		{"any tag", Rule{Action: Deny}, Rule{Action: Permit, VLAN: "5"}, true},
		{"a shorter mask", Rule{Action: Deny, SrcMAC: "02:00:00:00:00:00/ff:00:00:00:00:00"}, Rule{Action: Permit, SrcMAC: "02:00:00:00:00:01"}, true},
		{"another address", Rule{Action: Deny, SrcMAC: "02:00:00:00:00:02"}, Rule{Action: Permit, SrcMAC: "02:00:00:00:00:01"}, false},
		{"fewer flags", Rule{Action: Deny, Protocol: "tcp", TCPFlags: "syn"}, Rule{Action: Permit, Protocol: "tcp", TCPFlags: "syn,!ack"}, true},
		{"more flags", Rule{Action: Deny, Protocol: "tcp", TCPFlags: "syn,!ack"}, Rule{Action: Permit, Protocol: "tcp", TCPFlags: "syn"}, false},
	} {
		c := Config{Default: Permit, Rules: []Rule{tt.first, tt.second}}
		if err := c.Validate([]string{"p0", "p1"}); err != nil {
			t.Fatalf("%s: %v", tt.what, err)
		}
		if got := c.Warnings(); (len(got) == 1 && strings.HasPrefix(got[0], "rule[1]: no packet reaches it: rule[0], ")) != tt.want || !tt.want && len(got) != 0 {
			t.Errorf("%s: %q, want a warning: %v", tt.what, got, tt.want)
		}
	}
}

// TestContradictions: a rule that no packet matches is named with the reason, and no other.
func TestContradictions(t *testing.T) {
	for _, tt := range []struct {
		rule Rule
		want string
	}{
		{Rule{EtherType: "arp", Dst: "10.0.0.1"}, "ARP has no addresses"},
		{Rule{EtherType: "arp", Protocol: "tcp"}, "ARP has no addresses"},
		{Rule{EtherType: "arp", SrcMAC: "02:00:00:00:00:01", VLAN: "5"}, ""},
		{Rule{EtherType: "ipv4", Src: "2001:db8::/32"}, "the other IP version than 2001:db8::/32"},
		{Rule{EtherType: "ipv6", Dst: "10.0.0.0/8"}, "the other IP version than 10.0.0.0/8"},
		{Rule{EtherType: "ipv6", Dst: "2001:db8::/32"}, ""},
		{Rule{Protocol: "icmp", DstPort: "80"}, "have no ports"},
		{Rule{Protocol: "sctp", SrcPort: "80"}, ""},
		{Rule{DstPort: "80"}, ""},
		{Rule{Protocol: "icmp", Dst: "2001:db8::/32"}, "write icmpv6"},
		{Rule{Protocol: "icmpv6", Src: "10.0.0.0/8"}, "write icmp"},
		{Rule{Protocol: "icmpv6", Src: "2001:db8::/32"}, ""},
	} {
		tt.rule.Action = Permit
		c := Config{Default: Deny, Rules: []Rule{tt.rule}}
		if err := c.Validate(nil); err != nil {
			t.Fatalf("%+v: %v", tt.rule, err)
		}
		got := strings.Join(c.Warnings(), "; ")
		if tt.want == "" && got != "" || tt.want != "" && (!strings.HasPrefix(got, "rule[0]: no packet matches it: ") || !strings.Contains(got, tt.want)) {
			t.Errorf("%+v: %q, want %q", tt.rule, got, tt.want)
		}
	}
}
