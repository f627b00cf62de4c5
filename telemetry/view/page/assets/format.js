// Numbers as text: three digits, units of the International System.

const steps = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** digits writes a number with three significant digits, without a unit. */
export function digits(x) {
  const a = Math.abs(x);
  if (!Number.isFinite(x)) return "–";
  if (a < 1000 && Number.isInteger(x)) return String(x);
  if (a >= 100) return x.toFixed(0);
  if (a >= 10) return x.toFixed(1);
  if (a >= 0.01 || a === 0) return trim(x.toFixed(2));
  return x.toExponential(1);
}

const trim = (s) => (s.includes(".") ? s.replace(/0+$/, "").replace(/\.$/, "") : s);

/** scaled gives a number and the prefix that makes it short. */
export function scaled(x) {
  const a = Math.abs(x);
  for (const [step, prefix] of steps) {
    if (a >= step * 0.9995) return [digits(x / step), prefix];
  }
  return [digits(x), ""];
}

/** si writes a number with its prefix and unit, as "12.3 Mbit/s". */
export function si(x, unit = "") {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const [value, prefix] = scaled(x);
  const tail = unit.startsWith("packet") && prefix ? `${prefix}\u00a0${unit}` : prefix + unit;
  return tail ? `${value}\u00a0${tail}` : value;
}

/** percent writes a share. */
export function percent(x) {
  if (!Number.isFinite(x)) return "–";
  const p = x * 100;
  if (p > 0 && p < 0.1) return "<0.1\u00a0%";
  return `${p >= 10 ? p.toFixed(0) : trim(p.toFixed(1))}\u00a0%`;
}

/** duration writes nanoseconds. */
export function duration(ns) {
  if (!Number.isFinite(ns)) return "–";
  const a = Math.abs(ns);
  for (const [step, unit] of [[3600e9, "h"], [60e9, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (a >= step * 0.9995) return `${digits(ns / step)}\u00a0${unit}`;
  }
  return `${digits(ns)}\u00a0ns`;
}

/** clock writes a moment, in ms of UTC, as the time of the day here. */
export function clock(ms) {
  const d = new Date(ms);
  const two = (n) => String(n).padStart(2, "0");
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** count writes a whole number with its noun. */
export function count(n, noun, plural = noun + "s") {
  return `${grouped(n)} ${n === 1 ? noun : plural}`;
}

/** grouped writes a whole number with thin spaces between its thousands. */
export function grouped(n) {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** list joins names by commas, the last by "and"; beyond most, it tells how many more. */
export function list(names, most = 6) {
  const shown = names.length > most ? [...names.slice(0, most), `${names.length - most} more`] : names;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

/** number reads what the API writes: 64-bit integers are strings in its JSON. */
export const number = (x) => (x === undefined || x === null ? 0 : Number(x));

/**
 * between writes the bounds of a value: "exact" if they are one, a share of the value if they are too
 * close to tell apart.
 */
export function between(b, format) {
  const low = number(b.low), high = number(b.high);
  if (low === high) return "exact";
  const texts = [format(low), format(high)];
  const value = Math.abs(number(b.value));
  if (texts[0] === texts[1] && value > 0) return `±${((Math.max(high - value, value - low) / value) * 100).toPrecision(1)}\u00a0%`;
  return `${texts[0]} to ${texts[1]}`;
}
