// Who talks to whom: the largest flows between groups of their ends, as ribbons whose width is their volume.

import { $, el, set, state, svg, text } from "./dom.js";
import { count, grouped, number, percent, si } from "./format.js";
import { ends, networkOf, parse, write } from "./search.js";

const most = 12; // groups of a side; the others are one together
const rest = "others";
const side = 190, bar = 12, gap = 5, line = 17; // in pixels

/** The groupings: what a flow is on either side, and the filter of a group there. */
const groupings = {
  address: { left: (e) => e.src, right: (e) => e.dst, filter: (name, isLeft) => ({ [isLeft ? "src" : "dst"]: name }) },
  network: { left: (e) => networkOf(e.src), right: (e) => networkOf(e.dst), filter: (name, isLeft) => ({ [isLeft ? "src" : "dst"]: name }) },
  service: {
    left: (e) => e.src,
    right: (e) => service(e),
    filter: (name, isLeft) => {
      if (isLeft) return { src: name };
      const [proto, port] = name.split(" ");
      return port ? { proto, port } : { proto };
    },
  },
};

/** service is the lower port of a flow, which is the server's by custom, with its protocol. */
function service(e) {
  const ports = [e.srcPort, e.dstPort].filter(Boolean).map(Number);
  return ports.length ? `${e.proto} ${Math.min(...ports)}` : e.proto || "unknown";
}

let shown = { answer: null, by: "address", pick: null };
let lines = []; // of the table

/** show draws an answer's flows, grouped by "address", "network" or "service"; pick is given the filter of a group. */
export function show(answer, by, pick) {
  shown = { answer, by, pick };
  draw();
}

/** regroup draws the same flows by other groups. */
export function regroup(by) {
  shown.by = by;
  draw();
}

/** table is what is drawn, for a file. */
export const table = () => [["from", "to", shown.answer?.unit ?? "", "flows"], ...lines.map((l) => [l.from, l.to, l.value, l.flows])];

/** draw makes the picture, in pixels of its box. */
export function draw() {
  const { answer, by } = shown;
  if (!answer) return;
  const box = $("#talkers .sankey"), note = $("#talkers .more");
  const flows = (answer.flows ?? []).map((f) => ({ ...f, ends: ends(f.flow) })).filter((f) => f.ends && number(f.value) > 0);
  if (!flows.length) {
    lines = [];
    text(note, "");
    state(box, "No flow is large enough to be told from the noise. Choose a longer window.");
    return;
  }
  const group = groupings[by] ?? groupings.address;
  const left = sides(flows, (f) => group.left(f.ends)), right = sides(flows, (f) => group.right(f.ends));
  lines = ribbons(flows, left, right, group);
  const width = box.clientWidth, height = Math.max(Math.max(left.length, right.length) * (line + gap) + 20, 200);
  const total = flows.reduce((sum, f) => sum + number(f.value), 0);
  place(left, total, height);
  place(right, total, height);
  const unit = answer.unit === "bytes" ? "B" : "packets";
  const reach = Math.min(side, width * 0.3);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Who talks to whom: ${count(lines.length, "pair")}, the largest ${lines[0].from} to ${lines[0].to} with ${si(lines[0].value, unit)}. Enter on a group filters by it.` });
  const x = { left: reach, right: width - reach - bar };
  picture.append(svg("g", { class: "ribbons" }, lines.map((l) => ribbon(l, left, right, x, total, height, unit))));
  for (const [groups, isLeft] of [[left, true], [right, false]]) for (const g of groups) picture.append(node(g, isLeft, x, reach, unit, group));
  const focus = box.contains(document.activeElement) ? document.activeElement.dataset.group : null;
  box.style.height = `${height}px`; // through the object model, which the policy allows
  box.replaceChildren(picture);
  if (focus) [...picture.querySelectorAll(".group")].find((g) => g.dataset.group === focus)?.focus();
  const all = number(answer.volume?.value);
  text(note, `${count(flows.length, "flow")}, ${all > 0 ? `${percent(total / all)} of all` : `${si(total, unit)} together`}${number(answer.more) ? `; ${grouped(number(answer.more))} smaller ones are not drawn` : ""}.`);
  fill(unit);
}

/** sides adds flows up by the groups of one side, the largest first. */
function sides(flows, nameOf) {
  const sums = new Map();
  for (const f of flows) sums.set(nameOf(f), (sums.get(nameOf(f)) ?? 0) + number(f.value));
  const all = [...sums].map(([name, value]) => ({ name, value })).sort((a, b) => b.value - a.value || (a.name < b.name ? -1 : 1));
  if (all.length <= most) return all;
  return [...all.slice(0, most - 1), { name: rest, value: all.slice(most - 1).reduce((sum, g) => sum + g.value, 0), of: all.length - most + 1 }];
}

function ribbons(flows, left, right, group) {
  const known = [left, right].map((side) => new Set(side.map((g) => g.name)));
  const pairs = new Map();
  for (const f of flows) {
    const names = [group.left(f.ends), group.right(f.ends)].map((name, i) => (known[i].has(name) ? name : rest));
    const key = names.join("\n");
    const pair = pairs.get(key) ?? { from: names[0], to: names[1], value: 0, flows: 0 };
    pair.value += number(f.value);
    pair.flows++;
    pairs.set(key, pair);
  }
  return [...pairs.values()].sort((a, b) => b.value - a.value || (a.from + a.to < b.from + b.to ? -1 : 1));
}

/** place stacks the groups of a side; each has at least a line's height of room for its name. */
function place(groups, total, height) {
  const room = height - groups.length * (line + gap);
  let y = 10;
  for (const g of groups) {
    g.y = y;
    g.room = line + (g.value / total) * Math.max(room - 20, 0);
    g.h = Math.max((g.value / total) * (height - 20 - groups.length * gap) * (room > 0 ? 1 : 0.5), 2);
    g.h = Math.min(g.h, g.room);
    g.used = 0;
    y += g.room + gap;
  }
}

function ribbon(l, left, right, x, total, height, unit) {
  const a = left.find((g) => g.name === l.from), b = right.find((g) => g.name === l.to);
  const wa = (l.value / a.value) * a.h, wb = (l.value / b.value) * b.h;
  const ya = a.y + a.used, yb = b.y + b.used;
  a.used += wa;
  b.used += wb;
  const from = x.left + bar, to = x.right, middle = (from + to) / 2;
  const n = (v) => v.toFixed(1);
  return svg(
    "path",
    { class: `ribbon c${left.indexOf(a) % 6}`, d: `M${n(from)} ${n(ya)}C${n(middle)} ${n(ya)} ${n(middle)} ${n(yb)} ${n(to)} ${n(yb)}V${n(yb + wb)}C${n(middle)} ${n(yb + wb)} ${n(middle)} ${n(ya + wa)} ${n(from)} ${n(ya + wa)}Z` },
    svg("title", {}, `${l.from} to ${l.to}: ${si(l.value, unit)}, ${count(l.flows, "flow")}`),
  );
}

function node(g, isLeft, x, reach, unit, group) {
  const name = g.of ? `${g.of} ${rest}` : g.name;
  const beside = Math.floor((reach - 70) / 6.6);
  const valued = name.length <= beside || reach >= side; // on a narrow screen the name matters more; the table has the value
  const room = valued ? beside : Math.floor((reach - 8) / 6.6);
  const short = name.length > room ? `${name.slice(0, Math.max(room - 1, 4))}…` : name;
  const label = `${isLeft ? "From" : "To"} ${name}: ${si(g.value, unit)}`;
  const at = isLeft ? x.left - 6 : x.right + bar + 6;
  const made = svg(
    "g",
    { class: "group", "data-group": `${isLeft ? "from" : "to"} ${g.name}`, "aria-label": label },
    svg("title", {}, label),
    svg("rect", { class: "hit", x: isLeft ? 0 : x.right, y: g.y, width: reach + bar, height: Math.max(g.room, line) }),
    svg("rect", { class: "bar", x: isLeft ? x.left : x.right, y: g.y, width: bar, height: g.h }),
    svg("text", { x: at, y: g.y + 12, "text-anchor": isLeft ? "end" : "start" }, short, ...(valued ? [" ", svg("tspan", { class: "sub" }, si(g.value, unit === "B" ? "B" : ""))] : [])),
  );
  const filter = group.filter(g.name, isLeft);
  if (g.of || parse(write(filter)).fault) return set(made, { role: "img" }); // several, or no address of IP
  set(made, { role: "button", tabindex: "0" });
  const act = () => shown.pick(filter);
  made.addEventListener("click", act);
  made.addEventListener("keydown", (e) => {
    if (e.key !== "Enter" && e.key !== " ") return;
    e.preventDefault();
    act();
  });
  return made;
}

/** fill writes the pairs into the table, if it is open. */
function fill(unit) {
  const box = $("#talkers details .scroll");
  if (!box.closest("details").open && box.firstChild) return;
  const head = ["From", "To", "Volume", "Flows"].map((n, i) => el("th", { scope: "col", class: i > 1 ? "n" : null }, n));
  const body = lines.slice(0, 200).map((l) => el("tr", {}, el("th", { scope: "row" }, l.from), el("td", {}, l.to), el("td", { class: "n" }, si(l.value, unit)), el("td", { class: "n" }, grouped(l.flows))));
  box.replaceChildren(el("table", {}, el("caption", {}, "The largest first"), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}
