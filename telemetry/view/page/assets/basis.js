// What an answer rests on, and what was missing from it: one line under each panel, which opens.

import { el, text } from "./dom.js";
import { count, duration, number, percent } from "./format.js";

/** lacks are the sentences about what was missing from an answer. */
export function lacks(answer) {
  const sentences = [];
  for (const m of answer.missing ?? []) {
    if (m.unreached && m.of === "region") {
      sentences.push(`Region ${m.region} is not in this: ${m.unreached}.`);
      continue;
    }
    if (m.unreached) {
      sentences.push(`The ${m.of} of partition ${number(m.instance)} are not in this: ${m.unreached}.`);
      continue;
    }
    const parts = [];
    if (number(m.absent_slices)) parts.push(`${count(number(m.absent_slices), "slice")} absent`);
    if (number(m.partial_slices)) parts.push(`${count(number(m.partial_slices), "slice")} in part`);
    if (number(m.missed_packets)) parts.push(`${count(number(m.missed_packets), "packet")} not measured`);
    if (number(m.lost_records)) parts.push(`${count(number(m.lost_records), "record")} lost on the way`);
    if (number(m.evicted_records)) parts.push(`${count(number(m.evicted_records), "record")} made room for newer ones`);
    if (number(m.skewed_records)) parts.push(`${count(number(m.skewed_records), "record")} left out, as the switch’s clock is ahead`);
    if (number(m.disputed_records)) parts.push(`${count(number(m.disputed_records), "record")} left out, as most switches have another shape or hash`);
    if (number(m.surplus_packets)) parts.push(`${count(number(m.surplus_packets), "packet")} counted that its samples do not account for`);
    if (number(m.excess_packets)) parts.push(`${count(number(m.excess_packets), "packet")} in its samples that it did not count`);
    const which = number(m.instance) ? ` ${number(m.instance)}` : "";
    const where = m.point || `${m.switch ? `Switch ${m.switch}` : "Some switches"}, ${m.of}${which}`;
    sentences.push(`${m.region ? `Region ${m.region}, ` : ""}${where}: ${parts.join(", ") || "incomplete"}.`);
  }
  const absent = answer.absent ?? [];
  const fragments = new Map();
  for (const a of absent) {
    const name = a.fragment || "path unknown";
    fragments.set(name, (fragments.get(name) ?? 0) + 1);
  }
  for (const [name, epochs] of fragments) sentences.push(`${name}: ${count(epochs, "epoch")} absent.`);
  for (const fault of answer.faults ?? []) sentences.push(`${fault}.`);
  if (number(answer.unlocated)) sentences.push(`${count(number(answer.unlocated), "flow")} without a known path left out.`);
  return sentences;
}

/** basis fills a panel's footer. */
export function basis(footer, answer) {
  if (!answer) {
    footer.replaceChildren();
    return;
  }
  const sentences = lacks(answer);
  let details = footer.querySelector("details");
  if (!details) {
    details = el("details", {}, el("summary", {}, el("span", { class: "rest" }), " ", el("span", { class: "lack" })), el("ul"));
    footer.replaceChildren(details);
  }
  const length = number(answer.to_ns) - number(answer.from_ns);
  // The answer network has the switches themselves in the place of their number.
  const switches = Array.isArray(answer.switches) ? answer.switches.length : number(answer.switches);
  const confidence = number(answer.confidence);
  text(
    details.querySelector(".rest"),
    [count(number(answer.records), "record"), count(switches, "switch", "switches"), length > 0 ? duration(length) : "", confidence ? percent(confidence) : ""].filter(Boolean).join(" · "),
  );
  const lack = details.querySelector(".lack");
  text(lack, sentences.length ? `${count(sentences.length, "gap")}` : "nothing missing");
  lack.dataset.kind = sentences.length ? "warn" : "ok";
  const items = confidence ? [`Bounds hold with a confidence of ${percent(confidence)}, over the ${duration(length)} that the records are of.`] : [];
  items.push(...(sentences.length ? sentences.slice(0, 40) : ["All records that are known of were there."]));
  if (sentences.length > 40) items.push(`${sentences.length - 40} more.`);
  const ul = details.querySelector("ul");
  if (ul.dataset.of !== items.join("\n")) {
    ul.dataset.of = items.join("\n");
    ul.replaceChildren(...items.map((s) => el("li", {}, s)));
  }
}
