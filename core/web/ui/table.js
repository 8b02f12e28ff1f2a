// A table that is redrawn in place: rows that hold still under the pointer, only those in sight, arrow keys, selection.
import { h } from "./dom.js";
import { attended, inPlace } from "./hold.js";
import { icon } from "./parts.js";
import { here, note } from "../app/router.js";
import { t } from "../app/text.js";

const WHOLE = 150; // up to so many rows are all in the page
let tables = 0;
const BEYOND = 6; // rows drawn above and below what is in sight

/**
 * columns: {id, label, hint, value(row) to sort by, show(row), number, wide, class}; without value a column cannot be sorted.
 * key(row) names a row. kind: a class of its own. sort: {by, down} where the address names none, or none; with
 * a value(row) of its own it is by no column. selection: a Map key -> row, or none.
 */
export function createTable({ label, kind = "", columns, key, sort: usual, selection, draw }) {
  const table = { body: null, held: null, order: [], active: null, height: 41, sideways: false };
  const prefix = `table-${(tables += 1)}`; // of ids in the page: no other table has it
  const byId = Object.fromEntries(columns.map((column) => [column.id, column]));
  let sort = usual && (sortOf(here().parameters.sort, byId) ?? usual);

  function sorted(rows) {
    if (!sort) return rows;
    const { value } = sort.value ? sort : byId[sort.by];
    const way = sort.down ? -1 : 1;
    return rows.map((row) => [value(row), row]).sort(([a], [b]) => way * compared(a, b)).map(([, row]) => row);
  }

  /** [{row, gone}] in the order to show: while the reader is at the table, that of the last time. */
  function placed(rows) {
    const held = table.held && attended(table.body);
    table.held = held ? inPlace(rows, table.held, key) : sorted(rows).map((row) => ({ row, gone: false }));
    return table.held;
  }

  function sortBy(id) {
    sort = { by: id, down: sort.by === id ? !sort.down : Boolean(byId[id].number) };
    table.held = null;
    note({ sort: `${sort.down ? "-" : ""}${id}` });
    draw();
  }

  function headCell(column) {
    const sorting = sort?.by === column.id && (sort.down ? "descending" : "ascending");
    const hint = column.hint && `${prefix}-${column.id}-hint`;
    const text = [column.hint ? h("abbr", { title: column.hint }, column.label) : column.label, sorting && icon(sort.down ? "down" : "up")];
    return h("th", { key: column.id, scope: "col", class: classOf(column), "aria-sort": sorting || null, "aria-describedby": hint || null },
      sort && column.value ? h("button", { type: "button", "aria-describedby": hint || null, on: { click: () => sortBy(column.id) } }, text) : text,
      hint && h("span", { id: hint, hidden: true }, column.hint));
  }

  /** One that is gone keeps its place for a while, but nothing can be done with it. */
  function row({ row: item, gone }) {
    const name = key(item);
    const look = `row ${gone ? "gone" : selection?.has(name) ? "selected" : ""}`;
    return h("tr", { key: name, class: look, "data-key": name, inert: gone, tabindex: name === table.active ? "0" : "-1" },
      selection && h("td", { class: "pick" }, checkbox(selection.has(name), t("table.select"), (on) => pick(name, item, on))),
      columns.map((column) => h("td", { key: column.id, class: classOf(column), "data-label": column.label }, column.show(item))));
  }

  function pick(name, item, on) {
    if (on) selection.set(name, item);
    else selection.delete(name);
    draw();
  }

  function pickAll(rows, on) {
    for (const item of rows) {
      if (on) selection.set(key(item), item);
      else selection.delete(key(item));
    }
    draw();
  }

  /** [from, to) of the rows in sight. */
  function inSight(length) {
    if (length <= WHOLE) return [0, length];
    const [first, second] = table.body?.querySelectorAll("tr.row + tr.row") || [];
    if (second) table.height = second.offsetTop - first.offsetTop || table.height;
    const top = table.body ? -table.body.getBoundingClientRect().top : -600;
    const from = Math.max(0, Math.floor(top / table.height) - BEYOND);
    const to = Math.min(length, Math.ceil((top + innerHeight) / table.height) + BEYOND);
    return [Math.min(from, length), Math.max(to, Math.min(length, from + 30))];
  }

  /** Where the focus is, of so many rows: that row stays, however far one scrolls. -1: elsewhere. */
  const focused = () => table.order.indexOf(table.body?.contains(document.activeElement) ? document.activeElement.closest("tr.row")?.dataset.key : null);

  /** The rows in sight and the one with the focus, with spacers of the others' height. */
  function body(all) {
    const [from, to] = inSight(all.length);
    const at = focused();
    const kept = (begin, end, place) => (at < begin || at >= end ? spacer(place, end - begin)
      : [spacer(`${place}-before`, at - begin), row(all[at]), spacer(`${place}-after`, end - at - 1)]);
    return [kept(0, from, "above"), all.slice(from, to).map(row), kept(to, all.length, "below")];
  }

  const spacer = (place, rows) =>
    rows > 0 && h("tr", { key: `:${place}`, class: "spacer", "aria-hidden": "true" }, h("td", { colspan: "99", style: { height: `${rows * table.height}px` } }));

  function onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const current = event.target.closest("tr.row");
    if (!current || event.altKey || event.ctrlKey || event.metaKey) return;
    if (step) focusRow(current, step, event);
    else if (event.target === current && event.key === "Enter") current.querySelector("a")?.click();
    else if (event.target === current && (event.key === "x" || event.key === " ")) {
      event.preventDefault();
      current.querySelector("input[type=checkbox]")?.click();
    }
  }

  function focusRow(current, step, event) {
    const beside = (each) => (step > 0 ? each.nextElementSibling : each.previousElementSibling);
    let next = beside(current);
    while (next?.matches(".gone")) next = beside(next);
    event.preventDefault();
    if (next?.matches("tr.row")) {
      table.active = next.dataset.key;
      next.focus();
    } else current.scrollIntoView({ block: "nearest" });
    draw();
  }

  /** A table that is wider than its place scrolls sideways in it; its head then cannot stay in sight, as the place would have to scroll down, too. */
  function watchWidth(frame) {
    new ResizeObserver(() => {
      const sideways = frame.firstElementChild.offsetWidth > frame.clientWidth;
      if (sideways !== table.sideways) draw();
      table.sideways = sideways;
    }).observe(frame.firstElementChild);
  }

  return {
    /** Other rows come, not newer ones: nothing holds its place. */
    release: () => { table.held = null; },
    view(rows) {
      const all = placed(rows);
      table.order = all.map((each) => key(each.row));
      if (!table.order.includes(table.active)) table.active = table.order[0];
      const everyPicked = selection && rows.length > 0 && rows.every((item) => selection.has(key(item)));
      return h("div", { class: `table-frame ${kind} ${table.sideways ? "sideways" : ""}`, made: watchWidth }, h("table", { "aria-label": label, "aria-rowcount": all.length, on: { keydown: onKey } },
        h("thead", {}, h("tr", {},
          selection && h("th", { class: "pick" }, checkbox(everyPicked, t("table.selectAll"), (on) => pickAll(rows, on))),
          columns.map(headCell))),
        h("tbody", { made: (node) => (table.body = node) }, body(all))));
    },
  };
}

/** {by, down} of "lag" or, for the largest first, "-lag"; null of what is no column that sorts. */
function sortOf(text, byId) {
  const down = String(text ?? "").startsWith("-");
  const by = down ? text.slice(1) : text;
  return Object.hasOwn(byId, by) && byId[by].value ? { by, down } : null;
}

const classOf = (column) => [column.class, column.number && "number", column.wide && "wide"].filter(Boolean).join(" ") || null;

const checkbox = (checked, label, change) =>
  h("label", { class: "check" },
    h("input", { type: "checkbox", checked: Boolean(checked), "aria-label": label, on: { change: (event) => change(event.target.checked) } }));

const { compare } = new Intl.Collator(undefined, { numeric: true });
const compared = (a, b) => (typeof a === "string" ? compare(a, b) : (a ?? -1) - (b ?? -1));
