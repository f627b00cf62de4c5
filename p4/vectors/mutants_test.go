package vectors

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/bmv2/bmv2test"
	"github.com/weirswitch/weir/p4/tables"
	"github.com/weirswitch/weir/telemetry/hash"
)

// MutantsVariable says that the mutants are to be run: "all", or a regular expression that finds something in the names of those that are.
const MutantsVariable = "WEIR_P4_MUTANTS"

// TestMutantsApply: the list's lines are those of the programs.
func TestMutantsApply(t *testing.T) {
	names := map[string]bool{}
	for _, list := range mutants {
		for _, m := range list {
			if _, err := m.text(); err != nil {
				t.Error(err)
			}
			if names[m.name] {
				t.Errorf("%q is listed twice", m.name)
			}
			names[m.name] = true
		}
	}
}

// TestMutants: each mutant is compiled, and does other things to the packets of the committed vectors than the vectors say,
// or to those of P4_PACKETS of each capture; but for those that are equivalent, which do the same to Corners and Boundaries.
func TestMutants(t *testing.T) {
	asked := os.Getenv(MutantsVariable)
	if asked == "" {
		t.Skipf("takes half an hour: make p4-mutants")
	}
	if asked == "all" {
		asked = ""
	}
	names, err := regexp.Compile(asked)
	if err != nil {
		t.Fatalf("%s: %v", MutantsVariable, err)
	}
	tools := bmv2test.Find(t)
	chosen, caught, equivalent := 0, 0, 0
	type compared struct {
		mutant
		family hash.Family
	}
	var ordered []compared
	for _, f := range []hash.Family{hash.CRC, hash.XX} {
		for _, m := range mutants[f] {
			if names.MatchString(m.name) {
				ordered = append(ordered, compared{m, f})
			}
		}
	}
	// Those that are equivalent take longest.
	slices.SortStableFunc(ordered, func(a, b compared) int { return min(len(a.equivalent), 1) - min(len(b.equivalent), 1) })
	for _, m := range ordered {
		chosen++
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			compiled, err := m.compile(t, tools, m.family)
			if err != nil {
				t.Fatal(err)
			}
			by := m.caught(t, tools, compiled, m.family)
			switch {
			case by == "" && m.equivalent == "":
				t.Errorf("%s: no packet shows that %s", m.file, m.name)
			case by != "" && m.equivalent != "":
				t.Errorf("%s: %s, which is listed as equivalent (%s), is caught by %s", m.file, m.name, m.equivalent, by)
			case by == "":
				equivalent++
				t.Logf("%-30s %-55s equivalent: %s", m.file, m.name, m.equivalent)
			default:
				caught++
				t.Logf("%-30s %-55s caught by %s", m.file, m.name, by)
			}
		})
	}
	if chosen == 0 {
		t.Errorf("no mutant's name matches %q", asked)
	}
	t.Logf("%d mutants caught, %d equivalent", caught, equivalent)
}

// likely ranks a vector's file by how likely its packets find a mutant.
func likely(file string) int {
	switch {
	case strings.HasSuffix(file, "-"+boundaryCapture+suffix):
		return boundaryRank
	case strings.HasSuffix(file, "-"+cornerCapture+suffix):
		return 1
	}
	return 0
}

const boundaryRank = 2

// text is the changed file.
func (m *mutant) text() (string, error) {
	text, err := os.ReadFile(filepath.Join("..", m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%s has the line of %q %d times: change the list with the program", m.file, m.name, n)
	}
	return strings.Replace(string(text), m.old, m.new, 1), nil
}

// compile compiles the program with the change for a hash family.
func (m *mutant) compile(t *testing.T, tools bmv2.Tools, f hash.Family) (string, error) {
	t.Helper()
	changed, err := m.text()
	if err != nil {
		return "", err
	}
	root := t.TempDir()
	for _, dir := range []string{"include", "v1model"} {
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS(filepath.Join("..", dir))); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(root, m.file), []byte(changed), 0o600); err != nil {
		return "", err
	}
	compiled := filepath.Join(root, "mutant.json")
	return compiled, tools.Compile(context.Background(), filepath.Join(root, "v1model/weir.p4"), compiled, append(tables.Defines(f), "WEIR_GIVEN_TIME")...)
}

// caught says which comparison finds the mutant first, and what differs.
func (m *mutant) caught(t *testing.T, tools bmv2.Tools, compiled string, f hash.Family) string {
	files := vectorFiles(t)
	// Those first that find most mutants of the file, then all with packets made for boundaries, and for corners.
	rank := func(file string) int {
		name := strings.TrimSuffix(filepath.Base(file), suffix)
		if i := slices.Index(lookFirst[m.file], name); i >= 0 {
			return 100 - i
		}
		return likely(file)
	}
	slices.SortStableFunc(files, func(a, b string) int { return rank(b) - rank(a) })
	for _, file := range files {
		v, err := ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := LoadSetup(setupDir, v.Setup)
		if err != nil {
			t.Fatal(err)
		}
		if !m.touches(s, f) || m.equivalent != "" && v.Capture != cornerCapture && v.Capture != boundaryCapture {
			continue
		}
		want, err := RunGo(s, v.Packets)
		if err != nil {
			t.Fatal(err)
		}
		if d := differs(t, tools, compiled, s, v.Packets, want); d != "" {
			return fmt.Sprintf("%s-%s: %s", v.Setup, v.Capture, d)
		}
	}
	if m.equivalent != "" {
		return ""
	}
	n := 600
	if text := os.Getenv(PacketsVariable); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", PacketsVariable, err)
		}
	}
	setups, err := Setups(setupDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range setups {
		s, err := LoadSetup(setupDir, name)
		if err != nil {
			t.Fatal(err)
		}
		if !m.touches(s, f) {
			continue
		}
		for i, capture := range large {
			p := packets(t, s, capture, n, uint64(i+1))
			want, err := RunGo(s, p)
			if err != nil {
				t.Fatal(err)
			}
			if d := differs(t, tools, compiled, s, p, want); d != "" {
				return fmt.Sprintf("%d packets of %s under %s: %s", n, shortName(capture), name, d)
			}
		}
	}
	return ""
}

// touches says whether a setup's switch has the hash family, and the control that the mutant changes.
func (m *mutant) touches(s *Setup, f hash.Family) bool {
	if s.Switch.Hash != f {
		return false
	}
	switch filepath.Base(m.file) {
	case "l2.p4":
		return s.has("l2")
	case "l3.p4":
		return s.has("l3")
	}
	return true
}

// differs is the first difference; empty: there is none. Its switch ends with it.
func differs(t *testing.T, tools bmv2.Tools, compiled string, s *Setup, packets []Packet, want *Run) (first string) {
	t.Helper()
	t.Run(s.Name, func(t *testing.T) {
		p, err := NewP4(bmv2test.Start(t, tools, compiled, "wmut"), s, packets[0].Now)
		if err != nil {
			t.Fatal(err)
		}
		p.untilFirst = true
		got, err := p.Run(packets, want.Writes, want)
		if err != nil {
			first = err.Error()
		} else if d := Compare(packets, want, got); len(d) != 0 {
			first = d[0].String()
		}
	})
	return first
}
