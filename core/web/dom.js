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

function reconcile(parent, children) {
  const reuse = matcher(parent);
  const nodes = children.map((child) => update(reuse(child), child, parent.namespaceURI));
  const keep = new Set(nodes);
  for (const node of [...parent.childNodes]) if (!keep.has(node)) node.remove();
  let next = parent.firstChild;
  for (const node of nodes) {
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
}

/** A function that gives each child the old node it may take over: the same key, or the next one of the same kind. */
function matcher(parent) {
  const kinds = new Map();
  for (const node of parent.childNodes) {
    const kind = node.nodeType === Node.TEXT_NODE ? "#text" : kindOf(drawn.get(node) || { tag: "#foreign", attributes: {} });
    if (!kinds.has(kind)) kinds.set(kind, []);
    kinds.get(kind).push(node);
  }
  return (child) => kinds.get(child.tag ? kindOf(child) : "#text")?.shift();
}

const kindOf = ({ tag, attributes }) => `${tag} ${attributes.key ?? ""}`;

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
  for (const name of Object.keys({ ...before, ...after })) {
    if (name === "key" || name === "made") continue;
    else if (name === "on") updateHandlers(node, before.on, after.on);
    else if (name === "style") for (const [property, value] of Object.entries(after.style || {})) node.style.setProperty(property, value);
    else if (before[name] !== after[name]) updateAttribute(node, name, after[name]);
  }
}

function updateHandlers(node, before = {}, after = {}) {
  for (const event of Object.keys({ ...before, ...after })) node[`on${event}`] = after[event] || null;
}

function updateAttribute(node, name, value) {
  if (PROPERTIES.has(name)) node[name] = value ?? "";
  else if (value == null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}
