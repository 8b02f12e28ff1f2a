// What the reader chose, kept by the browser from page to page.

/** Null: never chosen, or not kept. */
export function stored(name) {
  try {
    return localStorage.getItem(`seriatim.${name}`);
  } catch {
    return null;
  }
}

export function store(name, value) {
  try {
    localStorage.setItem(`seriatim.${name}`, value);
  } catch {
    // A browser that keeps nothing: the setting lasts as long as the page.
  }
}
