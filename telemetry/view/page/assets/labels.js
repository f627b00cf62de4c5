// Where the labels of links stand, and how well a drawing can be read: boxes that cover each other,
// and links that pass beneath boxes, cost.

/** lane is a line beside another one, to its right in the direction from a to b. */
export function lane(a, b, by) {
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const dx = (-(b.y - a.y) / length) * by, dy = ((b.x - a.x) / length) * by;
  return [{ x: a.x + dx, y: a.y + dy }, { x: b.x + dx, y: b.y + dy }];
}

/** lineOf is the middle line of a link; those that join the same two nodes stand beside each other. */
export function lineOf(link, at) {
  const beside = link.twin === 0 ? 0 : (link.twin % 2 ? 1 : -1) * Math.ceil(link.twin / 2) * 26;
  return lane(at.get(link.ends[0]), at.get(link.ends[1]), beside);
}

const places = [0.5, 0.43, 0.57, 0.36, 0.64, 0.3, 0.7, 0.24, 0.76, 0.18, 0.82];

/**
 * labels places a box of the given size on each link, and gives the places, in the links' order, with
 * what the whole drawing costs. boxes are the nodes', as {x, y, w, h} by key.
 */
export function labels(links, at, boxes, size) {
  const lines = links.map((link) => lineOf(link, at));
  const nodes = [...boxes.values()];
  const chosen = links.map(() => null);
  let cost = crowd(nodes) + beneath(links, lines, boxes);
  // The second time, each knows where all others are.
  for (const last of [false, true]) {
    lines.forEach((line, i) => {
      chosen[i] = null;
      const taken = [...nodes, ...chosen.filter(Boolean)];
      chosen[i] = best(line, size, taken, lines, i);
      if (last) cost += chosen[i].cost;
    });
  }
  return { places: chosen, cost };
}

function best([a, b], size, taken, lines, own) {
  let found = null;
  for (const t of places) {
    const box = { x: a.x + (b.x - a.x) * t, y: a.y + (b.y - a.y) * t, w: size.w, h: size.h };
    let cost = Math.abs(t - 0.5) * 60;
    for (const other of taken) cost += overlap(box, other, 3);
    for (let i = 0; i < lines.length; i++) if (i !== own && crosses(lines[i], box)) cost += 40;
    if (!found || cost < found.cost) found = { ...box, cost };
  }
  return found;
}

/** overlap is the area that two boxes share, with a gap kept between them. */
function overlap(p, q, gap) {
  const x = (p.w + q.w) / 2 + gap - Math.abs(p.x - q.x), y = (p.h + q.h) / 2 + gap - Math.abs(p.y - q.y);
  return x > 0 && y > 0 ? x * y : 0;
}

function crowd(nodes) {
  let cost = 0;
  for (let i = 0; i < nodes.length; i++) for (let j = i + 1; j < nodes.length; j++) cost += 3 * overlap(nodes[i], nodes[j], 4);
  return cost;
}

function beneath(links, lines, boxes) {
  let cost = 0;
  for (const [key, box] of boxes) {
    links.forEach((link, i) => {
      if (!link.ends.includes(key) && crosses(lines[i], box)) cost += 2500;
    });
  }
  return cost;
}

/** crosses tells whether a line meets a box (the slab method). */
function crosses([a, b], box) {
  let from = 0, to = 1;
  for (const [p, d, c, r] of [[a.x, b.x - a.x, box.x, box.w / 2], [a.y, b.y - a.y, box.y, box.h / 2]]) {
    if (Math.abs(d) < 1e-9) {
      if (Math.abs(p - c) > r) return false;
      continue;
    }
    const t1 = (c - r - p) / d, t2 = (c + r - p) / d;
    from = Math.max(from, Math.min(t1, t2));
    to = Math.min(to, Math.max(t1, t2));
  }
  return from < to;
}
