// What is typed into the search: a flow, or terms that flows have to match, with what to complete them by.

import { el } from "./dom.js";

/** The fields of a question that a filter may have, in the order in which it is written. */
export const fields = ["prefix", "src", "dst", "proto", "port"];

const protocols = ["icmp", "icmpv6", "sctp", "tcp", "udp"];
const address = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f:]*:[0-9a-f:.]*:[0-9a-f:.]*)(?:\/\d{1,3})?$/i;
const port = /^\d{1,5}$/;

/**
 * parse reads a search: {flow} for a flow, {filter} with fields of a question, or {fault}, a sentence.
 * Terms are addresses and prefixes, of either end or after src or dst, ports (53, :53, port 53) and protocols.
 */
export function parse(text) {
  text = text.trim();
  if (text.includes(">")) return { flow: text };
  const filter = {};
  const words = text.split(/[\s,=]+|\band\b/i).filter(Boolean);
  for (let i = 0; i < words.length; i++) {
    let [name, value] = ["", words[i]];
    const word = value.toLowerCase();
    if (["src", "from", "dst", "to", "port", "proto", "net", "host"].includes(word)) {
      name = { from: "src", to: "dst", net: "prefix", host: "prefix" }[word] ?? word;
      value = words[++i] ?? "";
    } else if (address.test(value)) name = "prefix";
    else if (port.test(value.replace(/^:/, ""))) name = "port";
    else if (protocols.includes(word)) name = "proto";
    value = value.toLowerCase().replace(/^:(?=\d)/, "");
    if (!name || !right(name, value)) {
      return { fault: `“${words[i] ?? word}” is no address, prefix, port or protocol. A flow: write it as 10.0.0.1:1234 > 10.0.0.2:80 udp. Some flows: 10.0.0.0/8 udp 53.` };
    }
    if (name in filter) return { fault: `There are two terms of ${name}: flows are searched for by one. For both ends, write src and dst.` };
    filter[name] = value;
  }
  return { filter };
}

function right(name, value) {
  switch (name) {
    case "port":
      return port.test(value) && Number(value) < 65536;
    case "proto":
      return protocols.includes(value) || (/^\d{1,3}$/.test(value) && Number(value) < 256);
    default:
      return address.test(value);
  }
}

/** write is the text of a filter, as parse reads it. */
export function write(filter) {
  return fields
    .filter((f) => filter[f])
    .map((f) => (f === "src" || f === "dst" || f === "port" || (f === "proto" && !protocols.includes(filter[f])) ? `${f} ${filter[f]}` : filter[f]))
    .join(" ");
}

/** ends takes a flow's name apart: {src, srcPort, dst, dstPort, proto}; null: it is written in another form, as one with prefixes. */
export function ends(flow) {
  const parts = /^(\S+) > (\S+)(?: (\S+))?/.exec(flow);
  if (!parts) return null;
  const end = (text) => {
    const m = /^\[(.+)\]:(\d+)$/.exec(text) ?? /^([^:]+):(\d+)$/.exec(text);
    return m ? [m[1], m[2]] : [text.replace(/^\[|\]$/g, ""), ""];
  };
  const [[src, srcPort], [dst, dstPort]] = [end(parts[1]), end(parts[2])];
  return { src, srcPort, dst, dstPort, proto: parts[3] ?? "" };
}

/** networkOf is the /24 of an IPv4 address, or the first half of an IPv6 address. */
export function networkOf(text) {
  const v4 = /^(\d+\.\d+\.\d+)\.\d+$/.exec(text);
  if (v4) return `${v4[1]}.0/24`;
  if (!text.includes(":") || text.includes("/")) return text;
  const [head, tail = ""] = text.split("::");
  const left = head ? head.split(":") : [], right = tail ? tail.split(":") : [];
  const gap = text.includes("::") ? Array(Math.max(8 - left.length - right.length, 0)).fill("0") : [];
  return `${[...left, ...gap, ...right].slice(0, 4).join(":")}::/64`;
}

const most = 12; // completions

/** complete fills a datalist with what the last term of a text may become: known flows, and their addresses, networks, ports and protocols. */
export function complete(datalist, text, flows) {
  const [, head, last] = /^(.*?)(\S*)$/s.exec(text);
  const found = new Map(); // by what is completed, with how much it is of
  const offer = (value, what, size) => {
    if (value && value !== last && value.toLowerCase().includes(last.toLowerCase())) {
      const known = found.get(value) ?? { what, size: 0 };
      known.size += size;
      found.set(value, known);
    }
  };
  for (const f of flows) {
    const e = ends(f.flow);
    if (!e) continue;
    const size = Number(f.value);
    for (const a of [e.src, e.dst]) {
      offer(a, "address", size);
      offer(networkOf(a), "network", size);
    }
    if (e.proto) offer(e.proto, "protocol", size);
    if (/^:?\d+$/.test(last)) for (const p of [e.srcPort, e.dstPort]) offer(last.startsWith(":") && p ? `:${p}` : p, "port", size);
    if (!head && last.length > 3) offer(f.flow, "flow", size);
  }
  if (!last) for (const word of ["src", "dst", "port"]) offer(word, "term", 0);
  const options = [...found].sort((a, b) => Number(!a[0].startsWith(last)) - Number(!b[0].startsWith(last)) || b[1].size - a[1].size).slice(0, most);
  datalist.replaceChildren(...options.map(([value, { what }]) => el("option", { value: head + value, label: what })));
}

/** completeNames fills a datalist with names that have the text in them. */
export function completeNames(datalist, text, names) {
  const lower = text.toLowerCase();
  const options = names.filter((name) => name !== text && name.toLowerCase().includes(lower));
  options.sort((a, b) => Number(!a.toLowerCase().startsWith(lower)) - Number(!b.toLowerCase().startsWith(lower)) || a.localeCompare(b, "en", { numeric: true }));
  datalist.replaceChildren(...options.slice(0, most).map((value) => el("option", { value })));
}
