package config

import (
	"fmt"
	"strconv"
	"strings"
)

// locate finds the line of every key of a valid TOML document, counted from 1:
// tables, elements of lists of tables, and values, those in inline tables and
// lists too. Keys are written as in faults: port[1].keep[0]. The TOML library
// knows the lines, but tells them only for its own errors. For a document that
// is not valid the result means nothing.
func locate(data []byte) map[string]int {
	s := scanner{text: string(data), line: 1, lines: map[string]int{}, counts: map[string]int{}}
	table := ""
	for s.skipBlank(true); s.pos < len(s.text); s.skipBlank(true) {
		if s.peek() == '[' {
			table = s.header()
			continue
		}
		s.assignment(table)
	}
	return s.lines
}

// scanner walks a document that the TOML library found valid, so it looks for
// the ends of things only.
type scanner struct {
	text   string
	pos    int
	line   int
	lines  map[string]int
	counts map[string]int // elements so far of each list of tables
}

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// next moves on by n bytes, counting lines.
func (s *scanner) next(n int) {
	end := min(s.pos+n, len(s.text))
	s.line += strings.Count(s.text[s.pos:end], "\n")
	s.pos = end
}

// skipBlank skips spaces and, if asked to, line ends and comments.
func (s *scanner) skipBlank(lines bool) {
	for s.pos < len(s.text) {
		switch c := s.peek(); {
		case c == ' ' || c == '\t', lines && (c == '\n' || c == '\r'):
			s.next(1)
		case lines && c == '#':
			s.next(strings.IndexByte(s.text[s.pos:]+"\n", '\n'))
		default:
			return
		}
	}
}

// header reads [a.b] or [[a.b]] and returns the table's full key.
func (s *scanner) header() string {
	line, list := s.line, strings.HasPrefix(s.text[s.pos:], "[[")
	s.next(1)
	if list {
		s.next(1)
	}
	parts := s.key()
	s.next(1)
	if list {
		s.next(1)
	}
	key := ""
	for i, part := range parts {
		key = join(key, part)
		if list && i == len(parts)-1 {
			s.counts[key]++
		}
		if n := s.counts[key]; n > 0 {
			s.mark(key, line)
			key = fmt.Sprintf("%s[%d]", key, n-1)
		}
		s.mark(key, line)
	}
	return key
}

// mark notes where a key is first seen.
func (s *scanner) mark(key string, line int) {
	if _, ok := s.lines[key]; !ok {
		s.lines[key] = line
	}
}

// key reads a dotted key and the blanks around it.
func (s *scanner) key() []string {
	var parts []string
	for {
		s.skipBlank(false)
		parts = append(parts, s.keyPart())
		s.skipBlank(false)
		if s.peek() != '.' {
			return parts
		}
		s.next(1)
	}
}

func (s *scanner) keyPart() string {
	start := s.pos
	if c := s.peek(); c == '"' || c == '\'' {
		s.quoted()
		raw := s.text[start:s.pos]
		if text, err := strconv.Unquote(raw); err == nil && c == '"' {
			return text
		}
		return strings.Trim(raw, string(c))
	}
	for c := s.peek(); c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'; c = s.peek() {
		s.pos++
	}
	if s.pos == start {
		s.next(1) // not a key: go on, whatever it is
	}
	return s.text[start:s.pos]
}

// assignment reads KEY = VALUE inside a table.
func (s *scanner) assignment(table string) {
	line := s.line
	key := table
	for _, part := range s.key() {
		key = join(key, part)
		s.mark(key, line)
	}
	if s.peek() == '=' {
		s.next(1)
	}
	s.skipBlank(false)
	s.value(key)
}

func (s *scanner) value(key string) {
	switch c := s.peek(); c {
	case '"', '\'':
		s.quoted()
	case '[':
		s.list(key)
	case '{':
		s.inlineTable(key)
	default:
		s.next(strings.IndexAny(s.text[s.pos:]+"\n", ",]}#\n"))
	}
}

func (s *scanner) list(key string) {
	s.next(1)
	for i := 0; ; i++ {
		s.skipBlank(true)
		if c := s.peek(); c == ']' || c == 0 {
			s.next(1)
			return
		}
		element := fmt.Sprintf("%s[%d]", key, i)
		s.mark(element, s.line)
		start := s.pos
		s.value(element)
		s.separator()
		if s.pos == start {
			s.next(1) // not an element: go on, whatever it is
		}
	}
}

func (s *scanner) inlineTable(key string) {
	s.next(1)
	for {
		s.skipBlank(true)
		if c := s.peek(); c == '}' || c == 0 {
			s.next(1)
			return
		}
		s.assignment(key)
		s.separator()
	}
}

func (s *scanner) separator() {
	s.skipBlank(true)
	if s.peek() == ',' {
		s.next(1)
	}
}

// quoted skips a string of any of the four kinds.
func (s *scanner) quoted() {
	quote := s.text[s.pos : s.pos+1]
	escapes := quote == `"`
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s.text[s.pos:], triple) {
		quote = triple
	}
	s.next(len(quote))
	for s.pos < len(s.text) && !strings.HasPrefix(s.text[s.pos:], quote) {
		if escapes && s.peek() == '\\' {
			s.next(1)
		}
		s.next(1)
	}
	s.next(len(quote))
	for len(quote) == 3 && s.peek() == quote[0] { // up to two quotes may stand before the end
		s.next(1)
	}
}

func join(table, key string) string {
	if table == "" {
		return key
	}
	return table + "." + key
}
