package page

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// settled waits until every panel has its first answer.
func (p *tab) settled() {
	p.t.Helper()
	p.wait("the drawing", `document.querySelectorAll(".drawing .node").length > 0`)
	p.wait("the flows", `document.querySelectorAll("#flows .pickflow").length > 0`)
	p.wait("the switches", `document.querySelectorAll("#switches tbody tr").length > 0`)
	p.wait("the charts", `document.querySelectorAll(".charts .plot svg").length === 3`)
}

// flowName is the i-th flow as people write it.
func flowName(i int) string { return query.FormatKey(leafSpine.key(i)) }

// flowOf is the i-th flow of another network.
func flowOf(w *world, i int) string { return query.FormatKey(w.key(i)) }

// TestLooks: at both widths and in both schemes the page shows the whole network, without a fault, a request
// to elsewhere or anything beside the screen.
func TestLooks(t *testing.T) {
	long(t)
	w := usual(t)
	server := w.serve(t)
	b := browser(t)
	looks := []look{wide, narrow}
	looks[1].dark = true
	if os.Getenv("WEIR_SCREENSHOTS")+os.Getenv("WEIR_PICTURES") != "" { // for people, each width in each scheme
		looks = append(looks, look{width: wide.width, height: wide.height, dark: true}, narrow)
	}
	for _, l := range looks {
		t.Run(l.String(), func(t *testing.T) {
			p := open(t, b, server.URL+"/#flow="+url.QueryEscape(flowName(1)), l)
			p.settled()
			p.wait("the path", `document.querySelectorAll("#flow .chip").length > 0`)
			p.wait("the ribbons", `document.querySelectorAll("#talkers .ribbon").length > 0`)
			if cut := eval[[]string](p, `[...document.querySelectorAll("#talkers .group text")].map((t) => t.textContent).filter((t) => t.includes("…"))`); len(cut) > 0 {
				t.Errorf("addresses are cut off: %q", cut)
			}
			// Bounds without width are no exact delay.
			if said := eval[string](p, `document.querySelector('[aria-labelledby="flow-between"]').innerText`); strings.Contains(said, "exact") || !strings.Contains(said, "of the packets measured") {
				t.Errorf("of delays it says %q", said)
			}
			p.picture(l)
			p.shoot("view-"+l.String(), false)
			p.shoot("page-"+l.String(), true)
			if over := eval[float64](p, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
				t.Errorf("the page is %g pixels wider than the screen", over)
			}
			if ground := eval[string](p, "getComputedStyle(document.body).backgroundColor"); (ground == "rgb(12, 18, 21)") != l.dark {
				t.Errorf("the ground is %s", ground)
			}
			p.drawnWhole(w)
			p.quiet()
		})
	}
}

// drawnWhole checks that the drawing and its table have all switches, hosts and links.
func (p *tab) drawnWhole(w *world) {
	p.t.Helper()
	names := eval[[]string](p, `[...document.querySelectorAll(".drawing .node")].map((n) => n.dataset.name)`)
	want := slices.Clone(w.names[1:])
	for leaf := range leaves {
		want = append(want, fmt.Sprintf("h%d", leaf+1))
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		p.t.Errorf("drawn are %q, want %q", names, want)
	}
	drawn := eval[int](p, `document.querySelectorAll(".drawing .link").length`)
	lines := eval[int](p, `document.querySelectorAll("#topology tbody tr").length`)
	if n := len(w.links); drawn != n || lines != 2*n {
		p.t.Errorf("%d links are drawn and %d directions in the table; there are %d links", drawn, lines, n)
	}
	labels := eval[[]string](p, `[...document.querySelectorAll(".drawing .link")].map((l) => l.getAttribute("aria-label"))`)
	for _, l := range labels {
		if !strings.Contains(l, "bit/s") || !strings.Contains(l, "utilisation") || !strings.Contains(l, "queue") {
			p.t.Errorf("a link is called %q", l)
		}
	}
}

// TestAnswers: what the page shows is what the engine answers.
func TestAnswers(t *testing.T) {
	w := usual(t)
	p := open(t, browser(t), w.serve(t).URL, wide)
	p.settled()
	h, err := w.engine().HeavyHitters(oblivious.Bytes, 1e-6, 0)
	if err != nil {
		t.Fatal(err)
	}
	shown := eval[[]string](p, `[...document.querySelectorAll("#flows .pickflow")].map((b) => b.title)`)
	if len(shown) != 50 {
		t.Fatalf("%d flows are shown", len(shown))
	}
	for i, name := range shown {
		if name != h.Flows[i].Flow {
			t.Errorf("flow %d is %s, want %s", i, name, h.Flows[i].Flow)
		}
	}
	if got, want := eval[string](p, `document.querySelector("#flows .amount").textContent`), threeDigits(h.Flows[0].Value/1e6)+" MB"; strings.ReplaceAll(got, "\u00a0", " ") != want {
		t.Errorf("the first flow has %s, want %s", got, want)
	}
	if got := eval[string](p, `document.querySelector("#tile-flows .value").textContent`); got != fmt.Sprint(w.flows) {
		t.Errorf("%s flows, want %d", got, w.flows)
	}
	// What is missing: an epoch of s2 in part.
	for _, panel := range []string{"#flows", "#chart-volume"} {
		if got := eval[string](p, fmt.Sprintf(`document.querySelector(%q).textContent`, panel+" .basis")); !strings.Contains(got, "Switch s2, sample: 1 slice in part, 12 packets not measured") {
			t.Errorf("%s rests on %q", panel, got)
		}
	}
	// Its bounds hold the truth in the table of the chart, and the health names the overruns of s3.
	if got := eval[string](p, `document.querySelector("#switches tbody tr").textContent`); !strings.HasPrefix(got, "s3▲ warning") || !strings.Contains(got, "overruns") {
		t.Errorf("the first switch is %q", got)
	}
	if n := eval[int](p, `document.querySelectorAll("#chart-volume tbody tr").length`); n < 15 {
		t.Errorf("the table of the volume has %d lines", n)
	}
	p.quiet()
}

// threeDigits writes a number from 1 to 1000 as the page does.
func threeDigits(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", x), "0"), ".")
}

// hops are the numbers of the switches that the drawing marks as hops, in their order.
func (p *tab) hops() []string {
	return eval[[]string](p, `[...document.querySelectorAll(".drawing .node[data-hop]")].sort((a, b) => a.dataset.hop - b.dataset.hop).map((n) => n.dataset.name)`)
}

// wantPath checks that all of a flow is shown.
func (p *tab) wantPath(w *world, i int) {
	p.t.Helper()
	p.wait("the path", `document.querySelectorAll("#flow .chip").length > 0 && document.querySelectorAll(".drawing .node[data-hop]").length > 0`)
	var want []string
	for _, sw := range leafSpine.way(i) {
		want = append(want, w.names[sw])
	}
	if got := p.hops(); !slices.Equal(got, want) {
		p.t.Errorf("the drawing marks %q as the path, want %q", got, want)
	}
	if got := eval[[]string](p, `[...document.querySelectorAll("#flow .chip")].map((c) => c.textContent)`); !slices.Equal(got, want) {
		p.t.Errorf("the panel says %q is the path, want %q", got, want)
	}
	if n := eval[int](p, `document.querySelectorAll(".drawing .route").length`); n != len(want)-1 {
		p.t.Errorf("%d links are marked", n)
	}
	if n := eval[int](p, `document.querySelectorAll("#flow .hops tbody tr").length`); n != len(want) {
		p.t.Errorf("%d hops have latencies", n)
	}
	text := eval[string](p, `document.querySelector("#flow").innerText`)
	for _, word := range []string{flowName(i), "p50", "p99", "Mean delay", "Lost", "Sample", "Sketch", "Certain to"} {
		if !strings.Contains(text, word) {
			p.t.Errorf("the panel lacks %q: %s", word, text)
		}
	}
	if said := eval[string](p, `document.querySelector("#say").textContent`); !strings.Contains(said, "Path of "+flowName(i)) {
		p.t.Errorf("said aloud was %q", said)
	}
}

// TestFlow: a flow's path is reached by pointer, by keyboard, by its name and by an address.
func TestFlow(t *testing.T) {
	long(t)
	w := usual(t)
	server := w.serve(t)
	b := browser(t)
	t.Run("pointer", func(t *testing.T) {
		p := open(t, b, server.URL, wide)
		p.settled()
		p.run(chromedp.Click(fmt.Sprintf(`#flows .pickflow[title=%q]`, flowName(2))))
		p.wantPath(w, 2)
		if pressed := eval[[]string](p, `[...document.querySelectorAll('#flows [aria-pressed="true"]')].map((b) => b.title)`); !slices.Equal(pressed, []string{flowName(2)}) {
			t.Errorf("chosen are %q", pressed)
		}
		p.run(chromedp.Click(fmt.Sprintf(`#flows .pickflow[title=%q]`, flowName(5))))
		p.wait("the other flow", fmt.Sprintf(`document.querySelector("#say").textContent.includes(%q)`, flowName(5)))
		p.wantPath(w, 5)
		p.run(chromedp.Click("#flow-close"))
		p.wait("no path", `!document.querySelector(".route") && !document.querySelector("#flow .chip")`)
		p.quiet()
	})
	t.Run("keyboard", func(t *testing.T) {
		p := open(t, b, server.URL, wide)
		p.settled()
		p.press("the first flow", kb.Tab, `document.activeElement.classList.contains("pickflow")`)
		first := eval[string](p, "document.activeElement.title")
		if first != flowName(0) {
			t.Errorf("the first flow is %s, want %s", first, flowName(0))
		}
		p.run(chromedp.KeyEvent(kb.Enter))
		p.wantPath(w, 0)
		if at := eval[string](p, "document.activeElement.title"); at != first {
			t.Errorf("the focus went to %q", at)
		}
		p.press("the button that closes", kb.Tab, `document.activeElement.id === "flow-close"`)
		p.run(chromedp.KeyEvent(kb.Escape))
		p.wait("no path", `!document.querySelector(".route")`)
		if at := eval[string](p, "document.activeElement.title"); at != first {
			t.Errorf("Escape left the focus at %q", at)
		}
		p.quiet()
	})
	t.Run("name", func(t *testing.T) {
		p := open(t, b, server.URL, narrow)
		p.settled()
		p.run(replace("#flow-text"), chromedp.KeyEvent(flowName(7)+kb.Enter))
		p.wantPath(w, 7)
		if hash := eval[string](p, "location.hash"); !strings.Contains(hash, "flow=") {
			t.Errorf("the address is %q", hash)
		}
		// A name that is none, and a flow that never was.
		p.run(replace("#flow-text"), chromedp.KeyEvent("nonsense"+kb.Enter))
		p.wait("the fault", `document.querySelector("#flow-fault").textContent.includes("write it as")`)
		if n := len(p.hops()); n != 0 {
			t.Errorf("nonsense has %d hops", n)
		}
		p.run(replace("#flow-text"), chromedp.KeyEvent("203.0.113.1:1 > 203.0.113.2:2 udp"+kb.Enter))
		p.wait("the sentence", `document.querySelector("#flow .note")`)
		if text := eval[string](p, `document.querySelector("#flow .body").innerText`); !strings.Contains(text, "203.0.113.1") && !strings.Contains(text, "not known") {
			t.Errorf("of a flow that never was it says %q", text)
		}
		p.quiet()
	})
	t.Run("address", func(t *testing.T) {
		p := open(t, b, server.URL+"/#window=1m&flow="+url.QueryEscape(flowName(4)), wide)
		p.wantPath(w, 4)
		if checked := eval[string](p, `document.querySelector('input[name="window"]:checked').value`); checked != "1m" {
			t.Errorf("the window is %s", checked)
		}
		p.quiet()
	})
}

// replace focuses an input with its text selected, so that what is typed next replaces it.
func replace(input string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).focus(); document.querySelector(%q).select()`, input, input))
}

// choose picks an option as a viewer does.
func choose(selector, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{ const s = document.querySelector(%q); s.value = %q; s.dispatchEvent(new Event("change", { bubbles: true })); }`, selector, value))
}

// press presses a key until a condition holds.
func (p *tab) press(what, key, condition string) {
	p.t.Helper()
	for range 150 {
		p.run(chromedp.KeyEvent(key))
		if eval[bool](p, condition) {
			return
		}
	}
	p.t.Fatalf("%s was not reached", what)
}

// TestInspector: switches and links open by pointer and keyboard, and Escape gives the focus back.
func TestInspector(t *testing.T) {
	long(t)
	w := usual(t)
	p := open(t, browser(t), w.serve(t).URL, wide)
	p.settled()
	for _, c := range []struct{ at, title, word string }{
		{`document.activeElement.matches(".node")`, "Switch s1", "Ports"},
		{`document.activeElement.matches(".link")`, "Link ", "Utilisation"},
		{`document.activeElement.matches("#switches .plain")`, "Switch s3", "Overruns"},
	} {
		p.run(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur(); document.querySelector("#main").focus()`))
		p.press(c.title, kb.Tab, c.at)
		p.run(chromedp.KeyEvent(kb.Enter))
		p.wait("the dialogue", `document.querySelector("#inspector").open`)
		text := eval[string](p, `document.querySelector("#inspector").innerText`)
		if !strings.HasPrefix(text, c.title) || !strings.Contains(text, c.word) {
			t.Errorf("opened was %q", text)
		}
		p.shoot("inspector-"+strings.Fields(c.title)[0], false)
		p.run(chromedp.KeyEvent(kb.Escape))
		p.wait("its end", `!document.querySelector("#inspector").open && `+c.at)
	}
	p.quiet()
}

// TestControls: window, unit and pause reach the questions.
func TestControls(t *testing.T) {
	long(t)
	w := usual(t)
	inner := w.serve(t)
	var asked questions
	server := httptest.NewServer(asked.of(inner))
	t.Cleanup(server.Close)
	p := open(t, browser(t), server.URL, wide)
	p.settled()
	want := func(text string) {
		t.Helper()
		p.t = t
		for range 6000 {
			if asked.some(text) {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("no question has %s", text)
	}
	want(`"last_ns":300000000000`)
	p.run(chromedp.Click(`//span[text()="1 min"]`))
	want(`"last_ns":60000000000`)
	p.run(chromedp.Click(`//span[text()="1 h"]`))
	want(`"last_ns":3600000000000`)
	p.run(chromedp.Click(`//span[text()="Custom"]`), replace("#custom-count"), chromedp.KeyEvent("90"+kb.Tab))
	p.run(choose("#custom-unit", "s"))
	want(`"last_ns":90000000000`)
	p.run(replace("#custom-count"), chromedp.KeyEvent("-4"+kb.Tab))
	p.wait("the fault", `document.querySelector("#custom-fault").textContent.includes("1 to 9999")`)
	want(`"unit":"bytes"`)
	p.run(chromedp.Click(`//span[text()="Packets"]`))
	want(`"unit":"packets"`)
	p.wait("packets", `document.querySelector("#flows .amount").textContent.includes("packets")`)

	p.run(chromedp.Click("#pause"))
	p.wait("the pause", `document.querySelector("#live").dataset.state === "paused" && document.querySelector("#pause").textContent.trim() === "Resume"`)
	// The round in work ends, however long it takes; then more than an interval has no question.
	before, since := asked.count(), time.Now()
	for deadline := time.Now().Add(time.Minute); time.Since(since) < 2500*time.Millisecond; time.Sleep(20 * time.Millisecond) {
		if now := asked.count(); now != before {
			before, since = now, time.Now()
		}
		if time.Now().After(deadline) {
			t.Fatal("questions go on in the pause")
		}
	}
	p.run(chromedp.Click("#pause"))
	p.wait("its end", `document.querySelector("#live").dataset.state === "live"`)
	for range 6000 {
		if asked.count() > before {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if asked.count() == before {
		t.Error("no question behind the pause")
	}
	p.quiet()
}

// TestTheme: the toggle overrides the system's scheme, and is remembered.
func TestTheme(t *testing.T) {
	long(t)
	p := open(t, browser(t), usual(t).serve(t).URL, wide)
	ground := `getComputedStyle(document.body).backgroundColor`
	light := eval[string](p, ground)
	p.run(choose("#theme", "dark"))
	dark := eval[string](p, ground)
	if light == dark {
		t.Errorf("light and dark are both %s", light)
	}
	p.run(chromedp.Reload())
	p.wait("the page", `document.querySelector("#theme").value === "dark"`)
	if again := eval[string](p, ground); again != dark {
		t.Errorf("it was %s, and is %s after reloading", dark, again)
	}
	p.quiet()
}

func smallScene() scene {
	c := defaultScene()
	c.epochs, c.packetsPerEpoch = 3, 400
	return c
}

// TestManyFlows: the document stays small, however many flows there are.
func TestManyFlows(t *testing.T) {
	long(t)
	c := smallScene()
	c.epochs, c.flows, c.packetsPerEpoch, c.sampleSize = 2, 10_000, 10_000, 20_000
	w := newWorld(t, c)
	p := open(t, browser(t), w.serve(t).URL, narrow)
	p.settled()
	if n := eval[int](p, `document.querySelectorAll("#flows .pickflow").length`); n != 50 {
		t.Errorf("%d flows are listed", n)
	}
	more := eval[string](p, `document.querySelector("#flows .more").textContent`)
	if !strings.HasPrefix(more, "9\u202f950 smaller flows are not shown") {
		t.Errorf("of the others it says %q", more)
	}
	if n := eval[int](p, `document.querySelectorAll("*").length`); n > 3500 {
		t.Errorf("the document has %d elements", n)
	}
	if over := eval[float64](p, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
		t.Errorf("the page is %g pixels wider than the screen", over)
	}
	p.quiet()
}

// TestHostileNames: markup in names is text.
func TestHostileNames(t *testing.T) {
	long(t)
	c := smallScene()
	const script, image = `<script>window.hacked = 1</script>`, `"><img src=x onerror="window.hacked=1">`
	c.names[5], c.names[2], c.names[1] = script, image, strings.Repeat("very long name ", 16)
	w := newWorld(t, c)
	b := browser(t)
	hostile := `<svg onload="window.hacked=1">` + script
	for _, l := range []look{wide, narrow} {
		p := open(t, b, w.serve(t).URL+"/#flow="+url.QueryEscape(hostile), l)
		p.settled()
		p.wait("the fault", `document.querySelector("#flow-fault").textContent.includes("<svg onload")`)
		p.run(replace("#flow-text"), chromedp.KeyEvent(flowName(1)+kb.Enter))
		p.wait("the path", `document.querySelectorAll("#flow .chip").length > 0`)
		p.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("#switches .plain").click()`))
		for _, name := range c.names[1:] {
			if !slices.Contains(eval[[]string](p, `[...document.querySelectorAll(".drawing .node")].map((n) => n.dataset.name)`), name) {
				t.Errorf("%q is not drawn", name)
			}
			if !strings.Contains(eval[string](p, `document.querySelector("#switches").textContent`), name) {
				t.Errorf("%q is not listed", name)
			}
		}
		if hacked := eval[bool](p, `"hacked" in window || document.querySelectorAll("script").length !== 2 || Boolean(document.querySelector("img, iframe, object"))`); hacked {
			t.Error("a name became markup")
		}
		if over := eval[float64](p, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("long names make the page %g pixels wider than the screen", over)
		}
		p.quiet()
	}
}

// TestNoRecords: every panel of an empty collector says so in a sentence with a remedy; of
// switches that its links name it says that they are silent.
func TestNoRecords(t *testing.T) {
	long(t)
	b := browser(t)
	panels := []string{"#flows .list", "#chart-volume .plot", "#chart-entropy .plot", "#chart-cardinality .plot"}
	for _, unlinked := range []bool{true, false} {
		w := &world{scene: defaultScene(), t: t, store: &store.Store{}}
		w.unlinked = unlinked
		if unlinked {
			panels = append(panels, "#topology .drawing", "#switches .list")
		} else {
			panels = panels[:4]
		}
		p := open(t, b, w.serve(t).URL, narrow)
		for _, panel := range panels {
			p.wait(panel, fmt.Sprintf(`(document.querySelector(%q)?.textContent ?? "").length > 40`, panel+" .state"))
			if kind := eval[string](p, fmt.Sprintf(`document.querySelector(%q).dataset.kind`, panel+" .state")); kind != "empty" {
				t.Errorf("%s holds it for a fault", panel)
			}
			// What is several reasons to the collector is as many sentences here.
			if said := eval[string](p, fmt.Sprintf(`document.querySelector(%q).textContent`, panel+" .state")); strings.Contains(said, "\n") || strings.Contains(said, "window no records") {
				t.Errorf("%s says %q", panel, said)
			}
		}
		if !unlinked {
			p.wait("the switches", fmt.Sprintf(`document.querySelectorAll('.drawing .node[data-health="bad"]').length === %d`, leafSpine.switches))
		}
		p.shoot(fmt.Sprintf("empty-%v", unlinked), true)
		p.quiet()
	}
}

// TestEarlierTraffic: where the window before now has no traffic the page shows the last that there is, with flows, values and charts, and says so; a longer
// window, and a chosen time, end that.
func TestEarlierTraffic(t *testing.T) {
	w := newWorld(t, smallScene())
	w.idle = 20 * time.Minute
	p := open(t, browser(t), w.serve(t).URL, wide)
	p.wait("the note", `!document.querySelector("#earlier").hidden`)
	p.settled()
	said := eval[string](p, `document.querySelector("#earlier").textContent`)
	if !strings.HasPrefix(said, "No traffic for 20") || !strings.Contains(said, "Shown is what was before: 5") || !strings.Contains(said, " up to ") {
		t.Errorf("it says %q", said)
	}
	if n := eval[int](p, `document.querySelectorAll("#flows .pickflow").length`); n == 0 {
		t.Error("no flow is shown")
	}
	if rate := eval[string](p, `document.querySelector("#tile-rate .value").textContent`); rate == "–" || rate == "0" {
		t.Errorf("the traffic is %q", rate)
	}
	p.drawnWhole(w)
	p.shoot("earlier-"+wide.String(), false)
	p.run(chromedp.Click(`label:has(input[name="window"][value="1h"])`))
	p.wait("the longer window", `document.querySelector("#earlier").hidden && location.hash.includes("window=1h")`)
	p.settled()
	if n := eval[int](p, `document.querySelectorAll("#flows .pickflow").length`); n == 0 {
		t.Error("no flow is shown of the longer window")
	}
	p.quiet()
}

// TestSilentSwitch: a switch that is not heard of any more is told by a sign, a word and its place.
func TestSilentSwitch(t *testing.T) {
	c := smallScene()
	c.epochs, c.silent = 12, 6
	p := open(t, browser(t), newWorld(t, c).serve(t).URL, wide)
	p.settled()
	if label := eval[string](p, `document.querySelector('.node[data-name="s6"]').getAttribute("aria-label")`); !strings.Contains(label, "silent") {
		t.Errorf("the drawing calls it %q", label)
	}
	if first := eval[string](p, `document.querySelector("#switches tbody tr").textContent`); !strings.HasPrefix(first, "s6✕ silent") {
		t.Errorf("the first switch is %q", first)
	}
	if tile := eval[string](p, `document.querySelector("#tile-switches").textContent`); !strings.Contains(tile, "1 silent switch") {
		t.Errorf("at a glance: %q", tile)
	}
	p.shoot("silent-switch", false)
	p.quiet()
}

// TestSilence: a collector that does not answer is told of, with a remedy, and so is its return.
func TestSilence(t *testing.T) {
	long(t)
	w := usual(t)
	inner := w.serve(t)
	var asked questions
	server := httptest.NewServer(asked.of(inner))
	t.Cleanup(server.Close)
	p := open(t, browser(t), server.URL, wide)
	p.settled()
	asked.silent.Store(true)
	p.wait("the banner", `!document.querySelector("#banner").hidden && document.querySelector("#banner").textContent.includes("weir collect")`)
	p.wait("the state", `document.querySelector("#live").dataset.state === "lost"`)
	if n := eval[int](p, `document.querySelectorAll("#flows .pickflow").length`); n == 0 {
		t.Error("the last answers are gone")
	}
	p.shoot("silence-"+wide.String(), false)
	asked.silent.Store(false)
	p.wait("the return", `document.querySelector("#banner").hidden && document.querySelector("#live").dataset.state === "live"`)
	if said := eval[string](p, `document.querySelector("#say").textContent`); !strings.Contains(said, "again") {
		t.Errorf("said aloud was %q", said)
	}
}

// TestNoShift: refreshing moves nothing.
func TestNoShift(t *testing.T) {
	long(t)
	w := usual(t)
	inner := w.serve(t)
	var asked questions
	server := httptest.NewServer(asked.of(inner))
	t.Cleanup(server.Close)
	b := browser(t)
	for _, l := range []look{wide, narrow} {
		p := open(t, b, server.URL, l)
		p.settled()
		p.run(chromedp.Evaluate[chromedp.Void](`window.shifts = []; new PerformanceObserver((l) => shifts.push(...l.getEntries().map((e) => e.value))).observe({ type: "layout-shift" })`))
		// What answers too late, or says that it does, may move something on a busy machine;
		// a refresh that does would do it each time.
		var shifts []float64
		for range 6 {
			before := asked.count()
			for range 6000 {
				if asked.count() > before+15 { // more than a round
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			if shifts = eval[[]float64](p, "shifts.splice(0)"); len(shifts) == 0 {
				break
			}
			t.Logf("%s: it moved by %v", l, shifts)
		}
		if len(shifts) != 0 {
			t.Errorf("%s: each round moves something", l)
		}
		p.quiet()
	}
}

// TestReducedMotion: nothing moves where the viewer asks for that.
func TestReducedMotion(t *testing.T) {
	long(t)
	l := wide
	server := usual(t).serve(t)
	b := browser(t)
	for _, reduced := range []bool{false, true} {
		l.reduced = reduced
		p := open(t, b, server.URL, l)
		p.wait("an answer", `document.querySelector("#live").dataset.state === "live"`)
		if n := eval[int](p, "document.getAnimations().length"); (n == 0) != reduced {
			t.Errorf("reduced %v: %d animations", reduced, n)
		}
	}
}

// TestLayout: the drawing depends on the network alone, and no two switches of it cover each other.
func TestLayout(t *testing.T) {
	long(t)
	p := open(t, browser(t), usual(t).serve(t).URL, wide)
	p.settled()
	faults := eval[[]string](p, layoutCheck)
	for _, f := range faults {
		t.Error(f)
	}
	p.quiet()
}

// layoutCheck lays out networks of several shapes and sizes, twice, the second time with their edges in
// another order.
const layoutCheck = `(async () => {
  const script = document.querySelector('script[type="module"]').src;
  const { layout, tiers } = await import(new URL("layout.js", script));
  const faults = [];
  const name = (i) => "s" + String(i).padStart(3, "0");
  const shapes = {
    line: (n) => [...Array(n - 1)].map((_, i) => [i, i + 1]),
    ring: (n) => [...Array(n)].map((_, i) => [i, (i + 1) % n]),
    star: (n) => [...Array(n - 1)].map((_, i) => [0, i + 1]),
    grid: (n) => { const k = Math.ceil(Math.sqrt(n)); return [...Array(n)].flatMap((_, i) => [[i, i + 1], [i, i + k]]).filter(([a, b]) => b < n && (b !== a + 1 || b % k !== 0)); },
    apart: () => [],
  };
  const box = { width: 1100, height: 700, margin: { x: 40, y: 24 } };
  for (const [shape, edges] of Object.entries(shapes)) for (const n of [1, 2, 3, 6, 20, 60]) {
    const names = [...Array(n)].map((_, i) => name(i));
    const pairs = edges(n).map(([a, b]) => [name(a), name(b)]);
    const at = layout(names, pairs, box.width, box.height, box.margin);
    const again = layout(names, [...pairs].reverse().map(([a, b]) => [b, a]), box.width, box.height, box.margin);
    for (const a of names) {
      const p = at.get(a), q = again.get(a);
      if (!(p.x >= 0 && p.x <= box.width && p.y >= 0 && p.y <= box.height)) faults.push(shape + n + ": " + a + " is outside");
      if (Math.hypot(p.x - q.x, p.y - q.y) > 0.5) faults.push(shape + n + ": " + a + " moved with the order of edges");
      for (const b of names) if (a < b && n <= 20) {
        const r = at.get(b);
        if (Math.abs(p.x - r.x) < 40 && Math.abs(p.y - r.y) < 24) faults.push(shape + n + ": " + a + " and " + b + " cover each other");
      }
    }
  }
  const rows = tiers(["h1", "h2", "s1", "s2", "s3"], [["h1", "s1"], ["h2", "s2"], ["s1", "s3"], ["s2", "s3"]], new Set(["h1", "h2"]), 600, 400, { x: 6, y: 30 }, { x: 20, y: 10 });
  if (!(rows.get("s3").y < rows.get("s1").y && rows.get("s1").y < rows.get("h1").y && rows.get("h1").x < rows.get("h2").x)) faults.push("tiers are not above each other");
  if (tiers(["s1", "s2"], [["s1", "s2"]], new Set(), 600, 400, { x: 6, y: 30 }, { x: 20, y: 10 }) !== null) faults.push("tiers without hosts");
  return faults;
})()`
