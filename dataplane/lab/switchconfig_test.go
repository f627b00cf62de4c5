package lab

import (
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

func TestSwitchConfig(t *testing.T) {
	type table = map[string]any
	ports := func(more ...table) []table { return more }
	links := `
[[host]]
name = "h1"
[[host]]
name = "h2"
[[link]]
endpoints = ["h1", "s1:p0"]
queues = 4
[[link]]
endpoints = ["s1:p1", "h2"]
`
	for _, test := range []struct {
		name, text string
		want       table
	}{
		{"all from the links", "[[switch]]\nname = \"s1\"\ngraph = [\"parse\", \"patch\"]\n" + links, table{
			"switch":  table{"name": "s1", "id": int64(1), "graph": []any{"parse", "patch"}},
			"control": table{"socket": "/r/s1.sock"},
			"port": ports(
				table{"name": "p0", "interface": "p0", "queues": int64(4)},
				table{"name": "p1", "interface": "p1", "queues": int64(1)}),
			"stages": table{"patch": table{"pairs": []any{[]any{"p0", "p1"}}}},
		}},
		{"the file's own word holds", `
[[switch]]
name = "s1"
[switch.config]
future = "kept"
[switch.config.switch]
id = 77
graph = ["parse", "l2"]
[switch.config.workers]
count = 2
[switch.config.control]
socket = "/elsewhere"
[[switch.config.port]]
name = "p1"
driver = "asavie"
[[switch.config.port]]
name = "uplink"
interface = "wan0"
[switch.config.stages.l2]
ageing = "5s"
` + links, table{
			"future":  "kept",
			"switch":  table{"name": "s1", "id": int64(77), "graph": []any{"parse", "l2"}},
			"workers": table{"count": int64(2)},
			"control": table{"socket": "/elsewhere"},
			"port": ports(
				table{"name": "p1", "interface": "p1", "queues": int64(1), "driver": "asavie"},
				table{"name": "uplink", "interface": "wan0"},
				table{"name": "p0", "interface": "p0", "queues": int64(4)}),
			"stages": table{"l2": table{"ageing": "5s"}},
		}},
		{"own pairs", `
[[switch]]
name = "s1"
graph = ["patch"]
[switch.config.stages.patch]
pairs = [["p1", "p0"]]
` + links, table{
			"switch":  table{"name": "s1", "id": int64(1), "graph": []any{"patch"}},
			"control": table{"socket": "/r/s1.sock"},
			"port": ports(
				table{"name": "p0", "interface": "p0", "queues": int64(4)},
				table{"name": "p1", "interface": "p1", "queues": int64(1)}),
			"stages": table{"patch": table{"pairs": []any{[]any{"p1", "p0"}}}},
		}},
	} {
		c, err := Parse(test.text, "x")
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		for range 2 { // the second time shows whether the first changed the file's tables
			text, err := c.switchConfig(0, "/r", "")
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			var got table
			if _, err := toml.Decode(string(text), &got); err != nil {
				t.Fatalf("%s: %v in\n%s", test.name, err, text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", test.name, diff)
			}
		}
	}
}
