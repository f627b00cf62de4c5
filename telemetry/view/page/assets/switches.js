// The health of switches, as a table: what each says of its measurements, its records and its clock.

import { $, el, rows, set, state, text } from "./dom.js";
import { count, duration, grouped, number, si } from "./format.js";
import { clockText, inspectSwitch, offsetText, spoolText } from "./inspector.js";
import { verdict } from "./topology.js";

const most = 200;
const columns = ["Switch", "Health", "Last heard", "#Epochs", "#Overruns", "#Missed", "#Spool", "#Records sent", "Clock"];
const data = new WeakMap(); // of a row

/** show lists the switches of the network answer, those in trouble first. */
export function show(network) {
  const box = $("#switches .list");
  const all = network.switches ?? [];
  if (!all.length) {
    state(box, "No switch has sent a record in this window. Give switches [telemetry] collector with this collector’s address, or choose a longer window.");
    return;
  }
  let body = box.querySelector("tbody");
  if (!body) {
    body = el("tbody");
    const head = columns.map((c) => el("th", { scope: "col", class: c.startsWith("#") ? "n" : null }, c.replace("#", "")));
    box.replaceChildren(el("table", { class: "stack" }, el("caption", { class: "quiet" }, "Health of the switches, those in trouble first"), el("thead", {}, el("tr", {}, head)), body), el("p", { class: "note" }));
  }
  const order = { bad: 0, warn: 1, ok: 2 };
  const sorted = [...all].sort((a, b) => order[verdict(a).kind] - order[verdict(b).kind] || a.name.localeCompare(b.name, "en", { numeric: true }));
  last = sorted;
  rows(body, sorted.slice(0, most), (s) => `${s.switch} ${s.name}`, make, update);
  text(box.querySelector(".note"), sorted.length > most ? `${sorted.length - most} healthy switches are not shown.` : "");
}

function make() {
  const button = el("button", { type: "button", class: "plain" });
  const tr = el("tr", {}, el("th", { scope: "row" }, button), columns.slice(1).map((c) => el("td", { class: c.startsWith("#") ? "n" : null, "data-label": c.replace("#", "") }, c === "Health" ? [el("span", {}, el("span", { class: "health" }), el("span", { class: "why" }))] : null)));
  button.addEventListener("click", () => inspectSwitch(data.get(tr)));
  return tr;
}

function update(tr, s) {
  data.set(tr, s);
  const cells = tr.children;
  const v = verdict(s);
  text(cells[0].firstChild, s.name);
  set(cells[0].firstChild, { "aria-label": `${s.name}, details` });
  const [health, why] = cells[1].firstChild.children;
  set(health, { "data-kind": v.kind });
  text(health, `${v.sign} ${v.word}`);
  text(why, (s.faults ?? []).length ? ` ${s.faults.join("; ")}` : "");
  text(cells[2], number(s.last_heard_ns) ? `${duration(Math.max(number(s.age_ns), 0))} ago` : "never");
  const n = (x) => (s.has_status ? grouped(number(x)) : "–");
  text(cells[3], n(s.epochs));
  text(cells[4], n(s.overruns));
  text(cells[5], s.has_status ? si(number(s.missed_packets)) : "–");
  text(cells[6], spoolText(s));
  text(cells[7], s.has_status ? grouped((s.exports ?? []).reduce((sum, x) => sum + number(x.sent), 0)) : "–");
  const offset = (s.clock?.offsets ?? []).find((o) => o.has_offset);
  text(cells[8], offset ? `${offsetText(offset)} to ${offset.neighbour}` : clockText(s));
}

let last = [];

/** lines are the switches of the last answer as a table, for a file. */
export const lines = () => [
  ["switch", "health", "faults", "heard (ns ago)", "epochs", "overruns", "missed (packets)", "spool (bytes)"],
  ...last.map((s) => [s.name, verdict(s).word, (s.faults ?? []).join("; "), number(s.age_ns), number(s.epochs), number(s.overruns), number(s.missed_packets), number(s.spool?.bytes)]),
];

/** summary is the tile's figure. */
export function summary(network) {
  const all = network.switches ?? [];
  const kinds = all.map((s) => verdict(s).kind);
  const bad = kinds.filter((k) => k === "bad").length, warn = kinds.filter((k) => k === "warn").length;
  const words = [bad ? count(bad, "silent switch", "silent switches") : "", warn ? count(warn, "warning") : ""].filter(Boolean);
  return { value: `${all.length - bad - warn}`, unit: `of ${all.length} healthy`, bounds: words.join(", ") || (all.length ? "all report" : "none was heard"), kind: bad ? "bad" : warn ? "warn" : "" };
}
