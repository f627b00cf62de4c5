package tomlfile

import (
	"fmt"
	"slices"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// locator finds the line of every key of a document.
type locator struct {
	lines    map[string]int
	newlines []int
}

// locate finds the line, from 1, of every key of a valid document: tables, elements of lists of tables, and
// values, those in inline tables and lists too. Keys are written as in faults: port[1].keep[0]. table is the last one, in which a next line would assign.
func locate(text []byte) (lines map[string]int, table string) {
	l := locator{lines: map[string]int{}}
	for i, c := range text {
		if c == '\n' {
			l.newlines = append(l.newlines, i)
		}
	}
	var parser unstable.Parser
	parser.Reset(text)
	elements := map[string]int{} // how many each list of tables has so far
	for parser.NextExpression() {
		expression := parser.Expression()
		if expression.Kind == unstable.KeyValue {
			l.assignment(table, expression)
			continue
		}
		table = ""
		for key := expression.Key(); key.Next(); {
			node := key.Node()
			table = join(table, string(node.Data))
			if expression.Kind == unstable.ArrayTable && key.IsLast() {
				elements[table]++
			}
			l.mark(table, node)
			if n := elements[table]; n > 0 {
				table = fmt.Sprintf("%s[%d]", table, n-1)
				l.mark(table, node)
			}
		}
	}
	return l.lines, table
}

// mark notes where a key is first seen.
func (l *locator) mark(key string, node *unstable.Node) {
	if _, seen := l.lines[key]; !seen {
		before, _ := slices.BinarySearch(l.newlines, int(node.Raw.Offset))
		l.lines[key] = before + 1
	}
}

func (l *locator) assignment(table string, assignment *unstable.Node) {
	for key := assignment.Key(); key.Next(); {
		table = join(table, string(key.Node().Data))
		l.mark(table, key.Node())
	}
	l.value(table, assignment.Value())
}

func (l *locator) value(key string, value *unstable.Node) {
	children := value.Children()
	for i := 0; children.Next(); i++ {
		if value.Kind == unstable.InlineTable {
			l.assignment(key, children.Node())
			continue
		}
		element, first := fmt.Sprintf("%s[%d]", key, i), children.Node()
		for first.Kind == unstable.Array && first.Child() != nil {
			first = first.Child() // the parser gives a list no position
		}
		if first.Kind != unstable.Array {
			l.mark(element, first)
		}
		l.value(element, children.Node())
	}
}

// HasList reports whether a text is TOML with a list at one of the keys, whatever else it has.
func HasList(text []byte, keys ...string) bool {
	root := rootOf(text)
	for _, key := range keys {
		if _, ok := root[key].([]any); ok {
			return true
		}
	}
	return false
}

// HasTable reports whether a text is TOML with a table, and no list of them, at a key.
func HasTable(text []byte, key string) bool {
	_, ok := rootOf(text)[key].(map[string]any)
	return ok
}

// rootOf is the table of a text, nil if it is no TOML or beyond the bounds of files.
func rootOf(text []byte) (root map[string]any) {
	if bounds(text) != nil || toml.Unmarshal(text, &root) != nil {
		return nil
	}
	return root
}
