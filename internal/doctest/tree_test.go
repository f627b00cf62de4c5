package doctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline/packet"

	// The stages and drivers register their drop reasons.
	_ "github.com/weirswitch/weir/dataplane/worker"
	_ "github.com/weirswitch/weir/stages"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var link = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)

// TestLinks: what a document points to is there.
func TestLinks(t *testing.T) { checkLinks(t, "../..") }

// TestInstalledLinks: what a document points to is also installed with it, as "make release" installs it.
func TestInstalledLinks(t *testing.T) {
	dest := t.TempDir()
	if out, err := exec.Command("make", "-s", "-C", "../..", "install-docs", "DESTDIR="+dest, "PREFIX=/usr").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	checkLinks(t, filepath.Join(dest, "usr/share/doc/weir"))
}

// checkLinks looks at the documents of a folder.
func checkLinks(t *testing.T, folder string) {
	t.Helper()
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "p4/*.md"} {
		some, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, some...)
	}
	if len(documents) < 30 {
		t.Errorf("%d documents", len(documents))
	}
	for _, path := range documents {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := filepath.Join(filepath.Dir(path), m[1])
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// TestFolderList compares ARCHITECTURE's list of packages with the tree.
func TestFolderList(t *testing.T) {
	_, list, ok := strings.Cut(read(t, "ARCHITECTURE.md"), "## Packages\n\n```\n")
	if !ok {
		t.Fatal("ARCHITECTURE.md has no list of packages")
	}
	list, _, _ = strings.Cut(list, "```")
	var listed []string
	for _, line := range strings.Split(strings.TrimSpace(list), "\n") {
		folder := strings.TrimSuffix(strings.Fields(line)[0], "/")
		listed = append(listed, folder)
		if info, err := os.Stat(filepath.Join("../..", folder)); err != nil || !info.IsDir() {
			t.Errorf("ARCHITECTURE.md lists %s, which is no folder", folder)
		}
	}
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}}", "../../...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		folder := strings.TrimPrefix(path, "github.com/weirswitch/weir/")
		for ; folder != "." && !slices.Contains(listed, folder); folder = filepath.Dir(folder) {
			// A folder is covered by the line of one above it, but each stage has its own.
			if filepath.Dir(folder) == "stages" {
				t.Errorf("ARCHITECTURE.md does not list %s", folder)
			}
		}
		if folder == "." {
			t.Errorf("ARCHITECTURE.md does not list %s", path)
		}
	}
}

// TestDropReasons compares docs/drop-reasons.md with the reasons in the binary.
func TestDropReasons(t *testing.T) {
	const name, begin, end = "docs/drop-reasons.md", "<!-- generated -->\n", "<!-- end -->\n"
	text := read(t, name)
	head, rest, ok := strings.Cut(text, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no generated part", name)
	}
	var rows []string
	for _, r := range packet.Reasons() {
		rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", r, r.Help()))
	}
	slices.Sort(rows)
	want := head + begin + "| reason | the packet was dropped because |\n|---|---|\n" + strings.Join(rows, "") + end + tail
	if *update {
		if err := os.WriteFile(filepath.Join("../..", name), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != want {
		t.Errorf("%s is not what the code registers: run go test ./internal/doctest -update", name)
	}
}
