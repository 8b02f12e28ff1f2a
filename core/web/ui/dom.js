// Draws descriptions of elements into the page in place: what stays the same keeps its node, focus, scroll and selection.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "selected"]); // what a reader changes is no attribute any more
let born = []; // [made, node] of this drawing, called when all of it is in the page
const drawn = new WeakMap(); // node -> the description it was last drawn from

/**
 * A description of an element. Attributes: `key` (identity among siblings), `made` (called once with the node, when it is in the page), `on` (handlers by
 * event), `style` (properties), the rest by name; false, null and undefined leave an attribute away. Children: texts, numbers, descriptions,
 * nested lists; all that is text becomes a text node and never markup.
 */
export function h(tag, attributes, ...children) {
  return { tag, attributes: attributes || {}, children: children.flat(Infinity).filter((child) => child != null && child !== false) };
}

/** Makes the children of `parent` what the descriptions say. */
export function render(parent, children) {
  const focused = document.activeElement;
  reconcile(parent, [children].flat(Infinity).filter((child) => child != null && child !== false));
  const fresh = born;
  born = [];
  for (const [made, node] of fresh) made(node);
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

/** As long as the children are of the kinds that the nodes are, each takes over the next one: in a table that holds still, all do. */
function reconcile(parent, children) {
  let next = parent.firstChild;
  let place = 0;
  while (next && place < children.length && kindOf(children[place]) === kindOfNode(next)) {
    update(next, children[place], null);
    next = next.nextSibling;
    place += 1;
  }
  if (next || place < children.length) rearrange(parent, next, place ? children.slice(place) : children);
}

/** Makes what follows from `next` on what the descriptions say. */
function rearrange(parent, next, children) {
  const old = [];
  for (let node = next; node; node = node.nextSibling) old.push(node);
  const reuse = matcher(old);
  const nodes = children.map((child) => update(reuse(child), child, parent.namespaceURI));
  const keep = new Set(nodes);
  let from = old.find((node) => keep.has(node)) ?? null;
  for (const node of old) if (!keep.has(node)) node.remove();
  for (const node of nodes) {
    if (node === from) from = from.nextSibling;
    else parent.insertBefore(node, from);
  }
}

/** A function that gives each child the old node it may take over: the same key, or the next one of the same kind. */
function matcher(old) {
  const kinds = new Map();
  for (const node of old) {
    const kind = kindOfNode(node);
    if (!kinds.has(kind)) kinds.set(kind, []);
    kinds.get(kind).push(node);
  }
  return (child) => kinds.get(kindOf(child))?.shift();
}

const kindOf = ({ tag, attributes }) => (!tag ? "#text" : attributes.key === undefined ? tag : `${tag} ${attributes.key}`);

function kindOfNode(node) {
  if (node.nodeType === Node.TEXT_NODE) return "#text";
  const description = drawn.get(node);
  return description ? kindOf(description) : "#foreign";
}

function update(node, child, namespace) {
  if (!child.tag) return updateText(node, String(child));
  const target = node || document.createElementNS(child.tag === "svg" ? SVG : namespace || null, child.tag);
  const before = drawn.get(target)?.attributes || {};
  if (before !== child.attributes) updateAttributes(target, before, child.attributes);
  drawn.set(target, child);
  reconcile(target, child.children);
  if (!node && child.attributes.made) born.push([child.attributes.made, target]);
  return target;
}

function updateText(node, text) {
  if (!node) return document.createTextNode(text);
  if (node.nodeValue !== text) node.nodeValue = text;
  return node;
}

function updateAttributes(node, before, after) {
  for (const name in after) if (before[name] !== after[name]) updateOne(node, name, before[name], after[name]);
  for (const name in before) if (!(name in after)) updateOne(node, name, before[name]);
}

function updateOne(node, name, before, after) {
  if (name === "key" || name === "made") return;
  if (name === "on") updateHandlers(node, before, after);
  else if (name === "style") updateStyle(node, before, after);
  else updateAttribute(node, name, after);
}

function updateStyle(node, before = {}, after = {}) {
  for (const [property, value] of Object.entries(after)) if (before[property] !== value) node.style.setProperty(property, value);
}

function updateHandlers(node, before = {}, after = {}) {
  for (const event of Object.keys({ ...before, ...after })) node[`on${event}`] = after[event] || null;
}

function updateAttribute(node, name, value) {
  if (PROPERTIES.has(name)) node[name] = value ?? "";
  else if (value == null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}
