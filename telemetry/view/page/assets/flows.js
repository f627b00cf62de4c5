// The largest flows: a list with bars and bounds, of which one is chosen.

import { $, el, rows, set, state, svg, text } from "./dom.js";
import { between, count, grouped, number, percent, si } from "./format.js";

/** most is how many flows are shown, whatever the network has; asked is how many are asked for, for who talks to whom and the search. */
export const most = 50;
export const asked = 300;

const NS = 100; // width of a bar's picture

let all = [];

/** known are the flows of the last answer, the largest first. */
export const known = () => all;

/** lines are these flows as a table, for a file. */
export const lines = (unit) => [["flow", unit, "at least", "at most", "share"], ...all.map((f) => [f.flow, number(f.value), number(f.low), number(f.high), number(f.share)])];

/** show lists the answer's flows; chosen is the one chosen, pick chooses one; filtered: they are some of all. */
export function show(answer, chosen, pick, filtered) {
  const box = $("#flows .list");
  all = answer.flows ?? [];
  const flows = all.slice(0, most);
  if (!flows.length && filtered) {
    state(box, "No flow that the search asks for is large enough to be told from the noise. Choose a longer window, or search for more.");
    return;
  }
  if (!flows.length) {
    state(box, "No flow is large enough to be told from the noise. Choose a longer window, or a larger sample in [stages.oblivious].");
    return;
  }
  let body = box.querySelector("tbody");
  if (!body) {
    body = el("tbody");
    const head = el("thead", { class: "quiet" }, el("tr", {}, el("th", { scope: "col" }, "Flow, with its volume, bounds and share")));
    box.replaceChildren(el("table", { class: "top" }, el("caption", { class: "quiet" }, "The largest flows, the largest first"), head, body), el("p", { class: "more" }));
  }
  const largest = Math.max(...flows.map((f) => number(f.high)), 1e-9);
  rows(
    body,
    flows,
    (f) => f.flow,
    (f) => make(f, pick),
    (tr, f) => update(tr, f, answer.unit, largest, chosen),
  );
  const left = number(answer.more) + (all.length - flows.length);
  text(box.querySelector(".more"), left > 0 ? `${grouped(left)} smaller flows are not shown. weir query heavy-hitters lists them.` : `${count(flows.length, "flow")} by the ${answer.by}.`);
}

function make(f, pick) {
  const button = el(
    "button",
    { type: "button", class: "pickflow" },
    el("span", { class: "name mono" }, f.flow),
    svg(
      "svg",
      { class: "bar2", viewBox: `0 0 ${NS} 8`, preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "base", width: NS, height: 8, rx: 1 }),
      svg("rect", { class: "mid", height: 8, rx: 1 }),
      svg("path", { class: "err", "vector-effect": "non-scaling-stroke", fill: "none" }),
    ),
    el("span", {}, el("span", { class: "amount" }), el("span", { class: "range" })),
    el("span", { class: "of" }),
  );
  button.addEventListener("click", () => pick(f.flow));
  return el("tr", {}, el("td", {}, button));
}

const unitOf = (unit) => (unit === "bytes" ? "B" : "packets");

function update(tr, f, unit, largest, chosen) {
  const button = tr.firstChild.firstChild;
  const u = unitOf(unit);
  set(button, { "aria-pressed": String(f.flow === chosen), title: f.flow });
  text(button.querySelector(".amount"), si(number(f.value), u));
  text(button.querySelector(".of"), `${percent(number(f.share))} of all`);
  text(button.querySelector(".range"), between(f, (x) => si(x)));
  const x = (v) => ((number(v) / largest) * NS).toFixed(2);
  set(button.querySelector(".mid"), { width: x(f.value) });
  set(button.querySelector(".err"), { d: number(f.low) === number(f.high) ? null : `M${x(f.low)} 4H${x(f.high)}M${x(f.low)} 1V7M${x(f.high)} 1V7` });
}

/** choose shows which flow is chosen, without another answer. */
export function choose(flow) {
  for (const button of document.querySelectorAll("#flows .pickflow")) set(button, { "aria-pressed": String(button.title === flow) });
}
