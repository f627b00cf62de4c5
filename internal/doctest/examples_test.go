package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamples: each module below examples builds, passes its tests, and does what it is for, with this tree.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	modules, err := filepath.Glob("../../examples/*/go.mod")
	if err != nil || len(modules) == 0 {
		t.Fatalf("no modules: %v", err)
	}
	for _, module := range modules {
		dir := filepath.Dir(module)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			for _, args := range [][]string{{"vet", "./..."}, {"test", "./..."}, {"build", "-o", t.TempDir(), "./..."}} {
				command := exec.Command("go", args...)
				command.Dir = dir
				command.Env = append(os.Environ(), "GOFLAGS=-trimpath -mod=mod")
				if out, err := command.CombinedOutput(); err != nil {
					t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
				}
			}
		})
	}
	command := exec.Command("go", "run", ".", "-in", "../../docs/example.pcap")
	command.Dir = "../../examples/stage"
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ttl_too_low") {
		t.Errorf("the stage of examples/stage dropped nothing: %v\n%s", err, out)
	}
}
