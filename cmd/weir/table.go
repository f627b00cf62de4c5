package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is text in columns. Columns whose title begins with '>' hold numbers,
// which are aligned to the right.
type table struct {
	titles []string
	rows   [][]string
}

func newTable(titles ...string) *table { return &table{titles: titles} }

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// write writes the titles and the rows, two spaces between columns.
func (t *table) write(w io.Writer) error {
	right := make([]bool, len(t.titles))
	titles := make([]string, len(t.titles))
	for i, title := range t.titles {
		titles[i], right[i] = strings.CutPrefix(title, ">")
	}
	lines := append([][]string{titles}, t.rows...)
	width := make([]int, len(titles))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
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
