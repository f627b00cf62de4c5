package importrules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// parsePackage parses the non-test files of a package as far as comments and
// imports go.
func parsePackage(t *testing.T, p goPackage) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
	}
	return files
}

// TestOnePackageDoc: a reader looks for a package's doc in one place.
func TestOnePackageDoc(t *testing.T) {
	for _, p := range list(t) {
		var with []string
		for name, f := range parsePackage(t, p) {
			if f.Doc == nil {
				continue
			}
			with = append(with, name)
			want := "Package " + f.Name.Name + " "
			if f.Name.Name == "main" { // as in "Gofmt formats Go programs"
				program := filepath.Base(p.path())
				want = strings.ToUpper(program[:1]) + program[1:] + " "
			}
			if text := f.Doc.Text(); !strings.HasPrefix(text, want) {
				t.Errorf("%s/%s: the package doc begins %.30q: want %q", p.path(), name, text, want)
			}
		}
		if slices.Sort(with); len(p.GoFiles) != 0 && len(with) != 1 {
			t.Errorf("%s has %d package docs %v: want exactly one", p.path(), len(with), with)
		}
	}
}

// TestUnsafeInOneFile: who reviews memory safety reads one file of the rings.
func TestUnsafeInOneFile(t *testing.T) {
	for _, p := range list(t) {
		if p.path() != "dataplane/xsk" {
			continue
		}
		for name, f := range parsePackage(t, p) {
			for _, imp := range f.Imports {
				if imp.Path.Value == `"unsafe"` && name != "unsafe.go" {
					t.Errorf("%s/%s imports unsafe: move that to unsafe.go", p.path(), name)
				}
			}
		}
	}
}

// TestNames: a package's name says what is in it.
func TestNames(t *testing.T) {
	vague := []string{"base", "common", "core", "helper", "helpers", "manager", "misc", "shared", "types", "util", "utils"}
	for _, p := range list(t) {
		if name := filepath.Base(p.path()); slices.Contains(vague, name) {
			t.Errorf("package %s: %q says nothing of what is in it", p.path(), name)
		}
	}
}

// forbidden are words that do not belong into any file. Each is put together
// here, so that this file passes its own test.
var forbidden = []struct {
	word *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`), "an unkept promise: do it, or open an issue"},
	{regexp.MustCompile(`/(ho` + `me|Use` + `rs)/[a-z]`), "a path of one machine"},
	{regexp.MustCompile(`(?i)\b(not implemented|unimplemented) ` + `yet\b`), "what is not there is not in the tree"},
	{regexp.MustCompile(`<<<<` + `<<< |>>>>` + `>>> `), "a merge that was not finished"},
}

func TestForbiddenWords(t *testing.T) {
	dir := root(t)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() {
			if name == ".git" || path == filepath.Join(dir, "bin") || name == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(path) {
		case ".go", ".c", ".h", ".md", ".toml", ".yaml", ".p4", ".proto", "":
		default:
			return nil
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		for i, line := range strings.Split(string(text), "\n") {
			for _, f := range forbidden {
				if word := f.word.FindString(line); word != "" {
					t.Errorf("%s:%d: %q: %s", name, i+1, word, f.why)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
