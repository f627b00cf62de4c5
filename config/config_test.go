package config

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/internal/printable"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/parse"
	"github.com/weirswitch/weir/stages/patch"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint/plan"
)

const good = `
[switch]
name = "s1"
graph = ["parse", "patch"]
[[port]]
name = "p0"
interface = "eth0"
[[port]]
interface = "eth1"
queues = 4
[stages.patch]
pairs = [["p0", "eth1"]]
`

// TestDefaults: a short file gives a complete configuration.
func TestDefaults(t *testing.T) {
	c, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	p0, p1 := port.DefaultConfig(), port.DefaultConfig()
	p0.Name, p0.Interface = "p0", "eth0"
	p1.Name, p1.Interface, p1.Queues = "eth1", "eth1", 4
	want := &Config{
		Switch:    Switch{Name: "s1", ID: 1, Graph: []string{"parse", "patch"}},
		Dataplane: port.DefaultDataplaneConfig(),
		Workers:   worker.DefaultConfig(),
		Ports:     []port.Config{p0, p1},
		Stages:    map[string]any{"patch": &patch.Config{Pairs: [][2]string{{"p0", "eth1"}}}},
		Telemetry: export.Config{Budget: 1e6, SpoolBytes: 256 << 20, LocalBytes: 32 << 20},
		Control:   control.Config{Socket: "/run/weir/s1.sock", KeepCapabilities: true},
		Log:       Log{Level: "info", Format: "text"},
	}
	if c.Stages["parse"] == nil {
		t.Error("parse has no configuration")
	}
	delete(c.Stages, "parse")
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

// TestNameOfHost: a switch without a name has the host's.
func TestNameOfHost(t *testing.T) {
	host, err := os.Hostname()
	if err != nil || !printable.IsName(host) {
		t.Skipf("the host's name %q is no switch's", host)
	}
	c, err := Parse([]byte(strings.Replace(good, `name = "s1"`, "", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if c.Switch.Name != host || c.Control.Socket != "/run/weir/"+host+".sock" {
		t.Errorf("name %q, socket %q", c.Switch.Name, c.Control.Socket)
	}
}

// TestDumpRoundTrip: what Dump writes loads to the same, shows every key, and
// is written again to the byte.
func TestDumpRoundTrip(t *testing.T) {
	files, err := filepath.Glob("*.toml")
	if err != nil || len(files) < 3 {
		t.Fatalf("examples %v, %v", files, err)
	}
	for _, file := range files {
		if file == "collect.toml" {
			continue // a collector's file, which TestCollectReference tests
		}
		t.Run(file, func(t *testing.T) {
			first, err := Load(file)
			if err != nil {
				if isLab(t, file) {
					t.Skip("a lab's file, which package lab tests")
				}
				t.Fatal(err)
			}
			var text, again bytes.Buffer
			if err := first.Dump(&text); err != nil {
				t.Fatal(err)
			}
			second, err := Parse(text.Bytes())
			if err != nil {
				t.Fatalf("%v\n%s", err, &text)
			}
			if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if err := second.Dump(&again); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(text.String(), again.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// isLab reports whether a file describes a network, not a switch: it has tables [[link]].
func isLab(t *testing.T, file string) bool {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(data, []byte("[[link]]\n")) || bytes.Contains(data, []byte("[[host]]\n")) || bytes.Contains(data, []byte("link = ["))
}

// TestDumpLeavesConfigAlone: Dump writes lists that are nil as empty ones, on a
// copy.
func TestDumpLeavesConfigAlone(t *testing.T) {
	c, err := Load("l2.toml")
	if err != nil {
		t.Fatal(err)
	}
	before := *c
	before.Ports = append([]port.Config(nil), c.Ports...)
	if err := c.Dump(new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&before, c); diff != "" {
		t.Error(diff)
	}
}

var (
	assigned = regexp.MustCompile(`(?m)^([a-z0-9_]+) = (.*?) *(?:#.*)?$`)
	heading  = regexp.MustCompile(`(?m)^\[+([a-z0-9_.]+)\]+`)
)

// TestReferenceIsComplete: reference.toml names every key that Dump writes,
// with the value that Dump writes, which is the default.
func TestReferenceIsComplete(t *testing.T) {
	reference, err := os.ReadFile("reference.toml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(reference)
	if err != nil {
		t.Fatal(err)
	}
	var dump bytes.Buffer
	if err := c.Dump(&dump); err != nil {
		t.Fatal(err)
	}
	// The second port shows that a port may be short, so one is compared.
	shown, written := firstOfEach(reference), firstOfEach(dump.Bytes())
	if diff := cmp.Diff(written, shown); diff != "" {
		t.Errorf("-dump +reference.toml:\n%s", diff)
	}
	for _, key := range []string{"[switch] name", "[switch] graph", "[port] name", "[port] interface", "[control] socket"} {
		if written[key] == "" {
			t.Errorf("the dump lacks %s", key)
		}
	}
	d := Default()
	if diff := cmp.Diff(d.Dataplane, c.Dataplane); diff != "" {
		t.Errorf("[dataplane] shows no defaults: %s", diff)
	}
	if diff := cmp.Diff(d.Workers, c.Workers, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("[workers] shows no defaults: %s", diff)
	}
	p := port.DefaultConfig()
	p.Name, p.Interface = "p0", "eth0"
	if diff := cmp.Diff(p, c.Ports[0], cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("[[port]] shows no defaults: %s", diff)
	}
	stage := l2.DefaultConfig()
	if diff := cmp.Diff(&stage, c.Stages["l2"], cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("[stages.l2] shows no defaults: %s", diff)
	}
	first := parse.DefaultConfig()
	if diff := cmp.Diff(&first, c.Stages["parse"]); diff != "" {
		t.Errorf("[stages.parse] shows no defaults: %s", diff)
	}
	if c.Log != d.Log {
		t.Errorf("[log] shows no defaults: %v", c.Log)
	}
}

// firstOfEach maps "[table] key" to the value of its first appearance.
func firstOfEach(text []byte) map[string]string {
	keys, table := map[string]string{}, ""
	for _, line := range strings.Split(string(text), "\n") {
		if m := heading.FindStringSubmatch(line); m != nil {
			table = "[" + m[1] + "]"
		}
		if m := assigned.FindStringSubmatch(line); m != nil {
			if key := table + " " + m[1]; keys[key] == "" {
				keys[key] = m[2]
			}
		}
	}
	return keys
}

func TestLoadMissingFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.toml"))
	if err == nil || !strings.Contains(err.Error(), "no such file") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

// TestHashFamily: the switch's hash is a word, which Dump writes and Diff shows; another word is a
// fault with the choice, and a PINT plan of another family is one too, with the remedy.
func TestHashFamily(t *testing.T) {
	before, err := Parse([]byte(good))
	if err != nil || before.Switch.Hash != hash.XX {
		t.Fatal(before, err)
	}
	with := func(word string) string { return strings.Replace(good, "[switch]\n", "[switch]\nhash = "+word+"\n", 1) }
	c, err := Parse([]byte(with(`"crc"`)))
	if err != nil || c.Switch.Hash != hash.CRC {
		t.Fatal(c, err)
	}
	var text bytes.Buffer
	if err := c.Dump(&text); err != nil || !strings.Contains(text.String(), `hash = "crc"`) {
		t.Errorf("%v:\n%s", err, &text)
	}
	if changes := Diff(before, c); len(changes) != 1 || changes[0].String() != `~ switch.hash = "crc", was "xxhash"` {
		t.Errorf("%v", changes)
	}
	for word, want := range map[string]string{
		`"md5"`: `switch.hash: hash "md5": choose "aes", "xxhash" or "crc"`,
		`7`:     `switch.hash: is an integer: write a word in quotes`,
	} {
		if _, err := Parse([]byte(with(word))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", word, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "plan.toml")
	if err := plan.Default().Save(file); err != nil {
		t.Fatal(err)
	}
	planned := strings.Replace(with(`"crc"`), `"patch"]`, `"patch", "pint"]`, 1)
	if _, err := Parse([]byte(planned)); err != nil {
		t.Errorf("the built-in plan has not the switch's hash: %v", err)
	}
	_, err = Parse([]byte(planned + "[stages.pint]\nplan = \"" + file + "\"\n"))
	if err == nil || !strings.Contains(err.Error(), `plan 1 has hash "xxhash", and the switch has "crc": set hash = "xxhash" in [switch]`) {
		t.Errorf("a plan of another hash: %v", err)
	}
}
