package bench

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Grid is a map of ratios over two settings. Columns and Lines name the settings' values, from the left and from below.
type Grid struct {
	Title, X, Y    string
	Columns, Lines []string
	// Ratios are by line and column: 1 is white, less is blue, more is orange. NaN: there is no value.
	Ratios [][]float64
	// Texts are what the cells say.
	Texts [][]string
}

// cellHeight is that of a line of a grid.
const cellHeight = vg.Length(34)

// PlotGrids draws a result as SVG that is maps, instead of Plot.
func PlotGrids(w io.Writer, r *Result, grids []Grid) error {
	if err := r.Validate(); err != nil {
		return fmt.Errorf("result %s: %w", r.Name, err)
	}
	panels := []*panel{titlePanel(r)}
	for i := range grids {
		p, err := grids[i].panel()
		if err != nil {
			return fmt.Errorf("map %q of %s: %w", grids[i].Title, r.Name, err)
		}
		panels = append(panels, p)
	}
	return drawPanels(w, panels)
}

func (g *Grid) panel() (*panel, error) {
	p := newPanel(g.Title, axisHeight+cellHeight*vg.Length(len(g.Lines)))
	p.X.Label.Text, p.Y.Label.Text = g.X, g.Y
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = textSize, textSize
	labels := plotter.XYLabels{}
	for y := range g.Lines {
		for x := range g.Columns {
			ratio := g.Ratios[y][x]
			if math.IsNaN(ratio) {
				continue
			}
			left, below := float64(x)-0.5, float64(y)-0.5
			cell, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: below}, {X: left + 1, Y: below}, {X: left + 1, Y: below + 1}, {X: left, Y: below + 1}})
			if err != nil {
				return nil, err
			}
			cell.Color, cell.LineStyle = ratioColour(ratio), draw.LineStyle{Color: rgb(0xffffff), Width: 1}
			p.Add(cell)
			labels.XYs = append(labels.XYs, plotter.XY{X: float64(x), Y: float64(y)})
			labels.Labels = append(labels.Labels, g.Texts[y][x])
		}
	}
	if len(labels.Labels) > 0 {
		texts, err := plotter.NewLabels(labels)
		if err != nil {
			return nil, err
		}
		for i := range texts.TextStyle {
			style := &texts.TextStyle[i]
			style.Font.Size, style.Font.Variant, style.XAlign, style.YAlign = textSize, "Sans", text.XCenter, text.YCenter
		}
		p.Add(texts)
	}
	p.NominalX(g.Columns...)
	p.NominalY(g.Lines...)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -0.5, float64(len(g.Columns))-0.5, -0.5, float64(len(g.Lines))-0.5
	return p, nil
}

// ratioColour is white for 1, and as dark as can be read from a factor of 4 on.
func ratioColour(ratio float64) color.Color {
	depth := min(math.Abs(math.Log2(max(ratio, 1e-9)))/2, 1) * 0.75
	full := [3]float64{0x00, 0x72, 0xb2}
	if ratio > 1 {
		full = [3]float64{0xe6, 0x9f, 0x00}
	}
	shade := func(i int) uint8 { return uint8(math.Round(255 + depth*(full[i]-255))) }
	return color.RGBA{R: shade(0), G: shade(1), B: shade(2), A: 0xff}
}
