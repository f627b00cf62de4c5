// Which switches of a large network are drawn as one: those that their names put together, as pod3-leaf1 and pod3-leaf2, or else
// those that have most of their links among themselves.

export const whole = 800; // nodes that are drawn one by one; beyond, in groups that open
export const most = 200; // nodes that are drawn with groups opened

const natural = (a, b) => a.localeCompare(b, "en", { numeric: true });

/**
 * groups tells the group of each node of a large network, by its key; none: it is drawn alone. nodes: a Map from key to {kind, name};
 * links: with the keys of their ends.
 */
export function groups(nodes, links) {
  const switches = [...nodes.keys()].filter((key) => nodes.get(key).kind !== "host").sort(natural);
  const of = byName(switches, nodes) ?? byLinks(switches, links);
  for (const { ends } of links) { // a host is where its switch is
    for (const i of [0, 1]) {
      if (nodes.get(ends[i])?.kind === "host" && of.has(ends[1 - i])) of.set(ends[i], of.get(ends[1 - i]));
    }
  }
  return of;
}

const fewest = 3; // groups, and members of most of them

/** byName are groups by what is before the first separator of names; null: names do not say. */
function byName(switches, nodes) {
  const of = new Map(), size = new Map();
  for (const key of switches) {
    const [, head] = /^(.+?)[-_.:/]/.exec(nodes.get(key).name) ?? [];
    if (!head) continue;
    of.set(key, head);
    size.set(head, (size.get(head) ?? 0) + 1);
  }
  const largest = Math.max(0, ...size.values());
  if (of.size < switches.length * 0.8 || size.size < fewest || size.size > most / 2 || of.size < size.size * fewest || largest > switches.length / 2) return null;
  return of;
}

/** byLinks are communities: first those of the most links among themselves, then what joins many of these is one of its own. */
function byLinks(switches, links) {
  const index = new Map(switches.map((key, i) => [key, i]));
  let near = switches.map(() => new Map());
  for (const { ends } of links) {
    const [a, b] = ends.map((end) => index.get(end));
    if (a === undefined || b === undefined || a === b) continue;
    near[a].set(b, (near[a].get(b) ?? 0) + 1);
    near[b].set(a, (near[b].get(a) ?? 0) + 1);
  }
  const all = near;
  let group = switches.map((_, i) => i);
  for (let level = 0; level < 8; level++) {
    const joined = join(near);
    const count = Math.max(-1, ...joined) + 1;
    group = group.map((g) => joined[g]);
    if (count === near.length || count <= fewest) break;
    near = shrink(near, joined, count);
  }
  const core = new Set();
  all.forEach((links, i) => {
    const to = new Map();
    for (const [k, n] of links) to.set(group[k], (to.get(group[k]) ?? 0) + n);
    const sum = [...to.values()].reduce((a, b) => a + b, 0);
    if (to.size >= 4 && Math.max(...to.values()) < sum * 0.4) core.add(i);
  });
  const members = new Map();
  switches.forEach((key, i) => {
    const g = core.has(i) ? "core" : group[i];
    members.set(g, [...(members.get(g) ?? []), key]);
  });
  const of = new Map();
  for (const [g, keys] of members) {
    if (keys.length < 2) continue; // alone
    const first = keys[0].replace(/^\S+ /, "");
    for (const key of keys) of.set(key, g === "core" ? `core of ${keys.length}` : `${first} +${keys.length - 1}`);
  }
  return of;
}

/** join moves each node to the neighbouring group where the share of links within groups gains most, until none moves. */
function join(near) {
  const n = near.length;
  const group = near.map((_, i) => i);
  const degree = near.map((to, i) => [...to].reduce((sum, [k, w]) => sum + w * (k === i ? 2 : 1), 0));
  const total = [...degree]; // of a group
  const twice = degree.reduce((a, b) => a + b, 0) || 1;
  for (let round = 0, moved = true; moved && round < 20; round++) {
    moved = false;
    for (let i = 0; i < n; i++) {
      const to = new Map([[group[i], 0]]);
      for (const [k, w] of near[i]) if (k !== i) to.set(group[k], (to.get(group[k]) ?? 0) + w);
      total[group[i]] -= degree[i];
      let best = group[i], gain = to.get(best) - (total[best] * degree[i]) / twice;
      for (const [g, w] of to) {
        const other = w - (total[g] * degree[i]) / twice;
        if (other > gain + 1e-9) [best, gain] = [g, other];
      }
      total[best] += degree[i];
      if (best !== group[i]) {
        group[i] = best;
        moved = true;
      }
    }
  }
  const numbers = new Map();
  return group.map((g) => {
    if (!numbers.has(g)) numbers.set(g, numbers.size);
    return numbers.get(g);
  });
}

/** shrink is the network of the groups. */
function shrink(near, group, count) {
  const next = Array.from({ length: count }, () => new Map());
  near.forEach((to, i) => {
    for (const [k, w] of to) {
      const [a, b] = [group[i], group[k]];
      next[a].set(b, (next[a].get(b) ?? 0) + (a === b ? w / 2 : w));
    }
  });
  return next;
}

/**
 * collapse is what is drawn of a model: its groups but those that are open, in the place of their members, and one link in the place of those between two
 * of these. of has what stands for each node.
 */
export function collapse(model, group, open) {
  const nodes = new Map(), of = new Map(), links = [], joined = new Map();
  for (const [key, node] of model.nodes) {
    const g = group.get(key);
    if (g === undefined || open.has(g)) {
      nodes.set(key, node);
      of.set(key, key);
      continue;
    }
    const at = `group ${g}`;
    if (!nodes.has(at)) nodes.set(at, { kind: "group", name: g, members: [] });
    nodes.get(at).members.push(node);
    of.set(key, at);
  }
  for (const link of model.links) {
    const ends = link.ends.map((end) => of.get(end));
    if (ends[0] === ends[1]) continue;
    if (ends.every((end) => nodes.get(end).kind !== "group")) {
      links.push(link);
      continue;
    }
    const turned = ends[0] > ends[1], key = (turned ? [ends[1], ends[0]] : ends).join("\n");
    let bundle = joined.get(key);
    if (!bundle) {
      const sorted = turned ? [ends[1], ends[0]] : ends;
      bundle = { key, ends: sorted, twin: 0, data: bundleOf(sorted.map((end) => nodes.get(end).name)) };
      joined.set(key, bundle);
      links.push(bundle);
    }
    add(bundle.data, link.data, turned);
  }
  const shape = JSON.stringify([[...nodes.keys()].sort(), links.map((l) => l.key)]);
  return { nodes, links, shape, of };
}

/** sections are the keys of what is drawn: what most others are joined to, the members of each open group, and the rest; each sorted. */
export function sections(keys, shown, group, open) {
  const near = new Map(keys.map((key) => [key, new Set()]));
  for (const { ends: [a, b] } of shown.links) {
    near.get(a)?.add(b);
    near.get(b)?.add(a);
  }
  const of = new Map([["hubs", []], ...[...open].map((name) => [`open ${name}`, []]), ["rest", []]]);
  for (const key of keys) {
    const name = group.get(key);
    of.get(name !== undefined && open.has(name) ? `open ${name}` : near.get(key).size > keys.length / 2 ? "hubs" : "rest").push(key);
  }
  return [...of.values()].filter((list) => list.length);
}

const idle = () => ({ packets_per_second: 0, bits_per_second: 0, utilisation: 0 });

const bundleOf = (names) => ({
  ends: names.map((name) => ({ name })), count: 0, down: 0, up: true, has_rates: false, speed_bps: 0, rates: [idle(), idle()], backlogs: [0, 0], delays: [{}, {}],
});

/** add adds a link to a bundle, of which the use is that of the busiest. */
function add(bundle, link, turned) {
  bundle.count++;
  if (!link.up) bundle.down++;
  bundle.up = bundle.down < bundle.count;
  bundle.has_rates ||= link.has_rates;
  bundle.speed_bps += Number(link.speed_bps ?? 0);
  for (const i of [0, 1]) {
    const from = turned ? 1 - i : i;
    const rate = link.rates[from];
    for (const name of ["packets_per_second", "bits_per_second"]) bundle.rates[i][name] += Number(rate[name] ?? 0);
    bundle.rates[i].utilisation = Math.max(bundle.rates[i].utilisation, Number(rate.utilisation ?? 0));
    bundle.backlogs[i] = Math.max(bundle.backlogs[i], Number(link.backlogs[from] ?? 0));
  }
}
