package tna_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// programs reads the sources of both architectures, by folder and file.
func programs(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.p4"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no programs: %v", folder, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			texts[f] = string(text)
		}
	}
	return texts
}

var (
	tna     = []string{".", "include"}
	v1model = []string{"../v1model"}

	tableText = regexp.MustCompile(`(?s)table (\w+) \{\s*key = \{([^}]*)\}.*?size = ([^;]+);`)
	portKey   = regexp.MustCompile(`^\s*[\w.]*port\s*:\s*exact;\s*$`)
	// The number of a measurement point takes two bits of the index of a cell.
	fewerThanPorts = map[string]string{"points": "1 << TNA_LDS_POINT_BITS"}
)

// TestOnePortLimit: each table whose key is a port has room for MAX_PORTS.
func TestOnePortLimit(t *testing.T) {
	found := 0
	for file, text := range programs(t, append(tna, v1model...)...) {
		for _, m := range tableText.FindAllStringSubmatch(text, -1) {
			name, key, size := m[1], m[2], m[3]
			if !portKey.MatchString(key) {
				continue
			}
			found++
			want := "MAX_PORTS"
			if fewer, ok := fewerThanPorts[name]; ok {
				want = fewer
			}
			if size != want {
				t.Errorf("%s: table %s has room for %s ports, want %s", file, name, size, want)
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d tables of ports were found", found)
	}
}

var actionText = regexp.MustCompile(`(?s)action (\w+)\(([^)]+)\)`)

// parameters are those of the actions of the folders that a control plane fills in, by the action's name. Controls may have actions
// of the same name.
func parameters(t *testing.T, folders ...string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, text := range programs(t, folders...) {
		for _, m := range actionText.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[2], "in ") || strings.Contains(m[2], "out ") {
				continue // called by the program
			}
			var names []string
			for _, p := range strings.Split(m[2], ",") {
				words := strings.Fields(p)
				names = append(names, words[len(words)-1])
			}
			all[m[1]] = append(all[m[1]], strings.Join(names, ", "))
		}
	}
	return all
}

// otherwise are actions whose parameters have to be others on a Tofino, with the reason.
var otherwise = map[string]string{
	"set_queries": "a digest's layout is the program's: each query is there or not",
	"set_port":    "lengths are compared with 16 bits, and the use of a link is measured by a filter",
}

// TestParameterNames: actions that both architectures have take the same parameters; those for Tofino may take more, of what
// v1model asks another table.
func TestParameterNames(t *testing.T) {
	want, found := parameters(t, v1model...), 0
	for name, lists := range parameters(t, tna...) {
		if want[name] == nil {
			continue
		}
		for _, got := range lists {
			found++
			same := slices.ContainsFunc(want[name], func(w string) bool { return got == w || strings.HasPrefix(got, w+", ") })
			if _, ok := otherwise[name]; ok == same {
				t.Errorf("action %s takes %s, in v1model %q (excepted: %v)", name, got, want[name], ok)
			}
		}
	}
	if found < 8 {
		t.Errorf("both architectures have only %d actions of the same name", found)
	}
}

var intrinsicText = regexp.MustCompile(`(?:in|out|inout) ((?:in|e)gress_intrinsic_\w+) (\w+)`)

// TestIntrinsicNames: the target's metadata of one type have one name in all controls and parsers.
func TestIntrinsicNames(t *testing.T) {
	names := map[string]string{}
	for file, text := range programs(t, tna...) {
		for _, m := range intrinsicText.FindAllStringSubmatch(text, -1) {
			if other := names[m[1]]; other != "" && other != m[2] {
				t.Errorf("%s: %s is %s here, and %s elsewhere", file, m[1], m[2], other)
			}
			names[m[1]] = m[2]
		}
	}
	if len(names) < 7 {
		t.Errorf("only %d types of metadata were found", len(names))
	}
}
