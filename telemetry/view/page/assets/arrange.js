// Which of several layouts of a network is drawn: that which can be read best.

import { labels, lineOf } from "./labels.js";
import { clear, layout, rim, tiers } from "./layout.js";

export const crowded = 120; // nodes; beyond, they are small and nothing is placed by how well it can be read

export const rank = (key) => (key.startsWith("host") ? 1 : 0);

export const heightOf = (key, half) => (rank(key) === 0 ? half.y : Math.min(13, half.y));

const middle = ([a, b]) => ({ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 });

/**
 * arrange places nodes and the labels of their links. keys: of the nodes, sorted; links: as topology.js describes them; half: of a
 * box's size; size: of a label's. It returns the nodes' places by key, those of the labels in the links' order, and the
 * picture's size. labels: all of them are in view, not only that which is pointed at.
 */
export function arrange(keys, links, { width, height, half, size, labels: shown }) {
  const edges = links.map((l) => l.ends);
  const margin = { x: half.x + 6, y: half.y + 12 };
  const box = (key) => ({ w: half.x * 2, h: heightOf(key, half) * 2 });
  if (keys.length > crowded) {
    const at = layout(keys, edges, width, height, margin);
    const full = clear(keys, edges, at, box, width, height);
    return { at, full, places: links.map((link) => middle(lineOf(link, at))) };
  }
  const lowest = lowestOf(keys, edges);
  const rows = (split) => tiers(keys, edges, lowest, width, height, { x: rim, y: margin.y }, half, split);
  const found = [rows(0), rows(1), rows(2), layout(keys, edges, width, height, margin)].filter(Boolean).map((at) => {
    const full = clear(keys, edges, at, box, at.full?.w ?? width, at.full?.h ?? height);
    const boxes = new Map(keys.map((key) => [key, { ...at.get(key), ...box(key) }]));
    const placed = labels(links, at, boxes, size, full, shown);
    const cost = placed.cost * ((full.w * full.h) / (width * height)) * (at.even ? even : 1);
    return { at, full, ...placed, cost };
  });
  return found.reduce((a, b) => (b.cost < a.cost ? b : a));
}

/**
 * grid places nodes in rows, those of one section after those of the other, so that boxes are as large as the picture allows: where names say more than distances. It
 * returns what arrange does.
 */
export function grid(sections, links, { width, height, half }) {
  const cell = { w: half.x * 2 + 10, h: half.y * 2 + 14 };
  const rows = (columns) => sections.flatMap((keys) => Array.from({ length: Math.ceil(keys.length / columns) }, (_, i) => keys.slice(i * columns, (i + 1) * columns)));
  const scale = (columns) => Math.min(width / (columns * cell.w), height / (rows(columns).length * cell.h));
  let columns = 1;
  for (let n = 2; n <= Math.max(...sections.map((keys) => keys.length)); n++) if (scale(n) > scale(columns)) columns = n;
  const all = rows(columns), full = { w: Math.max(width, columns * cell.w), h: Math.max(height, all.length * cell.h) };
  const at = new Map();
  all.forEach((keys, row) => {
    keys.forEach((key, i) => at.set(key, { x: (full.w * (i + 0.5 + (columns - keys.length) / 2)) / columns, y: (full.h * (row + 0.5)) / all.length }));
  });
  return { at, full, places: links.map((link) => middle(lineOf(link, at))) };
}

const even = 0.25; // people know networks of tiers by these, however many of their lines cross

/** lowestOf are the nodes of the lowest row: hosts, and where there are none the switches of the fewest links. */
function lowestOf(keys, edges) {
  const hosts = keys.filter((key) => key.startsWith("host"));
  if (hosts.length) return new Set(hosts);
  const degree = new Map(keys.map((key) => [key, 0]));
  for (const ends of edges) for (const end of ends) if (degree.has(end)) degree.set(end, degree.get(end) + 1);
  const least = Math.min(...degree.values());
  return new Set(keys.filter((key) => degree.get(key) === least));
}
