package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/stages/patch"
)

func patchFile(ports int, more string) string {
	var b strings.Builder
	b.WriteString("[switch]\nname = \"s1\"\ngraph = [\"parse\", \"patch\"]\n")
	for i := range ports {
		b.WriteString("[[port]]\ninterface = \"eth" + string(rune('0'+i)) + "\"\n")
	}
	return b.String() + more
}

// TestPatchWithoutPairs: two ports are a pair; with more or fewer, no pairs is a fault.
func TestPatchWithoutPairs(t *testing.T) {
	for _, more := range []string{"", "[stages.patch]\n", "[stages.patch]\npairs = []\n"} {
		c, err := Parse([]byte(patchFile(2, more)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&patch.Config{Pairs: [][2]string{{"eth0", "eth1"}}}, c.Stages["patch"]); diff != "" {
			t.Errorf("%q: %s", more, diff)
		}
	}
	for ports, want := range map[int]string{
		1: "stages.patch.pairs: is missing, and a single port has none to be joined with: add another [[port]]",
		3: "stages.patch.pairs: is missing, so every packet would be dropped: name the ports that are joined, as in [[\"eth0\", ",
	} {
		_, err := Parse([]byte(patchFile(ports, "")))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d ports: %v", ports, err)
		}
	}
}

// TestFormerNames: a key that was renamed is accepted by its former name, with a warning, but not by both.
func TestFormerNames(t *testing.T) {
	const head = "[switch]\nname = \"s1\"\ngraph = [\"parse\", \"policer\", \"l2\"]\n[[port]]\ninterface = \"p0\"\n[[stages.policer.port]]\n"
	c, err := Parse([]byte(head + "name = \"p0\"\nrate_bits = 1000000\n[[stages.l2.port]]\nname = \"p0\"\naccess = 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"line 7: stages.policer.port[0].name: is called port now: rename it, a later release will not know the former name",
		"line 10: stages.l2.port[0].name: is called port now: rename it, a later release will not know the former name",
	}
	if diff := cmp.Diff(want, c.Warnings); diff != "" {
		t.Error(diff)
	}
	now, err := Parse([]byte(head + "port = \"p0\"\nrate_bits = 1000000\n[[stages.l2.port]]\nport = \"p0\"\naccess = 3\n"))
	if err != nil || now.Warnings != nil || len(Diff(c, now)) != 0 {
		t.Errorf("%v, %v, %v", err, now.Warnings, Diff(c, now))
	}
	for _, fields := range []map[string]string{{"name": "p0"}, {"port": "p0"}} {
		next, err := now.Edited(Edit{Stage: "policer", List: "port", Remove: true, Fields: fields})
		if err != nil || len(Diff(now, next)) != 1 {
			t.Errorf("remove %v: %v", fields, err)
		}
	}
	if _, err := Parse([]byte(head + "name = \"p0\"\nport = \"p0\"\nrate_bits = 1000000\n")); err == nil || !strings.Contains(err.Error(), "is the former name of port, which is there too: remove it") {
		t.Errorf("both: %v", err)
	}
}
