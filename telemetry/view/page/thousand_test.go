package page

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	pods, podAggs, podLeaves, cores = 40, 4, 20, 40
	thousand                        = cores + pods*(podAggs+podLeaves)
)

// podGraph is a network of a thousand switches: in each pod all leaves are joined to all aggregation switches, each of which is joined to a share of the cores. The third leaf
// of each pod has a host.
func podGraph() (g *graph, names []string) {
	names = []string{""}
	for i := range cores {
		names = append(names, fmt.Sprintf("core-%d", i+1))
	}
	var lines [][2]uint32
	var edges []uint32
	for pod := range pods {
		first := uint32(len(names))
		for a := range podAggs {
			names = append(names, fmt.Sprintf("pod%d-agg%d", pod+1, a+1))
			for c := range cores / podAggs {
				lines = append(lines, [2]uint32{uint32(1 + a*cores/podAggs + c), first + uint32(a)})
			}
		}
		for l := range podLeaves {
			leaf := uint32(len(names))
			names = append(names, fmt.Sprintf("pod%d-leaf%d", pod+1, l+1))
			for a := range podAggs {
				lines = append(lines, [2]uint32{first + uint32(a), leaf})
			}
			if l == 2 {
				edges = append(edges, leaf)
			}
		}
	}
	return newGraph(thousand, lines, edges, true), names
}

// groupsDrawn are the groups in the drawing with how many switches they have, and how many nodes are drawn in all.
func (p *tab) groupsDrawn() (sizes map[string]int, nodes int) {
	p.t.Helper()
	sizes = map[string]int{}
	for _, label := range eval[[]string](p, `[...document.querySelectorAll(".drawing .node.group")].map((n) => n.getAttribute("aria-label"))`) {
		parts := strings.Split(label, ", ")
		n, err := strconv.Atoi(strings.Fields(parts[1])[0])
		if err != nil {
			p.t.Fatalf("a group is called %q", label)
		}
		sizes[strings.TrimPrefix(parts[0], "Group ")] = n
	}
	return sizes, eval[int](p, `document.querySelectorAll(".drawing .node").length`)
}

// boxesApart checks that no two boxes of the drawing overlap, and none is cut off.
func (p *tab) boxesApart() {
	p.t.Helper()
	if bad := eval[[]string](p, `(() => {
		const picture = document.querySelector(".drawing svg").getBoundingClientRect();
		const boxes = [...document.querySelectorAll(".drawing .node")].map((n) => ({ name: n.dataset.name, r: n.querySelector("rect").getBoundingClientRect() }));
		const bad = boxes.filter(({ r }) => r.left < picture.left || r.right > picture.right || r.top < picture.top || r.bottom > picture.bottom).map(({ name }) => name + " is cut off");
		boxes.forEach((a, i) => boxes.slice(0, i).forEach((b) => {
			if (a.r.left < b.r.right && b.r.left < a.r.right && a.r.top < b.r.bottom && b.r.top < a.r.bottom) bad.push(a.name + " covers " + b.name);
		}));
		return bad;
	})()`); len(bad) > 0 {
		p.t.Errorf("%d: %.10q", len(bad), bad)
	}
}

// TestThousand: a network of a thousand switches is drawn in groups that open and close; a flow's path is marked on them; a switch is found by its name; and the page says how
// long the collector took for each question.
func TestThousand(t *testing.T) {
	long(t)
	g, names := podGraph()
	w := newWorld(t, scene{graph: g, names: names, epochs: 2, flows: 600, packetsPerEpoch: 8000, sampleSize: 200})
	p := open(t, browser(t), w.serve(t).URL, look{width: 1280, height: 1000})
	p.settled()
	sizes, nodes := p.groupsDrawn()
	if len(sizes) != pods+1 || nodes != pods+1 || sizes["core"] != cores || sizes["pod17"] != podAggs+podLeaves {
		t.Errorf("%d nodes, groups %v", nodes, sizes)
	}
	p.boxesApart()
	if px := eval[float64](p, `Math.min(...[...document.querySelectorAll(".drawing .node .name")].map((n) => n.getBoundingClientRect().height))`); px < 10 {
		t.Errorf("names of groups are %.1f pixels high", px)
	}
	flow := slices.IndexFunc(w.ways, func(way []uint32) bool { return len(way) == 5 })
	eval[bool](p, fmt.Sprintf(`(() => { document.querySelector("#flow-text").value = %q; document.querySelector("#find button").click(); return true; })()`, flowOf(w, flow)))
	p.wait("the path on the groups", `document.querySelectorAll(".drawing .node.group[data-hop]").length === 3`)
	if folder := os.Getenv("WEIR_PICTURES"); folder != "" {
		p.pictureInto(folder, "page-thousand")
	}

	pod := strings.Split(names[w.ways[flow][0]], "-")[0]
	eval[bool](p, fmt.Sprintf(`(() => { document.querySelector('.node.group[data-name=%q]').dispatchEvent(new MouseEvent("click", {bubbles: true})); return true; })()`, pod))
	p.wait("the pod to open", `document.querySelectorAll(".drawing .node.switch").length === 24`)
	if text := eval[string](p, `document.querySelector("#opened").innerText`); !strings.Contains(text, pod) {
		t.Errorf("open are %q, want %s", text, pod)
	}
	p.boxesApart()
	p.wait("the path in the pod", `document.querySelectorAll(".drawing .node.switch[data-hop]").length === 2`)
	eval[bool](p, `(() => { document.querySelector("#opened button").click(); return true; })()`)
	p.wait("the pod to close", `document.querySelectorAll(".drawing .node.switch").length === 0 && document.querySelector("#opened").hidden`)

	for words, want := range map[string]string{"pod7-leaf3": "pod7-leaf3", "POD31-AGG2": "pod31-agg2", "39-leaf20": "pod39-leaf20"} {
		eval[bool](p, fmt.Sprintf(`(() => { document.querySelector("#switch-text").value = %q; document.querySelector("#find-switch button").click(); return true; })()`, words))
		p.wait(want, fmt.Sprintf(`document.querySelector(".drawing .node[data-found]")?.dataset.name === %q`, want))
		if got := eval[string](p, `document.activeElement.dataset.name ?? document.activeElement.tagName`); got != want {
			t.Errorf("%s has the focus, want %s", got, want)
		}
	}
	for i := range pods { // what was opened first makes room
		eval[bool](p, fmt.Sprintf(`(() => { document.querySelector("#switch-text").value = "pod%d-leaf1"; document.querySelector("#find-switch button").click(); return true; })()`, i+1))
	}
	p.wait("the last pod", `document.querySelector('.drawing .node[data-name="pod40-leaf1"]')`)
	if _, nodes := p.groupsDrawn(); nodes > 200 {
		t.Errorf("%d nodes are drawn", nodes)
	}
	eval[bool](p, `(() => { document.querySelector("#switch-text").value = "pod99"; document.querySelector("#find-switch button").click(); return true; })()`)
	p.wait("what is wrong with a name", `document.querySelector("#switch-fault").textContent.includes("pod99")`)

	eval[bool](p, `(() => { document.querySelector("#timings").open = true; return true; })()`)
	for _, question := range []string{"network", "heavy-hitters", "volume", "volume over time", "path", "collector"} {
		p.wait("the time of "+question, fmt.Sprintf(`[...document.querySelectorAll("#timings tbody tr")].some((tr) => tr.cells[0].textContent === %q && /\d\s(ns|µs|ms|s)/.test(tr.cells[1].textContent) && Number(tr.cells[4].textContent) > 0)`, question))
	}
	t.Logf("questions:\n%s", eval[string](p, `document.querySelector("#timings table").innerText`))
	if rows := eval[int](p, `document.querySelectorAll("#switches tbody tr").length`); rows == 0 || rows > 200 {
		t.Errorf("%d switches are listed", rows)
	}
	p.quiet()
}

// TestGroupsByLinks: where names do not say which switches belong together, their links do: no group has switches of two pods, or of a pod and the cores.
func TestGroupsByLinks(t *testing.T) {
	g, names := podGraph()
	p := open(t, browser(t), usual(t).serve(t).URL, wide)
	var links []string
	for _, l := range g.links {
		if l[0] != 0 {
			links = append(links, fmt.Sprintf("[%d,%d]", l[0], l[1]))
		}
	}
	groups := eval[[]string](p, fmt.Sprintf(`(async () => {
		const { groups } = await import(new URL("groups.js", document.querySelector("script[src]").src).href);
		const nodes = new Map(Array.from({ length: %d }, (_, i) => ["switch s" + (i + 1), { kind: "switch", name: "s" + (i + 1) }]));
		const of = groups(nodes, [%s].map(([a, b]) => ({ ends: ["switch s" + a, "switch s" + b] })));
		return [...nodes.keys()].map((key) => of.get(key) ?? "");
	})()`, thousand, strings.Join(links, ",")))
	part := func(sw int) string { return strings.Split(names[sw], "-")[0] }
	in := map[string]string{} // the part of the network that a group is of
	for i, group := range groups {
		if group == "" {
			t.Errorf("%s is in no group", names[i+1])
			continue
		}
		if other, known := in[group]; known && other != part(i+1) {
			t.Errorf("group %q has switches of %s and of %s", group, other, part(i+1))
		}
		in[group] = part(i + 1)
	}
	if len(in) < pods+1 || len(in) > 2*pods {
		t.Errorf("%d groups", len(in))
	}
}

// BenchmarkThousand asks the questions of the page about a network of a thousand switches, over HTTP.
func BenchmarkThousand(b *testing.B) {
	g, names := podGraph()
	w := newWorld(b, scene{graph: g, names: names, epochs: 2, flows: 600, packetsPerEpoch: 8000, sampleSize: 200})
	url := w.serve(b).URL + "/weir.query.v1.QueryService/Ask"
	flow := slices.IndexFunc(w.ways, func(way []uint32) bool { return len(way) == 5 })
	for _, q := range []string{
		`"kind":"network"`, `"kind":"volume"`, `"kind":"cardinality"`, `"kind":"entropy"`, `"kind":"heavy-hitters","limit":50`,
		fmt.Sprintf(`"kind":"path","flow":%q`, flowOf(w, flow)), fmt.Sprintf(`"kind":"latency","flow":%q`, flowOf(w, flow)),
	} {
		b.Run(strings.Split(q, `"`)[3], func(b *testing.B) {
			var size int64
			for b.Loop() {
				r, err := http.Post(url, "application/json", strings.NewReader(`{"question":{`+q+`}}`))
				if err != nil {
					b.Fatal(err)
				}
				size, err = io.Copy(io.Discard, r.Body)
				if err := errors.Join(err, r.Body.Close()); err != nil || r.StatusCode != http.StatusOK {
					b.Fatal(r.Status, err)
				}
			}
			b.ReportMetric(float64(size), "bytes/answer")
		})
	}
}
