package parse

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

var _ pipeline.Explainer = (*stage)(nil)

func TestExplain(t *testing.T) {
	const link = "Ethernet 02:00:00:00:00:01 > 02:00:00:00:00:02, "
	_, s := newStage(t, DefaultConfig(), 0)
	b := newBatch(t, 4)
	addr, _ := b.Frames.AllocOne()
	for name, want := range map[string]string{
		"TCP":                 link + "IPv4 10.0.0.1 > 10.0.0.2 TCP 1000 > 2000, TTL 64",
		"802.1ad":             "Ethernet 02:00:00:00:00:01 > 02:00:00:00:00:02, VLAN 10 and inner tags, IPv4 10.0.0.1 > 10.0.0.2 UDP 1000 > 2000, TTL 64",
		"IPv6 first fragment": link + "IPv6 2001:db8::1 > 2001:db8::2 UDP 1000 > 2000, TTL 61, options, first fragment",
		"later fragment":      link + "IPv4 10.0.0.1 > 10.0.0.2 UDP, TTL 64, later fragment",
		"UDP length below header": link + "IPv4 10.0.0.1 > 10.0.0.2 UDP, TTL 64, " +
			"malformed: udp_length (the UDP length is below 8 bytes, or exceeds the IP packet)",
		"16 extension headers": link + "IPv6 2001:db8::1 > 2001:db8::2 UDP 1000 > 2000, TTL 61, options",
		"IPv4 version":         link + "EtherType 0x0800, malformed: ipv4_version (EtherType 0x0800 with another version than 4)",
		"ARP":                  link + "ARP who has 0.0.0.0, tell 0.0.0.0",
		"LLC":                  link + "802.3 length 38",
		"MPLS":                 link + "MPLS",
		"unknown type":         link + "EtherType 0x88cc",
	} {
		found := false
		for _, c := range packets {
			if c.name != name {
				continue
			}
			found = true
			b.Reset()
			p := b.Append()
			p.Addr = addr
			p.Len = uint32(copy(b.Mem[addr:], c.data))
			p.WireLen = p.Len
			s.Process(b)
			if got := s.Explain(b, p); got != want {
				t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
			}
		}
		if !found {
			t.Errorf("no packet is called %q", name)
		}
	}
	// Every packet can be explained, runts too.
	for _, c := range packets {
		for n := range len(c.data) {
			b.Reset()
			p := b.Append()
			p.Addr, p.Len, p.WireLen = addr, uint32(copy(b.Mem[addr:], c.data[:n])), uint32(len(c.data))
			s.Process(b)
			if got := s.Explain(b, p); got == "" || strings.Contains(got, "%!") || (n < 14) != (p.Reason == reasonRunt) {
				t.Errorf("%s, first %d bytes: %q, reason %s", c.name, n, got, packet.Reason(p.Reason))
			}
		}
	}
}
