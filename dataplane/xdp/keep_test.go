package xdp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseKeep(t *testing.T) {
	for _, test := range []struct {
		entries string
		want    Keep
	}{
		{"", Keep{}},
		{"arp", Keep{EtherTypes: []uint16{0x0806}}},
		{"lldp ethertype/0x88cc ethertype/35020", Keep{EtherTypes: []uint16{0x88cc, 0x88cc, 0x88cc}}},
		{"icmp icmpv6 ospf proto/89 proto/0", Keep{Protocols: []uint8{1, 58, 89, 89, 0}}},
		{"ssh tcp/22 udp/67 tcp/0xffff", Keep{Ports: []Transport{{6, 22}, {6, 22}, {17, 67}, {6, 65535}}}},
	} {
		got, err := ParseKeep(strings.Fields(test.entries))
		if err != nil {
			t.Errorf("%q: %v", test.entries, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q: %s", test.entries, diff)
		}
		if got.Empty() != (test.entries == "") {
			t.Errorf("%q: Empty is %v", test.entries, got.Empty())
		}
	}
}

func TestParseKeepFaults(t *testing.T) {
	for _, entry := range []string{
		"", "ARP", "arp/1", "ssh/22", "ethertype", "ethertype/", "ethertype/0x5ff", "ethertype/0x10000", "ethertype/-1",
		"proto/256", "proto/tcp", "tcp/0", "tcp/65536", "udp/22 ", "tcp/0x", "sctp/1", "tcp/+1", "tcp/1_0",
	} {
		if keep, err := ParseKeep([]string{"arp", entry}); err == nil {
			t.Errorf("%q gives %+v", entry, keep)
		} else if !strings.Contains(err.Error(), `"`+entry+`"`) {
			t.Errorf("%q: error %q does not name it", entry, err)
		}
	}
	// All faults come at once.
	if _, err := ParseKeep([]string{"x", "y"}); err == nil || !strings.Contains(err.Error(), `"x"`) || !strings.Contains(err.Error(), `"y"`) {
		t.Errorf("error %v", err)
	}
	for entry, most := range map[string]int{"lldp": maxEtherTypes, "udp/53": maxPorts} {
		entries := strings.Fields(strings.Repeat(entry+" ", most+1))
		if _, err := ParseKeep(entries[:most]); err != nil {
			t.Errorf("%d of %q: %v", most, entry, err)
		}
		if _, err := ParseKeep(entries); err == nil {
			t.Errorf("%d of %q are accepted", most+1, entry)
		}
	}
}

func FuzzParseKeep(f *testing.F) {
	for _, seed := range []string{"arp ssh", "ethertype/0x88cc proto/89", "tcp/1 udp/65535", "tcp/ /"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries := strings.Fields(text)
		keep, err := ParseKeep(entries)
		if err != nil {
			if !keep.Empty() {
				t.Errorf("%q: both %+v and error %v", text, keep, err)
			}
			return
		}
		if n := len(keep.EtherTypes) + len(keep.Protocols) + len(keep.Ports); n != len(entries) || keep.Validate() != nil {
			t.Errorf("%q: %+v", text, keep)
		}
	})
}
