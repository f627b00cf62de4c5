package config

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzParse: no file makes Parse panic, each fault is one line, and what Parse
// accepts survives Dump.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("*.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, text := range []string{good, "a = 1\nport = [{name = 'x'}, {}]", "stages = 1", "[stages]\npatch = []", "port = [1]", "switch = [[]]"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			for _, fault := range err.(interface{ Unwrap() []error }).Unwrap() {
				if text := fault.Error(); text == "" || bytes.ContainsRune([]byte(text), '\n') {
					t.Errorf("a fault of %d bytes is no line: %q", len(text), text)
				}
			}
			return
		}
		var text bytes.Buffer
		if err := c.Dump(&text); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text.Bytes())
		if err != nil {
			t.Fatalf("the dump does not load: %v\n%s", err, &text)
		}
		if diff := cmp.Diff(c, again, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}
