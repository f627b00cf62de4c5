package grade

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab"
)

// endsLab has two switches with two links, one through a relay; a test sets the keys of both stages.
const endsLab = `[[host]]
name = "h1"
[[host]]
name = "h2"
[[switch]]
name = "s1"
graph = ["parse", "l2", "lds_egress"]
[switch.config.stages.lds_egress]
EGRESS
[[switch]]
name = "s2"
graph = ["parse", "lds_ingress", "l2"]
[switch.config.stages.lds_ingress]
INGRESS
[[link]]
endpoints = ["h1", "s1:p0"]
[[link]]
endpoints = ["h2", "s2:p0"]
[[link]]
endpoints = ["s1:p1", "s2:p1"]
[[link]]
endpoints = ["s1:p2", "s2:p2"]
delay = "1ms"
`

// TestLinkEnds: what both ends of a link need equal is compared for each link between two measurement points; a fault names both switches, ports and
// lines, once for two switches with several links.
func TestLinkEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ends.toml")
	const class = "[[switch.config.stages.lds_egress.class]]\nname = \"a\"\nfrom = \"10.0.0.0/24\"\nto = \"10.0.1.0/24\""
	for _, c := range []struct{ egress, ingress, want string }{
		{"", "", ""},
		{"rows = 4", "rows = 4", ""},
		{"columns = 1000\nrows = 4", "columns = 1000", ""}, // which do not adapt
		{"banks = [1.0, 1.0, 1.0, 1.0]", "", ""},
		{"ports = [\"p0\"]\ncolumns = 300", "", ""}, // to which no link between switches leads
		{"rows = 2", "", "rows: 2 at s1:p1, but 0 (as many as suit the flows) at s2:p1, the other end of the link (switch s2: stages.lds_ingress.rows, line 13): what the two count cannot be compared, so give both the same rows"},
		{"columns = 300", "columns = 500", "columns: 300 at s1:p1, but 500 at s2:p1, the other end of the link (switch s2: stages.lds_ingress.columns, line 14)"},
		{"record_bytes = 50000", "", "record_bytes: 50000 at s1:p1, but 190000 at s2:p1"},
		{"rows = 4\nrecord_bytes = 50000", "rows = 4", ""}, // which do not adapt
		{"virtual = 2", "virtual = 3", "virtual: 2 at s1:p1, but 3 at s2:p1"},
		{"interval_bits = 30", "interval_bits = 29", "interval_bits: 30 at s1:p1, but 29 at s2:p1"},
		{"interval_bit = true", "", "interval_bit: true at s1:p1, but false at s2:p1"},
		{"[[switch.config.stages.lds_egress.weight]]\nweight = 10\nprotocol = 17", "", "weight: "},
		{"lost_flows = 200", "", ""}, // the sender names flows to points farther away
		{"", "lost_flows = 200", ""},
		{"lost_flows = 200", "lost_flows = 100", "lost_flows: 200 at s1:p1, but 100 at s2:p1, the other end of the link (switch s2: stages.lds_ingress.lost_flows, line 14): flows that lose packets between the two cannot be named, so give both the same lost_flows"},
		{"seed = 1", "seed = 7", "seed: 1 at s1:p1, but 7 at s2:p1"},
		{"ports = [\"p2\"]\nseed = 1", "", "seed: 1 at s1:p2, but 0 at s2:p2"},
		{"rows = 4\nbanks = [1.0, 1.0, 0.5, 0.5]", "rows = 4", "banks: [1 1 0.5 0.5] at s1:p1, but [] at s2:p1"},
		{"rows = 4\nclass_columns = 100\n" + class, "rows = 4\n" + strings.ReplaceAll(class, "egress", "ingress"), "class_columns: 100 at s1:p1, but 17500 at s2:p1"},
		{"rows = 4\ncolumns = 100\nclass_columns = 200\n" + class, "rows = 4\nclass_columns = 200\n" + strings.ReplaceAll(class, "egress", "ingress"), ""},
	} {
		text := strings.NewReplacer("INGRESS", c.ingress, "EGRESS", c.egress).Replace(endsLab)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := lab.Load(file)
		if err != nil {
			t.Fatalf("%q: %v", c.egress, err)
		}
		err = Check(l)
		if c.want == "" {
			if err != nil {
				t.Errorf("%q and %q: %v", c.egress, c.ingress, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), ": switch s1: stages.lds_egress."+c.want) || !strings.HasPrefix(err.Error(), file+":") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q and %q: %v, want one fault with %q", c.egress, c.ingress, err, c.want)
		}
	}
}

// TestIntervalBits: a source must set the bit of the intervals that measurement points of its switch read.
func TestIntervalBits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bits.toml")
	for _, c := range []struct{ pint, want string }{
		{"interval_bits = 30\nedge = [\"p0\"]", ""},
		{"interval_bits = 30", "stages.pint.edge: missing, at all switches of the lab, so no packet gets a digest: name the ports to hosts, edge = [\"p0\"]"},
		{"", "stages.pint.edge: missing, at all switches of the lab"},
		{"edge = [\"p0\"]", "stages.pint.edge: packets that come in here have no interval bit, which lds_egress reads (interval_bit): give stages.pint interval_bits = 30"},
		{"interval_bits = 29\nedge = [\"p0\"]", "stages.pint.interval_bits: 29, but lds_egress, which reads the bit (interval_bit), has interval_bits = 30: give both the same"},
	} {
		text := strings.NewReplacer("INGRESS", "interval_bit = true", "EGRESS", "interval_bit = true\n[switch.config.stages.pint]\n"+c.pint, `"l2", "lds_egress"`, `"l2", "pint", "lds_egress"`).Replace(endsLab)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := lab.Load(file)
		if err != nil {
			t.Fatalf("%q: %v", c.pint, err)
		}
		if err = Check(l); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), "switch s1: "+c.want)) {
			t.Errorf("%q: %v, want %q", c.pint, err, c.want)
		}
	}
}

// TestCheckAllAtOnce: one look at a file finds the faults of the file itself, of its switches' configurations, and of what these must have in common, each with
// its line, in the order of lines. What follows from another fault is not said.
func TestCheckAllAtOnce(t *testing.T) {
	const text = `quiet = "-1s"
[[host]]
name = "h1"
addresses = ["10.0.0.1/24"]
[[switch]]
name = "s1"
graph = ["parse", "lds_ingress", "l2", "pint", "lds_egress"]
[switch.config.stages.pint]
interval_bits = 28
[switch.config.stages.lds_egress]
interval_bit = true
rows = 2
seed = "x"
lost_flows = 10
[[switch.config.stages.lds_egress.weight]]
weight = 3
protocol = 17
[switch.config.stages.lds_ingress]
no_such = 1
[[switch]]
name = "s2"
graph = ["parse", "lds_ingress", "l2", "pint", "no-such"]
[switch.config.stages.lds_ingress]
interval_bits = 29
rows = 3
seed = 7
lost_flows = 20
[switch.config.stages.parse]
seed = 7
[[switch]]
name = "s3"
graph = ["parse", "l2"]
[switch.config.stages.parse]
seed = 8
[[link]]
endpoints = ["h1", "s1:p0"]
queues = 65
[[link]]
endpoints = ["s1:p1", "s2:p1"]
[[link]]
endpoints = ["s3:p1", "s2:p2"]
[[traffic]]
kind = "ping"
from = "h1"
to = "h9"
`
	file := filepath.Join(t.TempDir(), "all.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	err := (&lab.Command{Out: io.Discard, Err: os.Stderr}).Check(file, Check)
	if err == nil {
		t.Fatal("the file was taken")
	}
	var got []string
	for fault := range strings.SplitSeq(err.Error(), "\n") {
		rest, ok := strings.CutPrefix(fault, file+":")
		if !ok {
			t.Errorf("%q names no line", fault)
		}
		parts := strings.SplitN(rest, ": ", 4)
		if key := parts[1]; !strings.HasPrefix(key, "switch ") {
			got = append(got, parts[0]+" "+key)
		} else {
			got = append(got, parts[0]+" "+key+": "+parts[2])
		}
	}
	want := []string{
		"1 quiet",
		"8 switch s1: stages.pint.edge",
		"9 switch s1: stages.pint.interval_bits",
		"10 switch s1: stages.lds_egress.interval_bits",
		"11 switch s1: stages.lds_egress.interval_bit",
		"12 switch s1: stages.lds_egress.rows",
		"13 switch s1: stages.lds_egress.seed",
		"14 switch s1: stages.lds_egress.lost_flows",
		"15 switch s1: stages.lds_egress.weight",
		"19 switch s1: stages.lds_ingress.no_such",
		"22 switch s2: switch.graph[4]",
		"29 switch s2: stages.parse.seed",
		"34 switch s3: stages.parse.seed",
		"37 link[0].queues",
		"45 traffic[0].to",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s\nof\n%v", strings.Join(got, "\n"), strings.Join(want, "\n"), err)
	}
}
