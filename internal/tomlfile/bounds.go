package tomlfile

import (
	"bytes"
	"fmt"
)

// The bounds of a file, which are checked before it is parsed: the parser takes a stack frame for each level, and memory
// for all keys of a path at each of its keys. No configuration comes near them.
const (
	// MaxBytes is of the whole text: 65,536 rules have some megabytes.
	MaxBytes = 16 << 20
	maxDepth = 32   // lists and inline tables within each other
	maxKey   = 1024 // bytes of a key with its dots, and of a line's beginning up to it
	maxParts = 32   // of a dotted key
)

// bounds finds a byte order mark and what exceeds the bounds, nil: nothing. It reads the text as the parser does, up to where that would
// find a fault itself.
func bounds(text []byte) *Fault {
	if len(text) > MaxBytes {
		return &Fault{Text: fmt.Sprintf("has %d bytes: %d at most", len(text), MaxBytes)}
	}
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		return &Fault{Line: 1, Text: "begins with a byte order mark, which TOML does not allow: save the file as UTF-8 without BOM, or remove the mark with sed -i '1s/^\\xef\\xbb\\xbf//' FILE"}
	}
	s := scanner{text: text, line: 1}
	for s.at < len(text) && s.fault == nil {
		s.step()
	}
	return s.fault
}

// scanner follows nesting and keys, over strings and comments.
type scanner struct {
	text     []byte
	at, line int
	depth    int
	// inKey says that what comes is a key: at the beginning of a line, or behind { and a comma in it. Its bytes and dots
	// so far.
	inValue   bool
	key, dots int
	tables    []bool // of the levels: whether it is an inline table
	fault     *Fault
}

func (s *scanner) refuse(format string, args ...any) {
	s.fault = &Fault{Line: s.line, Text: fmt.Sprintf(format, args...)}
}

func (s *scanner) step() {
	c := s.text[s.at]
	switch c {
	case '#':
		if end := bytes.IndexByte(s.text[s.at:], '\n'); end >= 0 {
			s.at += end
		} else {
			s.at = len(s.text)
		}
		return
	case '"', '\'':
		s.quoted(c)
		return
	case '\n':
		s.line++
		if s.depth == 0 {
			s.begin()
		}
	case '=':
		s.inValue = true
	case '[', '{':
		if !s.inValue && c == '[' && s.depth == 0 {
			break // of a table's name: [a.b] or [[a.b]]
		}
		s.depth++
		s.tables = append(s.tables, c == '{')
		if s.depth > maxDepth {
			s.refuse("lists and tables are within each other %d levels deep: %d at most", s.depth, maxDepth)
			return
		}
		if c == '{' {
			s.begin()
		}
	case ']', '}':
		if s.depth > 0 && (s.inValue || c == '}') {
			s.depth--
			s.tables = s.tables[:s.depth]
			s.inValue = true
		}
	case ',':
		if s.depth > 0 && s.tables[s.depth-1] {
			s.begin()
		}
	}
	s.at++
	s.count(1, c == '.')
}

// begin says that a key may begin.
func (s *scanner) begin() { s.inValue, s.key, s.dots = false, 0, 0 }

// count counts what belongs to a key.
func (s *scanner) count(n int, dot bool) {
	if s.inValue {
		return
	}
	s.key += n
	if dot {
		s.dots++
	}
	if s.key > maxKey || s.dots >= maxParts {
		s.refuse("a key has more than %d bytes or %d parts: shorten it", maxKey, maxParts)
	}
}

// quoted goes over a string.
func (s *scanner) quoted(q byte) {
	begin := s.at
	if long := bytes.Repeat([]byte{q}, 3); s.inValue && bytes.HasPrefix(s.text[s.at:], long) {
		for s.at += 3; s.at < len(s.text); s.at++ {
			switch {
			case s.text[s.at] == '\n':
				s.line++
			case s.text[s.at] == '\\' && q == '"':
				if s.at++; s.at < len(s.text) && s.text[s.at] == '\n' {
					s.line++
				}
			case bytes.HasPrefix(s.text[s.at:], long):
				// Up to two more quotes belong to the string.
				for s.at += 3; s.at < len(s.text) && s.text[s.at] == q; s.at++ {
				}
				return
			}
		}
		return
	}
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '\n': // the parser finds that it has no end
			s.count(s.at-begin, false)
			return
		case c == '\\' && q == '"':
			s.at++
		case c == q:
			s.at++
			s.count(s.at-begin, false)
			return
		}
	}
}
