// Which page an address means, and how one gets from page to page without loading all again, and back to the same place.
import { MOUNT, address } from "./api.js";
import { decoded } from "../ui/format.js";
import { keepPlace, placeOf, storePlaces } from "./place.js";

/** {path, parameters} of the current address; "" is the overview. */
export function here() {
  const path = location.href.startsWith(MOUNT) ? location.href.slice(MOUNT.length).split(/[?#]/)[0] : "";
  const pairs = location.search.slice(1).split("&").filter(Boolean).map((pair) => pair.split("="));
  return { path, parameters: Object.fromEntries(pairs.map(([name, ...value]) => [name, decoded(value.join("="))])) };
}

let made = 0;
const newEntry = () => `${Date.now()} ${(made += 1)}`;
let entry = null; // the name of the history's current entry: what popstate tells is the state of the next one

/** Calls changed("moved") after every move, changed("returned", place) after Back, Forward and a reload. */
export function startRouter(changed) {
  history.scrollRestoration = "manual";
  enter(history.state?.entry ?? newEntry());
  addEventListener("popstate", ({ state }) => {
    keepPlace(entry);
    if (!state) return enter(newEntry()); // a link within the page
    entry = state.entry;
    changed("returned", placeOf(entry) ?? { scroll: 0, focus: null });
  });
  addEventListener("pagehide", () => {
    keepPlace(entry);
    storePlaces();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (link.target || link.hash || !link.href.startsWith(MOUNT) || link.href.startsWith(`${MOUNT}api/`)) return;
    event.preventDefault();
    move(link.href);
  });
  move = (url, inPlace = false) => {
    if (inPlace) history.replaceState({ entry }, "", url);
    else push(url);
    changed("moved");
  };
  changed("returned", placeOf(entry));
}

function enter(name) {
  entry = name;
  history.replaceState({ ...history.state, entry }, "");
}

function push(url, more = {}) {
  keepPlace(entry);
  entry = newEntry();
  history.pushState({ ...more, entry }, "", url);
}

let move = () => {};

/** Another page. */
export const go = (path, parameters) => move(address(path, parameters));
/** Another view of the same page, made anew: no step in the history. */
export const replace = (path, parameters) => move(address(path, parameters), true);

const changedAddress = (changes) => {
  const { path, parameters } = here();
  return address(path, { ...parameters, ...changes });
};

/** Writes what the page shows into its address, so that Back and a reload show it again; null takes a parameter away. The page goes on as it is. */
export const note = (changes) => history.replaceState(history.state, "", changedAddress(changes));
/** The same as a step in the history, with what else its entry is to remember. */
export const step = (changes, remembered) => push(changedAddress(changes), remembered);
/** What the current entry remembers. */
export const remembered = () => history.state ?? {};
