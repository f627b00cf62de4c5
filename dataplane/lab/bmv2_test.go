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
