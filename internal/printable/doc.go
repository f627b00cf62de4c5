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

// maxName bounds a name, in bytes.
const maxName = 32

// IsName reports whether a text can be a switch's name: 1 to 32 letters of ASCII, digits, '.', '_' and '-', beginning with neither
// '.' nor '-'. No two of them look alike.
func IsName(text string) bool {
	if text == "" || len(text) > maxName || text[0] == '.' || text[0] == '-' {
		return false
	}
	for _, r := range text {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-') {
			return false
		}
	}
	return true
}
