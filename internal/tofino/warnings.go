package main

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// warnings are what compiler and assembler warn of in one program.
type warnings struct {
	ours      []warning // that point into the sources, or name a table of them
	compilers []warning // of itself
	assembler int       // of the file that the compiler made
}

type warning struct {
	kind string // as in --Wwarn=kind, or unnamedKind
	file string // "" without a position
	line string
	text string
}

const unnamedKind = "no kind"

// warningLine is a warning of p4c: position and kind are not always there.
var warningLine = regexp.MustCompile(`^(?:(.+)\((\d+)\): )?(?:\[--Wwarn=([\w-]+)\] )?warning: (.*)$`)

// readWarnings sorts what the compiler said of sources in a folder or below.
func readWarnings(said []byte, sources string) (w warnings) {
	for line := range bytes.Lines(said) {
		m := warningLine.FindSubmatch(bytes.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		is := warning{kind: string(m[3]), line: string(m[2]), text: string(m[4])}
		if is.kind == "" {
			is.kind = unnamedKind
		}
		within := false
		if len(m[1]) > 0 {
			is.file = filepath.Clean(string(m[1]))
			path, err := filepath.Rel(sources, is.file)
			within = err == nil && filepath.IsLocal(path)
		}
		if within || strings.Contains(is.text, "table '") {
			w.ours = append(w.ours, is)
		} else {
			w.compilers = append(w.compilers, is)
		}
	}
	return w
}

// String is a line with how many there are of which kinds, and one for each kind and
// file of the sources with their positions.
func (w warnings) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of the sources, %s of the compiler itself, %d of the assembler\n", kinds(w.ours), kinds(w.compilers), w.assembler)
	positions := map[[2]string][]string{}
	for _, is := range w.ours {
		where := is.line
		if is.file == "" {
			where = is.text
		}
		if at := [2]string{is.kind, is.file}; !slices.Contains(positions[at], where) {
			positions[at] = append(positions[at], where)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(positions), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		if kind, file := at[0], at[1]; file == "" {
			fmt.Fprintf(&b, "  %s: %s\n", kind, strings.Join(positions[at], "; "))
		} else {
			fmt.Fprintf(&b, "  %s: %s, lines %s\n", kind, file, strings.Join(positions[at], " "))
		}
	}
	return b.String()
}

// kinds counts warnings by kind, as in "3 (2 unused, 1 no kind)".
func kinds(of []warning) string {
	if len(of) == 0 {
		return "0"
	}
	count := map[string]int{}
	for _, is := range of {
		count[is.kind]++
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d %s", count[kind], kind))
	}
	return fmt.Sprintf("%d (%s)", len(of), strings.Join(parts, ", "))
}
