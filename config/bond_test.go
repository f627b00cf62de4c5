package config

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
)

// bonded has a bond of eth1 and eth2.
const bonded = `
[switch]
name = "leaf"
graph = ["parse", "bond", "vlan", "policer", "acl", "l2", "mirror", "tag", "distribute"]
[[port]]
interface = "eth0"
[[port]]
interface = "eth1"
[[port]]
interface = "eth2"
[[port]]
interface = "eth3"
[[port]]
name = "bond0"
driver = "bond"
mode = "lacp"
members = ["eth1", "eth2"]
`

// TestBonds: what cannot be is refused by one sentence, which names the key and what to do.
func TestBonds(t *testing.T) {
	bond := func(text string) string {
		return "[[port]]\nname = \"bond1\"\ndriver = \"bond\"\nmode = \"active-backup\"\nmembers = [\"eth3\"]\n" + text
	}
	for _, tc := range []struct{ from, to, want string }{
		{"", "[[port]]\ndriver = \"vlan\"\nparent = \"bond0\"\nvlan = 7\n[[stages.policer.port]]\nport = \"bond0\"\nrate_bits = 1_000_000\n", ""},
		{"", bond(""), ""},
		{"", bond("primary = \"eth1\""), `port[5].primary: "eth1" is no member: name one of members`},
		{"", bond("hash = \"layer2\""), `port[5].hash: a bond with mode = "active-backup" uses one member`},
		{"", bond("mtu = 9000"), `port[5].mtu: a bond has no device: remove it, or set it at its members`},
		{"", bond("lacp_rate = \"fast\""), `port[5].lacp_rate: a bond with mode = "active-backup" has no LACP`},
		{"", bond("min_links = 2"), `port[5].min_links: 2 of 1 members: choose 1 to 1, or 0 for 1`},
		{"", strings.Replace(bond(""), "eth3", "eth2", 1), `port[5].members[0]: port "eth2" is a member of "bond0": a port is of one bond at most`},
		{"", strings.Replace(bond(""), "eth3", "bond0", 1), `port[5].members[0]: port "bond0" is a bond, which cannot be a member: name its members here`},
		{"", strings.Replace(bond(""), "eth3", "eth9", 1), `port[5].members[0]: port "eth9" is not defined`},
		{"", strings.Replace(bond(""), "active-backup", "802.3ad", 1), `port[5].mode: "802.3ad": choose "active-backup", "balance-xor" or "lacp"`},
		{"", "[[port]]\ninterface = \"eth4\"\nmembers = [\"eth1\"]\n", `port[5].members: the driver xsk has none: remove it, or use driver = "bond"`},
		{"", "[[port]]\ndriver = \"vlan\"\nparent = \"eth1\"\nvlan = 7\n", `port[5].parent: port "eth1" is a member of "bond0": name the bond`},
		{"", "[[stages.policer.port]]\nport = \"eth1\"\nrate_bits = 1_000_000\n", `"eth1" is a member of "bond0": name the bond`},
		{"", "[[stages.acl.rule]]\naction = \"deny\"\nin_ports = [\"eth2\"]\n", `"eth2" is a member of "bond0": name the bond`},
		{"", "[[stages.l2.port]]\nport = \"eth1\"\naccess = 7\n", `"eth1" is a member of "bond0": name the bond`},
		{"", "[[stages.mirror.session]]\nports = [\"bond0\"]\nto = \"eth1\"\n", `"eth1" is a member of "bond0": name the bond`},
		{`"eth1", "eth2"]`, `"eth1", "eth1"]`, `port[4].members[1]: port "eth1" is named already: remove one`},
		{`"bond", `, ``, `port[4].driver: "bond" needs the stage "bond", which the graph has not: add it to switch.graph`},
		{`, "distribute"`, ``, `port[4].driver: "bond" needs the stage "distribute", which the graph has not: add it to switch.graph`},
		{`"tag", "distribute"`, `"distribute", "tag"`, `stage "distribute": is in front of "tag", which sends by bonds, too: move it behind that`},
		{`"bond", "vlan"`, `"vlan", "bond"`, `stage "bond": is behind "vlan", which would know its members in place of bonds: move it to directly behind "parse"`},
	} {
		text := bonded
		if tc.from != "" {
			text = strings.Replace(bonded, tc.from, tc.to, 1)
		} else {
			text += tc.to
		}
		_, err := Parse([]byte(text))
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.to, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || strings.Count(err.Error(), "\n") != 0):
			t.Errorf("%s: %v\nwant %s", tc.to, err, tc.want)
		}
	}
}

// TestBondPorts: stages know the bond, with what all members can do, and no member.
func TestBondPorts(t *testing.T) {
	c, err := Parse([]byte(bonded + "[[port]]\ndriver = \"vlan\"\nparent = \"bond0\"\nvlan = 7\n"))
	if err != nil {
		t.Fatal(err)
	}
	ports := []pipeline.Port{
		{Name: "eth0"},
		{Name: "eth1", MTU: 1500, MaxFrame: 1518, BitsPerSecond: 10, TxRing: 2048, MAC: [6]byte{2, 1}},
		{Name: "eth2", MTU: 1400, MaxFrame: 1418, BitsPerSecond: 30, TxRing: 2048, MAC: [6]byte{2, 2}},
		{Name: "eth3"},
		{Name: "bond0", MTU: 0},
		{Name: "bond0.7"},
	}
	for range 2 { // ports that are complete already stay so
		c.CompletePorts(ports)
		for i, want := range map[int]pipeline.Port{
			0: {Name: "eth0"},
			1: {Member: "eth1", Of: 4, MTU: 1500, MaxFrame: 1518, BitsPerSecond: 10, TxRing: 2048, MAC: [6]byte{2, 1}},
			4: {
				Name: "bond0", MTU: 1400, MaxFrame: 1418, BitsPerSecond: 40, TxRing: 2048, MAC: [6]byte{2, 1},
				Bond: pipeline.Bond{Mode: pipeline.LACP, MinLinks: 1, SystemPriority: 65535},
			},
			5: {Name: "bond0.7", MTU: 1400, MaxFrame: 1414, BitsPerSecond: 40, TxRing: 2048, Parent: 4, VLAN: 7, TPID: 0x8100},
		} {
			if ports[i] != want {
				t.Errorf("port %d is %+v, want %+v", i, ports[i], want)
			}
		}
	}
	// Without the bond its members are ports again.
	c.Ports = c.Ports[:4]
	c.CompletePorts(ports[:4])
	if ports[1].Name != "eth1" || ports[1].Member != "" {
		t.Errorf("without the bond: %+v", ports[1])
	}
}
