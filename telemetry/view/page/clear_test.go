package page

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/weirswitch/weir/bench/netsim"
)

// drawable is a topology as the page has it.
type drawable struct {
	Name  string      `json:"name"`
	Nodes []string    `json:"nodes"`
	Lines [][2]string `json:"lines"`
}

// drawables are networks of different kinds, and those of the Topology Zoo where there are any (netsim.DataDir).
func drawables(t *testing.T) (all []drawable) {
	t.Helper()
	s := func(n int) string { return fmt.Sprintf("switch s%d", n) }
	diamond := drawable{Name: "diamond", Nodes: []string{"host h1", "host h2", s(1), s(2), s(3), s(4), s(5)},
		Lines: [][2]string{{"host h1", s(1)}, {s(1), s(2)}, {s(1), s(3)}, {s(2), s(4)}, {s(3), s(4)}, {s(4), s(5)}, {s(5), "host h2"}}}
	line := drawable{Name: "line with a bypass", Nodes: []string{s(1), s(2), s(3), s(4)}, Lines: [][2]string{{s(1), s(2)}, {s(2), s(3)}, {s(3), s(4)}, {s(1), s(4)}, {s(1), s(3)}}}
	fat := drawable{Name: "fat tree of 20"} // k = 4
	for pod := range 4 {
		for i := range 2 {
			edge, aggregation := fmt.Sprintf("switch e%d-%d", pod, i), fmt.Sprintf("switch a%d-%d", pod, i)
			fat.Nodes = append(fat.Nodes, edge, aggregation)
			for j := range 2 {
				fat.Lines = append(fat.Lines, [2]string{edge, fmt.Sprintf("switch a%d-%d", pod, j)}, [2]string{aggregation, fmt.Sprintf("switch c%d", 2*i+j)})
			}
		}
	}
	full := drawable{Name: "full mesh of 8"}
	for i := range 8 {
		full.Nodes = append(full.Nodes, s(i))
		for j := range i {
			full.Lines = append(full.Lines, [2]string{s(j), s(i)})
		}
	}
	for c := range 4 {
		fat.Nodes = append(fat.Nodes, fmt.Sprintf("switch c%d", c))
	}
	all = append(all, diamond, line, fat, full)
	files, err := filepath.Glob(filepath.Join(netsim.DataDir(), "topologies", "*.gml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		g, err := netsim.ReadGMLFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := drawable{Name: g.Name}
		for n := range g.Nodes {
			d.Nodes = append(d.Nodes, s(n))
		}
		for _, l := range g.Links {
			d.Lines = append(d.Lines, [2]string{s(l.A), s(l.B)})
		}
		all = append(all, d)
	}
	return all
}

// drawn is where the page put the nodes.
type drawn struct {
	At   map[string]struct{ X, Y float64 } `json:"at"`
	Half map[string]struct{ X, Y float64 } `json:"half"`
}

// mostCrossings is how many pairs of lines may cross in a drawing: of the diamond none, of others one for each line, but where all are
// joined to all, or tiers are joined.
func mostCrossings(d drawable) int {
	switch d.Name {
	case "diamond":
		return 0
	case "full mesh of 8":
		return len(d.Lines) * len(d.Lines)
	case "fat tree of 20":
		return 40
	}
	return len(d.Lines)
}

// TestNoLineCrossesABox: in the drawing of each topology no line crosses a box that it does not end in, no two
// boxes overlap, and few lines cross each other.
func TestNoLineCrossesABox(t *testing.T) {
	long(t)
	w := usual(t)
	p := open(t, browser(t), w.serve(t).URL, wide)
	p.run(chromedp.Click("#pause")) // no answer of the collector draws over it
	for _, d := range drawables(t) {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		got := eval[drawn](p, fmt.Sprintf(`(async (d) => {
			const base = [...document.scripts].map((s) => s.src).find((s) => s.endsWith("/main.js"));
			const { show } = await import(new URL("topology.js", base));
			const end = (key) => ({ name: key.split(" ")[1], port: key.startsWith("switch") ? "p" : "" });
			const rate = { bits_per_second: 0, packets_per_second: 0, utilisation: 0 };
			show({
				switches: d.nodes.filter((n) => n.startsWith("switch")).map((n) => ({ name: end(n).name, health: "ok", faults: [], ports: [] })),
				links: d.lines.map((l) => ({ ends: l.map(end), up: true, has_rates: true, speed_bps: 1e9, rates: [rate, rate], backlogs: [0, 0] })),
			});
			const at = {}, half = {};
			for (const g of document.querySelectorAll(".drawing .node")) {
				const key = (g.classList.contains("host") ? "host " : "switch ") + g.dataset.name, box = g.querySelector("rect");
				const [x, y] = g.getAttribute("transform").match(/-?[\d.]+/g).map(Number);
				at[key] = { X: x, Y: y };
				half[key] = { X: box.width.baseVal.value / 2, Y: box.height.baseVal.value / 2 };
			}
			return { at, half };
		})(%s)`, text))
		if len(got.At) != len(d.Nodes) {
			t.Errorf("%s: %d of %d nodes are drawn", d.Name, len(got.At), len(d.Nodes))
			continue
		}
		crossed, overlaid := 0, 0
		for _, l := range d.Lines {
			a, b := got.At[l[0]], got.At[l[1]]
			for _, n := range d.Nodes {
				if n != l[0] && n != l[1] && meets(a.X, a.Y, b.X, b.Y, got.At[n].X, got.At[n].Y, got.Half[n].X, got.Half[n].Y) {
					crossed++
				}
			}
		}
		for i, n := range d.Nodes {
			for _, m := range d.Nodes[:i] {
				if math.Abs(got.At[n].X-got.At[m].X) < got.Half[n].X+got.Half[m].X && math.Abs(got.At[n].Y-got.At[m].Y) < got.Half[n].Y+got.Half[m].Y {
					overlaid++
				}
			}
		}
		if crossed+overlaid > 0 {
			t.Errorf("%s: %d boxes are crossed, and %d pairs overlap", d.Name, crossed, overlaid)
		}
		if n, most := got.crossings(d.Lines), mostCrossings(d); n > most {
			t.Errorf("%s: %d pairs of lines cross, more than %d", d.Name, n, most)
		}
		if os.Getenv("WEIR_SCREENSHOTS") != "" {
			p.shoot("topology-"+d.Name, false)
		}
	}
}

// crossings counts the pairs of lines that cross and have no end in common.
func (d *drawn) crossings(lines [][2]string) (n int) {
	type point = struct{ X, Y float64 }
	left := func(p, q, r point) bool { return (q.X-p.X)*(r.Y-p.Y) > (q.Y-p.Y)*(r.X-p.X) }
	for i, l := range lines {
		a, b := d.At[l[0]], d.At[l[1]]
		for _, m := range lines[:i] {
			if l[0] == m[0] || l[0] == m[1] || l[1] == m[0] || l[1] == m[1] {
				continue
			}
			if c, e := d.At[m[0]], d.At[m[1]]; left(a, b, c) != left(a, b, e) && left(c, e, a) != left(c, e, b) {
				n++
			}
		}
	}
	return n
}

// meets reports whether a line from a to b meets a box around c: it samples the line, more finely than a box is high.
func meets(ax, ay, bx, by, cx, cy, halfX, halfY float64) bool {
	steps := int(math.Hypot(bx-ax, by-ay)) + 1
	for i := range steps + 1 {
		f := float64(i) / float64(steps)
		if math.Abs(ax+(bx-ax)*f-cx) < halfX && math.Abs(ay+(by-ay)*f-cy) < halfY {
			return true
		}
	}
	return false
}
