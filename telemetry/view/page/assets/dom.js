// Making and updating elements. Text goes in as text nodes only, so that no name of a
// switch or a flow is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** el makes an HTML element. Attributes that are null or false are left out. */
export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** svg makes an SVG element. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  set(node, attributes || {});
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

/** set gives attributes their values, and touches only those that differ. */
export function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) {
      if (node.hasAttribute(name)) node.removeAttribute(name);
    } else {
      const text = value === true ? "" : String(value);
      if (node.getAttribute(name) !== text) node.setAttribute(name, text);
    }
  }
  return node;
}

/** text sets a node's text if it differs, so that nothing is drawn or read out again. */
export function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
  return node;
}

export const $ = (selector, root = document) => root.querySelector(selector);

/**
 * rows makes the children of a container those of the items, in their order. A child
 * stays the same element while its key does, and keeps the focus when it moves.
 */
export function rows(container, items, key, make, update) {
  const old = new Map();
  for (const child of [...container.children]) {
    if (child.dataset.key === undefined) child.remove();
    else old.set(child.dataset.key, child);
  }
  const wanted = items.map((item, i) => {
    const k = String(key(item, i));
    let node = old.get(k);
    if (node) old.delete(k);
    else {
      node = make(item, i);
      node.dataset.key = k;
    }
    update?.(node, item, i);
    return node;
  });
  for (const node of old.values()) node.remove();
  wanted.forEach((node, i) => {
    const here = container.children[i];
    if (here !== node) place(container, node, here ?? null);
  });
}

function place(container, node, before) {
  if (node.parentNode === container && container.moveBefore) {
    container.moveBefore(node, before); // keeps focus
    return;
  }
  const focus = node.contains(document.activeElement) ? document.activeElement : null;
  container.insertBefore(node, before);
  focus?.focus({ preventScroll: true });
}

/** state shows a sentence instead of a panel's content. */
export function state(container, sentence, kind = "empty") {
  const only = container.children.length === 1 && container.firstElementChild.matches("p.state") ? container.firstElementChild : null;
  const p = only ?? el("p", { class: "state" });
  p.dataset.kind = kind;
  text(p, sentence);
  if (!only) container.replaceChildren(p);
}

/** say has a screen reader read a sentence out when it comes to it. */
export function say(sentence) {
  text($("#say"), sentence);
}
