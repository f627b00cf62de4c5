package filter

import (
	"encoding/hex"
	"strings"
	"testing"
)

// Frames, in hexadecimal, without payload.
const (
	macs  = "020000000002" + "020000000001"
	tcp4  = macs + "0800" + "4500002800010000400600000a0000010a000002" + "04d20050" + "0000000000000000" + "50020000" + "00000000"
	udp4  = macs + "0800" + "4500001c00010000401100000a0000010a010002" + "00350035" + "00080000"
	later = macs + "0800" + "4500001c00010005401100000a0000010a010002" + "00350035" + "00080000"
	vlan  = macs + "8100000a" + "0800" + "4500001c00010000401100000a0000010a010002" + "14e90035" + "00080000"
	arp   = macs + "0806" + "0001080006040001"
	udp6  = macs + "86dd" + "60000000000811fffd000000000000000000000000000001fd000000000000000000000000000002" + "00350400" + "00080000"
	ext6  = macs + "86dd" + "60000000001000fffd000000000000000000000000000001fd000000000000000000000000000002" + "1100000000000000" + "00350400" + "00080000"
	frag6 = macs + "86dd" + "6000000000102cfffd000000000000000000000000000001fd000000000000000000000000000002" + "1100001000000001" + "00350400" + "00080000"
)

func bytesOf(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMatch(t *testing.T) {
	all := map[string]string{"tcp4": tcp4, "udp4": udp4, "later": later, "vlan": vlan, "arp": arp, "udp6": udp6, "ext6": ext6, "frag6": frag6}
	for filter, want := range map[string]string{
		"":                            "arp ext6 frag6 later tcp4 udp4 udp6 vlan",
		"tcp":                         "tcp4",
		"udp":                         "ext6 frag6 later udp4 udp6 vlan",
		"ip6":                         "ext6 frag6 udp6",
		"ip":                          "later tcp4 udp4 vlan",
		"arp or tcp":                  "arp tcp4",
		"port 53":                     "ext6 udp4 udp6 vlan",
		"src port 53":                 "ext6 udp4 udp6",
		"dst port 53":                 "udp4 vlan",
		"port 80-90":                  "tcp4",
		"udp not port 53":             "frag6 later",
		"udp and not (port 53)":       "frag6 later",
		"host 10.0.0.1":               "later tcp4 udp4 vlan",
		"dst host 10.0.0.2":           "tcp4",
		"net 10.1.0.0/16":             "later udp4 vlan",
		"src net 10.1.0.0/16":         "",
		"host fd00::2 and port 1024":  "ext6 udp6",
		"vlan":                        "vlan",
		"vlan 10":                     "vlan",
		"vlan 11":                     "",
		"vlan udp":                    "vlan",
		"proto 17 ip":                 "later udp4 vlan",
		"ethertype 0x0806":            "arp",
		"ether 02:00:00:00:00:01":     "arp ext6 frag6 later tcp4 udp4 udp6 vlan",
		"dst ether 02:00:00:00:00:01": "",
		"not (tcp or udp)":            "arp",
		"arp or tcp port 80":          "arp tcp4",
		"(arp or tcp) port 80":        "tcp4",
		"! ip ! ip6":                  "arp",
		"icmp or icmp6 or sctp":       "",
	} {
		f, err := Parse(filter)
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for _, name := range []string{"arp", "ext6", "frag6", "later", "tcp4", "udp4", "udp6", "vlan"} {
			if f.Match(bytesOf(t, all[name])) {
				got = append(got, name)
			}
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%q matches %s, want %s", filter, g, want)
		}
	}
}

func TestParseFaults(t *testing.T) {
	for text, want := range map[string]string{
		"src 10.0.0.2":                  `"10.0.0.2" is an address: write src host 10.0.0.2`,
		"dst ::1":                       `write dst host ::1`,
		"10.0.0.2":                      `write host 10.0.0.2`,
		"tpc":                           `"tpc" is no word of filters`,
		"port":                          `"" is no port`,
		"port 70000":                    `"70000" is no port`,
		"port 90-80":                    `"90-80" is no port`,
		"host 10.0.0.0/8":               `"10.0.0.0/8" is no address`,
		"host fe80::1%eth0":             "is no address",
		"vlan 4096":                     `"4096" is no number up to 4095`,
		"(tcp":                          "a bracket is open",
		"tcp)":                          `")" is too much`,
		"not":                           "it ends too early",
		"tcp and":                       "it ends too early",
		"tcp or":                        "it ends too early",
		"src":                           "it ends too early",
		"src tcp":                       `"tcp" is no word of filters`,
		"ether 1":                       `"1" is no MAC address`,
		strings.Repeat("(", 100) + "ip": "more than 32 deep",
		strings.Repeat("ip ", 1000):     "3000 bytes",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v, want %q", text, err, want)
		}
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	f, err := Parse("udp and (host 10.0.0.1 or net fd00::/8) and not port 80")
	if err != nil {
		t.Fatal(err)
	}
	frame := bytesOf(t, vlan)
	if n := testing.AllocsPerRun(100, func() { f.Match(frame) }); n != 0 {
		t.Errorf("%v allocations per packet", n)
	}
}

// FuzzFilter: no expression and no frame makes it panic, and a filter's opposite
// wants what it does not, of frames that have a header at all.
func FuzzFilter(f *testing.F) {
	for _, frame := range []string{tcp4, vlan, ext6, frag6, arp} {
		f.Add("tcp port 80 or not (src net 10.0.0.0/8 and vlan 10)", bytesOf(f, frame))
	}
	f.Fuzz(func(t *testing.T, text string, frame []byte) {
		a, err := Parse(text)
		if err != nil || strings.TrimSpace(text) == "" {
			return
		}
		b, err := Parse("not (" + text + ")")
		if err != nil {
			return // too deep, or too long
		}
		if len(frame) >= 14 && a.Match(frame) == b.Match(frame) {
			t.Fatalf("%q and its opposite agree", text)
		}
		for n := range frame {
			a.Match(frame[:n])
		}
	})
}
