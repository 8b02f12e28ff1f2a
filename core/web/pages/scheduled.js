// The scheduled payloads of a queue, or of one id: by their times, page by page, each with what can be done with it.
import { get, post, queuePath, workerPath } from "../app/api.js";
import { confirm } from "../ui/dialogs.js";
import { h } from "../ui/dom.js";
import { count, keyOf, now, oneLine, shown } from "../ui/format.js";
import { button, empty, icon, idLink, section, skeleton, time } from "../ui/parts.js";
import { createQueue, queueHead } from "./queue.js";
import { cursorsOf, localTime } from "./records.js";
import { replace, step } from "../app/router.js";
import { may } from "../app/session.js";
import { createTable } from "../ui/table.js";
import { t } from "../app/text.js";

const LIMIT = 100;
const INTERVALS = ["all-asc", "all-desc", "from-asc", "from-desc"];

/** Asks for a new time, or whether the payload is to go; then does it. */
function change(queue, row, action, changed) {
  const what = { id: oneLine(row.id, 60), queue: oneLine(queue, 60) };
  const reschedules = action === "reschedule";
  confirm({
    title: t(`scheduled.${action}.title`),
    text: t(`scheduled.${action}.text`, what),
    quote: shown(row.payload),
    label: t(`scheduled.${action}`),
    danger: !reschedules,
    field: reschedules ? { label: t("scheduled.deliver_at"), type: "datetime-local", value: localTime(row.deliver_at) } : null,
    run: async ({ value }) => {
      const body = reschedules ? { handle: row.handle, at: new Date(value).getTime() / 1000 } : { handle: row.handle };
      const { count: n } = await post(workerPath(queue, action), body);
      changed();
      return t(n ? `scheduled.${action}.done` : "scheduled.none");
    },
  });
}

/** A table of payloads as the API gives them: view(rows). */
export function createScheduled({ queue, draw, again }) {
  const actions = () => ["reschedule", "cancel"].filter((action) => may(action === "cancel" ? "admin" : "operator"));
  let table = null;

  const buttons = (row) => actions().map((action) => button(t(`scheduled.${action}`), () => change(queue, row, action, again),
    { symbol: action === "cancel" ? "trash" : "clock", kind: action === "cancel" ? "danger-text" : "", key: action }));

  const columns = () => [
    { id: "id", label: t("record.id"), class: "main", show: (row) => idLink(queue, row.id, 60) },
    { id: "deliver_at", label: t("scheduled.deliver_at"), class: "when", show: (row) => time(row.deliver_at) },
    { id: "payload", label: t("scheduled.payload"), wide: true,
      show: (row) => h("code", { class: "preview", title: oneLine(row.payload, 600) }, oneLine(row.payload, 120)) },
    { id: "pushed_at", label: t("scheduled.pushed_at"), class: "when second", show: (row) => time(row.pushed_at) },
    { id: "shard", label: t("record.shard"), number: true, class: "second", show: (row) => String(row.shard) },
    actions().length > 0 && { id: "actions", label: t("record.actions"), class: "row-actions", show: buttons },
  ].filter(Boolean);

  /** Made when it is known what the reader may do, and anew when that changes. */
  function tableFor() {
    const may = actions().length;
    if (table?.actions !== may) table = { actions: may, ...createTable({ label: t("records.scheduled"), columns: columns(), key: (row) => keyOf(row.handle), draw }) };
    return table;
  }

  return { view: (rows) => tableFor().view(rows), release: () => table?.release() };
}

export default function scheduledPage({ parameters, draw, again }) {
  const about = createQueue(parameters.queue);
  const view = { order: parameters.order === "desc" ? "desc" : "asc", from: parameters.from ?? null, id: parameters.id ?? null };
  const list = createScheduled({ queue: about.name, draw, again });
  const cursors = cursorsOf(parameters);
  let [answer, pending] = [null, false];

  async function load(signal) {
    const turned = cursors.length;
    const asked = { ...view, limit: LIMIT, cursor: cursors.at(-1) };
    const [found] = await Promise.all([get(queuePath(about.name, "scheduled"), asked, signal), about.load(signal)]);
    if (turned === cursors.length) [answer, pending] = [found, false];
  }

  /** Shows another order, interval or id: the address says which. */
  const show = (wanted) => replace("scheduled", { queue: about.name, ...view, ...wanted });

  /** Shows the next page, or the one before: a step in the history. The rows stay until the others come. */
  function turn(cursor) {
    if (cursor) cursors.push(cursor);
    else cursors.pop();
    if (cursors.at(-1) === null) cursors.length = 1; // a page whose cursor is not known is left to the first
    step({ cursor: cursors.at(-1), page: cursors.length > 1 ? cursors.length : null }, { cursors: [...cursors] });
    pending = true;
    list.release();
    draw();
    again();
    document.querySelector(".records")?.scrollIntoView();
  }

  function bound() {
    const take = ({ target: { value } }) => show({ from: Math.round(value ? new Date(value).getTime() / 1000 : now()) });
    return h("label", { class: "bound", key: "bound" }, h("span", {}, t("filter.value")),
      h("input", { type: "datetime-local", step: "1", value: localTime(view.from), on: { change: take } }));
  }

  function filters() {
    const interval = `${view.from === null ? "all" : "from"}-${view.order}`;
    const choose = (event) => {
      const [which, order] = event.target.value.split("-");
      show({ order, from: which === "all" ? null : view.from ?? Math.round(now()) });
    };
    const look = (event) => {
      event.preventDefault();
      show({ id: event.target.elements.id.value || null });
    };
    return h("div", { class: "filters" },
      h("label", { class: "select" }, h("select", { "aria-label": t("filter.interval"), value: interval, on: { change: choose } },
        INTERVALS.map((value) => h("option", { key: value, value, selected: value === interval }, t(`filter.${value}`))))),
      view.from !== null && bound(),
      h("form", { class: "search small", key: "id", on: { submit: look } }, icon("filter"),
        h("input", { type: "search", name: "id", value: view.id === null ? "" : shown(view.id), placeholder: t("scheduled.id"), "aria-label": t("scheduled.id") })));
  }

  function quantity() {
    const first = (cursors.length - 1) * LIMIT + 1;
    const last = first + answer.payloads.length - 1;
    const place = { from: count(first), to: count(last) };
    const total = view.from === null && view.id === null && about.totals?.scheduled;
    return total ? t("pages.range", { ...place, of: count(Math.max(total, last)) }) : t("pages.place", place);
  }

  const turns = () => [
    button(t("pages.first"), () => { cursors.length = 2; turn(null); }, { kind: "plain", disabled: cursors.length < 3 }),
    button(t("pages.before"), () => turn(null), { symbol: "left", disabled: cursors.length < 2 }),
    button(t("pages.next"), () => turn(answer.cursor), { after: "right", disabled: !answer.cursor }),
  ];

  const pages = () => h("nav", { class: "pages", "aria-label": t("pages.label") },
    h("p", { class: "quantity" }, quantity()), (answer.cursor || cursors.length > 1) && turns());

  function rows() {
    if (!answer) return skeleton(10);
    const filtered = view.from !== null || view.id !== null || cursors.length > 1;
    if (!answer.payloads.length && !filtered) return empty(t("empty.scheduled"), t("empty.scheduled.text"), "check");
    if (!answer.payloads.length) return empty(t("record.noMatch"), t("record.noMatch.text"), "filter", cursors.length > 1 && pages());
    return h("div", { class: "records", key: "records", "aria-busy": String(pending) }, list.view(answer.payloads), pages());
  }

  return {
    title: () => `${t("tab.scheduled")} · ${oneLine(about.name, 60)}`,
    every: 2000,
    load,
    view: () => [queueHead(about, "scheduled"), section(t("records.scheduled"), filters(), rows())],
  };
}
