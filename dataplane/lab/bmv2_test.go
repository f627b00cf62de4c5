package lab

import (
	"slices"
	"strings"
	"testing"
)

func TestSwitchKinds(t *testing.T) {
	text := func(keys string) string {
		return "[[host]]\nname = \"h1\"\naddresses = [\"10.0.0.1/24\"]\n[[switch]]\nname = \"s1\"\ngraph = [\"parse\", \"patch\"]\n" + keys +
			"\n[[link]]\nendpoints = [\"h1\", \"s1:p0\"]\n"
	}
	for _, c := range []struct {
		keys, fault string
		command     []string
	}{
		{"", "", []string{"weir", "switch"}},
		{`kind = "weir"`, "", []string{"weir", "switch"}},
		{`kind = "bmv2"`, "", []string{"weir", "p4", "switch"}},
		{"kind = \"bmv2\"\nprogram = \"a.json\"", "", []string{"weir", "p4", "switch", "--program", "a.json"}},
		{"kind = \"bmv2\"\nqueue_rates = { p0 = 500 }", "", []string{"weir", "p4", "switch", "--queue-rate", "p0=500"}},
		{
			"kind = \"bmv2\"\nprogram = \"a.p4\"\nqueue_rates = { p1 = 2, p0 = 1_000_000_000 }\n[[switch.config.port]]\nname = \"p1\"", "",
			[]string{"weir", "p4", "switch", "--program", "a.p4", "--queue-rate", "p0=1000000000", "--queue-rate", "p1=2"},
		},
		{`queue_rates = { p0 = 500 }`, `switch[0].queue_rates: only a switch of kind "bmv2"`, nil},
		{"kind = \"bmv2\"\nqueue_rates = { p7 = 500 }", `switch[0].queue_rates.p7: the switch has no such port: add a [[link]] with "s1:p7"`, nil},
		{"kind = \"bmv2\"\nqueue_rates = { p0 = 0 }", "switch[0].queue_rates.p0: 0 packets per second: choose 1 to 1000000000", nil},
		{"kind = \"bmv2\"\nqueue_rates = { p0 = 1_000_000_001 }", "switch[0].queue_rates.p0: 1000000001 packets per second: choose", nil},
		{`kind = "tofino"`, `switch[0].kind: "tofino": choose "weir" or "bmv2"`, nil},
		{`program = "a.json"`, "switch[0].program: only a switch of kind", nil},
	} {
		config, err := Parse(text(c.keys), "kinds")
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %s", c.keys, err, c.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.keys, err)
			continue
		}
		l := &Lab{config: config, command: []string{"weir", "switch"}}
		if got := l.commandOf(&config.Switches[0]); !slices.Equal(got, c.command) {
			t.Errorf("%s: started as %q, want %q", c.keys, got, c.command)
		}
		if !slices.Equal(l.command, []string{"weir", "switch"}) {
			t.Errorf("%s: the lab's command became %q", c.keys, l.command)
		}
	}
}
