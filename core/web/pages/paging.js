// Lists that are read page by page: where a list is, the way to the next page and back, and the choice of order and interval.
import { h } from "../ui/dom.js";
import { count, now } from "../ui/format.js";
import { button } from "../ui/parts.js";
import { remembered, step } from "../app/router.js";
import { t } from "../app/text.js";

export const LIMIT = 100; // rows of a page

/**
 * The pages of a list whose answers have a `cursor` if there is a next page. leave(), if given, is called before another page is asked for.
 * `number` counts pages from 1: an answer that was asked for on another page is out of date. `pending` is true from a turn
 * until the caller has the answer and sets it to false; it then releases its table, which until then was drawn with the rows of before.
 */
export function createPaging({ parameters, draw, again, leave }) {
  const cursors = cursorsOf(parameters);

  /** A step in the history. The rows stay until the others come. */
  function turn() {
    if (cursors.at(-1) === null) cursors.length = 1; // a page whose cursor is not known is left to the first
    step({ cursor: cursors.at(-1), page: cursors.length > 1 ? cursors.length : null }, { cursors: [...cursors] });
    paging.pending = true;
    leave?.();
    draw();
    again();
    document.querySelector(".records")?.scrollIntoView();
  }

  const turns = (next) => [
    button(t("pages.first"), () => { cursors.length = 1; turn(); }, { kind: "plain", disabled: cursors.length < 3 }),
    button(t("pages.before"), () => { cursors.pop(); turn(); }, { symbol: "left", disabled: cursors.length < 2 }),
    button(t("pages.next"), () => { cursors.push(next); turn(); }, { after: "right", disabled: !next }),
  ];

  const paging = {
    pending: false,
    get number() { return cursors.length; },
    get cursor() { return cursors.at(-1); },

    /** Which rows of the list this page shows, and of how many, if `total` is a number. rows: how many it has. */
    place(rows, total) {
      if (rows === 0) return "";
      const first = (cursors.length - 1) * LIMIT + 1;
      const last = first + rows - 1;
      const place = { from: count(first), to: count(last) };
      return total ? t("pages.range", { ...place, of: count(Math.max(total, last)) }) : t("pages.place", place);
    },

    /** What lies below the rows: `quantity`, a text, and the buttons. next: the cursor of the answer. */
    view: (quantity, next) => h("nav", { class: "pages", "aria-label": t("pages.label") },
      h("p", { class: "quantity" }, quantity), (next || cursors.length > 1) && turns(next)),
  };
  return paging;
}

/** The cursors of the page that the address names and of those before it, as far as the history's entry remembers them; null begins at the first. */
function cursorsOf({ cursor, page }) {
  const { cursors } = remembered();
  if (!cursor) return [null];
  if (Array.isArray(cursors) && cursors.at(-1) === cursor) return [...cursors];
  const number = /^[1-9]\d{0,3}$/.test(page) ? Math.max(2, Number(page)) : 2;
  return [...Array(number - 1).fill(null), cursor];
}

/** Of all, or of those from a value on; up or down. first(): the value where a list of all becomes one from a value on. show({order, from}) */
export function intervalChoice({ order, from }, first, show) {
  const interval = `${from === null ? "all" : "from"}-${order}`;
  const choose = (event) => {
    const [which, way] = event.target.value.split("-");
    show({ order: way, from: which === "all" ? null : from ?? first() });
  };
  return h("label", { class: "select" }, h("select", { "aria-label": t("filter.interval"), value: interval, on: { change: choose } },
    ["all-asc", "all-desc", "from-asc", "from-desc"].map((value) => h("option", { key: value, value, selected: value === interval }, t(`filter.${value}`)))));
}

/** The value of an interval. kind: of the field; show({from}) gets Unix seconds of a time, else the text. */
export function boundField(kind, from, show) {
  const isTime = kind === "datetime-local";
  const take = ({ target: { value } }) => show({ from: isTime ? (value ? timeOf(value) : nowInSeconds()) : value });
  return h("label", { class: "bound", key: `bound-${kind}` }, h("span", {}, t("filter.value")),
    h("input", { type: kind, step: "1", value: isTime ? localTime(from) : from, on: { change: take } }));
}

export const nowInSeconds = () => Math.round(now());

/** Of Unix seconds: the value of a datetime-local field; empty if that is no time. */
export function localTime(seconds) {
  const date = new Date(Number(seconds) * 1000);
  return Number.isNaN(date.getTime()) ? "" : new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

const firstTimeOf = (value) => Math.round(new Date(value).getTime() / 1000);

/** Of the value of a field: Unix seconds. If the clock repeats an hour, they are of the first one, or of that of `shown`, the time that the field showed. */
export function timeOf(value, shown = null) {
  const first = firstTimeOf(value);
  if (shown === null) return first;
  const later = first + Math.floor(shown) - firstTimeOf(localTime(shown));
  return localTime(later).startsWith(value) ? later : first;
}
