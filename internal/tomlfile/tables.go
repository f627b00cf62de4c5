package tomlfile

import (
	"bytes"
	"fmt"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Table is a table of a document, or an element of a list of tables.
type Table struct {
	// Key is written as in faults: port[1].
	Key string
	// The text from Start to End, in bytes: comments directly above the header, the header, whose line ends at Body, and what
	// it has, up to the comments of the next table.
	Start, Body, End int
}

// Tables returns the tables with a header of their own of a valid document, in its order.
func Tables(text []byte) (tables []Table) {
	var parser unstable.Parser
	parser.Reset(text)
	elements := map[string]int{}
	for parser.NextExpression() {
		expression := parser.Expression()
		if expression.Kind == unstable.KeyValue {
			continue
		}
		table, at := "", 0
		for key := expression.Key(); key.Next(); {
			node := key.Node()
			table, at = join(table, string(node.Data)), int(node.Raw.Offset)
			if expression.Kind == unstable.ArrayTable && key.IsLast() {
				elements[table]++
			}
			if n := elements[table]; n > 0 {
				table = fmt.Sprintf("%s[%d]", table, n-1)
			}
		}
		t := Table{Key: table, Start: bytes.LastIndexByte(text[:at], '\n') + 1, Body: len(text), End: len(text)}
		if end := bytes.IndexByte(text[at:], '\n'); end >= 0 {
			t.Body = at + end + 1
		}
		for above := t.Start; above > 0; {
			line := bytes.LastIndexByte(text[:above-1], '\n') + 1
			if !bytes.HasPrefix(bytes.TrimSpace(text[line:above]), []byte("#")) {
				break
			}
			t.Start, above = line, line
		}
		if len(tables) > 0 {
			tables[len(tables)-1].End = t.Start
		}
		tables = append(tables, t)
	}
	return tables
}

// Lines returns the line, from 1, of each key of a valid document, written as in faults.
func Lines(text []byte) map[string]int {
	lines, _ := locate(text)
	return lines
}

// Whole reports whether a text is TOML by itself: no value in it goes on.
func Whole(text []byte) bool { return toml.Unmarshal(text, new(map[string]any)) == nil }
