package tables

import (
	"cmp"
	"slices"
)

// Summary says how much contents are.
type Summary struct {
	Tables    []TableSummary `json:"tables"` // those with entries, by name
	Defaults  int            `json:"default_actions"`
	Registers int            `json:"register_cells"`
	Clones    int            `json:"clone_sessions"`
	Groups    int            `json:"multicast_groups"`
	Digests   int            `json:"digests"`
}

// TableSummary is a table with entries.
type TableSummary struct {
	Name    string `json:"name"`
	Entries int    `json:"entries"`
}

// Summary counts.
func (c *Contents) Summary() *Summary {
	s := &Summary{
		Tables: []TableSummary{}, Defaults: len(c.Defaults), Registers: len(c.registers()),
		Clones: len(c.Clones), Groups: len(c.Groups), Digests: len(c.Digests),
	}
	counts := map[string]int{}
	for i := range c.Entries {
		counts[c.Entries[i].Table]++
	}
	for name, n := range counts {
		s.Tables = append(s.Tables, TableSummary{name, n})
	}
	slices.SortFunc(s.Tables, func(a, b TableSummary) int { return cmp.Compare(a.Name, b.Name) })
	return s
}
