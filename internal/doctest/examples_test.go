package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamples: the stage of examples/stage lives in a separate module, outside this tree: it builds, passes its tests, and
// drops packets.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	tree, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "guard")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(tree, "examples/stage"))); err != nil {
		t.Fatal(err)
	}
	rewrite := func(name string, from, to string) {
		t.Helper()
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(strings.ReplaceAll(string(text), from, to)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rewrite(filepath.Join(dir, "main.go"), "github.com/weirswitch/weir/examples/stage/", "example.com/guard/")
	rewrite(filepath.Join(tree, "go.mod"), "module github.com/weirswitch/weir\n", "module example.com/guard\n\nrequire github.com/weirswitch/weir v0.0.0\n\nreplace github.com/weirswitch/weir => "+tree+"\n")
	rewrite(filepath.Join(tree, "go.sum"), "", "")
	run := func(args ...string) string {
		t.Helper()
		command := exec.Command("go", args...)
		command.Dir = dir
		command.Env = append(os.Environ(), "GOFLAGS=-trimpath -mod=mod")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("vet", "./...")
	run("test", "./...")
	if out := run("run", ".", "-in", filepath.Join(tree, "docs/example.pcap")); !strings.Contains(out, "ttl_too_low") {
		t.Errorf("the stage dropped nothing:\n%s", out)
	}
}
