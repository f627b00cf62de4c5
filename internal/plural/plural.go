// Package plural writes numbers of things in English.
package plural

import (
	"fmt"
	"strings"
)

// Counted is a number of things: "1 switch", "2 switches", "3 links".
func Counted(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "ch"):
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
