// All about one flow: its path, the latency of its hops, delay and loss between two switches of it, and
// how often it occurred.

import { ask } from "./api.js";
import { lacks } from "./basis.js";
import { $, el, state, svg } from "./dom.js";
import { between, count, digits, duration, grouped, number, percent, si } from "./format.js";
import { facts } from "./inspector.js";

/** The quantiles of the latency of hops that are asked for. */
const ranks = [0.5, 0.9, 0.99];

/**
 * about asks all there is to ask about a flow; pair are the two switches of its way between which delay and loss are asked for, null:
 * the first and the last. An answer that failed is the fault.
 */
export async function about(flow, window, pair, signal) {
  const one = (question) =>
    ask({ ...question, ...window }, signal).catch((fault) => {
      if (signal.aborted) throw fault;
      return fault;
    });
  const [path, latency, frequency] = await Promise.all([
    one({ kind: "path", flow, limit: 1 }),
    one({ kind: "latency", flow, quantiles: ranks }),
    one({ kind: "frequency", flow }),
  ]);
  const hops = hopsOf(path);
  const known = hops.map((h) => h.switch).filter(Boolean);
  const ends = known.length ? (pair && pair.every((name) => known.includes(name)) ? pair : [known[0], known.at(-1)]) : null;
  const delay = ends ? await delayBetween(flow, ends, one) : null;
  // The flows that lost packets there are named by all flows' losses alone.
  const losses = ends && !(delay instanceof Error) ? await one({ kind: "loss", from: ends[0], to: ends[1], limit: mostNamed }) : null;
  return { flow, path, latency, frequency, delay, losses, hops, known, ends };
}

/** mostNamed is of how many flows that lost packets the names are shown. */
const mostNamed = 5;

/** refused keeps what was refused for what the question is, as where a switch has no measurement point: it would be refused at each refresh. */
const refused = { of: "", until: 0, fault: null };

async function delayBetween(flow, [from, to], one) {
  const of = [flow, from, to].join("\n");
  if (refused.of === of && performance.now() < refused.until) return refused.fault;
  const answer = await one({ kind: "delay", flow, from, to, segments: true });
  if (["failed_precondition", "invalid_argument", "not_found"].includes(answer.code)) Object.assign(refused, { of, until: performance.now() + 60_000, fault: answer });
  return answer;
}

/** hopsOf are the hops of the flow in an answer. */
function hopsOf(path) {
  const known = path instanceof Error ? null : path.flows?.[0];
  return known?.hops ?? [];
}

let pair = null; // the choice of two switches, which stays while answers come
let choose = () => {};

/** setUp is given what to do when two switches were chosen. */
export function setUp(onPair) {
  choose = onPair;
}

/** show fills the panel. */
export function show(a) {
  const body = $("#flow .body");
  const open = [...body.querySelectorAll("details")].map((d) => d.open);
  const names = a.known.join("\n");
  if (!pair || pair.dataset.of !== names || !body.contains(pair)) pair = choice(a.known);
  const fresh = [pathColumn(a), betweenColumn(a), sizeColumn(a)];
  if (a.ends) [...pair.querySelectorAll("select")].forEach((s, i) => document.activeElement !== s && (s.value = a.ends[i]));
  const columns = body.querySelector(".columns");
  if (columns?.contains(pair)) {
    // The choice stays where it is, so that a list that is open does.
    const middle = pair.parentElement;
    columns.firstElementChild.replaceWith(fresh[0]);
    columns.lastElementChild.replaceWith(fresh[2]);
    [...middle.children].forEach((c) => c !== pair && c.remove());
    const [title, ...rest] = [...fresh[1].children];
    middle.prepend(title);
    middle.append(...rest);
  } else {
    fresh[1].firstElementChild.after(pair);
    body.replaceChildren(el("div", { class: "columns" }, fresh));
  }
  pair.hidden = !a.ends;
  body.querySelectorAll("details").forEach((d, i) => (d.open = open[i] ?? false));
}

/** choice has two lists of the switches that a flow passes. */
function choice(names) {
  const select = (label) => el("label", { class: "pick" }, el("span", {}, label), el("select", {}, names.map((name) => el("option", { value: name }, name))));
  const made = el("div", { class: "between", "data-of": names.join("\n") }, select("From"), select("to"));
  const [from, to] = made.querySelectorAll("select");
  for (const s of [from, to]) s.addEventListener("change", () => choose([from.value, to.value]));
  return made;
}

/** loading and none are the panel's two states without an answer. */
export function loading() {
  state($("#flow .body"), "Asking for the flow’s path…");
}

export function none() {
  state($("#flow .body"), "Choose a flow above, or type one, to see its path, the latency of its hops, and the delay and loss between any two switches of it.");
}

const note = (sentence, kind) => el("p", { class: "note", "data-kind": kind }, sentence);

/** missing is what an answer lacked, folded away; nothing if it lacked nothing. */
function missing(answer) {
  const sentences = lacks(answer);
  if (!sentences.length) return null;
  return el("details", { class: "note" }, el("summary", {}, count(sentences.length, "gap"), " in the records"), el("ul", {}, sentences.slice(0, 20).map((s) => el("li", {}, s))));
}

function pathColumn(a) {
  const column = el("section", { "aria-labelledby": "flow-path" }, el("h3", { id: "flow-path" }, "Path and latency of its hops"));
  if (a.path instanceof Error) {
    column.append(note(a.path.message));
  } else if (!a.hops.length) {
    column.append(note(`No path yet: ${count(number(a.path.digests), "digest")} in the window. Wait for more packets of the flow, or choose a longer window.`));
  } else {
    column.append(way(a.hops), certainty(a.path.flows[0], a.path));
  }
  if (a.latency instanceof Error) {
    if (!(a.path instanceof Error)) column.append(note(a.latency.message));
  } else if ((a.latency.hops ?? []).length) column.append(latencies(a.latency));
  else column.append(note("No latency of its hops: the plan’s digests carry none, or too few came."));
  if (!(a.path instanceof Error)) column.append(missing(a.path) ?? "");
  return column;
}

function way(hops) {
  return el("ol", { class: "way", "aria-label": "Path, first switch first" }, hops.map((h) => el("li", {}, h.switch ? el("span", { class: "chip", title: h.switch }, h.switch) : el("span", { class: "unknown" }, number(h.candidates) > 1 ? `one of ${number(h.candidates)}` : "not known"))));
}

function certainty(f, answer) {
  const confidence = percent(1 - number(f.doubt));
  const basis = `${count(number(f.packets), "digest")}`;
  const parts = [];
  if (f.certain) parts.push(`Certain to ${number(f.doubt) < 1e-4 ? "more than 99.99\u00a0%" : confidence}, by ${basis}.`);
  else if (f.known) parts.push(`The one path that explains ${basis}, but not certain yet.`);
  else parts.push(`Not complete yet, after ${basis}.`);
  if (number(f.changes)) parts.push(`It changed ${number(f.changes) === 1 ? "once" : `${number(f.changes)} times`} in the window.`);
  if (number(f.strays)) parts.push(`${count(number(f.strays), "digest")} contradicted it.`);
  if (number(answer.other_plans)) parts.push(`${count(number(answer.other_plans), "digest")} of other plans were left out.`);
  return note(parts.join(" "), f.certain && !number(f.changes) ? null : "warn");
}

/** latencies is a table of quantiles with a drawing in each row, on one logarithmic scale. */
function latencies(answer) {
  const values = answer.hops.flatMap((h) => h.quantiles ?? []).flatMap((q) => [number(q.value), number(q.low), number(q.high)]).filter((v) => v > 0);
  const low = Math.log(Math.min(...values, 1e9)), high = Math.log(Math.max(...values, 1));
  const x = (v) => 4 + (high > low ? ((Math.log(Math.max(v, 1e-9)) - low) / (high - low)) * 192 : 96);
  const found = answer.hops.find((h) => h.quantiles?.length)?.quantiles ?? [];
  const names = found.map((q) => `p${digits(number(q.rank) * 100)}`);
  return el(
    "table",
    { class: "stack hops" },
    el("caption", {}, "Quantiles of each hop, with their bounds; the drawing is logarithmic"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Hop"), names.map((n) => el("th", { scope: "col", class: "n" }, n)), el("th", { scope: "col", class: "draw" }, el("span", { class: "quiet" }, "Drawing")))),
    el("tbody", {}, answer.hops.map((h) => hopRow(h, names, x))),
  );
}

function hopRow(h, names, x) {
  const quantiles = h.quantiles ?? [];
  const name = `${number(h.hop) || ""} ${h.switch || "not known"}`.trim();
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, name),
    names.map((n, i) => el("td", { class: "n", "data-label": n }, quantiles[i] ? quantile(quantiles[i]) : "–")),
    el("td", { class: "draw", "data-label": "" }, span(quantiles, x)),
  );
}

function quantile(q) {
  return el("span", {}, duration(number(q.value)), el("br"), el("span", { class: "why" }, q.open ? `from ${duration(number(q.low))}` : between(q, duration)));
}

function span(quantiles, x) {
  const picture = svg("svg", { class: "span", viewBox: "0 0 200 16", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("line", { class: "track", x1: 0, x2: 200, y1: 8, y2: 8, "vector-effect": "non-scaling-stroke" }));
  if (quantiles.length) {
    picture.append(svg("line", { class: "reach", x1: x(number(quantiles[0].low) || number(quantiles[0].value)), x2: x(number(quantiles.at(-1).high)), y1: 8, y2: 8, "vector-effect": "non-scaling-stroke", "stroke-opacity": 0.45 }));
    for (const q of quantiles) picture.append(svg("rect", { class: "mark1", x: x(number(q.value)) - 1, y: 1, width: 2.5, height: 14 }));
  }
  return picture;
}

function betweenColumn(a) {
  const column = el("section", { "aria-labelledby": "flow-between" }, el("h3", { id: "flow-between" }, "Delay and loss between switches of its path"));
  const d = a.delay;
  if (!d) {
    column.append(note("Its path is not known yet: delay and loss are measured between two switches of it."));
    return column;
  }
  if (d instanceof Error) {
    column.append(note(d.message));
    return column;
  }
  column.append(
    facts([
      ["From", d.from],
      ["To", d.to],
      ["Mean delay", d.has_delay ? duration(number(d.delay_ns.value)) : "not known", d.has_delay ? delayBounds(d.delay_ns) : "no cell of it was free of loss"],
      ["Deviation", d.has_delay && number(d.std_ns) ? duration(number(d.std_ns)) : null, "of single packets"],
      ...(d.quantiles ?? []).map((q) => [`p${+(100 * number(q.rank)).toFixed(1)}`, duration(number(q.value)), quantileBounds(q, d)]),
      ["Lost", d.has_loss ? `${si(number(d.lost))} of ${si(number(d.packets))} packets` : "not known", d.has_loss ? `${percent(number(d.packets) ? number(d.lost) / number(d.packets) : 0)} of what it sent` : "no interval was seen whole at both ends"],
      ["Its own", d.has_delay ? percent(number(d.trust)) : null, "share of the cells’ content that is expected to be this flow’s"],
      ["Intervals", `${grouped(number(d.whole_intervals))} of ${grouped(number(d.intervals))} whole`, number(d.idle_intervals) ? `and ${grouped(number(d.idle_intervals))} in which nothing passed` : null],
      ["Cells", number(d.kept) < 1 ? `${percent(number(d.kept))} or more` : null, "of the points’ cells are in the records, which are shortened"],
      ["Clocks", d.clocks?.has_offset ? duration(number(d.clocks.offset_ns.value)) + " apart" : null],
    ]),
  );
  if (d.segments?.length) column.append(segments(d.segments));
  column.append(lostFlows(a.losses) ?? "");
  if (d.clocks?.warning) column.append(note(`${d.clocks.warning}.`, "warn"));
  column.append(missing(d) ?? "");
  return column;
}

/** delayBounds writes the bounds of a delay; without any it is the mean of what was measured, which says nothing of other packets. */
function delayBounds(b) {
  return number(b.low) === number(b.high) ? "of the packets measured" : between(b, duration);
}

/** quantileBounds writes the bounds of a quantile of single packets, and of how many it is. */
function quantileBounds(q, d) {
  const of = `of ${grouped(number(d.samples))} single packets`;
  return q.open ? `${duration(number(q.low))} or more, ${of}` : `${between(q, duration)}, ${of}`;
}

/** lostFlows lists the flows that lost packets between the two points, where these name them. */
function lostFlows(l) {
  if (!l || l instanceof Error || (!l.lost_flows?.length && !l.more_unnamed)) return null;
  const list = l.lost_flows ?? [], rest = [];
  if (number(l.more_lost_flows)) rest.push(`${grouped(number(l.more_lost_flows))} flows more lost packets.`);
  if (l.more_unnamed) rest.push("More flows lost packets than lost_flows has room for, or one lost more than 4,096 in an interval.");
  if (l.losing_flows) rest.push(`About ${grouped(Math.round(number(l.losing_flows.value)))} flows lost packets: of one flow in ${number(l.losing_of)}, by a hash, all that did are named.`);
  return el(
    "section",
    { class: "lostflows", "aria-labelledby": "flow-lost" },
    el("h3", { id: "flow-lost" }, "Flows that lost packets there"),
    list.length ? facts(list.map((f) => [f.flow, `${grouped(number(f.lost))} lost`])) : "",
    rest.length ? note(rest.join(" ")) : "",
  );
}

/** segments lists the pieces of the path by their mean delays, and names the one that takes longest. */
function segments(list) {
  const row = (s) => {
    const inside = s.from === s.to;
    const value = s.by ? duration(number(s.delay_ns.value)) : "not known";
    const lost = s.has_loss && number(s.lost) ? `${si(number(s.lost))} lost` : null;
    const why = [s.slowest ? "the slowest" : null, lost, s.by ? delayBounds(s.delay_ns) : s.why].filter(Boolean).join("; ");
    return [inside ? `Inside ${s.from}` : `${s.from} to ${s.to}`, value, why];
  };
  return facts(list.map(row));
}

function sizeColumn(a) {
  const column = el("section", { "aria-labelledby": "flow-size" }, el("h3", { id: "flow-size" }, "How often it occurred"));
  const f = a.frequency;
  if (f instanceof Error) {
    column.append(note(f.message));
    return column;
  }
  const packets = (x) => si(x, "packets"), bytes = (x) => si(x, "B");
  column.append(
    facts([
      ["Sample", f.sample ? packets(number(f.sample.packets.value)) : null, f.sample ? between(f.sample.packets, (x) => si(x)) : null],
      ["", f.sample ? bytes(number(f.sample.bytes.value)) : null, f.sample ? between(f.sample.bytes, (x) => si(x)) : null],
      ["Sketch", f.sketch ? si(number(f.sketch.value), f.sketch.unit === "bytes" ? "B" : "packets") : null, f.sketch ? `${between(f.sketch, (x) => si(x))}, ${percent(number(f.sketch.covered))} of the time covered` : null],
    ]),
  );
  for (const fault of f.faults ?? []) column.append(note(`${fault.charAt(0).toUpperCase()}${fault.slice(1)}.`));
  column.append(missing(f.sketch ?? f.sample ?? {}) ?? "");
  return column;
}
