package tomlfile

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

func TestLocate(t *testing.T) {
	text := `# a comment with [brackets] and k = "v"
top = 1
a.b = "x # no comment" # a comment

[switch]
name = 'it "is' # a comment
[[port]]
keep = [ "a]", # ]
  "b",
  ["c"] ]
"quo.ted" = 1
[port.sub]
x = 1
[[port]]
text = """
[not.a.table]
k = 1 \""" """""
[[port.inner]]
y = {z = 1, w = [ {q = 2},
 {q = 3} ]}
[[port.inner]]
y = 1
[stages.l2]
when = 2026-01-01 00:00:00
raw = '''
[nothing]''' # end
last = 0.5`
	want := map[string]int{
		"top": 2, "a": 3, "a.b": 3, "switch": 5, "switch.name": 6,
		"port": 7, "port[0]": 7, "port[0].keep": 8, "port[0].keep[0]": 8, "port[0].keep[1]": 9, "port[0].keep[2]": 10, "port[0].keep[2][0]": 10,
		"port[0].quo.ted": 11, "port[0].sub": 12, "port[0].sub.x": 13,
		"port[1]": 14, "port[1].text": 15,
		"port[1].inner": 18, "port[1].inner[0]": 18, "port[1].inner[0].y": 19, "port[1].inner[0].y.z": 19, "port[1].inner[0].y.w": 19,
		"port[1].inner[0].y.w[0]": 19, "port[1].inner[0].y.w[0].q": 19, "port[1].inner[0].y.w[1]": 20, "port[1].inner[0].y.w[1].q": 20,
		"port[1].inner[1]": 21, "port[1].inner[1].y": 22,
		"stages": 23, "stages.l2": 23, "stages.l2.when": 24, "stages.l2.raw": 25, "stages.l2.last": 27,
	}
	checkLocate(t, []byte(text))
	got, table := locate([]byte(text))
	if table != "stages.l2" {
		t.Errorf("the last table is %q", table)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// keysIn lists the keys of a decoded document as locate writes them.
func keysIn(prefix string, data any, into map[string]bool) {
	if prefix != "" {
		into[prefix] = true
	}
	if table, ok := data.(map[string]any); ok {
		for k, v := range table {
			keysIn(join(prefix, k), v, into)
		}
	}
	switch list := data.(type) {
	case []any:
		for i, v := range list {
			keysIn(fmt.Sprintf("%s[%d]", prefix, i), v, into)
		}
	case []map[string]any:
		for i, v := range list {
			keysIn(fmt.Sprintf("%s[%d]", prefix, i), v, into)
		}
	}
}

// checkLocate: of a document that another library finds valid, too, locate finds the same keys.
func checkLocate(t *testing.T, data []byte) {
	var root map[string]any
	if _, err := toml.Decode(string(data), &root); err != nil {
		locate(data) // means nothing, but must return
		return
	}
	keys := map[string]bool{}
	keysIn("", root, keys)
	var f Faults
	f.lines, _ = locate(data)
	for key := range keys {
		if f.Line(key) == 0 {
			t.Errorf("the line of %q is not found in %q", key, data)
		}
	}
}

// FuzzLocate: every key of every valid document has a line, but that of an empty list in a list.
func FuzzLocate(f *testing.F) {
	files, err := filepath.Glob("../../config/*.toml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, text := range []string{"a = 1\nport = [{name = 'x'}, {}]", "port = [1]", "switch = [[]]", "a.\"b.c\" = [\n[1],\n[[2]]]"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkLocate(t, data) })
}
