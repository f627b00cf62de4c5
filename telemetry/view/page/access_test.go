package page

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// interactive are the roles that a viewer acts on.
var interactive = map[string]bool{
	"button": true, "link": true, "textbox": true, "searchbox": true, "combobox": true, "radio": true, "spinbutton": true, "checkbox": true, "DisclosureTriangle": true,
}

// TestNames: to a screen reader the page has landmarks, and whatever can be acted on has a name.
func TestNames(t *testing.T) {
	long(t)
	w := usual(t)
	p := open(t, browser(t), w.serve(t).URL+"/#flow="+url.QueryEscape(flowName(1)), wide)
	p.settled()
	p.wait("the path", `document.querySelectorAll("#flow .chip").length > 0`)
	roles, unnamed := map[string]int{}, 0
	for _, n := range call(p, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role, name := strings.Trim(string(n.Role.Value), `"`), ""
		if n.Name != nil {
			name = strings.TrimSpace(strings.Trim(string(n.Name.Value), `"`))
		}
		roles[role]++
		if (interactive[role] || role == "image" || role == "table" || role == "dialog") && name == "" {
			unnamed++
			t.Errorf("a %s has no name", role)
		}
	}
	for role, least := range map[string]int{"banner": 1, "main": 1, "contentinfo": 1, "search": 1, "form": 1, "region": 8, "heading": 15, "table": 3, "image": 3, "status": 1} {
		if roles[role] < least {
			t.Errorf("%d of the role %s, want %d or more; there are %v", roles[role], role, least, roles)
		}
	}
	for _, f := range eval[[]string](p, structureCheck) {
		t.Error(f)
	}
	p.quiet()
}

// structureCheck looks for what a tree of names does not show.
const structureCheck = `(() => {
  const faults = [];
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of new Set(ids)) if (ids.filter((x) => x === id).length > 1) faults.push("two elements are #" + id);
  for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]")) {
    for (const a of ["aria-labelledby", "aria-describedby"]) for (const id of (e.getAttribute(a) ?? "").split(" ").filter(Boolean)) if (!document.getElementById(id)) faults.push(a + " names no #" + id);
  }
  let level = 0;
  for (const h of document.querySelectorAll("main h2, main h3, main h4")) {
    const l = Number(h.tagName[1]);
    if (level && l > level + 1) faults.push("a heading skips a level: " + h.textContent);
    level = l;
  }
  if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");
  if (!document.documentElement.lang) faults.push("no language");
  for (const e of document.querySelectorAll("[tabindex]")) if (Number(e.tabIndex) > 0) faults.push("a positive tabindex");
  for (const t of document.querySelectorAll("table")) {
    if (!t.querySelector("caption")) faults.push("a table without a caption");
    for (const th of t.querySelectorAll("th")) if (!th.scope) faults.push("a th without a scope: " + th.textContent);
  }
  for (const b of document.querySelectorAll("button, select, input:not([type=radio]), .node[tabindex]")) {
    const r = b.getBoundingClientRect();
    if (r.width && (r.width < 24 || r.height < 24)) faults.push("too small to hit: " + (b.id || b.className.baseVal || b.className) + " " + r.width + "x" + r.height);
  }
  return faults;
})()`

// TestKeyboard: Tab reaches all that can be acted on, in the order of the document, and shows where it is.
func TestKeyboard(t *testing.T) {
	long(t)
	w := usual(t)
	p := open(t, browser(t), w.serve(t).URL+"/#flow="+url.QueryEscape(flowName(1)), wide)
	p.settled()
	p.wait("the path", `document.querySelectorAll("#flow .chip").length > 0`)
	p.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("#pause").click(); window.reached = []; document.addEventListener("focusin", (e) => reached.push(e.target))`))
	var unseen []string
	for range 400 {
		p.run(chromedp.KeyEvent(kb.Tab))
		if fault := eval[string](p, focusCheck); fault == "end" {
			break
		} else if fault != "" {
			unseen = append(unseen, fault)
		}
	}
	for _, f := range unseen {
		t.Errorf("the focus is not seen at %s", f)
	}
	missed := eval[[]string](p, `[...document.querySelectorAll("button, a[href], select, input, summary, [tabindex='0']")]
		.filter((e) => e.checkVisibility({ visibilityProperty: true }) && !reached.includes(e) && !(e.type === "radio" && !e.checked))
		.map((e) => e.tagName + " " + (e.id || e.getAttribute("class")) + " " + e.textContent.slice(0, 30))`)
	for _, m := range missed {
		t.Errorf("Tab does not reach %s", m)
	}
	if n := eval[int](p, `reached.length`); n < 50 {
		t.Errorf("Tab reached %d elements", n)
	}
	if backwards := eval[int](p, `reached.slice(1).filter((e, i) => e !== reached[i] && reached[i] !== document.body && (reached[i].compareDocumentPosition(e) & Node.DOCUMENT_POSITION_PRECEDING) && !reached.slice(0, i + 1).includes(e)).length`); backwards > 0 {
		t.Errorf("Tab goes backwards %d times", backwards)
	}
}

// focusCheck tells where the focus is not seen; "end": it left the page or went around.
const focusCheck = `(() => {
  const e = document.activeElement;
  if (e === document.body || reached.indexOf(e) < reached.length - 1) return "end";
  const marked = (x) => { const s = getComputedStyle(x); return parseFloat(s.outlineWidth) >= 2 && s.outlineStyle !== "none"; };
  const stroked = (x) => x && parseFloat(getComputedStyle(x).strokeWidth) >= 3;
  const seen = marked(e) || (e.type === "radio" && marked(e.nextElementSibling)) || stroked(e.querySelector?.(":scope > rect, .pill"));
  const r = (e.type === "radio" ? e.nextElementSibling : e).getBoundingClientRect();
  const inView = r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth;
  return seen && inView ? "" : e.tagName + " " + (e.id || e.getAttribute("class")) + (inView ? "" : " (out of view)");
})()`

// TestContrast: every text has a contrast of 4.5:1 with its ground, in both schemes.
func TestContrast(t *testing.T) {
	long(t)
	c := smallScene()
	c.epochs, c.silent = 12, 6
	server := newWorld(t, c).serve(t)
	b := browser(t)
	for _, dark := range []bool{false, true} {
		l := wide
		l.dark = dark
		p := open(t, b, server.URL+"/#flow="+url.QueryEscape(flowName(1)), l)
		p.settled()
		p.wait("the path", `document.querySelectorAll("#flow .chip").length > 0`)
		p.run(chromedp.Evaluate[chromedp.Void](`for (const d of document.querySelectorAll("details")) d.open = true; document.querySelector("#banner").hidden = false; document.querySelector("#banner").textContent = "x"; document.querySelector("#flow-fault").textContent = "x"; document.querySelector("#switches .plain").click()`))
		faults := eval[[]string](p, contrastCheck)
		for _, f := range faults {
			t.Errorf("%s: %s", l, f)
		}
		p.quiet()
	}
}

// contrastCheck measures all texts as the Web Content Accessibility Guidelines 2.2 have it (1.4.3): the
// ground is what the ancestors paint, and in the drawing, that of a card.
const contrastCheck = `(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = (e) => { const layers = []; for (let x = e; x; x = x.parentElement) { const c = rgba(getComputedStyle(x).backgroundColor); if (c[3] > 0) layers.push(c); if (c[3] === 1) break; } return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]); };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const faults = new Set();
  let measured = 0;
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) || e.closest(".quiet, noscript, title, option")) continue;
    const s = getComputedStyle(e);
    const inDrawing = e instanceof SVGElement;
    const below = inDrawing ? (e.matches(".hop") ? rgba(getComputedStyle(e.parentElement.querySelector("circle")).fill) : ground(e.closest(".card"))) : ground(e);
    const c = ratio(over(rgba(inDrawing ? s.fill : s.color), below), below);
    measured++;
    if (c < 4.5) faults.add(c.toFixed(2) + ":1 for " + (e.getAttribute("class") || e.tagName) + " " + JSON.stringify(e.textContent.slice(0, 20)));
  }
  if (measured < 200) faults.add("only " + measured + " texts were measured");
  return [...faults];
})()`
