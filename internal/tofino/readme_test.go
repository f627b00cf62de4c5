package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	p := program{name: "x", target: "tofino", most: 12}
	stages := []stage{{tables: []string{"a"}, sram: 2}, {tables: []string{"b"}, hashBits: 7}}
	printed := table(p, stages)
	other := program{name: "y", target: "tofino2", most: 20}
	text := "# Title\n\n#" + printed + "Rows of x.\n\n| not | of | x |\n\n#" + table(other, stages[:1])
	for _, q := range []struct {
		what string
		p    program
		text string
		want []string // in the error, none: no error
	}{
		{"the same below another heading", p, text, nil},
		{"the last one of the text", program{name: "y", target: "tofino2", most: 20}, strings.ReplaceAll(text, "\n", "\r\n"), []string{"y.p4", "1 of 20", "should be", "2 of 20"}},
		{"a number", p, strings.Replace(text, "| 1 | 1 | 0 | 0 | 7 |", "| 1 | 1 | 0 | 0 | 8 |", 1), []string{"x.p4", "| 1 | 1 | 0 | 0 | 8 |", "should be", "| 1 | 1 | 0 | 0 | 7 |"}},
		{"the heading", p, strings.Replace(text, "2 of 12 stages", "3 of 12 stages", 1), []string{"x.p4", "3 of 12", "2 of 12"}},
		{"no sum", p, strings.Replace(text, "| all | 2 | 2 | 0 | 7 | 0 | 0 | 0 |\n", "", 1), []string{"x.p4", "| all | 2 |", "is not there"}},
		{"a row too much", p, strings.Replace(text, "Rows of x.", "| all | 2 |", 1), []string{"x.p4", "| all | 2 |", "is too much"}},
		{"no table", p, "#" + table(other, stages), []string{"no table of x.p4"}},
		{"a heading alone", p, "### `x.p4`: 2 of 12 stages of Tofino 1\n\ntext\n| 0 |\n", []string{"no table of x.p4"}},
	} {
		made := printed
		if q.p.name == "y" {
			made = table(q.p, stages)
		}
		err := compare(q.p, made, q.text)
		if q.want == nil {
			if err != nil {
				t.Errorf("%s: %v", q.what, err)
			}
			continue
		}
		for _, want := range q.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one with %q", q.what, err, want)
			}
		}
	}
}

// TestReadme finds the tables of all programs in the README.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../p4/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := tables(string(text))
	for _, p := range programs {
		if rows := found[p.name]; len(rows) < 5 || !strings.HasPrefix(rows[len(rows)-1], "| all |") {
			t.Errorf("%s: %q is no table of stages and their sum", p.name, rows)
		}
		delete(found, p.name)
	}
	for name := range found {
		t.Errorf("%s.p4 has a table and is no program", name)
	}
}
