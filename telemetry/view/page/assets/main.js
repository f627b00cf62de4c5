// What is shown, and when it is asked for again. Each panel asks its own question, again when it has
// its answer and the interval has passed: no panel waits for another, and none piles up. What
// costs the collector much is asked less often.

import { ask, collector, Fault, series } from "./api.js";
import { basis } from "./basis.js";
import { Chart, pointsOf } from "./chart.js";
import { $, say, set, state, text } from "./dom.js";
import * as files from "./export.js";
import * as flowPanel from "./flow.js";
import * as flowList from "./flows.js";
import { between, clock, count, digits, duration, number, scaled, si } from "./format.js";
import * as past from "./history.js";
import { setUp as setUpInspector } from "./inspector.js";
import * as search from "./search.js";
import * as switchList from "./switches.js";
import * as talkers from "./talkers.js";
import * as timings from "./timings.js";
import * as topology from "./topology.js";

const nanoseconds = { s: 1e9, m: 60e9, h: 3600e9 };

const view = {
  window: "5m",
  range: null, // {start_ns, end_ns} that was chosen, instead of the window
  refresh: Number(document.documentElement.dataset.refresh) || 2,
  unit: "bytes",
  flow: "",
  pair: null, // the two switches of the flow's path between which delay and loss are asked for; null: its ends
  filter: {}, // the fields of questions about some flows
  by: "address", // how who talks to whom is grouped
  links: "rates", // what the labels of links show
  open: "", // the switch or link in the dialogue
  paused: false,
};

const charts = {
  volume: new Chart($("#chart-volume"), "Volume", "bit/s", zoom),
  entropy: new Chart($("#chart-entropy"), "Entropy", "bits", zoom),
  cardinality: new Chart($("#chart-cardinality"), "Number of flows", "flows", zoom),
};

let round = null; // the AbortController of all questions but those about the chosen flow
let ofFlow = null; // that of these
let span = Infinity; // ns that the collector's records are of
let ahead = 0; // ms that the switches' clock is ahead of this one: leap seconds, and what is wrong
let age = 0; // ns since the newest record
const stale = 15e9; // ns of age that are worth a word
let earlier = null; // {start_ns, end_ns} of the last traffic, as the window before now has none; null: it has, or nothing is known
let asked = ""; // the flow that the panel shows

/** wall makes a time of the switches' clock one of this machine's. */
const wall = (ns) => ns / 1e6 - ahead;

/** asks are the fields of a question that say when. */
const asks = () => view.range ?? earlier ?? { last_ns: length() };

/** length of the window, in ns. */
function length() {
  if (view.range) return number(view.range.end_ns) - number(view.range.start_ns);
  const [, n, unit] = /^(\d+)([smh])$/.exec(view.window) ?? [null, "5", "m"];
  return Number(n) * nanoseconds[unit];
}

/**
 * step of a series: a power of two of ns, as epochs are, so that no record lies in two
 * pieces; 40 to 80 of them in the window.
 */
function step(window) {
  return 2 ** Math.max(30, Math.ceil(Math.log2(window / 80)));
}

/** patience is how many times as long as a question took it rests before it is asked again. */
const patience = 4;

const tasks = [
  { question: (last, signal) => collector(signal), show: showCollector, fail: (f) => text($("#collector"), f.message) },
  { question: (last, signal) => ask({ kind: "network", ...last }, signal), show: showNetwork, fail: faultNetwork },
  { question: (last, signal) => ask({ kind: "heavy-hitters", unit: view.unit, theta: 1e-6, limit: flowList.asked, ...view.filter, ...last }, signal), show: showFlows, fail: faultFlows },
  { question: (last, signal) => ask({ kind: "volume", ...view.filter, ...last }, signal), show: showVolume, fail: (f) => ["rate", "packets"].forEach((name) => faultTile(name, f)) },
  { question: (last, signal) => ask({ kind: "cardinality", ...last }, signal), show: showCardinality, fail: (f) => faultTile("flows", f) },
  { question: (last, signal) => ask({ kind: "entropy", ...last }, signal), show: showEntropy, fail: (f) => faultTile("entropy", f) },
  ...Object.keys(charts).map((kind) => ({
    question: (last, signal) => series({ kind, step_ns: chartStep(), ...(kind === "volume" ? view.filter : {}), ...last }, signal),
    show: (s) => showSeries(kind, s),
    fail: (f) => faultSeries(kind, f),
  })),
  { question: askFlow, show: () => {}, fail: () => {} },
];

const chartStep = () => step(view.range ? length() : Math.min(length(), span));

/** refresh asks all questions anew, and gives up those that are under way. */
function refresh() {
  round?.abort();
  round = new AbortController();
  for (const task of tasks) run(task, round.signal);
}

/** run asks a task's question, shows the answer or the fault, and sees to the next time. */
async function run(task, signal) {
  clearTimeout(task.timer);
  const began = performance.now();
  try {
    const answer = await task.question(asks(), signal);
    if (signal.aborted) return;
    task.fault = null;
    task.show(answer);
    if (signal.aborted) return; // what it shows has all asked anew
  } catch (fault) {
    if (signal.aborted) return;
    task.fault = fault;
    if (fault.code !== "offline") task.fail(fault);
    if (!(fault instanceof Fault)) console.error(fault);
  }
  const took = performance.now() - began;
  task.rest = Math.max(view.refresh * 1000, patience * took);
  connected();
  schedule(task, signal);
}

function schedule(task, signal) {
  clearTimeout(task.timer);
  if (!view.paused && !document.hidden) task.timer = setTimeout(() => run(task, signal), task.rest);
}

/** hold stops asking; what is under way still comes. */
function hold() {
  for (const task of tasks) clearTimeout(task.timer);
}

/** connected says how the conversation with the collector is. */
function connected() {
  const live = $("#live"), banner = $("#banner");
  const faults = tasks.map((t) => t.fault).filter(Boolean);
  const offline = faults.find((f) => f.code === "offline");
  const before = live.dataset.state;
  const now = offline ? "lost" : view.paused ? "paused" : age > stale ? "stale" : "live";
  set(live, { "data-state": now });
  text($(".text", live), { lost: "No answer", paused: "Paused", stale: `Nothing new for ${duration(age)}`, live: "Live" }[now]);
  const denied = faults.find((f) => f.code === "permission_denied" || f.code === "unauthenticated");
  const sentence = (offline ?? denied)?.message ?? "";
  banner.hidden = !sentence;
  text(banner, sentence);
  if (before === "lost" && now !== "lost") say("The collector answers again.");
}

function tile(name, { value, unit, bounds, kind = "" }) {
  const box = $(`#tile-${name}`);
  text($(".value", box), value);
  text($(".unit", box), unit);
  text($(".bounds", box), bounds);
  set($(".bounds", box), { "data-kind": kind || null, title: bounds });
}

function faultTile(name, fault) {
  tile(name, { value: "–", unit: "", bounds: fault.empty ? "no records" : fault.message });
}

const seconds = (a) => Math.max(number(a.to_ns) - number(a.from_ns), 1) / 1e9;
const times = (b, by) => ({ value: number(b.value) * by, low: number(b.low) * by, high: number(b.high) * by });

function showVolume(a) {
  const bits = times(a.bytes, 8 / seconds(a)), packets = times(a.packets, 1 / seconds(a));
  for (const [name, b, what] of [["rate", bits, "bit/s"], ["packets", packets, "packets/s"]]) {
    const [value, prefix] = scaled(b.value);
    tile(name, { value, unit: prefix && name === "packets" ? `${prefix} ${what}` : prefix + what, bounds: between(b, (x) => si(x, "")) });
  }
  basis($("#chart-volume .basis"), a);
}

function showCardinality(a) {
  const b = times(a.flows, 1);
  const [value, prefix] = scaled(b.value);
  tile("flows", { value, unit: prefix, bounds: between(b, (x) => si(x)) });
  basis($("#chart-cardinality .basis"), a);
}

function showEntropy(a) {
  tile("entropy", { value: digits(number(a.bits.value)), unit: "bits", bounds: between(times(a.bits, 1), digits) });
  basis($("#chart-entropy .basis"), a);
}

function showSeries(kind, s) {
  const name = { volume: "bytes", entropy: "entropy", cardinality: "flows" }[kind];
  const scale = kind === "volume" ? (secs) => 8 / Math.max(secs, 1e-9) : () => 1;
  charts[kind].show(pointsOf(s, name, scale, wall));
}

function faultSeries(kind, fault) {
  charts[kind].fault(fault.message, fault.empty ? "empty" : "fault");
  if (fault.empty) basis(charts[kind].panel.querySelector(".basis"), null);
}

function showNetwork(a) {
  topology.show(a);
  $("#find-switch").hidden = topology.names().length === 0;
  if (view.open && !$("#inspector").open && !topology.inspect(view.open)) inspected("");
  switchList.show(a);
  tile("switches", switchList.summary(a));
  basis($("#topology .basis"), a);
  basis($("#switches .basis"), a);
}

function faultNetwork(fault) {
  const kind = fault.empty ? "empty" : "fault";
  const sentence = fault.empty ? `${fault.message} Give switches this collector’s address as collector in [telemetry], or choose a longer window.` : fault.message;
  state($("#topology .drawing"), sentence, kind);
  state($("#switches .list"), sentence, kind);
  faultTile("switches", fault);
}

function showFlows(a) {
  const filtered = Object.keys(view.filter).length > 0;
  flowList.show(a, view.flow, choose, filtered);
  talkers.show(a, view.by, (filter) => look({ ...view.filter, ...filter }));
  basis($("#talkers .basis"), a);
  basis($("#flows .basis"), a);
}

function faultFlows(fault) {
  for (const box of ["#flows .list", "#talkers .sankey"]) state($(box), fault.message, fault.empty ? "empty" : "fault");
  basis($("#flows .basis"), null);
}

function showCollector(c) {
  ahead = number(c.time_ns) / 1e6 - Date.now();
  titleRange();
  const parts = [`Collector ${c.name || "without a name"}`, c.version ? `version ${c.version}` : ""];
  const newest = number(c.store?.to_ns);
  age = newest ? Math.max(number(c.time_ns) - newest, 0) : 0;
  span = newest ? newest - number(c.store.from_ns) : Infinity;
  if (newest) {
    parts.push(`newest record ${duration(age)} ago`, `memory ${si(number(c.store.bytes), "B")}${number(c.store.max_bytes) ? ` of ${si(number(c.store.max_bytes), "B")}` : ""}`);
  } else parts.push("no record yet");
  showEarlier(c);
  if (c.stream) {
    parts.push(`stream ${si(number(c.stream.bytes), "B")} in ${count(number(c.stream.messages), "record")}`);
    if (c.stream.error) parts.push(`stream: ${c.stream.error}`);
    else if (!c.stream.caught_up) parts.push(`still reading, ${count(number(c.stream.pending), "record")} to go`);
  }
  text($("#collector"), `${parts.filter(Boolean).join(" · ")}.`);
}

/**
 * showEarlier has the page show the last traffic that there is, where the window before now has none, and say so. New traffic, or a
 * longer window, ends that.
 */
function showEarlier(c) {
  const traffic = c.store?.traffic_ns ?? "0";
  const before = JSON.stringify(earlier);
  const idle = number(c.time_ns) - number(traffic);
  earlier = null;
  if (!view.range && number(traffic) && idle > length()) {
    earlier = { start_ns: String(BigInt(traffic) - BigInt(length())), end_ns: String(traffic) };
  }
  const note = $("#earlier");
  note.hidden = !earlier;
  text(note, earlier ? `No traffic for ${duration(idle)}. Shown is what was before: ${duration(length())} up to ${clock(wall(number(traffic)))}.` : "");
  if (before !== JSON.stringify(earlier)) refresh();
}

/** askFlow asks about the chosen flow, with the others or by itself. */
async function askFlow() {
  ofFlow?.abort();
  const { signal } = (ofFlow = new AbortController());
  const flow = view.flow;
  if (!flow) return;
  let all;
  try {
    all = await flowPanel.about(flow, asks(), view.pair, signal);
  } catch (fault) {
    if (signal.aborted) return; // given up for a newer one
    throw fault;
  }
  if (!signal.aborted) showFlow(flow, all);
}

function showFlow(flow, all) {
  const invalid = [all.path, all.latency, all.frequency].find((x) => x instanceof Error && x.code === "invalid_argument");
  if (invalid) {
    asked = flow;
    text($("#flow-fault"), invalid.message);
    $("#flow-text").setAttribute("aria-invalid", "true");
    flowPanel.none();
    topology.highlight([]);
    return;
  }
  flowPanel.show(all);
  topology.highlight(all.hops);
  if (asked !== flow) {
    asked = flow;
    say(all.hops.length ? `Path of ${flow}: ${topology.pathSentence(all.hops)}.` : `The path of ${flow} is not known.`);
  }
}

/** choose shows a flow; the empty one closes the panel. */
function choose(flow) {
  if (flow === view.flow) flow = ""; // chosen again: let go
  view.flow = flow;
  view.pair = null;
  text($("#flow-fault"), "");
  $("#flow-text").removeAttribute("aria-invalid");
  titleFlow();
  flowList.choose(flow);
  topology.highlight([]);
  remember();
  if (!flow) {
    asked = "";
    flowPanel.none();
    return;
  }
  flowPanel.loading();
  const panel = $("#flow");
  if (matchMedia("(max-width: 1020px)").matches) panel.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  askFlow();
}

function titleFlow() {
  const title = $("#flow-title");
  title.replaceChildren("Flow");
  if (view.flow) {
    const name = document.createElement("span");
    name.className = "mono name";
    name.textContent = ` ${view.flow}`;
    title.append(name);
  }
  $("#flow-close").hidden = !view.flow;
}

/** close lets go of the flow, and gives the focus back to its row. */
function close() {
  const flow = view.flow;
  const inside = $("#flow").contains(document.activeElement) || document.activeElement === document.body;
  choose(flow);
  if (!inside) return;
  const row = [...document.querySelectorAll("#flows .pickflow")].find((b) => b.title === flow);
  (row ?? $("#flow-text")).focus();
}

/** look has all that can be asked about some flows be about those of a filter. */
function look(filter) {
  view.filter = filter;
  text($("#flow-fault"), "");
  $("#flow-text").removeAttribute("aria-invalid");
  titleFilter();
  remember();
  refresh();
  say(search.write(filter) ? `Flows of ${search.write(filter)}.` : "All flows.");
}

function titleFilter() {
  const words = search.write(view.filter);
  $("#filter").hidden = !words;
  text($("#filter .text"), words);
  $("#flow-text").value = view.flow || words;
  for (const name of ["rate", "packets"]) text($(`#tile-${name} h2`), `${{ rate: "Traffic", packets: "Packets" }[name]}${words ? " of the search" : ""}`);
  text($("#chart-volume-title"), words ? "Volume of the search" : "Volume");
}

/** zoom shows the time between two ns of the switches' clock. */
function zoom(start_ns, end_ns) {
  view.range = { start_ns, end_ns };
  earlier = null;
  $("#earlier").hidden = true;
  titleRange();
  remember();
  refresh();
  say(`From ${clock(wall(number(start_ns)))} to ${clock(wall(number(end_ns)))}.`);
}

function titleRange() {
  const button = $("#range");
  button.hidden = !view.range;
  if (view.range) text($(".text", button), `${clock(wall(number(view.range.start_ns)))} to ${clock(wall(number(view.range.end_ns)))}`);
}

/** live shows the newest records again. */
function live() {
  view.range = null;
  titleRange();
  remember();
  refresh();
}

/** inspected notes what the dialogue shows. */
function inspected(what) {
  view.open = what;
  remember();
}

/** remember keeps the choice in the address, to be copied or gone back to. */
function remember() {
  const parts = new URLSearchParams();
  if (view.window !== "5m") parts.set("window", view.window);
  if (view.unit !== "bytes") parts.set("unit", view.unit);
  if (view.flow) parts.set("flow", view.flow);
  if (view.flow && view.pair) view.pair.forEach((name, i) => parts.set(["from", "to"][i], name));
  const words = search.write(view.filter);
  if (words) parts.set("search", words);
  if (view.range) for (const [name, ns] of [["start", view.range.start_ns], ["end", view.range.end_ns]]) parts.set(name, ns);
  if (view.by !== "address") parts.set("by", view.by);
  if (view.links !== "rates") parts.set("links", view.links);
  if (view.open) parts.set("open", view.open);
  const hash = parts.toString();
  if (location.hash.slice(1) !== hash) history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
}

function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (/^\d{1,4}[smh]$/.test(parts.get("window") ?? "")) view.window = parts.get("window");
  if (parts.get("unit") === "packets") view.unit = "packets";
  else view.unit = "bytes";
  view.flow = (parts.get("flow") ?? "").slice(0, 256);
  view.pair = view.flow && parts.get("from") && parts.get("to") ? ["from", "to"].map((name) => parts.get(name).slice(0, 256)) : null;
  view.filter = search.parse((parts.get("search") ?? "").slice(0, 256)).filter ?? {};
  const range = ["start", "end"].map((name) => parts.get(name) ?? "");
  view.range = range.every((ns) => /^\d{1,19}$/.test(ns)) && number(range[0]) < number(range[1]) ? { start_ns: range[0], end_ns: range[1] } : null;
  view.by = ["network", "service"].includes(parts.get("by")) ? parts.get("by") : "address";
  view.links = parts.get("links") === "delays" ? "delays" : "rates";
  view.open = (parts.get("open") ?? "").slice(0, 1024);
  const preset = $(`input[name="window"][value="${view.window}"]`) ?? $('input[name="window"][value="custom"]');
  preset.checked = true;
  if (preset.value === "custom") {
    $("#custom").hidden = false;
    $("#custom-count").value = view.window.slice(0, -1);
    $("#custom-unit").value = view.window.slice(-1);
  }
  for (const name of ["unit", "by", "links"]) $(`input[name="${name}"][value="${view[name]}"]`).checked = true;
  topology.label(view.links);
  titleFilter();
  titleRange();
  titleFlow();
  if (view.flow) flowPanel.loading();
}

function setWindow() {
  const chosen = $('input[name="window"]:checked').value;
  $("#custom").hidden = chosen !== "custom";
  let next = chosen;
  if (chosen === "custom") {
    const n = $("#custom-count");
    const fault = n.validity.valid && n.value !== "" ? "" : "Write a whole number from 1 to 9999.";
    text($("#custom-fault"), fault);
    if (fault) return;
    next = `${Number(n.value)}${$("#custom-unit").value}`;
  }
  if (next === view.window && !view.range) return;
  view.window = next;
  view.range = null;
  earlier = null;
  titleRange();
  remember();
  refresh();
}

function pause(on) {
  view.paused = on;
  const button = $("#pause");
  button.setAttribute("aria-pressed", String(on));
  text($(".text", button), on ? "Resume" : "Pause");
  if (on) {
    hold();
    connected();
    say("Paused: nothing changes until you resume.");
  } else {
    say("Resumed.");
    refresh();
  }
}

function listen() {
  $("#controls").addEventListener("submit", (e) => e.preventDefault());
  for (const radio of document.querySelectorAll('input[name="window"]')) radio.addEventListener("change", setWindow);
  $("#custom-count").addEventListener("change", setWindow);
  $("#custom-unit").addEventListener("change", setWindow);
  const select = $("#refresh");
  if (![...select.options].some((o) => Number(o.value) === view.refresh)) view.refresh = 2;
  select.value = String(view.refresh);
  select.addEventListener("change", () => {
    view.refresh = Number(select.value);
    refresh();
  });
  $("#pause").addEventListener("click", () => pause(!view.paused));
  for (const radio of document.querySelectorAll('input[name="unit"]')) {
    radio.addEventListener("change", () => {
      view.unit = radio.value;
      remember();
      refresh();
    });
  }
  for (const radio of document.querySelectorAll('input[name="by"]')) {
    radio.addEventListener("change", () => {
      view.by = radio.value;
      remember();
      talkers.regroup(view.by);
    });
  }
  for (const radio of document.querySelectorAll('input[name="links"]')) {
    radio.addEventListener("change", () => {
      view.links = radio.value;
      remember();
      topology.label(view.links);
    });
  }
  for (const button of document.querySelectorAll("#topology [data-zoom]")) button.addEventListener("click", () => topology.enlarge(Number(button.dataset.zoom)));
  const wanted = $("#switch-text");
  for (const event of ["input", "focus"]) wanted.addEventListener(event, () => search.completeNames($("#switch-known"), wanted.value, topology.names()));
  $("#find-switch").addEventListener("submit", (e) => {
    e.preventDefault();
    const name = topology.find(wanted.value.trim());
    text($("#switch-fault"), name ? "" : `No switch is called so, or has “${wanted.value.trim()}” in its name.`);
    set(wanted, { "aria-invalid": name ? null : "true" });
    if (name) say(`Switch ${name} is marked in the drawing. Enter shows its details.`);
  });
  const input = $("#flow-text");
  for (const event of ["input", "focus"]) input.addEventListener(event, () => search.complete($("#flow-known"), input.value, flowList.known()));
  $("#find").addEventListener("submit", (e) => {
    e.preventDefault();
    const { flow, filter, fault } = search.parse(input.value);
    if (fault) {
      if (view.flow) choose(view.flow); // what is seen is not of the words
      text($("#flow-fault"), fault);
      input.setAttribute("aria-invalid", "true");
    } else if (filter) look(filter);
    else if (flow === view.flow) askFlow();
    else choose(flow);
  });
  $("#filter button").addEventListener("click", () => {
    look({});
    input.focus();
  });
  $("#range").addEventListener("click", live);
  $("#flow-close").addEventListener("click", close);
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && !e.target.closest?.("input, select") && view.flow && !$("#inspector").open && !e.defaultPrevented) close();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hold();
    else if (!view.paused) refresh();
  });
  addEventListener("hashchange", () => {
    recall();
    refresh();
  });
  let resizing = 0;
  new ResizeObserver(() => {
    cancelAnimationFrame(resizing);
    resizing = requestAnimationFrame(() => {
      topology.redraw();
      talkers.draw();
      for (const c of Object.values(charts)) if (c.panel.querySelector(".plot svg")) c.draw();
    });
  }).observe($("#main"));
}

/** saving gives panels what saves them as files. */
function saving() {
  const header = (panel) => $(`${panel} > header`);
  const picture = (panel) => () => $(`${panel} svg[viewBox]`);
  files.buttons(header("#topology"), "topology", picture("#topology .drawing"), topology.lines);
  files.buttons(header("#flows"), "flows", null, () => flowList.lines(view.unit));
  files.buttons(header("#talkers"), "talkers", picture("#talkers .sankey"), talkers.table);
  for (const [kind, chart] of Object.entries(charts)) files.buttons(header(`#chart-${kind}`), kind, picture(`#chart-${kind} .plot`), () => chart.lines());
  files.buttons(header("#switches"), "switches", null, switchList.lines);
}

setUpInspector(inspected, () => (view.paused ? Infinity : view.refresh));
past.setUp({ window: asks, step: chartStep, wall, zoom: (...range) => {
  $("#inspector").close();
  zoom(...range);
} });
flowPanel.setUp((pair) => {
  view.pair = pair;
  remember();
  askFlow();
});
timings.setUp();
saving();
recall();
listen();
refresh();
