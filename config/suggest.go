package config

import (
	"fmt"
	"slices"
	"strings"
)

// suggest is the remedy for a name that does not exist: the nearest one that
// does, or all.
func suggest(name string, known []string) string {
	best, least := "", 3 // farther than two edits is another word
	for _, k := range known {
		if n := distance(name, k); n < least && n < len(k) {
			best, least = k, n
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 {
		return "remove it, there are none"
	}
	known = slices.Clone(known)
	slices.Sort(known)
	return "remove it, or choose from " + strings.Join(known, ", ")
}

// distance counts the edits of one byte that turn a into b, whatever the case
// (Wagner and Fischer, row by row).
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
