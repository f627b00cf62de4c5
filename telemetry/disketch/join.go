package disketch

// Cells are those of a row that no record has, as of another system's sketch, and what they say of the noise in its estimates.
type Cells struct{ level level }

// NewCells reads the cells of a row.
func NewCells(cells []int32) *Cells {
	c := new(Cells)
	c.level.measure(cells)
	return c
}

// Joiner composes estimates that rows of whole epochs have of a flow. One goroutine may use it at a time.
type Joiner struct{ compose composer }

// Join composes what the rows count of a flow in packets, by the cells that each count is from, as of a fragment of the kind.
// Checked is Likeliest.
func (j *Joiner) Join(kind Kind, how Composition, counts []float64, rows []*Cells) float64 {
	c := &j.compose
	c.minimum, c.packet, c.obs = kinds[kind].minimum, 1, c.obs[:0]
	for i, count := range counts {
		c.obs = append(c.obs, observation{to: 1, window: 1, observed: observed{count: count}, level: &rows[i].level})
	}
	return max(c.join(how, 0, 1).value, 0)
}
