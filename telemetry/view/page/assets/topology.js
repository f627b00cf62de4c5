// The drawing of the network: switches, hosts, links with what they carry in each direction,
// and the path of the chosen flow.

import { $, el, rows, set, state, svg, text } from "./dom.js";
import { count, grouped, list, number, percent, si } from "./format.js";
import { delayText, inspectLink, inspectSwitch, linkKey, lossText } from "./inspector.js";
import { lane, lineOf } from "./labels.js";
import { arrange, crowded, grid, heightOf, rank } from "./arrange.js";
import { collapse, groups, most, sections, whole } from "./groups.js";

const labelled = 28; // links; beyond, a label shows when its link is pointed at
let model = null; // all of the network
let shown = null; // what is drawn of it
let grouping = null; // {shape, of}: the groups of a large network
let open = new Set(); // groups, in the order in which they were opened
let found = ""; // the key of the switch that was searched for
let drawing = null;
let route = [];
let figures = "rates"; // what labels of links show, or "delays"

/** show draws what the network answer says. */
export function show(network) {
  const box = $("#topology .drawing");
  if (!network.switches?.length) {
    drawing = null;
    state(box, "No switch has sent a record in this window. Give switches [telemetry] collector with this collector's address, or choose a longer window.");
    return;
  }
  model = describe(network);
  look(box);
  table(network);
}

/** look draws the model, a large one in groups, or updates the drawing. */
function look(box) {
  if (model.nodes.size <= whole) {
    shown = { ...model, of: null };
    grouping = null;
  } else {
    if (grouping?.shape !== model.shape) grouping = { shape: model.shape, of: groups(model.nodes, model.links) };
    shown = collapse(model, grouping.of, open);
  }
  if (!drawing || drawing.shape !== shown.shape || drawing.size !== sizeOf(box)) draw(box);
  listOpen();
  update();
}

/** toggle opens a group, or closes it. Where too much would be drawn, those that were opened first are closed. */
function toggle(name) {
  if (!open.delete(name)) {
    open.add(name);
    for (const first of open) {
      if (first === name || collapse(model, grouping.of, open).nodes.size <= most) break;
      open.delete(first);
    }
  }
  look($("#topology .drawing"));
}

/** listOpen has a button for each open group, which closes it. */
function listOpen() {
  const box = $("#opened"), names = grouping ? [...open].filter((name) => [...grouping.of.values()].includes(name)) : [];
  box.hidden = names.length === 0;
  rows(box, names, (name) => name, (name) => {
    const button = el("button", { type: "button", "aria-label": `Close group ${name}` }, name, " ", el("span", { "aria-hidden": "true" }, "✕"));
    button.addEventListener("click", () => toggle(name));
    return button;
  });
}

/** names are those of the switches. */
export const names = () => [...(model?.nodes.values() ?? [])].filter((n) => n.kind === "switch").map((n) => n.name);

/**
 * find shows a switch: its group opens, and it has the focus. It returns the switch's name; empty: there is none that begins with the words, or has them in its name.
 */
export function find(words) {
  const all = names().sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const lower = words.toLowerCase();
  const name = all.find((n) => n === words) ?? all.find((n) => n.toLowerCase().startsWith(lower)) ?? all.find((n) => n.toLowerCase().includes(lower));
  if (!words || !name) return "";
  found = `switch ${name}`;
  const group = grouping?.of.get(found);
  if (group !== undefined && !open.has(group)) toggle(group);
  else mark();
  const node = drawing.nodes.get(found)?.g;
  node?.focus();
  node?.scrollIntoView({ block: "nearest" });
  return name;
}

/** label has links show their "rates" or their "delays" with losses. */
export function label(what) {
  figures = what;
  if (drawing) update();
}

/** inspect opens what the address names, "switch NAME" or "link END END", and reports whether there is such a thing. */
export function inspect(what) {
  const at = model?.nodes.get(what);
  if (at?.kind === "switch") inspectSwitch(at.data);
  const link = model?.links.find((l) => what === `link ${linkKey(l.data)}`);
  if (link) inspectLink(link.data);
  return Boolean(link) || at?.kind === "switch";
}

/** lines are the links as a table, for a file. */
export function lines() {
  const head = ["from", "to", "up", "bit/s", "packets/s", "utilisation", "queue (frames)", "delay (ns)", "lost (packets)"];
  const links = model?.links ?? [];
  return [head, ...links.flatMap(({ data: l }) => [0, 1].map((i) => [
    endName(l.ends[i]), endName(l.ends[1 - i]), l.up ? "yes" : "no", ...(l.has_rates ? [number(l.rates[i].bits_per_second), number(l.rates[i].packets_per_second)] : ["", ""]),
    l.has_rates && number(l.speed_bps) ? number(l.rates[i].utilisation) : "", number(l.backlogs[i]), l.delays?.[i]?.has_delay ? number(l.delays[i].delay_ns.value) : "", l.delays?.[i]?.has_loss ? number(l.delays[i].lost) : "",
  ]))];
}

/** highlight marks the path of a flow: its hops as the answer to a path question has them. */
export function highlight(hops) {
  route = hops;
  if (drawing) mark();
}

/** redraw makes the drawing anew, for a box of another size. */
export function redraw() {
  const box = $("#topology .drawing");
  if (model && drawing && drawing.size !== sizeOf(box)) look(box);
}

const sizeOf = (box) => `${box.clientWidth}x${box.clientHeight}`;

/** describe lists nodes and links by keys that stay. */
function describe(network) {
  const nodes = new Map();
  for (const s of network.switches) nodes.set(`switch ${s.name}`, { kind: "switch", name: s.name, data: s });
  const keyOf = (end) => (end.port ? `switch ${end.name}` : `host ${end.name}`);
  const links = [];
  const pairs = new Map();
  for (const link of network.links ?? []) {
    const ends = link.ends.map(keyOf);
    ends.forEach((key, i) => {
      if (!nodes.has(key)) nodes.set(key, { kind: key.startsWith("host") ? "host" : "absent", name: link.ends[i].name });
    });
    const pair = [...ends].sort().join("\n");
    const twin = pairs.get(pair) ?? 0;
    pairs.set(pair, twin + 1);
    links.push({ key: `${ends.join("\n")}\n${link.ends[0].port}\n${link.ends[1].port}`, ends, twin, data: link });
  }
  const shape = JSON.stringify([[...nodes.keys()].sort(), links.map((l) => l.key)]);
  return { nodes, links, shape };
}

/** draw places everything; what changes with time is left to update. */
function draw(box) {
  const width = box.clientWidth, height = box.clientHeight;
  const small = width < 560;
  const tiny = shown.nodes.size > crowded; // what is written into a box can be read when it is enlarged
  const half = tiny ? { x: 13, y: 7 } : small ? { x: 40, y: 20 } : { x: 54, y: 22 };
  const size = small ? { w: 58, h: 32 } : { w: 104, h: 34 };
  const keys = [...shown.nodes.keys()].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b, "en", { numeric: true }));
  const { at, places, full } = grouping
    ? grid(sections(keys, shown, grouping.of, open), shown.links, { width, height, half })
    : arrange(keys, shown.links, { width, height, half, size, labels: shown.links.length <= labelled });
  const picture = svg("svg", { viewBox: `0 0 ${full.w.toFixed(0)} ${full.h.toFixed(0)}`, role: "group", "aria-label": `Drawing of ${shown.nodes.size} switches and hosts and ${shown.links.length} links. Enter opens the one in focus.` });
  if (shown.links.length > labelled) set(picture, { "data-many": true });
  if (tiny) set(picture, { "data-tiny": true });
  if (grouping) set(picture, { "data-grid": true });
  drawing = { shape: shown.shape, size: sizeOf(box), picture, at, half, small, tiny, label: size, nodes: new Map(), links: new Map() };
  const layer = (name) => svg("g", { class: name });
  const layers = { routes: layer("routes"), lanes: layer("lanes"), links: layer("links"), nodes: layer("nodes") };
  for (const name of ["routes", "lanes"]) set(layers[name], { "aria-hidden": "true" });
  picture.append(...Object.values(layers));
  drawing.routes = layers.routes;
  shown.links.forEach((link, i) => {
    layers.links.append(drawLink(link, places[i]));
    layers.lanes.append(drawing.links.get(link.key).pair);
  });
  for (const key of keys) layers.nodes.append(drawNode(key));
  box.replaceChildren(picture);
  zoom(picture, full);
}

/**
 * zoom has the wheel and the buttons enlarge the picture, dragging over the whole of it show what was dragged over, dragging within an
 * enlarged one move it, and a double click show all.
 */
function zoom(picture, full) {
  let view = { x: 0, y: 0, w: full.w, h: full.h };
  const put = () => {
    set(picture, { viewBox: `${view.x.toFixed(1)} ${view.y.toFixed(1)} ${view.w.toFixed(1)} ${view.h.toFixed(1)}` });
    picture.style.setProperty("--unit", String(view.w / (picture.clientWidth || view.w))); // labels of tiny drawings are as large as others
  };
  const point = (e) => {
    const p = new DOMPoint(e.clientX, e.clientY).matrixTransform(picture.getScreenCTM().inverse());
    return { x: p.x, y: p.y };
  };
  const all = () => {
    view = { x: 0, y: 0, w: full.w, h: full.h };
    put();
  };
  const enlarge = (factor, p) => {
    const by = Math.min(Math.max((view.w / full.w) * factor, 0.02), 1) / (view.w / full.w);
    view = { x: p.x - (p.x - view.x) * by, y: p.y - (p.y - view.y) * by, w: view.w * by, h: view.h * by };
    if (view.w >= full.w) all();
    else put();
  };
  put();
  drawing.zoom = { enlarge: (factor) => enlarge(factor, { x: view.x + view.w / 2, y: view.y + view.h / 2 }), all };
  picture.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.shiftKey && view.w >= full.w && e.deltaY > 0) return; // the page scrolls
    e.preventDefault();
    enlarge(e.deltaY < 0 ? 0.8 : 1.25, point(e));
  }, { passive: false });
  let from = null, frame = null;
  picture.addEventListener("pointerdown", (e) => {
    if (e.button !== 0 || e.target.closest(".node, .label")) return;
    e.preventDefault(); // no text is chosen by the way
    from = point(e);
  });
  picture.addEventListener("pointermove", (e) => {
    if (!from) return;
    const p = point(e);
    if (view.w < full.w) {
      view = { ...view, x: view.x + from.x - p.x, y: view.y + from.y - p.y };
      put();
      return;
    }
    if (!frame) picture.append((frame = svg("rect", { class: "frame", "vector-effect": "non-scaling-stroke" })));
    set(frame, { x: Math.min(from.x, p.x), y: Math.min(from.y, p.y), width: Math.abs(p.x - from.x), height: Math.abs(p.y - from.y) });
  });
  picture.addEventListener("pointerup", () => {
    from = null;
    if (!frame) return;
    const [x, y, w, h] = ["x", "y", "width", "height"].map((name) => Number(frame.getAttribute(name)));
    frame.remove();
    frame = null;
    const share = Math.max(w / full.w, h / full.h);
    if (share < 0.02) return; // a hand that shook
    const scale = Math.min(share, 1);
    view = { x: x + w / 2 - (full.w * scale) / 2, y: y + h / 2 - (full.h * scale) / 2, w: full.w * scale, h: full.h * scale };
    put();
  });
  picture.addEventListener("pointerleave", () => {
    from = null;
    frame?.remove();
    frame = null;
  });
  picture.addEventListener("dblclick", all);
}

/** enlarge shows less of the drawing for factors below 1, and more of it above; 0: all of it. */
export function enlarge(factor) {
  if (!drawing) return;
  if (factor) drawing.zoom.enlarge(factor);
  else drawing.zoom.all();
}

function drawNode(key) {
  const node = shown.nodes.get(key), { x, y } = drawing.at.get(key), { half } = drawing;
  const isSwitch = node.kind === "switch", twoLines = isSwitch || node.kind === "group";
  const room = drawing.tiny ? 6 : Math.floor((half.x * 2 - 26) / 7.6);
  const cut = grouping ? "…" + node.name.slice(1 - room) : node.name.slice(0, room - 1) + "…"; // the members of a group begin alike
  const name = node.name.length > room ? cut : node.name;
  const h = heightOf(key, half);
  const parts = { sign: svg("tspan", { class: "sign" }), sub: svg("text", { class: "sub", y: 14 }), title: svg("title", {}, node.name) };
  const g = svg(
    "g",
    { class: `node ${node.kind}`, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, "data-name": node.name },
    parts.title,
    svg("rect", { x: -half.x, y: -h, width: half.x * 2, height: h * 2, rx: drawing.tiny ? 3 : twoLines ? 9 : 13 }),
    svg("text", { class: "name", y: drawing.tiny ? 2 : twoLines ? -3 : 4 }, parts.sign, name),
    parts.sub,
  );
  if (isSwitch) {
    set(g, { role: "button", tabindex: "0" });
    opens(g, () => inspectSwitch(shown.nodes.get(key)?.data));
  } else if (node.kind === "group") {
    set(g, { role: "button", tabindex: "0" });
    opens(g, () => toggle(node.name));
  } else set(g, { role: "img", "aria-label": node.kind === "host" ? `Host ${node.name}` : `${node.name}, not heard of` });
  drawing.nodes.set(key, { g, ...parts });
  return g;
}

/** opens has pointer and keyboard do the same. */
function opens(g, action) {
  g.addEventListener("click", action);
  g.addEventListener("keydown", (e) => {
    if (e.key !== "Enter" && e.key !== " ") return;
    e.preventDefault();
    action();
  });
}

function drawLink(link, centre) {
  const line = lineOf(link, drawing.at);
  const [a, b] = line;
  // Each direction on the right-hand side of its way, as on roads; y grows downwards.
  const beside = drawing.tiny ? 1.5 : 3.5;
  const lanes = [lane(a, b, beside), lane(b, a, beside)];
  const path = ([p, q]) => `M${p.x.toFixed(1)} ${p.y.toFixed(1)}L${q.x.toFixed(1)} ${q.y.toFixed(1)}`;
  const { w } = drawing.label;
  const drawn = lanes.map((l) => svg("path", { class: "flow-lane u0", d: path(l) }));
  const parts = {
    lanes: drawn,
    pair: svg("g", { class: "pair" }, drawn), // beneath all labels
    pill: svg("rect", { class: "pill", x: -w / 2, width: w, rx: 6 }),
    lines: [0, 1, 2].map((i) => svg("text", { x: 0, "text-anchor": "middle", class: i === 2 ? "queue" : null })),
    arrows: [arrow(a, b), arrow(b, a)],
  };
  const g = svg(
    "g",
    { class: "link", role: link.data.count ? "img" : "button", tabindex: "0", "data-link": link.data.ends.map((e) => e.name).join(" ") },
    svg("path", { class: "hit", d: path(line) }),
    svg("g", { class: "label", transform: `translate(${centre.x.toFixed(1)} ${centre.y.toFixed(1)})` }, svg("g", {}, parts.pill, parts.lines)),
  );
  if (!link.data.count) opens(g, () => inspectLink(shown.links.find((l) => l.key === link.key)?.data));
  drawing.links.set(link.key, { g, ...parts });
  return g;
}

function arrow(a, b) {
  const eighth = Math.round(Math.atan2(b.y - a.y, b.x - a.x) / (Math.PI / 4));
  return "→↘↓↙←↖↑↗"[(eighth + 8) % 8];
}

/** grade is how used a direction is, as the legend has it. */
export function grade(rate, speed) {
  const bits = number(rate?.bits_per_second);
  if (bits <= 0) return 0;
  if (!number(speed)) return 1;
  const u = number(rate.utilisation);
  return u > 0.85 ? 4 : u > 0.6 ? 3 : u > 0.25 ? 2 : 1;
}

/** update shows the newest values. */
function update() {
  for (const [key, parts] of drawing.nodes) {
    const node = shown.nodes.get(key);
    if (node.kind === "switch") updateSwitch(parts, node.data);
    if (node.kind === "group") updateGroup(parts, node);
  }
  for (const link of shown.links) updateLink(drawing.links.get(link.key), link.data);
  mark();
}

/** verdict is a switch's health as a kind, a sign and a word. */
export function verdict(s) {
  switch (s.health) {
    case "ok":
      return { kind: "ok", sign: "✓", word: "healthy" };
    case "silent":
      return { kind: "bad", sign: "✕", word: "silent" };
    default:
      return { kind: "warn", sign: "▲", word: "warning" };
  }
}

function updateSwitch(parts, s) {
  const v = verdict(s);
  set(parts.g, { "data-health": v.kind });
  text(parts.sign, drawing.tiny ? "" : `${v.sign} `);
  const known = (s.ports ?? []).filter((p) => p.has_rates);
  const bits = known.reduce((sum, p) => sum + number(p.received.bits_per_second), 0);
  text(parts.sub, s.health === "silent" ? "silent" : known.length ? si(bits, "bit/s") : v.word);
  const words = [`Switch ${s.name}`, v.word, ...(s.faults ?? [])];
  if (known.length) words.push(`${si(bits, "bit/s")} received`);
  set(parts.g, { "aria-label": words.join(", ") });
  text(parts.title, words.join("\n"));
}

/** updateGroup shows the worst of the members, and what they receive. */
function updateGroup(parts, group) {
  const members = group.members.filter((m) => m.kind === "switch").map((m) => m.data);
  const kinds = members.map((s) => verdict(s).kind);
  const bad = kinds.filter((k) => k === "bad").length, warn = kinds.filter((k) => k === "warn").length;
  set(parts.g, { "data-health": bad ? "bad" : warn ? "warn" : "ok" });
  text(parts.sign, drawing.tiny ? "" : `${bad ? "✕" : warn ? "▲" : "✓"} `);
  text(parts.sub, bad ? `${bad} silent` : warn ? count(warn, "warning") : count(members.length, "switch", "switches"));
  const words = [`Group ${group.name}`, count(members.length, "switch", "switches"), bad ? `${bad} silent` : "", warn ? count(warn, "warning") : "", "Enter opens it"].filter(Boolean);
  set(parts.g, { "aria-label": words.join(", ") });
  text(parts.title, words.join("\n"));
}

function updateLink(parts, link) {
  const used = (rate) => (number(link.speed_bps) && !drawing.small ? ` · ${percent(number(rate.utilisation))}` : "");
  const queue = Math.max(...link.backlogs.map(number));
  const lines = figures === "delays" && link.up ? [0, 1].map((i) => delayLine(link, i, parts.arrows[i])) : link.has_rates
    ? link.rates.map((rate, i) => `${parts.arrows[i]} ${si(number(rate.bits_per_second))}${used(rate)}`)
    : [link.up ? "no rates yet" : "down", ""];
  lines.push(queue && figures === "rates" ? `${drawing.small ? "q" : "queue"} ${si(queue)}` : "");
  const shown = lines.filter(Boolean).length;
  const top = (-13 * shown) / 2;
  set(parts.pill, { y: top - 3, height: 13 * shown + 6 });
  let row = 0;
  lines.forEach((line, i) => {
    text(parts.lines[i], line);
    if (line) set(parts.lines[i], { y: top + 10 + 13 * row++ });
  });
  parts.lanes.forEach((lane, i) => set(lane, { class: `flow-lane u${grade(link.rates[i], link.speed_bps)}` }));
  set(parts.pair, { "data-down": !link.up });
  set(parts.g, { "aria-label": linkSentence(link) });
}

const measured = (link, i) => link.delays?.[i]?.has_delay || link.delays?.[i]?.has_loss;

function delayLine(link, i, arrow) {
  if (!measured(link, i)) return `${arrow} –`;
  const lost = number(link.delays[i].lost);
  return `${arrow} ${delayText(link, i)}${lost ? ` · ${drawing.small ? "−" : "lost "}${grouped(lost)}` : ""}`;
}

function linkSentence(link) {
  const [a, b] = link.ends.map(endName);
  if (link.count) {
    const down = link.down ? `, ${link.down} down` : "";
    return `${count(link.count, "link")} between ${a} and ${b}${down}: ${[0, 1].map((i) => `${si(number(link.rates[i].bits_per_second), "bit/s")}, the busiest at ${percent(number(link.rates[i].utilisation))}`).join("; ")}`;
  }
  if (!link.up) return `Link ${a} to ${b}, down`;
  if (!link.has_rates) return `Link ${a} to ${b}, rates not known yet`;
  const way = (i, from, to) => {
    const u = number(link.speed_bps) ? `, utilisation ${percent(number(link.rates[i].utilisation))}` : "";
    const d = measured(link, i) ? `, delay ${delayText(link, i)}, ${lossText(link, i)} lost` : "";
    return `${from} to ${to} ${si(number(link.rates[i].bits_per_second), "bit/s")}${u}, queue ${number(link.backlogs[i])}${d}`;
  };
  return `Link ${a} to ${b}: ${way(0, a, b)}; ${way(1, b, a)}`;
}

export const endName = (end) => (end.port ? `${end.name}:${end.port}` : end.name);

/** mark draws the chosen flow's path over the links. */
function mark() {
  const numbers = new Map();
  for (const [key, node] of model.nodes) if (node.kind === "switch") numbers.set(node.name, key);
  const keys = route.map((hop) => shown.of?.get(numbers.get(hop.switch)) ?? numbers.get(hop.switch) ?? null);
  const onWay = new Set();
  drawing.routes.replaceChildren();
  for (let i = 1; i < keys.length; i++) {
    const a = drawing.at.get(keys[i - 1]), b = drawing.at.get(keys[i]);
    if (keys[i - 1] === keys[i]) continue; // within a group
    onWay.add(`${keys[i - 1]}\n${keys[i]}`).add(`${keys[i]}\n${keys[i - 1]}`);
    if (a && b) drawing.routes.append(svg("path", { class: "route", d: `M${a.x.toFixed(1)} ${a.y.toFixed(1)}L${b.x.toFixed(1)} ${b.y.toFixed(1)}` }));
  }
  set(drawing.picture, { "data-chosen": keys.some(Boolean) });
  for (const [key, parts] of drawing.nodes) markNode(key, parts, keys);
  for (const link of shown.links) {
    const { g, pair } = drawing.links.get(link.key), hop = { "data-hop": onWay.has(link.ends.join("\n")) };
    set(g, hop);
    set(pair, hop);
  }
}

function markNode(key, parts, keys) {
  const hops = keys.flatMap((k, i) => (k === key ? [i + 1] : []));
  set(parts.g, { "data-hop": hops.length ? hops.join(" and ") : null, "data-found": key === found });
  if (!hops.length) {
    parts.badge?.remove();
    parts.badge = null;
    return;
  }
  if (!parts.badge) {
    const { half } = drawing;
    parts.badgeText = svg("text", { class: "hop", y: 4 });
    parts.badge = svg("g", { transform: `translate(${-half.x} ${-half.y})`, "aria-hidden": "true" }, svg("circle", { class: "badge", r: 10 }), parts.badgeText);
    parts.g.append(parts.badge);
  }
  text(parts.badgeText, hops.join("·"));
}

/** table is the drawing's links for who does not see it. */
function table(network) {
  const box = $("#topology details .scroll");
  const links = network.links ?? [];
  if (!links.length) {
    state(box, "No links are configured. Write them as [[link]] into the collector's file.");
    return;
  }
  let body = box.querySelector("tbody");
  if (!body) {
    const head = ["From", "To", "Rate", "Utilisation", "Queue", "Delay", "Lost"].map((name, i) => el("th", { scope: "col", class: i > 1 ? "n" : null }, name));
    body = el("tbody");
    box.replaceChildren(el("table", {}, el("caption", {}, "Each direction of each link; the queue is in frames. Delay and loss are of the newest seconds, where both ends have measurement points."), el("thead", {}, el("tr", {}, head)), body));
  }
  const ways = links.slice(0, 500).flatMap((link) => [0, 1].map((i) => ({ link, i })));
  rows(
    body,
    ways,
    ({ link, i }) => `${endName(link.ends[i])} ${endName(link.ends[1 - i])}`,
    () => el("tr", {}, el("th", { scope: "row" }), el("td"), [0, 1, 2, 3, 4].map(() => el("td", { class: "n" }))),
    (tr, { link, i }) => {
      const rate = link.rates[i];
      const cells = [endName(link.ends[i]), endName(link.ends[1 - i])];
      if (!link.up) cells.push("down", "–", "–");
      else cells.push(link.has_rates ? si(number(rate.bits_per_second), "bit/s") : "–", link.has_rates && number(link.speed_bps) ? percent(number(rate.utilisation)) : "–", String(number(link.backlogs[i])));
      cells.push(delayText(link, i), lossText(link, i));
      cells.forEach((cell, c) => text(tr.children[c], cell));
    },
  );
}

/** pathSentence tells a path in words. */
export function pathSentence(hops) {
  return list(hops.map((h) => h.switch || "an unknown switch"), 12);
}
