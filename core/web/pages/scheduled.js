// The scheduled payloads of a queue, or of one of its ids, by deliver_at and page by page; each can be rescheduled and removed.
import { get, post, queuePath, workerPath } from "../app/api.js";
import { confirm } from "../ui/dialogs.js";
import { h } from "../ui/dom.js";
import { keyOf, oneLine, shown } from "../ui/format.js";
import { LIMIT, boundField, createPaging, intervalChoice, localTime, nowInSeconds, timeOf } from "./paging.js";
import { button, empty, icon, idLink, section, skeleton, time } from "../ui/parts.js";
import { createQueue, queueHead } from "./queue.js";
import { replace } from "../app/router.js";
import { may } from "../app/session.js";
import { createTable } from "../ui/table.js";
import { t } from "../app/text.js";

/** Asks for the new time, or whether to remove the payload, and does it. changed() is called afterwards. */
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
      const body = reschedules ? { handle: row.handle, at: timeOf(value, row.deliver_at) } : { handle: row.handle };
      const { count: n } = await post(workerPath(queue, action), body);
      changed();
      return t(`scheduled.${action}.${n ? "done" : "none"}`);
    },
  });
}

/** A table of payloads: view(rows) takes them as the API lists them. again() is called after a change. */
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
    const made = actions().length;
    if (table?.actions === made) return table;
    table = { actions: made, ...createTable({ label: t("records.scheduled"), columns: columns(), key: (row) => keyOf(row.handle), draw }) };
    return table;
  }

  return { view: (rows) => tableFor().view(rows), release: () => table?.release() };
}

export default function scheduledPage({ parameters, draw, again }) {
  const about = createQueue(parameters.queue);
  const view = { order: parameters.order === "desc" ? "desc" : "asc", from: parameters.from ?? null, id: parameters.id ?? null };
  const list = createScheduled({ queue: about.name, draw, again });
  const paging = createPaging({ parameters, draw, again });
  let answer = null;

  async function load(signal) {
    const asksFor = paging.number;
    const asked = { ...view, limit: LIMIT, cursor: paging.cursor };
    const [found] = await Promise.all([get(queuePath(about.name, "scheduled"), asked, signal), about.load(signal)]);
    if (asksFor !== paging.number) return;
    if (paging.pending) list.release();
    [answer, paging.pending] = [found, false];
  }

  /** Shows another order, interval or id: the address says which. */
  const show = (wanted) => replace("scheduled", { queue: about.name, ...view, ...wanted });

  function filters() {
    const look = (event) => {
      event.preventDefault();
      show({ id: event.target.elements.id.value || null });
    };
    return h("div", { class: "filters" },
      intervalChoice(view, nowInSeconds, show),
      view.from !== null && boundField("datetime-local", view.from, show),
      h("form", { class: "search small", key: "id", on: { submit: look } }, icon("filter"),
        h("input", { type: "search", name: "id", value: view.id === null ? "" : shown(view.id), placeholder: t("scheduled.id"), "aria-label": t("scheduled.id") })));
  }

  const total = () => view.from === null && view.id === null && about.totals?.scheduled;
  const pages = () => paging.view(paging.place(answer.payloads.length, total()), answer.cursor);

  function rows() {
    if (!answer) return skeleton(10);
    const filtered = view.from !== null || view.id !== null || paging.number > 1;
    if (!answer.payloads.length && !filtered) return empty(t("empty.scheduled"), t("empty.scheduled.text"), "check");
    if (!answer.payloads.length) return empty(t("record.noMatch"), t("record.noMatch.text"), "filter", paging.number > 1 && pages());
    return h("div", { class: "records", key: "records", "aria-busy": String(paging.pending) }, list.view(answer.payloads), pages());
  }

  return {
    title: () => `${t("tab.scheduled")} · ${oneLine(about.name, 60)}`,
    every: 2000,
    load,
    view: () => [queueHead(about, "scheduled"), section(t("records.scheduled"), filters(), rows())],
  };
}
