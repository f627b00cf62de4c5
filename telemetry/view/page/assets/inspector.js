// One switch, or one link, in a dialogue: ports, measurements, records, clock, and what it carried over time.

import { $, el } from "./dom.js";
import { duration, grouped, number, percent, si } from "./format.js";
import * as history from "./history.js";
import { endName, verdict } from "./topology.js";

let changed = () => {}; // is given what is open, as the address has it; "": nothing
let refresh = () => Infinity; // s between two questions

function open(what, title, ...content) {
  const dialog = $("#inspector");
  $("#inspector-title").textContent = title;
  $(".body", dialog).replaceChildren(...content.flat().filter(Boolean));
  if (!dialog.open) dialog.showModal();
  changed(what);
}

export function setUp(onChange, interval) {
  [changed, refresh] = [onChange, interval];
  const dialog = $("#inspector");
  $(".close", dialog).addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (e) => {
    if (e.target === dialog) dialog.close(); // beside it
  });
  dialog.addEventListener("close", () => {
    history.end();
    changed("");
  });
}

/** timeline is the place of the charts, below a choice of the ports. */
function timeline(choices) {
  const box = el("div", { class: "timeline" });
  const select = el("select", {}, choices.map((c, i) => el("option", { value: i }, c.name)));
  const show = () => history.show(box, choices[Number(select.value)].curves, refresh);
  select.addEventListener("change", show);
  return [el("label", { class: "pick" }, el("span", {}, "History of"), select), box, show];
}

/** grid makes a table of texts; columns that begin with "#" hold numbers. */
export function grid(caption, columns, lines, empty) {
  if (!lines.length) return el("p", { class: "note" }, empty);
  const numeric = columns.map((c) => c.startsWith("#"));
  const names = columns.map((c) => c.replace(/^#/, ""));
  return el(
    "table",
    { class: "stack" },
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, names.map((name, i) => el("th", { scope: "col", class: numeric[i] ? "n" : null }, name)))),
    el("tbody", {}, lines.map((cells) => el("tr", {}, cells.map((cell, i) => (i === 0 ? el("th", { scope: "row" }, cell) : el("td", { class: numeric[i] ? "n" : null, "data-label": names[i] }, cell)))))),
  );
}

/** facts makes a list of names and values; those without a value are left out. */
export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value, small]) => [el("dt", {}, name), el("dd", {}, value, small ? el("small", {}, small) : null)]));
}

const rate = (known, r) => (known ? si(number(r.bits_per_second), "bit/s") : "–");
const used = (known, speed, r) => (known && number(speed) ? percent(number(r.utilisation)) : "–");

export function inspectSwitch(s) {
  if (!s) return;
  const v = verdict(s);
  const ports = (s.ports ?? []).map((p) => [
    `${p.number} ${p.name}`,
    p.up ? "up" : "down",
    number(p.speed_bps) ? si(number(p.speed_bps), "bit/s") : "–",
    `${rate(p.has_rates, p.received)} ${used(p.has_rates, p.speed_bps, p.received)}`.replace(" –", ""),
    `${rate(p.has_rates, p.sent)} ${used(p.has_rates, p.speed_bps, p.sent)}`.replace(" –", ""),
    `${number(p.backlog)} (most ${number(p.most_backlog)})`,
    (p.drops ?? []).length ? p.drops.map((d) => `${d.reason} ${grouped(number(d.packets))}`).join(", ") : "none",
  ]);
  const measurements = (s.measurements ?? []).map((m) => [m.part ? `${m.stage} ${m.part}` : m.stage, grouped(number(m.epochs)), grouped(number(m.overruns)), grouped(number(m.missed))]);
  const exports = (s.exports ?? []).map((x) => [x.kind, grouped(number(x.made)), grouped(number(x.sent)), grouped(number(x.waiting)), grouped(number(x.dropped)), grouped(number(x.lost))]);
  const [choice, charts, begin] = timeline([
    { name: "all ports", curves: history.ofPort(s.name, null) },
    ...(s.ports ?? []).map((p) => ({ name: `port ${p.number} ${p.name}`, curves: history.ofPort(s.name, p) })),
  ]);
  open(
    `switch ${s.name}`,
    `Switch ${s.name}`,
    el("p", {}, el("span", { class: "health", "data-kind": v.kind }, `${v.sign} ${v.word}`), (s.faults ?? []).length ? `: ${s.faults.join("; ")}.` : ""),
    facts([
      ["Program", s.program],
      ["Last heard", s.last_heard_ns ? `${duration(number(s.age_ns))} before the window's end` : "never"],
      ["Restarts", String(number(s.restarts)), "in the window"],
      ["Spool", spoolText(s)],
      ["Clock", clockText(s)],
      ...(s.clock?.offsets ?? []).map((o) => [`Ahead of ${o.neighbour}`, offsetText(o), o.warning]),
    ]),
    (s.ports ?? []).length > 0 && [choice, charts],
    grid("Ports; rates in bits per second, queue in frames", ["Port", "State", "#Speed", "#Received", "#Sent", "#Queue", "Drops"], ports, "It said nothing of its ports in this window."),
    grid("Measurements", ["Stage", "#Epochs", "#Overruns", "#Packets missed"], measurements, "It has no measurement, or said nothing of it in this window."),
    grid("Records since it began", ["Kind", "#Made", "#Sent", "#Waiting", "#Dropped", "#Lost"], exports, "It made no record yet."),
  );
  if ((s.ports ?? []).length) begin();
}

export function spoolText(s) {
  if (!s.has_status) return "–";
  if (!number(s.spool?.bound_bytes)) return "none";
  return `${si(number(s.spool.bytes), "B")} of ${si(number(s.spool.bound_bytes), "B")}`;
}

export function clockText(s) {
  if (!s.has_status) return "–";
  const c = s.clock;
  if (!c.synchronised) return "not synchronised";
  return `${signed(number(c.offset_ns))}, error up to ${duration(number(c.max_error_ns))}`;
}

const signed = (ns) => (ns > 0 ? "+" : ns < 0 ? "−" : "") + duration(Math.abs(ns));

export function offsetText(o) {
  const b = o.offset_ns;
  if (!b) return "not known";
  if (!o.has_offset) return `at most ${duration(number(b.high))}`;
  return `${signed(number(b.value))} (${signed(number(b.low))} to ${signed(number(b.high))})`;
}

export function inspectLink(link) {
  if (!link) return;
  const curves = history.ofLink(link);
  const charts = el("div", { class: "timeline" });
  const lines = [0, 1].map((i) => [
    `${endName(link.ends[i])} → ${endName(link.ends[1 - i])}`,
    rate(link.has_rates, link.rates[i]),
    link.has_rates ? si(number(link.rates[i].packets_per_second), "packets/s") : "–",
    used(link.has_rates, link.speed_bps, link.rates[i]),
    grouped(number(link.backlogs[i])),
    delayText(link, i),
    lossText(link, i),
  ]);
  open(
    `link ${linkKey(link)}`,
    `Link ${endName(link.ends[0])} – ${endName(link.ends[1])}`,
    facts([["State", link.up ? "up" : "down"], ["Speed", number(link.speed_bps) ? si(number(link.speed_bps), "bit/s") : "not known: give the link a speed in the collector's file"]]),
    grid("Each direction; queue in frames; delay and loss of the newest seconds, by the measurement points at both ends", ["Direction", "#Rate", "#Packets", "#Utilisation", "#Queue", "#Delay", "#Lost"], lines, ""),
    curves.length > 0 && charts,
  );
  if (curves.length) history.show(charts, curves, refresh);
}

/** linkKey is a link's name in the page's address. */
export const linkKey = (link) => link.ends.map(endName).join(" ");

/** delayText and lossText are of what leaves an end of a link; "–": its ends do not measure it. */
export function delayText(link, i) {
  const d = link.delays?.[i];
  return d?.has_delay ? duration(number(d.delay_ns.value)) : "–";
}

export function lossText(link, i) {
  const d = link.delays?.[i];
  return d?.has_loss ? grouped(number(d.lost)) : "–";
}

