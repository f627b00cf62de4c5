package text

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is text in columns. Columns whose title begins with '>' hold numbers,
// which are aligned to the right. On a terminal titles are bold; numbers but zero in columns whose title begins with
// '!' are red, and so are words but "up" in those with '~'.
type Table struct {
	titles []string
	rows   [][]string
}

// NewTable makes a table without rows.
func NewTable(titles ...string) *Table { return &Table{titles: titles} }

// Row adds a row; each cell is written as by fmt.Print.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// Empty reports whether the table has no rows.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

// Write writes the titles and the rows, two spaces between columns.
func (t *Table) Write(w io.Writer) error {
	right := make([]bool, len(t.titles))
	marks := make([]string, len(t.titles))
	titles := make([]string, len(t.titles))
	for i, title := range t.titles {
		titles[i] = strings.TrimLeft(title, "!~>")
		marks[i] = strings.TrimSuffix(title, titles[i])
		right[i] = strings.Contains(marks[i], ">")
	}
	paint := func(Colour, string) string { return "" }
	if Coloured(w) {
		paint = paintCell
	}
	lines := append([][]string{titles}, t.rows...)
	width := make([]int, len(titles))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			colour := paint(cellColour(n == 0, marks[i], cell), cell)
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if colour != "" {
				cell = colour
			}
			if right[i] {
				cell, pad = pad+cell, ""
			}
			text.WriteString(cell + pad + "  ")
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
