package tables

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files anew")

// TestGolden compares commands with those of before. Of long tables the file has the
// first and the last lines, and a hash of all.
func TestGolden(t *testing.T) {
	for _, name := range []string{"switch", "bridge", "router"} {
		var b bytes.Buffer
		if err := build(t, load(t, name+".toml")).WriteCommands(&b, []string{"calc"}); err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/"+name+".commands", shorten(b.String()))
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what is written now: see with git diff after go test ./p4/tables -update, and say why", file)
	}
}

// shorten leaves the middle of runs of more than eight lines with the same first two
// words out.
func shorten(text string) string {
	var out strings.Builder
	lines := strings.SplitAfter(text, "\n")
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && kind(lines[n]) == kind(lines[0]) {
			n++
		}
		if run := lines[:n]; n <= 8 {
			out.WriteString(strings.Join(run, ""))
		} else {
			sum := sha256.Sum256([]byte(strings.Join(run, "")))
			fmt.Fprintf(&out, "%s%s# ... %d in all, SHA-256 %x\n%s", run[0], run[1], n, sum, run[n-1])
		}
		lines = lines[n:]
	}
	return out.String()
}

func kind(line string) string {
	words := strings.Fields(line)
	return strings.Join(words[:min(2, len(words))], " ")
}
