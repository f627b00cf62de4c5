// Where the switches stand in the drawing: in tiers above the hosts, as leaves and spines are drawn,
// or so that distances in the picture are as those in the network, by stress majorization. The
// same network always gives the same picture: nothing in it is random, and names, not the order of
// answers, decide.

/**
 * tiers places nodes in rows by their distance from the nodes of the lowest row, in a box. names:
 * sorted; edges: pairs of names; lowest: a Set of names. It returns a Map from name to {x, y}, in
 * pixels, or null if there is no lowest row. margin is kept free at each side: {x, y}. split, 1 or 2, makes two rows
 * of each whose nodes are joined among each other, and says which of these come above the others; then it returns null
 * if there is no such row. A row that is too long for its boxes, which are 2 * half.x wide, makes the picture larger; its size is in the Map's
 * property full. Its property even says that no two nodes of a row are joined.
 */
export function tiers(names, edges, lowest, width, height, margin, half, split = 0) {
  if (!lowest.size || lowest.size === names.length) return null;
  const near = new Map(names.map((name) => [name, []]));
  for (const [a, b] of edges) {
    near.get(a)?.push(b);
    near.get(b)?.push(a);
  }
  const rank = new Map([...lowest].map((name) => [name, 0]));
  for (let queue = [...lowest], q = 0; q < queue.length; q++) {
    for (const next of near.get(queue[q])) {
      if (rank.has(next)) continue;
      rank.set(next, rank.get(queue[q]) + 1);
      queue.push(next);
    }
  }
  for (const name of names) if (!rank.has(name)) rank.set(name, 1);
  if (split && !halve(names, near, rank, split)) return null;
  const order = new Map(names.map((name, i) => [name, i]));
  const rows = [];
  for (const name of names) (rows[rank.get(name)] ??= []).push(name);
  stopovers(names, near, rank, rows, order);
  const x = new Map();
  const spread = (row) => row.forEach((name, i) => x.set(name, (i + 0.5) / row.length));
  rows.forEach(spread);
  // Each row in the order of the middles of its neighbours, up and down a few times; of all that, what has the fewest crossings. At
  // first it is the order of the names, by which pods and racks are often counted.
  let fewest = crossed(rows, near, rank, x), kept = new Map(x);
  for (let sweep = 0; sweep < 6; sweep++) {
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const middle = new Map(row.map((name) => {
        const others = near.get(name).filter((n) => rank.get(n) !== rank.get(name));
        return [name, others.length ? others.reduce((sum, n) => sum + x.get(n), 0) / others.length : x.get(name)];
      }));
      row.sort((a, b) => middle.get(a) - middle.get(b) || order.get(a) - order.get(b));
      spread(row);
    }
    const n = crossed(rows, near, rank, x);
    if (n < fewest) [fewest, kept] = [n, new Map(x)];
  }
  const longest = Math.max(...rows.map((row) => row.length));
  const larger = Math.max(1, (longest * (2 * half.x + 2 * air) + 2 * rim) / width);
  const full = { w: width * larger, h: height * larger };
  const room = { x: full.w - 2 * margin.x, y: full.h - 2 * margin.y };
  // The hosts stand close to their switches.
  const gap = rows.length > 1 ? room.y / (rows.length - 1.3) : 0;
  const at = new Map(names.map((name) => {
    const row = rank.get(name);
    return [name, { x: margin.x + kept.get(name) * room.x, y: full.h - margin.y - (row === 0 ? 0 : row - 0.3) * gap }];
  }));
  return Object.assign(at, { full, even: rows.every((row) => row.every((name) => near.get(name).every((n) => rank.get(n) !== rank.get(name)))) });
}

/** halve gives each second node of a row whose nodes are joined a row above it, and reports whether there is such a row. */
function halve(names, near, rank, split) {
  const upper = new Map(); // of the nodes that are joined to others of their row
  for (const first of names) {
    if (upper.has(first) || rank.get(first) === 0) continue;
    const inRow = (name) => near.get(name).filter((n) => n !== name && rank.get(n) === rank.get(name));
    if (!inRow(first).length) continue;
    upper.set(first, split === 2);
    for (let queue = [first], q = 0; q < queue.length; q++) {
      for (const next of inRow(queue[q])) {
        if (upper.has(next)) continue;
        upper.set(next, !upper.get(queue[q]));
        queue.push(next);
      }
    }
  }
  if (!upper.size) return false;
  const wider = new Set([...upper.keys()].map((name) => rank.get(name)));
  const below = (r) => [...wider].filter((w) => w < r).length;
  for (const [name, r] of [...rank]) rank.set(name, r + below(r) + (upper.get(name) ? 1 : 0));
  return true;
}

/** crossed counts the crossings of lines from row to row. */
function crossed(rows, near, rank, x) {
  let n = 0;
  for (const row of rows) {
    const up = row.flatMap((name) => near.get(name).filter((far) => rank.get(far) > rank.get(name)).map((far) => [x.get(name), x.get(far)]));
    for (let i = 0; i < up.length; i++) for (let j = 0; j < i; j++) if ((up[i][0] - up[j][0]) * (up[i][1] - up[j][1]) < 0) n++;
  }
  return n;
}

/** stopovers gives lines that pass rows a place in each of these, as if a node were there. */
function stopovers(names, near, rank, rows, order) {
  for (const name of names) {
    for (const far of [...near.get(name)]) {
      if (rank.get(far) <= rank.get(name) + 1) continue;
      const chain = [name];
      for (let r = rank.get(name) + 1; r < rank.get(far); r++) {
        const stop = `${name}\n${far}\n${r}`;
        rank.set(stop, r);
        order.set(stop, order.size);
        rows[r].push(stop);
        chain.push(stop);
      }
      chain.push(far);
      const replace = (list, from, to) => list.splice(list.indexOf(from), 1, to);
      replace(near.get(name), far, chain[1]);
      replace(near.get(far), name, chain[chain.length - 2]);
      for (let i = 1; i < chain.length - 1; i++) near.set(chain[i], [chain[i - 1], chain[i + 1]]);
    }
  }
}

/**
 * layout places nodes in a box by their distances. names: sorted; edges: pairs of names. It returns
 * a Map from name to {x, y}, in pixels. margin is kept free at each side: {x, y}.
 */
export function layout(names, edges, width, height, margin) {
  const n = names.length;
  const at = new Map();
  if (n === 0) return at;
  const points = n === 1 ? [{ x: 0, y: 0 }] : arrange(names, edges);
  turn(points, width >= height);
  fit(points, width, height, margin);
  apart(points, width, height, margin);
  names.forEach((name, i) => at.set(name, points[i]));
  return at;
}

const mostForStress = 1000; // beyond, the work grows with the square

function arrange(names, edges) {
  const n = names.length;
  if (n > mostForStress) return grid(n);
  const distance = distances(names, edges);
  const points = scaling(distance, n);
  majorize(points, distance, n);
  return points;
}

function grid(n) {
  const columns = Math.ceil(Math.sqrt(n * 1.6));
  return Array.from({ length: n }, (_, i) => ({ x: i % columns, y: Math.floor(i / columns) }));
}

/** distances counts hops between all pairs; parts that are not joined stand a little further. */
function distances(names, edges) {
  const n = names.length;
  const index = new Map(names.map((name, i) => [name, i]));
  const near = names.map(() => []);
  for (const [a, b] of edges) {
    const i = index.get(a), j = index.get(b);
    if (i === undefined || j === undefined || i === j) continue;
    near[i].push(j);
    near[j].push(i);
  }
  const d = new Float64Array(n * n).fill(-1);
  let longest = 1;
  for (let s = 0; s < n; s++) {
    d[s * n + s] = 0;
    for (let queue = [s], q = 0; q < queue.length; q++) {
      for (const next of near[queue[q]]) {
        if (d[s * n + next] >= 0) continue;
        d[s * n + next] = d[s * n + queue[q]] + 1;
        longest = Math.max(longest, d[s * n + next]);
        queue.push(next);
      }
    }
  }
  const far = Math.min(longest + 1, Math.ceil(Math.sqrt(n)) + 1);
  for (let i = 0; i < d.length; i++) if (d[i] < 0) d[i] = far;
  return d;
}

/** scaling is classical multidimensional scaling: the first places, by power iteration. */
function scaling(distance, n) {
  const b = new Float64Array(n * n);
  const mean = new Float64Array(n);
  let all = 0;
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) mean[i] += distance[i * n + j] ** 2 / n;
    all += mean[i] / n;
  }
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) b[i * n + j] = -0.5 * (distance[i * n + j] ** 2 - mean[i] - mean[j] + all);
  }
  const rounds = n > 400 ? 25 : 80; // majorize does the rest
  const axes = [];
  for (let axis = 0; axis < 2; axis++) {
    // Any start that is not symmetric will do.
    let v = Float64Array.from({ length: n }, (_, i) => Math.cos(1 + axis + i * 2.399963));
    let value = 0;
    for (let round = 0; round < rounds; round++) {
      const w = new Float64Array(n);
      for (let i = 0, at = 0; i < n; i++) {
        let sum = 0;
        for (let j = 0; j < n; j++, at++) sum += b[at] * v[j];
        w[i] = sum;
      }
      for (const known of axes) {
        let dot = 0;
        for (let i = 0; i < n; i++) dot += w[i] * known.v[i];
        for (let i = 0; i < n; i++) w[i] -= dot * known.v[i];
      }
      value = Math.sqrt(w.reduce((sum, x) => sum + x * x, 0));
      if (value < 1e-9) break;
      v = w.map((x) => x / value);
    }
    axes.push({ v, scale: value < 1e-9 ? 0 : Math.sqrt(value) });
  }
  return Array.from({ length: n }, (_, i) => ({
    x: axes[0].v[i] * axes[0].scale,
    // Nodes with the same neighbours have the same place so far; a little moves them apart.
    y: axes[1].v[i] * axes[1].scale + 0.05 * Math.sin(i * 2.399963),
  }));
}

/** majorize moves each node to where its distances to all others fit best, in turns. */
function majorize(p, distance, n) {
  const rounds = n > 400 ? 12 : n > 100 ? 40 : 150;
  const px = Float64Array.from(p, (q) => q.x), py = Float64Array.from(p, (q) => q.y);
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < n; i++) {
      const xi = px[i], yi = py[i];
      let x = 0, y = 0, sum = 0;
      for (let j = 0, at = i * n; j < n; j++, at++) {
        if (i === j) continue;
        const d = distance[at], w = 1 / (d * d);
        const dx = xi - px[j], dy = yi - py[j];
        const pull = d / (Math.sqrt(dx * dx + dy * dy) || 1e-6);
        x += w * (px[j] + dx * pull);
        y += w * (py[j] + dy * pull);
        sum += w;
      }
      px[i] = x / sum;
      py[i] = y / sum;
    }
  }
  for (let i = 0; i < n; i++) p[i] = { x: px[i], y: py[i] };
}

/** turn lays the long axis along that of the box, with the first name at its beginning. */
function turn(p, wide) {
  const n = p.length;
  const cx = p.reduce((s, q) => s + q.x, 0) / n, cy = p.reduce((s, q) => s + q.y, 0) / n;
  let xx = 0, xy = 0, yy = 0;
  for (const q of p) {
    q.x -= cx;
    q.y -= cy;
    xx += q.x * q.x;
    xy += q.x * q.y;
    yy += q.y * q.y;
  }
  const angle = 0.5 * Math.atan2(2 * xy, xx - yy) - (wide ? 0 : Math.PI / 2);
  const c = Math.cos(-angle), s = Math.sin(-angle);
  for (const q of p) {
    const x = q.x * c - q.y * s;
    q.y = q.x * s + q.y * c;
    q.x = x;
  }
  const flipX = p[0].x > 1e-6, flipY = p[0].y > 1e-6;
  for (const q of p) {
    if (flipX) q.x = -q.x;
    if (flipY) q.y = -q.y;
  }
}

function fit(p, width, height, margin) {
  const range = (key) => {
    const values = p.map((q) => q[key]);
    const low = Math.min(...values), high = Math.max(...values);
    return { middle: (low + high) / 2, size: high - low };
  };
  const x = range("x"), y = range("y");
  const room = { x: Math.max(width - 2 * margin.x, 1), y: Math.max(height - 2 * margin.y, 1) };
  let sx = x.size > 0.05 ? room.x / x.size : Infinity, sy = y.size > 0.05 ? room.y / y.size : Infinity;
  const least = Math.min(sx, sy);
  sx = Number.isFinite(least) ? Math.min(sx, least * 2.5) : 1;
  sy = Number.isFinite(least) ? Math.min(sy, least * 2.5) : 1;
  for (const q of p) {
    q.x = width / 2 + (q.x - x.middle) * sx;
    q.y = height / 2 + (q.y - y.middle) * sy;
  }
}

/** apart pushes boxes off each other, as far as the picture has room. */
function apart(p, width, height, margin) {
  if (p.length > 200) return; // clear does it
  const w = 2 * margin.x * 0.92, h = 2 * margin.y * 1.1;
  for (let round = 0; round < 60; round++) {
    let moved = false;
    for (let i = 0; i < p.length; i++) {
      for (let j = i + 1; j < p.length; j++) {
        const dx = p[j].x - p[i].x, dy = p[j].y - p[i].y;
        const ox = w - Math.abs(dx), oy = h - Math.abs(dy);
        if (ox <= 0.5 || oy <= 0.5) continue;
        moved = true;
        // Where a row is too full to be pushed along, it becomes two.
        if (ox / w < oy / h && round < 20) {
          const push = (ox / 2) * (dx < 0 ? -1 : 1);
          p[i].x -= push;
          p[j].x += push;
        } else {
          const push = (oy / 2) * (dy < 0 || (dy === 0 && i % 2) ? -1 : 1);
          p[i].y -= push;
          p[j].y += push;
        }
      }
    }
    for (const q of p) {
      q.x = Math.min(Math.max(q.x, margin.x), width - margin.x);
      q.y = Math.min(Math.max(q.y, margin.y), height - margin.y);
    }
    if (!moved) return;
  }
}

/**
 * clear moves nodes until no line crosses a box that it does not end in, and no two boxes overlap. names: of the nodes;
 * lines: pairs of names; at: a Map from name to {x, y}, which it changes; sizeOf: the width and height of a node's
 * box. Where the picture is too small for that it grows, and fits its viewer by its scale: it returns its size {w, h}.
 */
export function clear(names, lines, at, sizeOf, width, height) {
  const points = names.map((name) => at.get(name)), sizes = names.map(sizeOf);
  const index = new Map(names.map((name, i) => [name, i]));
  const ends = lines.map(([a, b]) => [index.get(a), index.get(b)]).filter(([a, b]) => a !== undefined && b !== undefined && a !== b);
  const size = { w: width, h: height };
  for (let grown = 0; grown < 40; grown++) {
    const kept = points.map((p) => ({ ...p }));
    for (let round = 0; round < 60; round++) {
      const moved = asunder(points, sizes) + aside(points, sizes, ends);
      keep(points, sizes, size);
      if (!moved) return size;
      if (moved <= points.length / 4 || round < (points.length > 200 ? 0 : 10)) continue;
      // Far too small. In a large network so many moves would leave nothing of the layout: the next size begins with it again.
      if (points.length > 200) points.forEach((p, i) => Object.assign(p, kept[i]));
      break;
    }
    // More room, with boxes as large as they were, leaves each line more beside them.
    for (const key of ["w", "h"]) size[key] *= 1.15;
    for (const p of points) {
      p.x *= 1.15;
      p.y *= 1.15;
    }
  }
  return size;
}

const air = 5; // between boxes, and between a box and a line, in pixels

/** asunder pushes boxes that overlap off each other along the shorter way, and counts them. */
function asunder(p, sizes) {
  let moved = 0;
  const order = p.map((_, i) => i).sort((a, b) => p[a].x - p[b].x || a - b);
  const widest = Math.max(...sizes.map((s) => s.w));
  for (let k = 0; k < order.length; k++) {
    for (let m = k + 1; m < order.length; m++) {
      const i = order[k], j = order[m];
      if (p[j].x - p[i].x > widest + 2 * air + 60) break; // moves of this round reach that far at most
      const w = (sizes[i].w + sizes[j].w) / 2 + air, h = (sizes[i].h + sizes[j].h) / 2 + air;
      const dx = p[j].x - p[i].x, dy = p[j].y - p[i].y;
      const ox = w - Math.abs(dx), oy = h - Math.abs(dy);
      if (ox <= 0 || oy <= 0) continue;
      moved++;
      if (ox < oy) {
        const push = (ox / 2 + 0.5) * (dx < 0 || (dx === 0 && i > j) ? -1 : 1);
        p[i].x -= push;
        p[j].x += push;
      } else {
        const push = (oy / 2 + 0.5) * (dy < 0 || (dy === 0 && i > j) ? -1 : 1);
        p[i].y -= push;
        p[j].y += push;
      }
    }
  }
  return moved;
}

/** aside moves boxes off the lines of others, at right angles to these, and counts them. */
function aside(p, sizes, ends) {
  let moved = 0;
  const order = p.map((_, i) => i).sort((a, b) => p[a].x - p[b].x || a - b);
  const from = order.map((i) => p[i].x); // at the beginning of the round
  const widest = Math.max(...sizes.map((s) => s.w)) / 2 + air + 60; // moves of this round reach that far at most
  for (const [a, b] of ends) {
    const left = Math.min(p[a].x, p[b].x), right = Math.max(p[a].x, p[b].x);
    const top = Math.min(p[a].y, p[b].y), bottom = Math.max(p[a].y, p[b].y);
    const length = Math.hypot(p[b].x - p[a].x, p[b].y - p[a].y);
    if (length < 1e-6) continue;
    const nx = -(p[b].y - p[a].y) / length, ny = (p[b].x - p[a].x) / length;
    for (let k = firstAtLeast(from, left - widest); k < order.length && from[k] <= right + widest; k++) {
      const i = order[k];
      if (i === a || i === b) continue;
      const w = sizes[i].w / 2 + air, h = sizes[i].h / 2 + air;
      if (p[i].x + w < left || p[i].x - w > right || p[i].y + h < top || p[i].y - h > bottom) continue;
      const off = (p[i].x - p[a].x) * nx + (p[i].y - p[a].y) * ny;
      const reach = Math.abs(nx) * w + Math.abs(ny) * h; // of the box, across the line
      const along = ((p[i].x - p[a].x) * (p[b].x - p[a].x) + (p[i].y - p[a].y) * (p[b].y - p[a].y)) / (length * length);
      if (Math.abs(off) >= reach || along <= 0 || along >= 1) continue;
      moved++;
      const side = off < 0 || (off === 0 && i % 2) ? -1 : 1;
      const push = (reach - Math.abs(off)) * side;
      p[i].x += nx * push * 0.7;
      p[i].y += ny * push * 0.7;
      for (const end of [a, b]) {
        p[end].x -= nx * push * 0.35;
        p[end].y -= ny * push * 0.35;
      }
    }
  }
  return moved;
}

/** firstAtLeast is the index of the first of sorted numbers that is x or more. */
function firstAtLeast(sorted, x) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

export const rim = 12; // kept free at the edges, for the numbers of hops at the boxes' corners, in pixels

function keep(p, sizes, size) {
  p.forEach((q, i) => {
    q.x = Math.min(Math.max(q.x, sizes[i].w / 2 + rim), size.w - sizes[i].w / 2 - rim);
    q.y = Math.min(Math.max(q.y, sizes[i].h / 2 + rim), size.h - sizes[i].h / 2 - rim);
  });
}
