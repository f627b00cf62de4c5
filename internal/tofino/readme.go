package main

import (
	"fmt"
	"regexp"
	"strings"
)

// heading is one of any level above the table of a program.
var heading = regexp.MustCompile("^#+ (`([\\w-]+)\\.p4`: .*)$")

// tables finds the tables of programs in a Markdown text, as lines: the heading without
// its level, then the rows, of which the first two name the columns.
func tables(text string) map[string][]string {
	found := map[string][]string{}
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch m := heading.FindStringSubmatch(line); {
		case m != nil:
			name = m[2]
			found[name] = []string{m[1]}
		case strings.HasPrefix(line, "|") && name != "":
			found[name] = append(found[name], line)
		case line != "":
			name = ""
		}
	}
	return found
}

// compare says where the table of a program in a text is not the one that was printed.
func compare(p program, printed, text string) error {
	got, want := tables(text)[p.name], tables(printed)[p.name]
	if len(got) < 2 {
		return fmt.Errorf("there is no table of %s.p4", p.name)
	}
	var faults []string
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			faults = append(faults, fmt.Sprintf("%q is not there", want[i]))
		case i >= len(want):
			faults = append(faults, fmt.Sprintf("%q is too much", got[i]))
		case got[i] != want[i]:
			faults = append(faults, fmt.Sprintf("%q should be %q", got[i], want[i]))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("the table of %s.p4 is not the one above:\n  %s", p.name, strings.Join(faults, "\n  "))
}
