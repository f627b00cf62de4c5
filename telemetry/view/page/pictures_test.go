package page

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
)

// drawnGraph makes a network of one that is to be drawn; of those without hosts, switches of two links have one, or of many switches each
// tenth, which is not drawn.
func drawnGraph(d drawable) *graph {
	numbers := map[string]uint32{}
	for _, n := range d.Nodes {
		if strings.HasPrefix(n, "switch") {
			numbers[n] = uint32(len(numbers) + 1)
		}
	}
	var lines [][2]uint32
	var edges []uint32
	for _, l := range d.Lines {
		a, b := numbers[l[0]], numbers[l[1]]
		switch {
		case a == 0:
			edges = append(edges, b)
		case b == 0:
			edges = append(edges, a)
		default:
			lines = append(lines, [2]uint32{a, b})
		}
	}
	hosts := len(edges) > 0
	degree := map[uint32]int{}
	for _, l := range lines {
		degree[l[0]]++
		degree[l[1]]++
	}
	for sw := uint32(1); !hosts && sw <= uint32(len(numbers)); sw++ {
		if few := len(numbers) <= 40; few && degree[sw] <= 2 || !few && sw%10 == 1 {
			edges = append(edges, sw)
		}
	}
	return newGraph(uint32(len(numbers)), lines, edges, hosts)
}

// picture writes the documents' picture of a look, if it has one, into the folder that WEIR_PICTURES names.
func (p *tab) picture(l look) {
	p.t.Helper()
	name := map[look]string{wide: "page", {width: wide.width, height: wide.height, dark: true}: "page-dark", narrow: "page-narrow"}[l]
	if folder := os.Getenv("WEIR_PICTURES"); folder != "" && name != "" {
		p.pictureInto(folder, name)
	}
}

// pictureInto writes what is in view as a picture of up to 256 colours: a quarter of the bytes, for what a page shows.
func (p *tab) pictureInto(folder, name string) {
	p.t.Helper()
	// No room is kept for a scroll bar that a picture has not; the drawing follows within a frame.
	eval[bool](p, `(async () => {
		document.documentElement.style.scrollbarGutter = "auto";
		for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
		return true;
	})()`)
	p.shootInto(folder, name, false)
	file := filepath.Join(folder, name+".png")
	data, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	from, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		p.t.Fatal(err)
	}
	seen := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	size := from.Bounds()
	for y := range size.Dy() {
		for x := range size.Dx() {
			c := at(x, y)
			seen[color.RGBA{c.R &^ 3, c.G &^ 3, c.B &^ 3, 255}]++
		}
	}
	most := slices.SortedFunc(maps.Keys(seen), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(seen[b], seen[a]), cmp.Compare(uint32(a.R)<<16|uint32(a.G)<<8|uint32(a.B), uint32(b.R)<<16|uint32(b.G)<<8|uint32(b.B)))
	})
	palette := paletteOf(most)
	to, nearest := image.NewPaletted(size, palette), map[color.RGBA]uint8{}
	for y := range size.Dy() {
		for x := range size.Dx() {
			c := at(x, y)
			i, ok := nearest[c]
			if !ok {
				i = uint8(palette.Index(c))
				nearest[c] = i
			}
			to.SetColorIndex(x, y, i)
		}
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, to); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, small.Bytes(), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// paletteOf chooses up to 256 of colours, the most frequent first, such that each of the others is near to one: rare colours, as those of a
// legend, stay what they are.
func paletteOf(colours []color.RGBA) color.Palette {
	for apart := 4; ; apart += 2 {
		var palette color.Palette
		for _, c := range colours {
			near := slices.ContainsFunc(palette, func(p color.Color) bool {
				q := p.(color.RGBA)
				return max(distance(c.R, q.R), distance(c.G, q.G), distance(c.B, q.B)) < apart
			})
			if !near {
				palette = append(palette, c)
			}
			if len(palette) > 256 {
				break
			}
		}
		if len(palette) <= 256 {
			return palette
		}
	}
}

func distance(a, b uint8) int { return max(int(a), int(b)) - min(int(a), int(b)) }

// TestPictures: the page shows networks of several kinds and sizes whole, each with a flow's path. With WEIR_PICTURES it writes the pictures
// of the documents into that folder (make pictures).
func TestPictures(t *testing.T) {
	long(t)
	folder := os.Getenv("WEIR_PICTURES")
	wanted := map[string]string{"diamond": "page-diamond", "fat tree of 20": "page-fat-tree", "Kdl": "page-kentucky"}
	for _, d := range drawables(t) {
		file, ok := wanted[d.Name]
		if !ok {
			continue
		}
		t.Run(file, func(t *testing.T) {
			g := drawnGraph(d)
			c := scene{graph: g, names: numbered(g), epochs: 6, flows: 600, packetsPerEpoch: 8000, sampleSize: 2000}
			if g.switches > 100 {
				c.epochs, c.sampleSize = 3, 500
			}
			w := newWorld(t, c)
			flow, longest := 0, 0
			for i, way := range w.ways[:60] {
				if len(way) > longest {
					flow, longest = i, len(way)
				}
			}
			p := open(t, browser(t), w.serve(t).URL+"/#flow="+strings.ReplaceAll(flowOf(w, flow), " ", "%20"), look{width: 1280, height: 1000})
			p.settled()
			p.wait("the path", `document.querySelectorAll("#flow .chip, #flow .note").length > 0`)
			if n := eval[int](p, `document.querySelectorAll(".drawing .node").length`); n < int(g.switches) {
				t.Errorf("%d nodes are drawn, of %d switches", n, g.switches)
			}
			if n := eval[int](p, `document.querySelectorAll(".drawing .link").length`); n != len(g.links) {
				t.Errorf("%d links are drawn, of %d", n, len(g.links))
			}
			p.quiet()
			if folder != "" {
				p.pictureInto(folder, file)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(netsim.DataDir(), "topologies", "Kdl.gml")); err != nil {
		t.Log("Kentucky is not drawn: there is no Kdl.gml: " + fmt.Sprint(err))
	}
}
