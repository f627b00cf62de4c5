package page

import (
	"encoding/csv"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// asking serves a world, and notes what is asked.
func asking(t *testing.T, w *world) (*httptest.Server, *questions) {
	asked := new(questions)
	server := httptest.NewServer(asked.of(w.serve(t)))
	t.Cleanup(server.Close)
	return server, asked
}

// drag moves the pointer over a part of an element, from and to as shares of its box, with the button held.
func (p *tab) drag(selector string, from, to [2]float64) {
	p.t.Helper()
	p.run(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).scrollIntoView({ block: "center", behavior: "instant" })`, selector)))
	box := eval[[]float64](p, fmt.Sprintf(`(({ x, y, width, height }) => [x, y, width, height])(document.querySelector(%q).getBoundingClientRect())`, selector))
	at := func(share [2]float64) (float64, float64) { return box[0] + share[0]*box[2], box[1] + share[1]*box[3] }
	send := func(kind input.DispatchMouseEventType, share [2]float64, buttons int64) {
		x, y := at(share)
		call(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: x, Y: y, Button: input.MouseButtonLeft, Buttons: buttons, ClickCount: 1})
	}
	send(input.DispatchMouseEventTypeMousePressed, from, 1)
	for _, share := range []float64{0.3, 0.7, 1} {
		send(input.DispatchMouseEventTypeMouseMoved, [2]float64{from[0] + share*(to[0]-from[0]), from[1] + share*(to[1]-from[1])}, 1)
	}
	send(input.DispatchMouseEventTypeMouseReleased, to, 0)
}

// TestSearch: flows are found by prefix, address, port and protocol, with completion; the address has the search.
func TestSearch(t *testing.T) {
	long(t)
	w := usual(t)
	server, asked := asking(t, w)
	b := browser(t)
	p := open(t, b, server.URL, wide)
	p.settled()
	p.run(replace("#flow-text"), chromedp.KeyEvent("10.0.2."))
	options := eval[[]string](p, `[...document.querySelectorAll("#flow-known option")].map((o) => o.value)`)
	for _, want := range []string{"10.0.2.2", "10.0.2.0/24"} {
		if !slices.Contains(options, want) {
			t.Errorf("completed are %q, without %s", options, want)
		}
	}
	p.run(replace("#flow-text"), chromedp.KeyEvent("10.0.2.0/24 td"))
	if options := eval[[]string](p, `[...document.querySelectorAll("#flow-known option")].map((o) => o.value)`); len(options) != 0 {
		t.Errorf("nothing is called so, but completed are %q", options)
	}
	p.run(replace("#flow-text"), chromedp.KeyEvent("10.0.2.0/24 tc"))
	if options := eval[[]string](p, `[...document.querySelectorAll("#flow-known option")].map((o) => o.value)`); !slices.Contains(options, "10.0.2.0/24 tcp") {
		t.Errorf("completed are %q", options)
	}
	p.run(chromedp.KeyEvent("p" + kb.Enter))
	has := func(f string) string {
		return fmt.Sprintf(`(() => { const all = [...document.querySelectorAll("#flows .pickflow")].map((b) => b.title); return all.length > 0 && all.every((f) => %s); })()`, f)
	}
	p.wait("flows of the search", has(`/10\.0\.2\.2/.test(f) && f.endsWith("tcp")`))
	asked.until(t, "the search", `"prefix":"10.0.2.0/24"`, `"proto":"tcp"`)
	if text := eval[string](p, `document.querySelector("#filter").innerText`); !strings.Contains(text, "10.0.2.0/24 tcp") {
		t.Errorf("of the search it says %q", text)
	}
	p.wait("their volume", `document.querySelector("#tile-rate h2").textContent === "Traffic of the search"`)
	// A copy of the address shows the same.
	address := eval[string](p, "location.href")
	again := open(t, b, address, wide)
	again.settled()
	again.wait("the search", has(`/10\.0\.2\.2/.test(f) && f.endsWith("tcp")`))
	p.run(replace("#flow-text"), chromedp.KeyEvent("src 10.0.1.2 port 7000"+kb.Enter))
	p.wait("flows from an address", has(`f.startsWith("10.0.1.2:")`))
	for text, word := range map[string]string{"10.0.0.1 10.0.0.2": "two terms", "port 70000": "no address", "nonsense": "write it as", "300.1.1.1/99": "write it as"} {
		p.run(replace("#flow-text"), chromedp.KeyEvent(text+kb.Enter))
		p.wait("the fault of "+text, fmt.Sprintf(`(document.querySelector("#flow-fault").textContent + document.querySelector("#flows .list").textContent).includes(%q)`, word))
	}
	p.run(chromedp.Click("#filter button"))
	p.wait("all flows", `document.querySelector("#filter").hidden && document.querySelectorAll("#flows .pickflow").length === 50`)
	p.quiet()
	again.quiet()
}

// TestPair: delay and loss are asked for between any two switches of a flow's path, and what is refused is not asked at each refresh.
func TestPair(t *testing.T) {
	long(t)
	w := usual(t)
	server, asked := asking(t, w)
	p := open(t, browser(t), server.URL+"/#flow="+url.QueryEscape(flowName(1)), wide)
	p.wait("the choice", `document.querySelectorAll("#flow .between select").length === 2`)
	way := w.way(1)
	names := []string{w.names[way[0]], w.names[way[1]], w.names[way[2]]}
	if got := eval[[]string](p, `[...document.querySelector("#flow .between select").options].map((o) => o.value)`); !slices.Equal(got, names) {
		t.Errorf("the choice is of %q, want %q", got, names)
	}
	p.wait("the whole path", fmt.Sprintf(`document.querySelector("#flow").innerText.includes("%s:")`, names[0]))
	p.run(choose("#flow .between label:last-child select", names[1]))
	p.wait("the first link", `/From\s+`+names[0]+`:\d+ out\s+To\s+`+names[1]+`:\d+ in/.test(document.querySelector("#flow").innerText) && document.querySelector("#flow").innerText.includes("Mean delay")`)
	if hash := eval[string](p, "location.hash"); !strings.Contains(hash, "from="+names[0]+"&to="+names[1]) {
		t.Errorf("the address is %s", hash)
	}
	asked.until(t, "the pair", `"kind":"delay"`, `"from":"`+names[0], `"to":"`+names[1])
	p.quiet()

	c := smallScene()
	blind := *c.graph
	blind.measured, c.graph = false, &blind
	server, asked = asking(t, newWorld(t, c))
	p = open(t, browser(t), server.URL+"/#flow="+url.QueryEscape(flowName(1)), wide)
	p.wait("the refusal", `/no points|measurement point/.test(document.querySelector("#flow .columns > section:nth-child(2)")?.innerText ?? "")`)
	before := asked.with(`"kind":"delay"`) // one that was given up for a newer one may be among them
	for rounds := asked.with(`"kind":"frequency"`) + 2; asked.with(`"kind":"frequency"`) < rounds; {
		time.Sleep(20 * time.Millisecond)
	}
	if n := asked.with(`"kind":"delay"`); n != before {
		t.Errorf("what is refused was asked %d times more", n-before)
	}
	p.quiet()
}

// TestQuantilesAndLosses: between two switches next to each other on a flow's path the quantiles of single packets' delays are there with their bounds, as are the names of flows that lost
// packets with how many, as the answers have them; few of many are named, and how many more there are.
func TestQuantilesAndLosses(t *testing.T) {
	long(t)
	w := usual(t)
	server, asked := asking(t, w)
	way := w.way(0)
	p := open(t, browser(t), server.URL+"/#flow="+url.QueryEscape(flowName(0))+"&from="+w.names[way[0]]+"&to="+w.names[way[1]], wide)
	p.wait("quantiles", `/p50[\s\S]*single packets[\s\S]*p90[\s\S]*p99/.test(document.querySelector('[aria-labelledby="flow-between"]')?.innerText ?? "")`)
	p.wait("names of flows", `document.querySelectorAll(".lostflows dt").length > 0`)
	asked.until(t, "losses of all", `"kind":"loss"`, `"limit":5`)
	names := eval[[]string](p, `[...document.querySelectorAll(".lostflows dt")].map((d) => d.textContent)`)
	counts := eval[[]string](p, `[...document.querySelectorAll(".lostflows dd")].map((d) => d.innerText)`)
	flows := map[string]bool{}
	for i := range w.flows {
		flows[flowName(i)] = true
	}
	for i, name := range names {
		if len(names) > 5 || !flows[name] || i >= len(counts) || !strings.Contains(counts[i], " lost") {
			t.Errorf("flows that lost packets are %q: %q", names, counts)
		}
	}
	p.shoot("losses", true)
	p.quiet()
}

// TestHistory: a switch, each of its ports and a link have charts of what they carried; the address opens them.
func TestHistory(t *testing.T) {
	long(t)
	w := usual(t)
	server, asked := asking(t, w)
	b := browser(t)
	p := open(t, b, server.URL+"/#open="+url.QueryEscape("switch s1"), wide)
	p.wait("the charts of the switch", `document.querySelector("#inspector").open && document.querySelectorAll("#inspector .timeline .plot svg").length === 4`)
	p.shoot("history-switch", false)
	p.run(choose("#inspector select", "2"))
	p.wait("those of a port", `document.querySelectorAll("#inspector .timeline .plot svg").length === 4`)
	asked.until(t, "the history of the port", `"at":"s1:1"`)
	if got := eval[[]string](p, `[...document.querySelectorAll("#inspector .timeline h3")].map((h) => h.textContent)`); !slices.Equal(got, []string{"Received", "Sent", "Queue", "Drops"}) {
		t.Errorf("the charts are %q", got)
	}
	p.run(chromedp.KeyEvent(kb.Escape))
	p.wait("the end", `!document.querySelector("#inspector").open && !location.hash.includes("open=")`)
	p.quiet()
	link := open(t, b, server.URL+"/#open="+url.QueryEscape("link s1:p1 s5:p0"), wide)
	link.wait("the charts of the link", `document.querySelector("#inspector").open && document.querySelectorAll("#inspector .timeline .plot svg").length === 4`)
	text := eval[string](link, `document.querySelector("#inspector").innerText`)
	if !strings.Contains(text, "s1 to s5") || !strings.Contains(text, "µs") {
		t.Errorf("the link shows %q", text)
	}
	link.shoot("history-link", false)
	link.quiet()
}

// TestZoom: dragging over a chart shows that time in all of the page, by keys too, and over the drawing that part of it.
func TestZoom(t *testing.T) {
	long(t)
	w := usual(t)
	server, asked := asking(t, w)
	p := open(t, browser(t), server.URL, wide)
	p.settled()
	p.drag("#chart-volume .plot svg", [2]float64{0.4, 0.5}, [2]float64{0.7, 0.5})
	p.wait("the range", `!document.querySelector("#range").hidden && /start=\d+&end=\d+/.test(location.hash)`)
	asked.until(t, "the range", `"kind":"volume"`, `"step_ns"`, `"start_ns":1`)
	p.run(chromedp.Click("#range"))
	p.wait("the newest", `document.querySelector("#range").hidden && !location.hash.includes("start=")`)
	p.settled()
	p.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("#chart-volume .plot svg").focus()`))
	p.run(chromedp.KeyEvent(kb.ArrowLeft))
	for range 3 {
		p.run(chromedp.Evaluate[chromedp.Void](`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", shiftKey: true, bubbles: true, cancelable: true }))`))
	}
	p.wait("the choice", `document.querySelector("#chart-volume .stretch")`)
	p.run(chromedp.KeyEvent(kb.Enter))
	p.wait("the range by keys", `!document.querySelector("#range").hidden`)

	viewBox := `document.querySelector(".drawing svg").getAttribute("viewBox").split(" ").map(Number)`
	full := eval[[]float64](p, viewBox)
	p.drag(".drawing", [2]float64{0.02, 0.3}, [2]float64{0.3, 0.6})
	part := eval[[]float64](p, viewBox)
	if part[2] > full[2]*0.5 || part[2] < full[2]*0.2 {
		t.Errorf("dragging over a part shows %v of %v", part, full)
	}
	p.run(chromedp.Click(`[data-zoom="0"]`))
	if again := eval[[]float64](p, viewBox); again[2] != full[2] {
		t.Errorf("all of it is %v, want %v", again, full)
	}
	p.run(chromedp.Click(`[data-zoom="0.6"]`))
	if larger := eval[[]float64](p, viewBox); larger[2] >= full[2] {
		t.Errorf("the button shows %v of %v", larger, full)
	}
	p.quiet()
}

// TestTalkers: who talks to whom adds up, by each grouping, and a group chosen becomes the search.
func TestTalkers(t *testing.T) {
	long(t)
	w := usual(t)
	p := open(t, browser(t), w.serve(t).URL+"/#by=network", wide)
	p.settled()
	p.wait("the ribbons", `document.querySelectorAll("#talkers .ribbon").length > 0`)
	if got := eval[[]string](p, `[...document.querySelectorAll("#talkers .group")].map((g) => g.dataset.group).filter((g) => g.startsWith("from"))`); len(got) != leaves || !slices.Contains(got, "from 10.0.1.0/24") {
		t.Errorf("the groups are %q", got)
	}
	for _, by := range []string{"Services", "Addresses"} {
		p.run(chromedp.Click(fmt.Sprintf(`//span[text()=%q]`, by)))
		p.wait(by, fmt.Sprintf(`[...document.querySelectorAll("#talkers .group")].some((g) => g.dataset.group === %q)`, map[string]string{"Services": "to tcp 1024", "Addresses": "to 10.0.1.2"}[by]))
	}
	p.run(chromedp.Evaluate[chromedp.Void](`document.querySelector('#talkers details').open = true`))
	sums := eval[[]float64](p, `(async () => {
		const base = [...document.scripts].map((s) => s.src).find((s) => s.endsWith("/main.js"));
		const talkers = await import(new URL("talkers.js", base)), flows = await import(new URL("flows.js", base));
		const sum = (list) => list.reduce((a, b) => a + b, 0);
		return [sum(talkers.table().slice(1).map((l) => l[2])), sum(flows.known().map((f) => Number(f.value)))];
	})()`)
	if sums[0] < sums[1]*0.999 || sums[0] > sums[1]*1.001 || sums[0] == 0 {
		t.Errorf("pairs have %g together, the flows %g", sums[0], sums[1])
	}
	p.run(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("#talkers .group")].find((g) => g.dataset.group === "from 10.0.3.2").dispatchEvent(new MouseEvent("click", { bubbles: true }))`))
	p.wait("the search", `document.querySelector("#filter .text").textContent === "src 10.0.3.2"`)
	p.wait("its flows", `[...document.querySelectorAll("#flows .pickflow")].every((b) => b.title.startsWith("10.0.3.2:"))`)
	p.quiet()
}

// TestExport: what is seen is saved: drawings as PNG with colours in them, tables as CSV that spreadsheets run nothing of.
func TestExport(t *testing.T) {
	long(t)
	w := usual(t)
	p := open(t, browser(t), w.serve(t).URL, wide)
	p.settled()
	p.wait("the ribbons", `document.querySelectorAll("#talkers .ribbon").length > 0`)
	p.run(chromedp.Evaluate[chromedp.Void](`{
		window.saved = [];
		const make = URL.createObjectURL.bind(URL);
		URL.createObjectURL = (blob) => { if (blob.type !== "image/svg+xml") window.saved.push(blob); return make(blob); };
		HTMLAnchorElement.prototype.click = function () { window.names = [...(window.names ?? []), this.download]; };
	}`))
	for i, panel := range []string{"topology", "talkers", "chart-volume"} {
		p.run(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`[...document.querySelectorAll("#%s .export")].find((b) => b.textContent.endsWith("PNG")).click()`, panel)))
		p.wait("the picture of "+panel, fmt.Sprintf(`window.saved.length === %d`, i+1))
		colours := eval[int](p, fmt.Sprintf(`(async () => {
			const image = await createImageBitmap(window.saved[%d]);
			const canvas = new OffscreenCanvas(image.width, image.height), context = canvas.getContext("2d");
			context.drawImage(image, 0, 0);
			const { data } = context.getImageData(0, 0, image.width, image.height);
			const seen = new Set();
			for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
			return image.width < 400 ? 0 : seen.size;
		})()`, i))
		if colours < 20 {
			t.Errorf("the picture of %s has %d colours", panel, colours)
		}
	}
	for i, c := range []struct {
		panel, first string
		least        int
	}{{"topology", "from", 2 * len(w.links)}, {"flows", "flow", 50}, {"talkers", "from", 12}, {"chart-volume", "from (UTC)", 15}, {"switches", "switch", int(w.switches)}} {
		p.run(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`[...document.querySelectorAll("#%s .export")].find((b) => b.textContent.endsWith("CSV")).click()`, c.panel)))
		lines, err := csv.NewReader(strings.NewReader(eval[string](p, fmt.Sprintf(`window.saved[%d].text()`, 3+i)))).ReadAll()
		if err != nil || len(lines) < c.least+1 || lines[0][0] != c.first {
			t.Errorf("%s as CSV: %d lines, %v", c.panel, len(lines), err)
		}
	}
	cells := eval[[]string](p, `(async () => {
		const base = [...document.scripts].map((s) => s.src).find((s) => s.endsWith("/main.js"));
		const { cell } = await import(new URL("export.js", base));
		return ["=1+1", "-5", -5, "@x", "a,b", 'say "x"', "+7"].map(cell);
	})()`)
	if want := []string{"'=1+1", "-5", "-5", "'@x", `"a,b"`, `"say ""x"""`, "+7"}; !slices.Equal(cells, want) {
		t.Errorf("cells are %q, want %q", cells, want)
	}
	p.quiet()
}
