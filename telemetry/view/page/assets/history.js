// What a port, a link or a switch carried over time: the series of its statuses, as charts in a dialogue.

import { series } from "./api.js";
import { Chart, pointsOf } from "./chart.js";
import { el } from "./dom.js";
import * as files from "./export.js";

/** What is asked with: the window's fields of a question, the length of a step in ns, ms that a time of the switches is of this machine, and a choice of time. */
let settings = { window: () => ({}), step: () => 2 ** 32, wall: Number, zoom: null };
let running = null; // the AbortController of what is shown

export function setUp(given) {
  settings = given;
}

/** end asks no more. */
export function end() {
  running?.abort();
  running = null;
}

/**
 * show makes charts, and fills them for as long as they are shown. curves are {title, unit, at, value}: at is a switch, or a port as
 * "s1:2", and value gives the number of a point's values by their names, null where there is none.
 */
export function show(box, curves, refresh) {
  end();
  const { signal } = (running = new AbortController());
  const charts = curves.map((c) => {
    const panel = el(
      "section",
      { class: "chart" },
      el("header", {}, el("h3", {}, c.title), el("p", { class: "readout", "aria-hidden": "true" })),
      el("div", { class: "plot" }, el("p", { class: "state" }, "Asking for its history…")),
    );
    const chart = new Chart(panel, c.title, c.unit, settings.zoom);
    files.buttons(panel.querySelector("header"), c.title.toLowerCase().replace(/[^a-z0-9]+/g, "-"), () => panel.querySelector("svg"), () => chart.lines());
    return chart;
  });
  box.replaceChildren(...charts.map((c) => c.panel));
  const ask = async () => {
    const began = performance.now();
    try {
      const answers = new Map();
      for (const at of new Set(curves.map((c) => c.at))) answers.set(at, await series({ kind: "network", at, step_ns: settings.step(), ...settings.window() }, signal));
      curves.forEach((c, i) => charts[i].show(pointsOf(answers.get(c.at), c.value, () => 1, settings.wall)));
    } catch (fault) {
      if (signal.aborted) return;
      for (const chart of charts) chart.fault(fault.message, fault.empty ? "empty" : "fault");
    }
    const rest = Math.max(refresh() * 1000, 4 * (performance.now() - began));
    if (!signal.aborted && Number.isFinite(rest)) setTimeout(() => signal.aborted || ask(), rest);
  };
  ask();
}

/** ofPort are the curves of one port, or of a whole switch. */
export function ofPort(name, port) {
  const at = port ? `${name}:${Number(port.number)}` : name;
  const sum = (what) => (values) => {
    const all = values.filter((v) => v.name.endsWith(` ${what}`));
    return all.length ? all.reduce((total, v) => total + Number(v.value ?? 0), 0) : null;
  };
  return [
    { title: "Received", unit: "bit/s", at, value: sum("received") },
    { title: "Sent", unit: "bit/s", at, value: sum("sent") },
    { title: "Queue", unit: "frames", at, value: sum("queue") },
    { title: "Drops", unit: "packets/s", at, value: sum("drops") },
  ];
}

/** ofLink are the curves of a link, of the ends that are switches: each direction as its sender counts it, else as its receiver. */
export function ofLink(link) {
  const ends = link.ends.map((e) => (e.has_switch && Number(e.number) >= 0 ? e : null));
  return [0, 1].flatMap((i) => {
    const near = ends[i], far = ends[1 - i];
    if (!near && !far) return [];
    const title = `${link.ends[i].name} to ${link.ends[1 - i].name}`;
    const [counted] = near ? ofPort(near.name, near).slice(1) : ofPort(far.name, far);
    return [{ ...counted, title }, ...(near ? [{ ...ofPort(near.name, near)[2], title: `Queue of ${near.name}` }] : [])];
  });
}
