package ipmatch

import (
	"strings"
	"testing"
)

func TestPrefix(t *testing.T) {
	for text, want := range map[string]string{
		"": "invalid Prefix", "10.0.0.0/8": "10.0.0.0/8", "10.1.2.3": "10.1.2.3/32", "2001:db8::1": "2001:db8::1/128", "::ffff:10.0.0.1": "10.0.0.1/32",
	} {
		if p, err := Prefix(text); err != nil || p.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, p, err, want)
		}
	}
	for text, want := range map[string]string{
		"10.0.0.1/8": "write 10.0.0.0/8", "::ffff:10.0.0.0/104": "no IP prefix", "fe80::1%eth0": "no IP prefix", "ten": "no IP prefix",
	} {
		if _, err := Prefix(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

func TestPortRange(t *testing.T) {
	for text, want := range map[string]Ports{"": AnyPort, "80": {80, 80, true}, "0-65535": {0, 65535, true}} {
		if r, err := PortRange(text); err != nil || r != want {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"81-80", "65536", "-1", "80-", "http"} {
		if r, err := PortRange(text); err == nil {
			t.Errorf("%q: %v", text, r)
		}
	}
	if r := (Ports{10, 20, true}); r.Matches(9, true) || !r.Matches(10, true) || !r.Matches(20, true) || r.Matches(21, true) || r.Matches(15, false) {
		t.Error("the range 10-20 matches others than 10 to 20")
	}
	if !AnyPort.Matches(0, false) {
		t.Error("a packet without ports does not match any")
	}
}

func TestNumber(t *testing.T) {
	if n, any, err := Number("tcp", 255, Protocols); n != 6 || any || err != nil {
		t.Error(n, any, err)
	}
	if n, any, err := Number("0x2f", 255, Protocols); n != 47 || any || err != nil {
		t.Error(n, any, err)
	}
	if _, any, err := Number("", 255, Protocols); !any || err != nil {
		t.Error(any, err)
	}
	if _, _, err := Number("256", 255, Protocols); err == nil || !strings.Contains(err.Error(), "icmp, icmpv6, sctp, tcp, udp") {
		t.Error(err)
	}
}
