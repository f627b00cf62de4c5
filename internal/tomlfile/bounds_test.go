package tomlfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// TestBounds: what would take the parser's stack or memory is refused before it is parsed, with the line.
func TestBounds(t *testing.T) {
	for name, text := range map[string]string{
		"8 MB of brackets":              "\na = " + strings.Repeat("[", 8<<20),
		"brackets at the beginning":     strings.Repeat("[", 8<<20),
		"brackets behind a string":      "a = '#'\nb = [\"]\\\"]\", " + strings.Repeat("[", 100),
		"tables within tables":          "a = " + strings.Repeat("{a=", 100),
		"tables in lists":               "a = " + strings.Repeat("[{a=", 100),
		"a dotted key of 600 kB":        "\n" + strings.Repeat("a.", 300_000) + "a = 1",
		"a dotted table":                "[" + strings.Repeat("a.", 300_000) + "a]",
		"a dotted list of tables":       "[[" + strings.Repeat("a.", 300_000) + "a]]",
		"a quoted dotted key":           strings.Repeat("\"a\".", 300_000) + "a = 1",
		"a dotted key in a table":       "a = {b = 1, " + strings.Repeat("a.", 300_000) + "a = 1}",
		"a long key":                    strings.Repeat("a", 1<<20) + " = 1",
		"a long quoted key":             "\"" + strings.Repeat("a", 1<<20) + "\" = 1",
		"more than a file may have":     strings.Repeat("# a comment\n", 2<<20),
		"brackets behind a long string": "a = \"\"\"\n\\\"\"\"\"\"\"\nb = " + strings.Repeat("[", 100),
	} {
		var into struct{}
		f := Decode([]byte(text), &into, nil)
		if f.Empty() || !strings.Contains(f.Err("x").Error(), "at most") && !strings.Contains(f.Err("x").Error(), "more than") {
			t.Errorf("%s: %.200v", name, f.Err("x"))
		}
	}
	for name, text := range map[string]string{
		"brackets in a string":  "a = \"" + strings.Repeat("[", 1000) + "\"",
		"brackets in a comment": "a = 1 # " + strings.Repeat("[", 1000),
		"brackets in a list":    "a = [" + strings.Repeat("[], ", 1000) + "[]]",
		"a long value":          "a = '" + strings.Repeat("a.", 1<<20) + "'",
		"long strings":          "a = '''\n[[[[''\n" + strings.Repeat("[", 1000) + "''''\nb = \"\"\"\\\"\"\"\\\\\"\"\"\nc = 1",
		"dates and floats":      "a = [1.5, 1979-05-27T07:32:00Z]\n[b.c.'d e'.\"f\"]\ng.h = {i = 1, j.k = [{l = 2}]}",
	} {
		if f := bounds([]byte(text)); f != nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// FuzzBounds: whatever the text, what is left to the parser has few levels and short keys.
func FuzzBounds(f *testing.F) {
	files, _ := filepath.Glob("../../config/*.toml")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			f.Add(text)
		}
	}
	f.Add([]byte("a = [[{b.c = \"\"\"x\"\"\"}, '''y''']]\n[d.\"e\"]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if bounds(text) != nil {
			return
		}
		var root map[string]any
		if toml.Unmarshal(text, &root) != nil {
			return
		}
		if n := levels(root); n > (maxDepth+1)*(maxParts+1) {
			t.Errorf("%d levels", n)
		}
	})
}

func levels(v any) (most int) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if len(k) > maxKey {
				return 1 << 30
			}
			most = max(most, 1+levels(x))
		}
	case []any:
		for _, x := range v {
			most = max(most, 1+levels(x))
		}
	}
	return most
}
