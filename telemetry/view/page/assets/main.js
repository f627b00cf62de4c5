// What is shown, and when it is asked for again. Each panel asks its own question, again when it has
// its answer and the interval has passed: no panel waits for another, and none piles up. What
// costs the collector much is asked less often.

import { ask, collector, Fault, series } from "./api.js";
import { basis } from "./basis.js";
import { Chart, pointsOf } from "./chart.js";
import { $, say, set, state, text } from "./dom.js";
import * as flowPanel from "./flow.js";
import * as flowList from "./flows.js";
import { between, count, digits, duration, number, scaled, si } from "./format.js";
import { setUp as setUpInspector } from "./inspector.js";
import * as switchList from "./switches.js";
import * as topology from "./topology.js";

const nanoseconds = { s: 1e9, m: 60e9, h: 3600e9 };

const view = {
  window: "5m",
  refresh: Number(document.documentElement.dataset.refresh) || 2,
  unit: "bytes",
  flow: "",
  paused: false,
};

const charts = {
  volume: new Chart("chart-volume", "Volume", "bit/s"),
  entropy: new Chart("chart-entropy", "Entropy", "bits"),
  cardinality: new Chart("chart-cardinality", "Number of flows", "flows"),
};

let round = null; // the AbortController of all questions but those about the chosen flow
let ofFlow = null; // that of these
let span = Infinity; // ns that the collector's records are of
let ahead = 0; // ms that the switches' clock is ahead of this one: leap seconds, and what is wrong
let age = 0; // ns since the newest record
const stale = 15e9; // ns of age that are worth a word
let asked = ""; // the flow that the panel shows

/** wall makes a time of the switches' clock one of this machine's. */
const wall = (ns) => ns / 1e6 - ahead;

/** length of the window, in ns. */
function length() {
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
  { question: (last, signal) => ask({ kind: "heavy-hitters", unit: view.unit, theta: 1e-6, limit: flowList.most, ...last }, signal), show: showFlows, fail: faultFlows },
  { question: (last, signal) => ask({ kind: "volume", ...last }, signal), show: showVolume, fail: (f) => ["rate", "packets"].forEach((name) => faultTile(name, f)) },
  { question: (last, signal) => ask({ kind: "cardinality", ...last }, signal), show: showCardinality, fail: (f) => faultTile("flows", f) },
  { question: (last, signal) => ask({ kind: "entropy", ...last }, signal), show: showEntropy, fail: (f) => faultTile("entropy", f) },
  ...Object.keys(charts).map((kind) => ({
    question: (last, signal) => series({ kind, step_ns: step(Math.min(last.last_ns, span)), ...last }, signal),
    show: (s) => showSeries(kind, s),
    fail: (f) => faultSeries(kind, f),
  })),
  { question: askFlow, show: () => {}, fail: () => {} },
];

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
    const answer = await task.question({ last_ns: length() }, signal);
    if (signal.aborted) return;
    task.fault = null;
    task.show(answer);
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
  flowList.show(a, view.flow, choose);
  basis($("#flows .basis"), a);
}

function faultFlows(fault) {
  state($("#flows .list"), fault.message, fault.empty ? "empty" : "fault");
  basis($("#flows .basis"), null);
}

function showCollector(c) {
  ahead = number(c.time_ns) / 1e6 - Date.now();
  const parts = [`Collector ${c.name || "without a name"}`, c.version ? `version ${c.version}` : ""];
  const newest = number(c.store?.to_ns);
  age = newest ? Math.max(number(c.time_ns) - newest, 0) : 0;
  span = newest ? newest - number(c.store.from_ns) : Infinity;
  if (newest) {
    parts.push(`newest record ${duration(age)} ago`, `memory ${si(number(c.store.bytes), "B")}${number(c.store.max_bytes) ? ` of ${si(number(c.store.max_bytes), "B")}` : ""}`);
  } else parts.push("no record yet");
  if (c.stream) {
    parts.push(`stream ${si(number(c.stream.bytes), "B")} in ${count(number(c.stream.messages), "record")}`);
    if (c.stream.error) parts.push(`stream: ${c.stream.error}`);
    else if (!c.stream.caught_up) parts.push(`still reading, ${count(number(c.stream.pending), "record")} to go`);
  }
  text($("#collector"), `${parts.filter(Boolean).join(" · ")}.`);
}

/** askFlow asks about the chosen flow, with the others or by itself. */
async function askFlow() {
  ofFlow?.abort();
  const { signal } = (ofFlow = new AbortController());
  const flow = view.flow;
  if (!flow) return;
  let all;
  try {
    all = await flowPanel.about(flow, { last_ns: length() }, signal);
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

/** remember keeps the choice in the address, to be copied or gone back to. */
function remember() {
  const parts = new URLSearchParams();
  if (view.window !== "5m") parts.set("window", view.window);
  if (view.unit !== "bytes") parts.set("unit", view.unit);
  if (view.flow) parts.set("flow", view.flow);
  const hash = parts.toString();
  if (location.hash.slice(1) !== hash) history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
}

function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (/^\d{1,4}[smh]$/.test(parts.get("window") ?? "")) view.window = parts.get("window");
  if (parts.get("unit") === "packets") view.unit = "packets";
  view.flow = (parts.get("flow") ?? "").slice(0, 256);
  const preset = $(`input[name="window"][value="${view.window}"]`) ?? $('input[name="window"][value="custom"]');
  preset.checked = true;
  if (preset.value === "custom") {
    $("#custom").hidden = false;
    $("#custom-count").value = view.window.slice(0, -1);
    $("#custom-unit").value = view.window.slice(-1);
  }
  $(`input[name="unit"][value="${view.unit}"]`).checked = true;
  $("#flow-text").value = view.flow;
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
  if (next === view.window) return;
  view.window = next;
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
  $("#find").addEventListener("submit", (e) => {
    e.preventDefault();
    const flow = $("#flow-text").value.trim();
    if (!flow) {
      text($("#flow-fault"), "Write a flow, as 10.0.0.1:1234 > 10.0.0.2:80 udp.");
      return;
    }
    if (flow === view.flow) askFlow();
    else choose(flow);
  });
  $("#flow-close").addEventListener("click", close);
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && view.flow && !$("#inspector").open && !e.defaultPrevented) close();
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
      for (const c of Object.values(charts)) if (c.panel.querySelector(".plot svg")) c.draw();
    });
  }).observe($("#main"));
}

setUpInspector();
recall();
listen();
refresh();
