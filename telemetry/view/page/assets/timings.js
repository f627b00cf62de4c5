// How long the collector took for each kind of question, as a table.

import { onTimed } from "./api.js";
import { $, el, rows, text } from "./dom.js";
import { duration } from "./format.js";

const kept = 50; // of each question
const times = new Map(); // ms of the last ones, and how many there were, by question

/** setUp notes times, and shows them while the table is open. */
export function setUp() {
  onTimed((question, ms) => {
    const known = times.get(question) ?? { last: [], count: 0 };
    known.last.push(ms);
    if (known.last.length > kept) known.last.shift();
    known.count++;
    times.set(question, known);
    show();
  });
  $("#timings").addEventListener("toggle", show);
}

function show() {
  const box = $("#timings");
  if (!box.open) return;
  rows(
    box.querySelector("tbody"),
    [...times].sort((a, b) => a[0].localeCompare(b[0], "en")),
    ([question]) => question,
    ([question]) => el("tr", {}, el("th", { scope: "row" }, question), [0, 1, 2, 3].map(() => el("td", { class: "n" }))),
    (tr, [, { last, count }]) => {
      const sorted = [...last].sort((a, b) => a - b);
      const figures = [last.at(-1), sorted[Math.floor(sorted.length / 2)], sorted.at(-1)].map((ms) => duration(ms * 1e6));
      [...figures, String(count)].forEach((figure, i) => text(tr.children[1 + i], figure));
    },
  );
}
