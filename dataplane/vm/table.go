package vm

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// Table collects results of drivers, of several machines at a time.
type Table struct {
	mu   sync.Mutex
	rows []tableRow
}

type tableRow struct {
	driver, row, mode string
	results           map[Test]Result
}

// Add adds a driver's result.
func (t *Table) Add(driver string, r Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.rows, func(row tableRow) bool { return row.driver == driver && row.row == r.Row })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, tableRow{driver: driver, row: r.Row, results: map[Test]Result{}})
	}
	t.rows[i].results[r.Test] = r
	if r.Mode != "" && r.Test != Jumbo { // which has a mode of its own
		t.rows[i].mode = r.Mode
	}
}

// Write prints the table: a line for each driver and row, and below it the reasons of what is not ok.
func (t *Table) Write(w io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var tests []Test
	for _, test := range Tests {
		if slices.ContainsFunc(t.rows, func(r tableRow) bool { return r.results[test].Outcome != "" }) {
			tests = append(tests, test)
		}
	}
	fmt.Fprint(out, "driver\trow")
	for _, test := range tests {
		fmt.Fprintf(out, "\t%s", test)
	}
	fmt.Fprintln(out, "\tgranted")
	var notes []string
	for _, row := range t.rows {
		fmt.Fprintf(out, "%s\t%s", row.driver, row.row)
		for _, test := range tests {
			r, tried := row.results[test]
			cell := "-"
			if tried {
				cell = string(r.Outcome)
			}
			if tried && r.Outcome != OK {
				note := fmt.Sprintf("%s: %s", r.Outcome, strings.TrimSpace(r.Text))
				n := slices.Index(notes, note)
				if n < 0 {
					n, notes = len(notes), append(notes, note)
				}
				cell += fmt.Sprintf(" (%d)", n+1)
			}
			fmt.Fprintf(out, "\t%s", cell)
		}
		fmt.Fprintf(out, "\t%s\n", row.mode)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for i, note := range notes {
		if _, err := fmt.Fprintf(w, "(%d) %s\n", i+1, note); err != nil {
			return err
		}
	}
	return nil
}
