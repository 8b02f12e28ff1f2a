// Which page an address means, and how one gets from page to page without loading all again.
import { MOUNT, address } from "./api.js";
import { decoded } from "./format.js";

/** {path, parameters} of the current address; "" is the overview. */
export function here() {
  const path = location.href.startsWith(MOUNT) ? location.href.slice(MOUNT.length).split(/[?#]/)[0] : "";
  const pairs = location.search.slice(1).split("&").filter(Boolean).map((pair) => pair.split("="));
  return { path, parameters: Object.fromEntries(pairs.map(([name, ...value]) => [name, decoded(value.join("="))])) };
}

/** Calls `changed` after every move, also back and forth. */
export function startRouter(changed) {
  addEventListener("popstate", () => changed(false));
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (link.target || link.hash || !link.href.startsWith(MOUNT) || link.href.startsWith(`${MOUNT}api/`)) return;
    event.preventDefault();
    move(link.href);
  });
  move = (url, replace = false) => {
    history[replace ? "replaceState" : "pushState"](null, "", url);
    changed(true);
  };
}

let move = () => {};

export const go = (path, parameters) => move(address(path, parameters));
/** Another view of the same page: no step in the history. */
export const replace = (path, parameters) => move(address(path, parameters), true);
