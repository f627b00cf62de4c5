package importrules

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weirswitch/weir"

// goPackage is what these tests need of `go list -json`.
type goPackage struct {
	ImportPath   string
	Dir          string
	Standard     bool
	GoFiles      []string
	TestImports  []string
	XTestImports []string
	Imports      []string
	Deps         []string
	Error        *struct{ Err string }
}

// path is the package's path below the module.
func (p goPackage) path() string { return below(p.ImportPath) }

// below cuts the module off an import path of ours.
func below(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

func ours(importPath string) bool {
	return importPath == module || strings.HasPrefix(importPath, module+"/")
}

// root is the top of the checkout; tests run in their package's folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// listed is what go list says, which takes a second: all tests ask for the same.
var listed []goPackage

func list(t *testing.T) []goPackage {
	t.Helper()
	if listed != nil {
		return listed
	}
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Standard,GoFiles,TestImports,XTestImports,Imports,Deps,Error", "./...")
	cmd.Dir = root(t)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Error != nil {
			t.Errorf("%s: %s", p.path(), p.Error.Err)
		}
		packages = append(packages, p)
	}
	if len(packages) == 0 {
		t.Fatal("go list names no package")
	}
	listed = packages
	return listed
}

// match reports whether path fits pattern, as described at layer.
func match(pattern, path string) bool {
	if pattern == "..." {
		return true
	}
	if top, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == top || strings.HasPrefix(path, top+"/")
	}
	if top, ok := strings.CutSuffix(pattern, "/*"); ok {
		rest, ok := strings.CutPrefix(path, top+"/")
		return ok && !strings.Contains(rest, "/")
	}
	return pattern == path
}

func matchAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, path) })
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"stages", "stages", true},
		{"stages", "stages/l2", false},
		{"stages/*", "stages/l2", true},
		{"stages/*", "stages", false},
		{"stages/*", "stages/l2/fdb", false},
		{"stages/...", "stages", true},
		{"stages/...", "stages/l2/fdb", true},
		{"stages/...", "stagesx", false},
		{"...", "anything", true},
	} {
		if got := match(c.pattern, c.path); got != c.want {
			t.Errorf("match(%q, %q) = %v", c.pattern, c.path, got)
		}
	}
}

// layerOf returns the first layer that takes path in, with "=" in its rules
// replaced by the package's own name.
func layerOf(path string) (layer, bool) {
	for _, l := range layers {
		if match(l.pkg, path) {
			may := make([]string, len(l.may))
			for i, m := range l.may {
				may[i] = strings.ReplaceAll(m, "=", filepath.Base(path))
			}
			l.may = may
			return l, true
		}
	}
	return layer{}, false
}

func TestLayers(t *testing.T) {
	for _, p := range list(t) {
		l, ok := layerOf(p.path())
		if !ok {
			t.Errorf("%s has no layer: give it one in rules_test.go, with the reason", p.path())
			continue
		}
		for _, imp := range p.Imports {
			if ours(imp) && !matchAny(l.may, below(imp)) {
				t.Errorf("%s imports %s: %s may import %v, because %s", p.path(), below(imp), l.pkg, l.may, l.why)
			}
		}
		// Tests may join what the code keeps apart, but cmd is not a library.
		for _, imp := range append(p.TestImports, p.XTestImports...) {
			if ours(imp) && match("cmd/...", below(imp)) && !match("cmd/...", p.path()) {
				t.Errorf("the tests of %s import %s: nothing imports cmd", p.path(), below(imp))
			}
		}
	}
}

func TestForeignImports(t *testing.T) {
	for _, p := range list(t) {
		for _, imp := range p.Imports {
			i := slices.IndexFunc(foreigns, func(f foreign) bool {
				return imp == f.pkg || strings.HasPrefix(imp, f.pkg+"/")
			})
			switch {
			case i >= 0:
				if f := foreigns[i]; !matchAny(f.by, p.path()) {
					t.Errorf("%s imports %s, which is for %v, because %s", p.path(), imp, f.by, f.why)
				}
			case !ours(imp) && strings.Contains(strings.Split(imp, "/")[0], "."):
				t.Errorf("%s imports %s, which no rule names: say in rules_test.go who may use it, and why", p.path(), imp)
			}
		}
	}
}

func TestBans(t *testing.T) {
	packages := list(t)
	for _, b := range bans {
		for _, p := range packages {
			if matchAny(b.from, p.path()) && slices.Contains(p.Deps, b.pkg) {
				t.Errorf("%s depends on %s (see go list -deps): %s", p.path(), b.pkg, b.why)
			}
		}
	}
}

// TestRulesMatchPackages fails for a rule about packages that do not exist, which would guard nothing.
func TestRulesMatchPackages(t *testing.T) {
	packages := list(t)
	check := func(rule string, patterns []string) {
		for _, pattern := range patterns {
			if strings.Contains(pattern, "=") {
				continue // the name of the package that the rule is for
			}
			if !slices.ContainsFunc(packages, func(p goPackage) bool { return match(pattern, p.path()) }) {
				t.Errorf("the rule for %s names %s, which is no package", rule, pattern)
			}
		}
	}
	for _, l := range layers {
		check(l.pkg, append([]string{l.pkg}, l.may...))
	}
	for _, f := range foreigns {
		check(f.pkg, f.by)
	}
	for _, b := range bans {
		check(b.pkg, b.from)
	}
}
