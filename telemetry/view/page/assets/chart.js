// A value over time: a curve in the band of its bounds, with gaps where no record came.

import { $, el, set, state, svg, text } from "./dom.js";
import { between, clock, number, si } from "./format.js";

const left = 58, right = 12, top = 10, bottom = 22;

/** Chart draws into a panel. */
export class Chart {
  /**
   * @param {Element} panel
   * @param {string} name as sentences have it
   * @param {string} unit
   * @param {function} zoom is given the first and the last ns of a stretch that was chosen; null: none can be
   */
  constructor(panel, name, unit, zoom = null) {
    this.panel = panel;
    this.name = name;
    this.unit = unit;
    this.zoom = zoom;
    this.points = [];
    this.at = null; // which point the pointer or the keys are on
    this.mark = null; // at which a stretch begins that is being chosen
  }

  /** format writes a value with its unit; entropy has no thousands. */
  format(x) {
    return this.unit === "flows" || this.unit === "frames" ? si(x) : si(x, this.unit);
  }

  /** fault shows a sentence instead. */
  fault(sentence, kind) {
    this.points = [];
    state($(".plot", this.panel), sentence, kind);
    text($(".readout", this.panel), "");
  }

  /** show draws points: {from, to, value, low, high, fault}, times in ms of the wall clock. */
  show(points) {
    this.points = points;
    if (!points.some((p) => p.value !== null)) {
      this.fault(points.find((p) => p.fault)?.fault ?? "No record of it in this window. Choose a longer one.");
      return;
    }
    this.draw();
    this.table();
  }

  /** draw makes the picture, in pixels of its box. */
  draw() {
    if (!this.points.length) return;
    const box = $(".plot", this.panel);
    const width = box.clientWidth, height = box.clientHeight;
    const known = this.points.filter((p) => p.value !== null);
    const max = nice(Math.max(...known.map((p) => p.high), ...known.map((p) => p.value * 1.05)) || 1);
    const begin = this.points[0].from, end = this.points.at(-1).to;
    this.x = (t) => left + ((t - begin) / Math.max(end - begin, 1)) * (width - left - right);
    this.y = (v) => top + (1 - Math.min(v, max) / max) * (height - top - bottom);
    const last = known.at(-1);
    const label = `${this.name}, in ${this.unit}, from ${clock(begin)} to ${clock(end)}: last ${this.format(last.value)}, least ${this.format(Math.min(...known.map((p) => p.value)))}, most ${this.format(Math.max(...known.map((p) => p.value)))}. Arrow keys go through its values${this.zoom ? "; with Shift they choose a stretch of time, which Enter shows" : ""}.`;
    let picture = $("svg", box);
    if (!picture) {
      picture = svg("svg", { role: "img", tabindex: "0" });
      this.listen(picture);
      box.replaceChildren(picture);
    }
    set(picture, { viewBox: `0 0 ${width} ${height}`, "aria-label": label });
    this.cursor = svg("g", {});
    picture.replaceChildren(...this.grid(max, begin, end, width, height), ...this.curves(), this.cursor);
    this.point();
  }

  grid(max, begin, end, width, height) {
    const parts = [];
    for (const part of [0, 0.5, 1]) {
      const y = Math.round(this.y(max * part)) + 0.5;
      parts.push(svg("line", { class: "grid", x1: left, x2: width - right, y1: y, y2: y }), svg("text", { class: "tick", x: left - 6, y: y + 4, "text-anchor": "end" }, si(max * part)));
    }
    const anchors = ["start", "middle", "end"];
    [0, 0.5, 1].forEach((part, i) => {
      const t = begin + (end - begin) * part;
      parts.push(svg("text", { class: "tick", x: this.x(t), y: height - 5, "text-anchor": anchors[i] }, clock(t)));
    });
    return parts;
  }

  /** curves draws each run of points without a gap. */
  curves() {
    const runs = [];
    let run = null;
    for (const p of this.points) {
      if (p.value === null) run = null;
      else if (run) run.push(p);
      else runs.push((run = [p]));
    }
    const xy = (p, v) => `${this.x((p.from + p.to) / 2).toFixed(1)} ${this.y(v).toFixed(1)}`;
    const line = (ps, value) => "M" + ps.map((p) => xy(p, value(p))).join("L");
    return runs.flatMap((ps) => {
      if (ps.length === 1) return [svg("circle", { class: "alone", r: 3, cx: this.x((ps[0].from + ps[0].to) / 2), cy: this.y(ps[0].value) })];
      const back = [...ps].reverse();
      return [
        svg("path", { class: "band", d: `${line(ps, (p) => p.high)}L${back.map((p) => xy(p, p.low)).join("L")}Z` }),
        svg("path", { class: "rim", d: line(ps, (p) => p.high) }),
        svg("path", { class: "rim", d: line(ps, (p) => p.low) }),
        svg("path", { class: "curve", d: line(ps, (p) => p.value) }),
      ];
    });
  }

  listen(picture) {
    const nearest = (e) => {
      const x = e.clientX - picture.getBoundingClientRect().left;
      let best = null;
      this.points.forEach((p, i) => {
        const off = Math.abs(this.x((p.from + p.to) / 2) - x);
        if (p.value !== null && (best === null || off < best.off)) best = { i, off };
      });
      return best?.i ?? null;
    };
    picture.addEventListener("pointermove", (e) => {
      this.at = nearest(e);
      this.point();
    });
    const leave = () => {
      this.at = this.mark = null;
      this.point();
    };
    picture.addEventListener("pointerleave", leave);
    picture.addEventListener("blur", leave);
    picture.addEventListener("pointerdown", (e) => {
      if (e.button !== 0 || !this.zoom) return;
      e.preventDefault(); // no text is chosen by the way
      picture.setPointerCapture(e.pointerId);
      this.mark = nearest(e);
    });
    picture.addEventListener("pointerup", (e) => {
      const mark = this.mark, at = nearest(e);
      leave();
      if (mark !== null && at !== null && mark !== at) this.choose(mark, at);
    });
    picture.addEventListener("keydown", (e) => {
      if (this.mark !== null && this.at !== null && this.mark !== this.at && e.key === "Enter") {
        const { mark, at } = this;
        leave();
        this.choose(mark, at);
        return;
      }
      if (e.key === "Escape" && this.mark !== null) {
        e.preventDefault();
        leave();
        return;
      }
      const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (!step) return;
      e.preventDefault();
      let i = this.at ?? (step > 0 ? -1 : this.points.length);
      this.mark = e.shiftKey && this.zoom ? (this.mark ?? this.at) : null;
      do i += step;
      while (this.points[i] && this.points[i].value === null);
      if (this.points[i]) this.at = i;
      this.point(true);
    });
  }

  /** choose shows the time from one point to another. */
  choose(a, b) {
    this.zoom(this.points[Math.min(a, b)].ns[0], this.points[Math.max(a, b)].ns[1]);
  }

  /** lines are the values as a table, for a file. */
  lines() {
    return [["from (UTC)", "to (UTC)", `${this.name} (${this.unit})`, "at least", "at most"], ...this.points.map((p) => [new Date(p.from).toISOString(), new Date(p.to).toISOString(), p.value, p.low, p.high])];
  }

  /** point reads one value out: that under the cursor, else the last. */
  point(aloud = false) {
    const p = (this.at !== null && this.points[this.at]) || this.points.findLast((q) => q.value !== null);
    const readout = $(".readout", this.panel);
    if (!p || p.value === null) {
      text(readout, "");
      return;
    }
    readout.replaceChildren(this.at === null ? "" : `${clock(p.to)} `, el("b", {}, this.format(p.value)), p.low === p.high ? " exact" : ` (${between(p, (x) => si(x))})`);
    if (this.at === null) {
      this.cursor.replaceChildren();
      return;
    }
    const x = this.x((p.from + p.to) / 2);
    const stretch = [];
    if (this.mark !== null && this.points[this.mark]) {
      const ends = [this.points[this.mark], p].sort((a, b) => a.from - b.from);
      stretch.push(svg("rect", { class: "stretch", x: this.x(ends[0].from), width: Math.max(this.x(ends[1].to) - this.x(ends[0].from), 1), y: top, height: this.y(0) - top }));
    }
    this.cursor.replaceChildren(...stretch, svg("line", { class: "cross", x1: x, x2: x, y1: top, y2: this.y(0) }), svg("circle", { class: "at", r: 4.5, cx: x, cy: this.y(p.value) }));
    if (aloud) text($("#say"), readout.textContent);
  }

  table() {
    const box = $("details .scroll", this.panel);
    if (!box) return;
    if (!box.closest("details").open && box.firstChild) return;
    const head = ["Until", "Value", "From", "To"].map((n, i) => el("th", { scope: "col", class: i ? "n" : null }, n));
    const lines = [...this.points].reverse().slice(0, 200).map((p) => el("tr", {}, [clock(p.to), ...(p.value === null ? ["none", "–", "–"] : [p.value, p.low, p.high].map((x) => this.format(x)))].map((c, i) => el(i ? "td" : "th", { class: i ? "n" : null, scope: i ? null : "row" }, c))));
    box.replaceChildren(el("table", {}, el("caption", {}, "The latest first; from and to are the bounds"), el("thead", {}, el("tr", {}, head)), el("tbody", {}, lines)));
  }
}

/** nice rounds up to 1, 2, 2.5 or 5 times a power of ten. */
function nice(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= x * 0.9999) ?? x;
}

/**
 * pointsOf makes points of a series' values: of that which a name has, or what a function makes of all of them. scale is of the step's
 * length in s.
 */
export function pointsOf(series, name, scale, wall) {
  return (series.points ?? []).map((p) => {
    const from = wall(number(p.from_ns)), to = wall(number(p.to_ns)), ns = [p.from_ns, p.to_ns];
    if (typeof name === "function") {
      const value = p.values?.length ? name(p.values) : null;
      return { from, to, ns, value, low: value, high: value, fault: p.fault };
    }
    const v = (p.values ?? []).find((x) => x.name === name);
    if (!v) return { from, to, ns, value: null, low: null, high: null, fault: p.fault };
    const by = scale((number(p.to_ns) - number(p.from_ns)) / 1e9);
    return { from, to, ns, value: number(v.value) * by, low: number(v.low) * by, high: number(v.high) * by };
  });
}
