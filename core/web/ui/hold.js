// Whether a reader is at something. What is under the pointer, or has the focus, does not move because of a refresh: one would press what slid there.

const REST = 60_000; // ms without a move after which a pointer that was left lying holds nothing any more
let moved = Date.now();
for (const own of ["pointermove", "pointerdown", "keydown", "wheel"]) addEventListener(own, () => { moved = Date.now(); }, { passive: true, capture: true });

export const attended = (node) => Boolean(node?.matches(":hover, :focus-within")) && Date.now() - moved < REST;

/**
 * The rows as they stood, [{row, gone, late}]: those that are gone keep their places, what is new comes last, `late`, and goes when it is gone: else a busy
 * list would grow for as long as one looks at it. `before` is what this gave the last time.
 */
export function inPlace(rows, before, key) {
  const left = new Map(rows.map((row) => [key(row), row]));
  const stood = before.map(({ row, late }) => {
    const name = key(row);
    const now = left.get(name);
    left.delete(name);
    return { row: now ?? row, gone: !now, late };
  });
  return [...stood.filter(({ gone, late }) => !gone || !late), ...[...left.values()].map((row) => ({ row, gone: false, late: true }))];
}
