package netsim

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const tiny = `# a comment [
Creator "x ] y"
graph [
  directed 0
  edge [ source 7 target 3 LinkLabel "10 Mbit/s [shared]" ]
  node [ id 3 label "three" graphics [ x 1.5 y -2 ] ]
  node [ id 7 label "seven words # no comment" ]
  node [ id 9 label "" ]
  edge [ source 3 target 7 ]
  edge [ target 9 source 7 ]
  edge [ source 9 target 9 ]
]`

func TestReadGML(t *testing.T) {
	g, err := readGML("tiny", strings.NewReader(tiny))
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Nodes) != 3 || !slices.Equal(g.Links, []Link{{0, 1}, {1, 2}}) || g.Nodes[1] != (Node{7, "seven words # no comment", true}) {
		t.Errorf("read as %+v", g)
	}
	if !slices.Equal(g.Neighbours(1), []int{0, 2}) || !slices.Equal(g.PathIDs(Path{2, 1, 0}), []uint64{9, 7, 3}) {
		t.Errorf("neighbours %v, ids %v", g.Neighbours(1), g.PathIDs(Path{2, 1, 0}))
	}
	if n, ok := g.number[9]; !ok || n != 2 {
		t.Errorf("id 9 is node %d, %v", n, ok)
	}
}

func TestReadGMLFaults(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "no nodes",
		"\n\ngraph 5":                           "line 3: \"5\" where a list",
		"graph [ node [ id x ] ]":               "no integer",
		"graph [ node [ label \"a\" ] ]":        "has no id",
		"graph [ node [ id 1 ] node [ id 1 ]":   "not closed",
		"graph [ node [ id 1 ] node [ id 1 ] ]": "occurs twice",
		"graph [ node [ id 1 ] edge [ source 1 target 2 ] ]": "leads to no node",
		"graph [ node [ id 1 label \"open ] ]":               "string is not closed",
		"graph [ ] ]":                                        "where a key should be",
		"graph [ a " + strings.Repeat("[ b ", 100) + "1":     "nested",
	} {
		if _, err := readGML("bad", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v does not say %q", text, err, want)
		}
	}
}

func FuzzReadGML(f *testing.F) {
	f.Add(tiny)
	f.Fuzz(func(t *testing.T, text string) {
		g, err := readGML("fuzz", strings.NewReader(text))
		if err != nil {
			return
		}
		for _, l := range g.Links {
			if l.A >= l.B || l.A < 0 || l.B >= len(g.Nodes) {
				t.Fatalf("link %v of %d nodes", l, len(g.Nodes))
			}
		}
	})
}

// TestTopologyZoo checks the counts that are published with the files.
func TestTopologyZoo(t *testing.T) {
	dir := filepath.Join(DataDir(), "topologies")
	if _, err := os.Stat(dir); err != nil {
		dir = filepath.Join("..", "..", dir) // tests run in their package's folder
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no topologies: set WEIR_SHARED: %v", err)
	}
	for _, c := range []struct {
		file                   string
		nodes, links, diameter int
	}{{"Kdl.gml", 754, 895, 58}, {"UsCarrier.gml", 158, 189, 35}} {
		g, err := ReadGMLFile(filepath.Join(dir, c.file))
		if err != nil {
			t.Fatal(err)
		}
		r := NewRoutes(g)
		if len(g.Nodes) != c.nodes || len(g.Links) != c.links || r.Diameter() != c.diameter {
			t.Errorf("%s: %d nodes, %d links, diameter %d", c.file, len(g.Nodes), len(g.Links), r.Diameter())
		}
		checkPaths(t, g, r)
	}
}

func TestFatTree(t *testing.T) {
	for k := 2; k <= 8; k += 2 {
		g, err := FatTree(k)
		if err != nil {
			t.Fatal(err)
		}
		h := k / 2
		if len(g.Nodes) != h*h+k*k || len(g.Links) != 2*k*h*h || len(g.EdgeNodes()) != k*h {
			t.Errorf("k=%d: %d switches, %d links, %d edge switches", k, len(g.Nodes), len(g.Links), len(g.EdgeNodes()))
		}
		r := NewRoutes(g)
		checkPaths(t, g, r)
		if k < 4 {
			continue
		}
		// From another pod: each of h aggregation switches, then each of h cores.
		pair := r.Pairs(5)[0]
		seen := map[string]bool{}
		for flow := range uint64(2000) {
			p, _ := r.Path(pair.From, pair.To, flow)
			seen[strings.Join(labels(g, p), " ")] = true
		}
		if len(seen) != h*h {
			t.Errorf("k=%d: flows between pods take %d paths, not %d", k, len(seen), h*h)
		}
	}
	for _, k := range []int{0, 1, 3, 200} {
		if _, err := FatTree(k); err == nil {
			t.Errorf("a fat tree of %d-port switches is built", k)
		}
	}
}

func TestSpineLeaf(t *testing.T) {
	g, err := SpineLeaf(4, 6)
	if err != nil {
		t.Fatal(err)
	}
	r := NewRoutes(g)
	checkPaths(t, g, r)
	if len(g.Links) != 24 || len(r.Pairs(3)) != 30 || len(r.nextHops(nil, 4, 5)) != 4 {
		t.Errorf("%d links, %d pairs, next hops %v", len(g.Links), len(r.Pairs(3)), r.nextHops(nil, 4, 5))
	}
}

func labels(g *Graph, p Path) []string {
	var l []string
	for _, n := range p {
		l = append(l, g.Nodes[n].Label)
	}
	return l
}

// checkPaths walks flows between many nodes: over links, as short as can be,
// and the same again for the same flow.
func checkPaths(t *testing.T, g *Graph, r *Routes) {
	t.Helper()
	for i := range 500 {
		a, b := i*7919%len(g.Nodes), i*104729%len(g.Nodes)
		p, err := r.Path(a, b, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		if len(p) != r.Distance(a, b)+1 || r.Distance(a, b) != r.Distance(b, a) || p[0] != a || p[len(p)-1] != b {
			t.Fatalf("%s: path %v from %d to %d at distance %d", g.Name, p, a, b, r.Distance(a, b))
		}
		for j := range len(p) - 1 {
			if !slices.Contains(g.Neighbours(p[j]), p[j+1]) {
				t.Fatalf("%s: path %v has no link %d-%d", g.Name, p, p[j], p[j+1])
			}
		}
		if again, _ := r.Path(a, b, uint64(i)); !slices.Equal(p, again) {
			t.Fatalf("%s: the flow changes its path", g.Name)
		}
	}
}

func TestNoPath(t *testing.T) {
	g, _ := NewGraph("two", []Node{{ID: 1}, {ID: 2}}, nil)
	r := NewRoutes(g)
	if _, err := r.Path(0, 1, 1); err == nil || r.Distance(0, 1) != -1 || len(r.nextHops(nil, 0, 1)) != 0 {
		t.Error("a path between islands")
	}
}
