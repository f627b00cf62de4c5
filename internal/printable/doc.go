// Package printable makes text of others fit for a terminal, on one line.
package printable

import (
	"strings"
	"unicode"
)

// Text is a text with the replacement character for each rune that is not printable: control
// characters, ends of lines and what is no UTF-8 among them. Other text is returned as it is.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
