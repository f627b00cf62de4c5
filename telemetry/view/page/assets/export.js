// What is seen, as files: pictures as PNG, tables as CSV.

import { el, set } from "./dom.js";

// Presentation that the style sheet gives, and a picture by itself needs.
const styles = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "visibility", "display", "font-family", "font-size", "font-weight", "text-anchor"];

/** png saves a picture of the page, twice as fine as it is seen, on the ground that it has there. */
export async function png(picture, name) {
  const { width, height } = picture.getBoundingClientRect();
  const copy = picture.cloneNode(true);
  const copies = copy.querySelectorAll("*");
  picture.querySelectorAll("*").forEach((from, i) => {
    const style = getComputedStyle(from);
    for (const property of styles) copies[i].setAttribute(property, style.getPropertyValue(property));
  });
  set(copy, { xmlns: "http://www.w3.org/2000/svg", width, height });
  const address = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = el("canvas", { width: Math.round(width * 2), height: Math.round(height * 2) });
    const context = canvas.getContext("2d");
    context.fillStyle = getComputedStyle(picture.closest(".card, dialog") ?? document.body).backgroundColor;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    save(await new Promise((done) => canvas.toBlob(done, "image/png")), `${name}.png`);
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** csv saves a table: its first line names the columns. */
export function csv(lines, name) {
  save(new Blob([lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("")], { type: "text/csv" }), `${name}.csv`);
}

/**
 * cell writes one value as RFC 4180 has it. Names come from senders of records, and a text that begins as a formula does
 * gets an apostrophe, so that spreadsheets read it as text.
 */
export function cell(value) {
  let text = String(value ?? "");
  if (typeof value !== "number" && /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text))) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser has it by then
}

/** buttons adds the exports of a panel to its header: picture gives its drawing, lines its table; null: it has none. */
export function buttons(header, name, picture, lines) {
  const title = header.querySelector("h2, h3").textContent.toLowerCase();
  const button = (kind, action) => {
    const b = el("button", { type: "button", class: "export", title: `Save ${title} as ${kind}` }, el("span", { class: "quiet" }, `Save ${title} as `), kind);
    b.addEventListener("click", action);
    return b;
  };
  const stamp = () => `weir-${name}-${new Date().toISOString().slice(0, 19).replace(/[-:]/g, "")}`;
  header.append(
    el(
      "span",
      { class: "exports" },
      picture && button("PNG", () => picture() && png(picture(), stamp())),
      lines && button("CSV", () => csv(lines(), stamp())),
    ),
  );
}
