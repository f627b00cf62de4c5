package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// line is a small lab that is right.
const line = `
name = "line"
[[host]]
name = "h1"
addresses = ["10.0.0.1/24", "fd00::1/64"]
[[host]]
name = "h2"
addresses = ["10.0.0.2/24"]
[[switch]]
name = "s1"
graph = ["parse", "patch"]
[[link]]
endpoints = ["h1", "s1:p0"]
[[link]]
endpoints = ["s1:p1", "h2"]
`

func TestParseDefaults(t *testing.T) {
	c, err := Parse(line+`
[[traffic]]
kind = "ping"
from = "h1"
to = "h2"
[[traffic]]
kind = "flows"
from = "h2"
to = "h1"
`, "x")
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Name: "line",
		Hosts: []Host{
			{Name: "h1", Addresses: []string{"10.0.0.1/24", "fd00::1/64"}},
			{Name: "h2", Addresses: []string{"10.0.0.2/24"}},
		},
		Switches: []Switch{{Name: "s1", Graph: []string{"parse", "patch"}}},
		Links: []Link{
			{Endpoints: []string{"h1", "s1:p0"}, Queues: 1, MTU: 1500},
			{Endpoints: []string{"s1:p1", "h2"}, Queues: 1, MTU: 1500},
		},
		Traffic: []Traffic{
			{Kind: "ping", From: "h1", To: "h2", Count: 100, Window: 16, Sizes: []int{64, 1500}},
			{Kind: "flows", From: "h2", To: "h1", Count: 100_000, Rate: 50_000, Flows: 1000, Size: 64, Window: 1024, Distribution: "equal", Port: 9, Addresses: "hosts"},
		},
	}
	if diff := cmp.Diff(want, c, cmpopts.IgnoreUnexported(Config{}, Traffic{}, Host{}, Switch{}, Link{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestFaultsAllAtOnce holds that one file's faults come together, each with its key.
func TestFaultsAllAtOnce(t *testing.T) {
	_, err := Parse(`
name = "no/name"
colour = "red"
[[host]]
name = "h1"
addresses = ["10.0.0.1", "10.0.0.2/24"]
gateway = "10.1.0.1"
gateway6 = "10.0.0.9"
mtu = 9000
[[host]]
name = "h1"
[[host]]
name = "h-2"
[[host]]
name = "h3"
addresses = ["10.0.0.2/24"]
gateway = "router"
[[switch]]
name = "s1"
[[switch]]
name = "s2"
graph = ["parse"]
[switch.config.switch]
id = 1
graph = ["parse", "l2"]
name = "other"
[[link]]
endpoints = ["h1", "s1"]
queues = 100
mtu = 10
[[link]]
endpoints = ["h1:p0", "nobody:p0", "s1:lo"]
[[link]]
endpoints = ["s1:a-port-name-that-is-long", "h1"]
[[traffic]]
kind = "carrier pigeon"
[[traffic]]
kind = "ping"
from = "h1"
to = "h1"
rate = 5
sizes = [10, 2]
family = 5
[[traffic]]
kind = "tcp"
from = "s1"
to = "h3"
bytes = -1
`, "x")
	if err == nil {
		t.Fatal("no fault was found")
	}
	for _, want := range []string{
		"colour: there is no such key",
		`name: "no/name"`,
		"host[0].addresses[0]: \"10.0.0.1\"",
		"host[0].gateway: 10.1.0.1 is in the prefix of none",
		"host[0].gateway6: 10.0.0.9 is an IPv4 address",
		"host[0].mtu: 9000 is more than link[0]'s 10",
		`host[1].name: "h1" is a host already`,
		`host[2].name: "h-2"`,
		"host[3].addresses[0]: 10.0.0.2 belongs to h1",
		`host[3].gateway: "router"`,
		`host[3].name: "h3" has no cable`,
		"switch[0].graph: missing",
		"switch[1].graph: config.switch.graph is there too",
		"switch[1].config.switch.name: other",
		"switch[1].config.switch.id: 1 is that of",
		"link[0].queues: 100",
		"link[0].mtu: 10",
		`link[0].endpoints[1]: "s1": name the port`,
		"link[1].endpoints: 3 of them",
		`link[1].endpoints[0]: "h1:p0": a host has one interface`,
		`link[1].endpoints[1]: "nobody:p0": no node`,
		`link[1].endpoints[2]: "s1:lo": the interface lo exists`,
		`link[2].endpoints[0]: "s1:a-port-name-that-is-long"`,
		`link[2].endpoints[1]: "h1" has a cable already, link[0]`,
		`traffic[0].kind: "carrier pigeon"`,
		"traffic[1].rate: not read by kind \"ping\"",
		`traffic[1].to: "h1" is the sender too`,
		"traffic[1].sizes: [10 2]",
		`traffic[2].from: "s1" is no host`,
		"traffic[2].bytes: -1",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing fault %q", want)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 32 {
		t.Errorf("%d faults, want 32:\n%v", n, err)
	}
}

func TestTrafficNeedsACommonFamily(t *testing.T) {
	_, err := Parse(line+"[[traffic]]\nkind = \"udp\"\nfrom = \"h1\"\nto = \"h2\"\nfamily = 6\n", "x")
	if err == nil || !strings.Contains(err.Error(), "traffic[0].family: h1 and h2 do not both have") {
		t.Errorf("Parse = %v", err)
	}
}

func TestSyntaxErrorShowsThePlace(t *testing.T) {
	if _, err := Parse("name = \n[[host]]", "x"); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("Parse = %v, want the line", err)
	}
}

func TestNameFromTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "little.toml")
	if err := os.WriteFile(path, []byte(strings.Replace(line, `name = "line"`, "", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(path); err != nil || c.Name != "little" {
		t.Errorf("Load = %v, %v; want the name little", c, err)
	}
	if _, err := Load(path + "x"); err == nil {
		t.Error("Load of a missing file succeeded")
	}
}

func TestShippedFile(t *testing.T) {
	c, err := Load("../../config/demo.toml")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Switches) != 3 || len(c.Hosts) != 2 || len(c.Traffic) == 0 {
		t.Errorf("the demonstration has %d switches, %d hosts, %d loads", len(c.Switches), len(c.Hosts), len(c.Traffic))
	}
	if six, err := Load("../../config/six.toml"); err != nil || len(six.Switches) != 6 || six.Collector == nil {
		t.Errorf("the lab of six switches: %+v, %v", six, err)
	}
	if fabric, err := Load("../../config/fabric.toml"); err != nil || len(fabric.Switches) != 8 || len(fabric.Relays) != 16 {
		t.Errorf("the lab of leaves and spines: %+v, %v", fabric, err)
	}
	if racks, err := Load("../../config/racks.toml"); err != nil || len(racks.Switches) != 4 || len(racks.Relays) != 4 {
		t.Errorf("the lab of two racks: %+v, %v", racks, err)
	}
}

// FuzzParse holds that no text crashes the parser, and that what is accepted can be drawn and
// given to switches.
func FuzzParse(f *testing.F) {
	f.Add(line)
	if demo, err := os.ReadFile("../../config/demo.toml"); err == nil {
		f.Add(string(demo))
	}
	f.Add("[[switch]]\nname=\"a\"\n[switch.config.switch]\ngraph=[1]\n[[switch.config.port]]\nname=1\n")
	f.Add("[[switch]]\nname=\"a\"\ngraph=[\"patch\"]\n[switch.config]\nstages=1\ncontrol=[]\nport=[1]\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text, "fuzz")
		if err != nil {
			return
		}
		_ = c.drawing(int(uint8(len(text))))
		for i := range c.Switches {
			if _, err := c.switchConfig(i, "/run", ""); err != nil {
				t.Errorf("an accepted file gives no configuration: %v", err)
			}
		}
	})
}

// TestUseKey: the key of a folder that is named relative to here is an absolute path, as switches want it.
func TestUseKey(t *testing.T) {
	c, err := Load("../../config/demo.toml")
	if err != nil {
		t.Fatal(err)
	}
	c.UseKey("records/network.key")
	if !filepath.IsAbs(c.Key) {
		t.Errorf("%q", c.Key)
	}
	c.Key = ""
	if c.UseKey(NoKey); c.Key != NoKey {
		t.Errorf("no key is %q", c.Key)
	}
}
