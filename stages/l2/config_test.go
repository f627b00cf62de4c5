package l2

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		text string
		want []string // one line per fault
	}{
		{"default", ``, nil},
		{"everything", `
			ageing = "10s"
			table_size = 2
			forward_link_local = true
			static = [{mac = "02:00:00:00:00:01", port = "p0"}, {mac = "02-00-00-00-00-01", vlan = 10, port = "p1"}]
			[[port]]
			port = "p1"
			access = 10
			[[port]]
			port = "p2"
			trunk = [10, 20]
			native = 1
			[[port]]
			port = "p3"
			trunk = [4094]
			native = 4094`, nil},
		{"bounds", `
			ageing = "0s"
			table_size = 0`, []string{
			`ageing: 0s is out of range: choose 1s to 1000000s`,
			`table_size: 0 is out of range: choose 1 to 1048576`}},
		{"upper bounds", `
			ageing = "1000001s"
			table_size = 1048577`, []string{
			`ageing: 277h46m41s is out of range: choose 1s to 1000000s`,
			`table_size: 1048577 is out of range: choose 1 to 1048576`}},
		{"ports", `
			[[port]]
			port = "x"
			access = 1
			[[port]]
			port = "p0"
			access = 4095
			[[port]]
			port = "p0"
			trunk = [1]
			[[port]]
			port = "p1"
			[[port]]
			port = "p2"
			native = 3
			[[port]]
			port = "p3"
			access = 3
			trunk = [3]`, []string{
			`port[0].port: port "x" is not defined: define [[port]] name = "x" or correct the name`,
			`port[1].access: VLAN 4095 does not exist: choose 1 to 4094`,
			`port[2].port: port "p0" is already set by port[1]: join the two`,
			`port[3]: port "p1" has neither access nor trunk: set one, or remove the entry to leave the port transparent`,
			`port[4].native: a native VLAN needs a trunk: add trunk = [...] or use access = 3`,
			`port[5]: access excludes trunk and native: keep one`}},
		{"trunk", `
			[[port]]
			port = "p0"
			trunk = [0, 7, 7, 5000]
			native = -1`, []string{
			`port[0].trunk[0]: VLAN 0 does not exist: choose 1 to 4094`,
			`port[0].trunk[2]: VLAN 7 appears twice: remove one`,
			`port[0].trunk[3]: VLAN 5000 does not exist: choose 1 to 4094`,
			`port[0].native: VLAN -1 does not exist: choose 1 to 4094`}},
		{"static", `
			table_size = 6
			static = [
				{mac = "02:00:00:00:00:01", port = "x"},
				{mac = "02:00:00:00:00", port = "p0"},
				{mac = "01:00:5e:00:00:01", port = "p0"},
				{mac = "00:00:00:00:00:00", port = "p0"},
				{mac = "02:00:00:00:00:02", vlan = 9, port = "p1"},
				{mac = "02:00:00:00:00:03", vlan = 9, port = "p0"},
				{mac = "02:00:00:00:00:03", vlan = 9, port = "p2"},
				{mac = "02:00:00:00:00:04", vlan = 5000, port = "p2"},
			]
			[[port]]
			port = "p1"
			access = 8`, []string{
			`static: 8 entries exceed table_size 6: raise table_size`,
			`static[0].port: port "x" is not defined: define [[port]] name = "x" or correct the name`,
			`static[1].mac: "02:00:00:00:00" is not a MAC address: write six bytes, as in "02:00:00:00:00:01"`,
			`static[2].mac: 01:00:5e:00:00:01 is not the address of a station: groups and zero have no port: write the station's own, as its "ip link" shows it`,
			`static[3].mac: 00:00:00:00:00:00 is not the address of a station: groups and zero have no port: write the station's own, as its "ip link" shows it`,
			`static[4].vlan: port "p1" does not carry VLAN 9: correct the vlan or the port's VLANs`,
			`static[6]: 02:00:00:00:00:03 in VLAN 9 is already in static[5]: remove one`,
			`static[7].vlan: VLAN 5000 does not exist: choose 1 to 4094`}},
		{"storm", `
			storm = [
				{port = "x", broadcast = 1},
				{port = "p0", broadcast = -1, multicast = 200000000, unknown = 100000000},
				{port = "p0", unknown = 1},
				{port = "p1"},
			]
			storm_broadcast = -1
			storm_unknown = 100000001`, []string{
			`storm_broadcast: -1: choose 1 to 100000000 packets per second, or 0 for no limit`,
			`storm_unknown: 100000001: choose 1 to 100000000 packets per second, or 0 for no limit`,
			`storm[0].port: port "x" is not defined: define [[port]] name = "x" or correct the name`,
			`storm[1].broadcast: -1: choose 1 to 100000000 packets per second, or 0 for no limit`,
			`storm[1].multicast: 200000000: choose 1 to 100000000 packets per second, or 0 for no limit`,
			`storm[2].port: port "p0" is already limited by storm[1]: join the two`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := DefaultConfig()
			if _, err := toml.Decode(tt.text, &c); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := c.Validate([]string{"p0", "p1", "p2", "p3"}); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(strings.Join(tt.want, "\n"), got); diff != "" {
				t.Errorf("faults (-want +got)\n%s", diff)
			}
		})
	}
}

// TestConfigDump writes a configuration as TOML and reads it back.
func TestConfigDump(t *testing.T) {
	want := Config{
		Ageing: 90 * time.Second, TableSize: 5, ForwardLinkLocal: true,
		Static: []Static{{MAC: "02:00:00:00:00:01", VLAN: 3, Port: "p0"}},
		Ports:  []Port{{Port: "p0", Trunk: []int{3, 4}, Native: 2}, {Port: "p1", Access: 3}},
		Storms: []Storm{{Port: "p0", Broadcast: 100, Unknown: 7}}, StormBroadcast: 1, StormMulticast: 2, StormUnknown: 3,
		Snooping: true, FloodUnregistered: true, GroupTable: 7, MulticastRouters: []string{"p1"}, RouterGuard: []string{"p0"}, FastLeave: []string{"p2"},
	}
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(want); err != nil {
		t.Fatal(err)
	}
	var got Config
	meta, err := toml.Decode(text.String(), &got)
	if err != nil || len(meta.Undecoded()) != 0 {
		t.Fatalf("%v, undecoded %v in\n%s", err, meta.Undecoded(), text.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s\nof\n%s", diff, text.String())
	}
}

// TestTooManyPorts: a table's entries have bits for the numbers of 4096.
func TestTooManyPorts(t *testing.T) {
	c := DefaultConfig()
	names := make([]string, MaxPorts+1)
	for i := range names {
		names[i] = fmt.Sprintf("p%d", i)
	}
	if err := c.Validate(names[:MaxPorts]); err != nil {
		t.Error(err)
	}
	if err := c.Validate(names); err == nil || err.Error() != "port: the switch has 4097 ports: a bridge has 4096 at most" {
		t.Errorf("got %v", err)
	}
}
