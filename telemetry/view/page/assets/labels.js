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
const asides = [0, 24, -24, 42, -42]; // across the line, in pixels: where boxes are too near for a label between them

/**
 * labels places a box of the given size on each link, and gives the places, in the links' order, with
 * what the whole drawing costs. boxes are the nodes', as {x, y, w, h} by key; full is the picture's size. shown: all labels are in view at a time,
 * so those that cannot be placed well cost.
 */
export function labels(links, at, boxes, size, full, shown) {
  const lines = links.map((link) => lineOf(link, at));
  const nodes = [...boxes.values()];
  const chosen = links.map(() => null);
  let cost = crowd(nodes) + beneath(links, lines, boxes) + crossings(lines) * 60;
  // The second time, each knows where all others are.
  for (const last of [false, true]) {
    lines.forEach((line, i) => {
      chosen[i] = null;
      const taken = shown ? [...nodes, ...chosen.filter(Boolean)] : nodes;
      chosen[i] = best(line, size, full, taken, lines, i);
      if (last && shown) cost += chosen[i].cost;
    });
  }
  return { places: chosen, cost };
}

function best([a, b], size, full, taken, lines, own) {
  let found = null;
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  for (const aside of asides) {
    const dx = (-(b.y - a.y) / length) * aside, dy = ((b.x - a.x) / length) * aside;
    for (const t of places) {
      const box = { x: a.x + (b.x - a.x) * t + dx, y: a.y + (b.y - a.y) * t + dy, w: size.w, h: size.h };
      let cost = Math.abs(t - 0.5) * 60 + Math.abs(aside) * 4 + beyond(box, full) * 20;
      for (const other of taken) cost += overlap(box, other, 3);
      for (let i = 0; i < lines.length; i++) if (i !== own && crosses(lines[i], box)) cost += 40;
      if (!found || cost < found.cost) found = { ...box, cost };
    }
  }
  return found;
}

/** beyond is how far a box reaches out of the picture. */
function beyond(box, full) {
  return Math.max(0, box.w / 2 - box.x, box.x + box.w / 2 - full.w) + Math.max(0, box.h / 2 - box.y, box.y + box.h / 2 - full.h);
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

/** crossings counts the pairs of lines that meet elsewhere than at a node that both have. */
function crossings(lines) {
  const side = (p, q, r) => Math.sign((q.x - p.x) * (r.y - p.y) - (q.y - p.y) * (r.x - p.x));
  const near = (p, q) => Math.hypot(p.x - q.x, p.y - q.y) < 30; // links side by side end beside each other
  let n = 0;
  for (let i = 0; i < lines.length; i++) {
    for (let j = 0; j < i; j++) {
      const [a, b] = lines[i], [c, d] = lines[j];
      if (near(a, c) || near(a, d) || near(b, c) || near(b, d)) continue;
      if (side(a, b, c) !== side(a, b, d) && side(c, d, a) !== side(c, d, b)) n++;
    }
  }
  return n;
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
