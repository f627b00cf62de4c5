package config

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const commented = `# An edge router.
[switch]
name = "s1" # its name
graph = ["parse", "acl", "l3"]

# Uplink.
[[port]]
interface = "p0"
rate_bits = 1000000 # what is paid for

[[port]]
interface = "p1"

# Which packets pass.
[stages.acl]
default = "deny"

# The web server.
[[stages.acl.rule]]
name = "web"
action = "permit"   # all of it
dst_port = "80"

# Administrators.
[[stages.acl.rule]]
name = "ssh"
action = "permit"
dst_port = "22"

[[stages.l3.interface]]
port = "p0"
addresses = ["10.0.0.1/24"]
[[stages.l3.interface]]
port = "p1"
addresses = ["10.0.1.1/24"]

[[stages.l3.route]]
prefix = "10.9.0.0/16"
via = ["10.0.1.2"]
# The end.
`

// edited makes edits.
func edited(t *testing.T, c *Config, edits ...Edit) *Config {
	t.Helper()
	for _, e := range edits {
		next, err := c.Edited(e)
		if err != nil {
			t.Fatal(err)
		}
		c = next
	}
	return c
}

// TestSaved: what was changed at run time comes into the file, and all else in it stays byte by byte.
func TestSaved(t *testing.T) {
	c := edited(t, parsed(t, commented),
		Edit{Stage: "acl", List: "rule", Remove: true, Fields: map[string]string{"name": "web"}},
		Edit{Stage: "acl", List: "rule", At: 1, Fields: map[string]string{"name": "dns", "action": "permit", "protocol": "udp", "dst_port": "53"}},
		Edit{Stage: "l3", List: "route", Fields: map[string]string{"prefix": "10.8.0.0/16", "via": "10.0.1.2,10.0.1.3"}},
		Edit{List: "port", Match: map[string]string{"name": "p0"}, Fields: map[string]string{"rate_bits": "2000000"}},
		Edit{List: "port", Match: map[string]string{"name": "p1"}, Fields: map[string]string{"disabled": "true"}},
		Edit{List: "port", Fields: map[string]string{"name": "p2", "interface": "eth2", "keep": "lldp"}},
	)
	got, changes, err := Saved([]byte(commented), c)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(
		"rate_bits = 1000000 # what", "rate_bits = 2000000 # what",
		"interface = \"p1\"\n", "disabled = true\ninterface = \"p1\"\n\n[[port]]\nname = \"p2\"\ninterface = \"eth2\"\nkeep = [\"lldp\"]\n",
		"# The web server.\n[[stages.acl.rule]]\nname = \"web\"\naction = \"permit\"   # all of it\ndst_port = \"80\"\n", "[[stages.acl.rule]]\nname = \"dns\"\naction = \"permit\"\nprotocol = \"udp\"\ndst_port = \"53\"\n",
		"# The end.\n", "# The end.\n\n[[stages.l3.route]]\nprefix = \"10.8.0.0/16\"\nvia = [\"10.0.1.2\", \"10.0.1.3\"]\n",
	).Replace(commented)
	if strip(string(got)) != strip(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(changes) != 7 {
		t.Errorf("%d changes, want 7: %v", len(changes), changes)
	}
	again, changes, err := Saved(got, c)
	if err != nil || len(changes) != 0 || string(again) != string(got) {
		t.Errorf("saved again: %v, %v", changes, err)
	}
}

// running returns a configuration as weir ctl receives it from the switch: complete, its empty lists written out.
func running(t *testing.T, c *Config) *Config {
	t.Helper()
	var b bytes.Buffer
	if err := c.Dump(&b); err != nil {
		t.Fatal(err)
	}
	return parsed(t, b.String())
}

// TestSavedEmptyLists: an empty list is the same as a missing one, in the file and in a change.
func TestSavedEmptyLists(t *testing.T) {
	empty := strings.Replace(commented, "name = \"web\"\n", "name = \"web\"\nin_ports = []\n", 1)
	for text, c := range map[string]*Config{commented: parsed(t, empty), empty: parsed(t, commented)} {
		if saved, changes, err := Saved([]byte(text), running(t, c)); err != nil || len(changes) != 0 || string(saved) != text {
			t.Errorf("without a change: %v, %v\n%s", changes, err, saved)
		}
	}
	for name, v := range map[string]struct {
		edit  Edit
		lines []string // of the changes
	}{
		"add": {
			Edit{Stage: "acl", List: "rule", Fields: map[string]string{"name": "new", "action": "deny", "protocol": "tcp", "dst_port": "81"}},
			[]string{`+ stages.acl.rule[2] = {name = "new", action = "deny", protocol = "tcp", dst_port = "81"}`},
		},
		"add in front": {
			Edit{Stage: "acl", List: "rule", At: 1, Fields: map[string]string{"name": "new", "action": "deny"}},
			[]string{`+ stages.acl.rule[0] = {name = "new", action = "deny"}`},
		},
		"remove": {
			Edit{Stage: "acl", List: "rule", Remove: true, At: 1},
			[]string{`- stages.acl.rule[0] = {name = "web", action = "permit", dst_port = "80"}`},
		},
		"port": {
			Edit{List: "port", Fields: map[string]string{"name": "p2", "interface": "eth2"}},
			[]string{`+ port[2] = {name = "p2", interface = "eth2", driver = "xsk", mode = "auto", rss = "keep"}`},
		},
	} {
		c := running(t, edited(t, parsed(t, commented), v.edit))
		saved, changes, err := Saved([]byte(commented), c)
		if err != nil || len(Diff(parsed(t, string(saved)), c)) != 0 || strings.Contains(string(saved), "[]") {
			t.Errorf("%s: %v\n%s", name, err, saved)
		}
		var lines []string
		for _, change := range changes {
			lines = append(lines, change.String())
		}
		if !slices.Equal(lines, v.lines) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(lines, "\n"), strings.Join(v.lines, "\n"))
		}
	}
}

// TestSavedBeside: a list whose last element is directly in front of what is removed of another list gets one more.
func TestSavedBeside(t *testing.T) {
	first, acl, _ := strings.Cut(commented, "# Which packets pass.\n")
	acl, l3, _ := strings.Cut(acl, "[[stages.l3.interface]]")
	acl, rules, _ := strings.Cut(acl, "# The web server.\n")
	text := first + acl + "[[stages.l3.interface]]" + strings.TrimSuffix(l3, "# The end.\n") + "# The web server.\n" + rules
	for name, more := range map[string]Edit{
		"route": {Stage: "l3", List: "route", Fields: map[string]string{"prefix": "10.8.0.0/16", "via": "10.0.1.2"}},
		"port":  {List: "port", Fields: map[string]string{"interface": "p2"}},
	} {
		c := edited(t, parsed(t, text), more, Edit{Stage: "acl", List: "rule", Remove: true, Fields: map[string]string{"name": "web"}})
		got, _, err := Saved([]byte(text), c)
		if err != nil || len(Diff(parsed(t, string(got)), c)) != 0 {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

// TestSavedComments: of an element that is removed, comments after an empty line at its end stay: they are about the rest.
func TestSavedComments(t *testing.T) {
	text := strings.Replace(commented, "# Administrators.\n", "# ---- For administrators ----\n\n# Their shell.\n", 1)
	text = strings.Replace(text, "# The end.", "# until winter\n\n# The end.", 1)
	c := edited(t, parsed(t, text),
		Edit{Stage: "acl", List: "rule", Remove: true, Fields: map[string]string{"name": "web"}},
		Edit{Stage: "l3", List: "route", Remove: true, At: 1})
	got, _, err := Saved([]byte(text), c)
	if err != nil {
		t.Fatal(err)
	}
	for comment, stays := range map[string]bool{
		"# ---- For administrators ----\n": true, "# Their shell.\n": true, "# The end.\n": true,
		"# The web server.\n": false, "# all of it\n": false, "# until winter\n": false,
	} {
		if strings.Contains(string(got), comment) != stays {
			t.Errorf("%q stays: %v, want %v\n%s", comment, !stays, stays, got)
		}
	}
}

// TestSavedLineEnds: a file with the line ends of Windows keeps them.
func TestSavedLineEnds(t *testing.T) {
	text := strings.ReplaceAll(commented, "\n", "\r\n")
	c := edited(t, parsed(t, text), Edit{List: "port", Match: map[string]string{"name": "p0"}, Fields: map[string]string{"rate_bits": "2000000"}})
	got, _, err := Saved([]byte(text), c)
	if want := strings.Replace(text, "rate_bits = 1000000", "rate_bits = 2000000", 1); err != nil || string(got) != want {
		t.Errorf("%v: got %q, want %q", err, got, want)
	}
}

// TestSavedStrings: TOML has fewer escapes than Go.
func TestSavedStrings(t *testing.T) {
	for _, name := range []string{"a\a\v\x7f\x00", "quote \" and \\", "tab\tline\n", "\u200b\U000E0001é"} {
		c := edited(t, parsed(t, commented), Edit{Stage: "acl", List: "rule", Fields: map[string]string{"name": name, "action": "deny"}})
		if got, _, err := Saved([]byte(commented), c); err != nil || len(Diff(parsed(t, string(got)), c)) != 0 {
			t.Errorf("%q: %v\n%s", name, err, got)
		}
	}
}

// strip leaves out empty lines.
func strip(text string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" }), "\n")
}

// TestSavedRandomly makes random edits: what was saved loads to the configuration in force, and keeps the comments of what stays.
func TestSavedRandomly(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 6))
	text, c := []byte(commented), parsed(t, commented)
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	for round := range rounds {
		for range 1 + r.IntN(4) {
			e := Edit{Stage: "acl", List: "rule", Fields: map[string]string{"name": fmt.Sprint("r", r.IntN(30)), "action": "deny", "dst_port": fmt.Sprint(1 + r.IntN(5))}}
			switch r.IntN(5) {
			case 0:
				e.At = 1 + r.IntN(3)
			case 1, 2:
				e.Remove, e.At, e.Fields = true, 1+r.IntN(5), nil
			case 3:
				e = Edit{List: "port", Match: map[string]string{"name": "p0"}, Fields: map[string]string{"rate_bits": fmt.Sprint(8000 + r.IntN(9))}}
			}
			if next, err := c.Edited(e); err == nil { // not all can be
				c = next
			}
		}
		saved, _, err := Saved(text, c)
		if err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, text)
		}
		if text = saved; r.IntN(50) == 0 {
			text = []byte(strings.ReplaceAll(string(text), "\n[[stages.acl.rule]]", "\n# A rule.\n[[stages.acl.rule]]"))
		}
		if diff := Diff(parsed(t, string(text)), c); len(diff) != 0 {
			t.Fatalf("round %d: %v", round, diff)
		}
	}
	for _, comment := range []string{"# An edge router.\n", "# its name\n", "# Uplink.\n", "# what is paid for\n", "# Which packets pass.\n", "# The end."} {
		if !strings.Contains(string(text), comment) {
			t.Errorf("%q is gone:\n%s", comment, text)
		}
	}
}

// TestNotSaved: what has no place in the file is named, and nothing is returned.
func TestNotSaved(t *testing.T) {
	for name, c := range map[string]struct{ file, inForce, want string }{
		"another key": {commented, strings.Replace(commented, `default = "deny"`, `default = "permit"`, 1), `stages.acl.default = "permit", was "deny"`},
		"a list in line": {
			strings.Replace(strings.Split(commented, "# The web")[0], `default = "deny"`, `rule = [{name = "a", action = "deny"}]`, 1) + strings.Join(strings.SplitAfter(commented, "22\"\n")[1:], ""),
			strings.Split(commented, "# The web")[0] + strings.Join(strings.SplitAfter(commented, "22\"\n")[1:], ""), "stages.acl.rule is not written as tables [[stages.acl.rule]]",
		},
		"a value of many lines": {strings.Replace(commented, "interface = \"p1\"\n", "interface = \"p1\"\nkeep = [\n\"arp\",\n]\n", 1), commented, "port[1].keep has more than one line"},
	} {
		text, changes, err := Saved([]byte(c.file), parsed(t, c.inForce))
		if !errors.Is(err, ErrNotSaved) || !strings.Contains(err.Error(), c.want) || text != nil || changes != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSavedEmptyLines: an element that comes and goes leaves the file as it was, and one empty line parts those that stay.
func TestSavedEmptyLines(t *testing.T) {
	const text = `[switch]
name = "s1"
graph = ["parse", "acl", "l2"]

[[port]]
interface = "p0"

[[port]]
interface = "p1"
`
	was := parsed(t, text)
	for name, add := range map[string]Edit{
		"at the end":     {Stage: "acl", List: "rule", Fields: map[string]string{"name": "a", "action": "deny"}},
		"between others": {List: "port", Fields: map[string]string{"name": "p2", "interface": "p2"}, At: 2},
	} {
		with := edited(t, was, add)
		first, _, err := Saved([]byte(text), with)
		if err != nil || strings.Contains(string(first), "\n\n\n") || strings.HasSuffix(string(first), "\n\n") {
			t.Errorf("%s: %v: %q", name, err, first)
		}
		again, _, err := Saved(first, was)
		if err != nil || string(again) != text {
			t.Errorf("%s: %v: after it has gone: %q", name, err, again)
		}
	}
}

// TestSavedGraph: the graph in force comes into the file, with the tables of its stages, and all else stays; random graphs load to what is in force.
func TestSavedGraph(t *testing.T) {
	next := strings.Replace(commented, `["parse", "acl", "l3"]`, `["parse", "policer", "l3", "lds_egress", "mirror"]`, 1)
	next = next[:strings.Index(next, "# Which packets")] + next[strings.Index(next, "[[stages.l3.interface]]"):] +
		"[[stages.mirror.session]]\nname = \"m\"\nports = [\"p0\"]\nto = \"p1\"\ndirection = \"in\"\n[stages.lds_egress]\ninterval_bits = 28\n"
	c := parsed(t, next)
	got, changes, err := Saved([]byte(commented), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"graph = [\"parse\", \"policer\", \"l3\", \"lds_egress\", \"mirror\"]\n", "name = \"s1\" # its name\n", "# Uplink.\n", "# The end.\n", "interval_bits = 28\n", "[[stages.mirror.session]]\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the file lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "acl") || strings.Contains(string(got), "policer]") || len(changes) == 0 {
		t.Errorf("%d changes; the file is\n%s", len(changes), got)
	}
	back, _, err := Saved(got, parsed(t, commented))
	if err != nil {
		t.Fatal(err)
	}
	if left := Diff(parsed(t, string(back)), parsed(t, commented)); len(left) != 0 {
		t.Errorf("back again %v differs:\n%s", left, back)
	}
	lines := strings.Replace(commented, `["parse", "acl", "l3"]`, "[\n  \"parse\",\n  \"acl\", \"l3\"]", 1)
	if _, _, err := Saved([]byte(lines), c); !errors.Is(err, ErrNotSaved) || !strings.Contains(err.Error(), "switch.graph has more than one line") {
		t.Errorf("a graph of several lines: %v", err)
	}
}
