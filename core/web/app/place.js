// Where the reader is on a page: how far it is scrolled and what has the focus. Kept for each entry of the browser's history, so that Back and a
// reload return to it; the browser's own restoring comes before the page has its rows.

const KEPT = "seriatim.places";
const MOST = 100; // entries of the history
const FOCUSABLE = "a[href], button, input, select, pre[tabindex], .row";
const places = read(); // entry -> {scroll, focus: {key, tag, label} or null}

function read() {
  try {
    return new Map(JSON.parse(sessionStorage.getItem(KEPT)) ?? []);
  } catch {
    return new Map();
  }
}

/** Keeps where the reader is now, under the name of the entry that is left. */
export function keepPlace(entry) {
  places.delete(entry);
  places.set(entry, { scroll: scrollY, focus: described(document.activeElement) });
  if (places.size > MOST) places.delete(places.keys().next().value);
}

/** For a reload, which ends this script. */
export function storePlaces() {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify([...places]));
  } catch {
    // A browser that keeps nothing: a reload begins at the top.
  }
}

/** {scroll, focus} that was kept of that entry, or null. */
export const placeOf = (entry) => places.get(entry) ?? null;

/** Scrolls there and gives the focus back. draw() draws the rows in sight; the heights of the others are known only once some are drawn. */
export function returnTo({ scroll, focus }, draw) {
  for (let round = 0; round < 2; round += 1) {
    scrollTo(0, scroll);
    draw();
  }
  (found(focus) ?? document.querySelector("h1"))?.focus({ preventScroll: true });
}

const scopeOf = (element) => element.closest("[data-key]");

/** What an element is called within its row or group; a row itself has no name, as its figures change. */
const labelOf = (element) =>
  (scopeOf(element) === element ? "" : element.getAttribute("href") ?? element.getAttribute("aria-label") ?? element.innerText.trim());

function described(element) {
  if (!element?.matches(FOCUSABLE)) return null;
  return { key: scopeOf(element)?.dataset.key ?? null, tag: element.localName, label: labelOf(element) };
}

function found(focus) {
  if (!focus) return null;
  const scope = focus.key === null ? document.body : [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === focus.key);
  const all = scope ? [scope, ...scope.querySelectorAll(FOCUSABLE)] : [];
  return all.find((element) => element.localName === focus.tag && labelOf(element) === focus.label);
}
