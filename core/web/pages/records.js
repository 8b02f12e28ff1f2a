// What waits, runs, is dead or parked in a queue: a page of a hundred records, filters, actions on one, on some, on all.
import { address, get, post, queuePath, workerPath } from "../app/api.js";
import { confirm, perform, typable } from "../ui/dialogs.js";
import { h } from "../ui/dom.js";
import { createErrors } from "./errors.js";
import { beginning, count, keyOf, number, oneLine, shown } from "../ui/format.js";
import { LIMIT, boundField, createPaging, intervalChoice, nowInSeconds } from "./paging.js";
import { button, choice, dash, empty, icon, idLink, section, seen, skeleton, state, time } from "../ui/parts.js";
import { askAll, createQueue, queueHead } from "./queue.js";
import { here, replace } from "../app/router.js";
import { may } from "../app/session.js";
import { createTable } from "../ui/table.js";
import { t } from "../app/text.js";

const LARGE = 10_000; // ids from which on a page by id, which reads many, is not asked for every two seconds

/**
 * Of each page: the part it shows, the figure that counts it, the records that are also grouped by error, its orders, the time of a record, the time that orders it where that is another, its actions
 * on ids and on all of the queue.
 */
const PAGES = {
  enqueued: { part: "waiting", total: "enqueued", errors: "retrying", by: ["time", "id", "retry_count"], times: "perform_in",
    some: ["perform_now", "park", "delete"], all: ["perform_all_failed_jobs_now", "perform_all_jobs_now", "kill_all_failed_jobs", "delete_all_failed_jobs"] },
  running: { part: "running", total: "busy", by: ["id"], times: "since", some: ["park_run", "delete_run"], all: [] },
  dead: { part: "dead", total: "dead", errors: "dead", by: ["time", "id"], down: true, times: "updated_at",
    some: ["morgue_queue_up", "morgue_delete"], all: ["morgue_queue_up_all_jobs", "morgue_delete_all_jobs"] },
  parked: { part: "parked", total: "parked", by: ["time", "id"], times: "perform_in", order: "parked_at", some: ["unpark", "delete"], all: ["unpark_all"] },
};

/** Each action: its icon, and of one on all of the queue the figure that says how many. */
const ACTIONS = {
  perform_now: ["play"], park: ["pause"], park_run: ["pause"], delete_run: ["trash"], unpark: ["play"], unpark_all: ["play", "parked"], delete: ["trash"], morgue_queue_up: ["again"], morgue_delete: ["trash"],
  perform_all_failed_jobs_now: ["again", "retries"], perform_all_jobs_now: ["play", "enqueued"], kill_all_failed_jobs: ["cross", "retries"], delete_all_failed_jobs: ["trash", "retries"],
  morgue_queue_up_all_jobs: ["again", "dead"], morgue_delete_all_jobs: ["trash", "dead"],
};

const destructive = (action) => /delete|kill/.test(action);
export const allowed = (actions) => actions.filter((action) => may(destructive(action) ? "admin" : "operator"));

/** Acts on these records of a queue; what takes something away asks first. */
export const actOn = (queue, action, records, changed) => actOnRows(records.map(({ id, behind }) => ({ queue, id, behind })), action, changed);

/** Acts on ids of any queues, [{queue, id, behind}]. What acts on runs, or on what waits behind them, asks even for one: a run is not ended by it. */
export function actOnRows(rows, asked, changed) {
  const behind = ACTIONS[`${asked}_run`] ? rows.filter((row) => row.behind).length : 0;
  const action = behind && behind === rows.length ? `${asked}_run` : asked;
  const word = action.replace("_run", "");
  const runs = action === asked && behind ? ` ${t(`some.${action}.behind`, { n: count(behind), count: behind })}` : "";
  const queues = [...grouped(rows, (row) => keyOf(row.queue)).values()];
  const run = async () => {
    let n = 0;
    for (const some of queues) {
      const answer = await post(workerPath(some[0].queue, word), { ids: some.map((row) => row.id) }).catch((error) => {
        throw Object.assign(error, { soFar: n + (error.done ?? 0) });
      });
      n += answer.count;
    }
    changed();
    return t(`some.${action}.done`, { n: count(n), count: n }) + runs;
  };
  if (word === action && !destructive(action) && rows.length === 1) return perform(run);
  const names = queues.map(([{ queue }]) => oneLine(queue, 60)).join(", ");
  const what = { n: count(rows.length), count: rows.length, id: oneLine(rows[0].id, 60), queue: names };
  const typed = queues.length > 1 ? t("confirm.word") : typable(rows[0].queue);
  return confirm({
    title: t(`some.${action}.title`, what),
    text: t(`some.${action}.text`, what) + runs,
    label: t(`some.${action}`),
    danger: destructive(action),
    typed: destructive(action) && rows.length > 1 ? typed : null,
    run,
  });
}

/** group -> its rows, both in their order. */
export function grouped(rows, group) {
  const all = new Map();
  for (const row of rows) {
    const name = group(row);
    if (!all.has(name)) all.set(name, []);
    all.get(name).push(row);
  }
  return all;
}

/** What can be done with the selected rows; it lies over the head of the table, on a phone in a room of its own, so that no row moves. act(action, rows, done) */
export function chosenBar(selection, actions, { act, draw, again }) {
  if (!actions.length) return null;
  return h("div", { class: "chosen-place", key: "chosen" }, selection.size > 0 && chosen(selection, actions, { act, draw, again }));
}

function chosen(selection, actions, { act, draw, again }) {
  const drop = () => {
    selection.clear();
    draw();
  };
  const done = () => {
    selection.clear();
    again();
  };
  return h("div", { class: "chosen" }, h("strong", {}, t("table.chosen", { n: selection.size })),
    actions.map((action) => actionButton(action, () => act(action, [...selection.values()], done))),
    button(t("table.none"), drop, { kind: "plain" }));
}

/** Forgets what is selected and not there any more. */
export function keepChosen(selection, rows, key) {
  const there = new Set(rows.map(key));
  for (const name of selection.keys()) if (!there.has(name)) selection.delete(name);
}

export const actionButton = (action, act, attributes) =>
  button(t(`some.${action}`), act, { symbol: ACTIONS[action][0], kind: destructive(action) ? "danger-text" : "", key: action, ...attributes });

const preview = (record) => {
  const [first] = record.payloads || []; // a large one may be missing
  const more = record.payload_total - (first ? 1 : 0);
  return [
    first && h("code", { class: "preview", title: oneLine(first[0], 600) }, oneLine(first[0], 120)),
    more > 0 && h("span", { class: "more" }, t("record.more", { n: number(more) })),
  ];
};

const errorLine = ({ error }) =>
  error ? h("span", { class: "error-line", title: beginning(shown(error), 600) }, oneLine(error, 140)) : dash();

const behind = (record) => Boolean(record.behind) && h("span", { class: "more", title: t("record.behind.hint") }, t("record.behind"));

const tries = (record) => (record.retry_count < 0 ? dash(t("record.fresh.hint")) : String(record.retry_count));

export default function recordsPage({ path, parameters, draw, again }) {
  const page = PAGES[path];
  const about = createQueue(parameters.queue);
  const view = viewOf(page, parameters);
  const errors = page.errors ? createErrors({ queue: about.name, part: page.errors, linkTo: (error) => address(path, addressed({ error })), draw, again: changed }) : null;
  const selection = new Map();
  const key = (record) => keyOf(record.id);
  const paging = createPaging({ parameters, draw, again, leave });
  let [answer, askedAt] = [null, 0];
  let table = null;
  let failed = false; // whether one of the records seen so far has an error

  /** Made when it is known what the reader may do and whether anything failed, and anew when that changes. */
  function tableFor() {
    const actions = allowed(page.some);
    failed ||= answer.records.some((record) => record.error);
    if (table?.actions === actions.length && table.failed === failed) return table;
    const made = createTable({ label: t(`tab.${path}`), columns: columns(actions), key, selection: actions.length ? selection : null, draw });
    table = { actions: actions.length, failed, ...made };
    return table;
  }

  function columns(actions) {
    const buttons = (record) => actions.map((action) => actionButton(action, () => act(action, [record], changed)));
    return [
      { id: "id", label: t("record.id"), class: "main", show: (record) => [idLink(about.name, record.id, 70), behind(record)] },
      path === "enqueued" && { id: "state", label: t("record.state"), show: (record) => state(record.state) },
      { id: "time", label: t(`record.${page.times}`), hint: t(`record.${page.times}.hint`), class: "when", show: (record) => time(record[page.times]) },
      ["enqueued", "parked"].includes(path) && { id: "tries", label: t("record.retries"), hint: t("record.retries.hint"), number: true, show: tries },
      failed && { id: "error", label: t("record.error"), wide: true, show: errorLine },
      { id: "payloads", label: t("record.payloads"), hint: t("record.payloads.hint"), wide: true, show: preview },
      { id: "shard", label: t("record.shard"), hint: t("record.shard.hint"), number: true, class: "second", show: (record) => String(record.shard) },
      path !== "enqueued" && actions.length > 0 && { id: "actions", label: t("record.actions"), class: "row-actions", show: buttons },
    ].filter(Boolean);
  }

  /** The interval of those that never failed has no index by retries: they are read by time. */
  const fresh = !view.error && view.by === "retry_count" && view.order === "desc" && view.from !== null && Number(view.from) < 0;
  const asked = fresh ? { by: "time", order: "asc" } : { ...view, prefix: view.by === "id" ? view.prefix : null };

  async function loadRecords(signal) {
    const pause = (view.by === "id" || view.error) && answer?.of > LARGE ? 10_000 : 0;
    if (Date.now() - askedAt < pause) return;
    const asksFor = paging.number;
    const found = await get(queuePath(about.name, "records"), { part: view.error ? page.errors : page.part, ...asked, limit: LIMIT, cursor: paging.cursor }, signal);
    if (asksFor !== paging.number) return;
    if (fresh) found.records = found.records.filter((record) => record.retry_count < 0);
    if (paging.pending) table?.release();
    [answer, askedAt, paging.pending] = [found, Date.now(), false];
    keepChosen(selection, found.records, key);
  }

  /** Nobody waits for an answer that reads thousands of records where nothing failed. */
  const loadErrors = (signal) => (path === "dead" || about.totals?.retries > 0 ? errors?.load(signal) : null);

  /** Shows another order or interval: the address says which. */
  const change = (wanted) => replace(path, addressed(wanted));

  /** The parameters of the address of the view with these changes. */
  function addressed(wanted) {
    const { groups } = here().parameters;
    const next = { ...view, ...wanted };
    if (next.error && next.by === "retry_count") Object.assign(next, { by: "time", from: null });
    return { queue: about.name, by: next.by, order: next.order, from: next.from, prefix: next.by === "id" ? next.prefix : null, error: next.error, groups };
  }

  /** After an action: the reader is to see at once what it did. */
  function changed() {
    askedAt = 0;
    again();
  }

  /** Before another page is asked for. */
  function leave() {
    askedAt = 0;
    selection.clear();
  }

  const firstBound = { time: nowInSeconds, retry_count: () => 0, id: () => "" };

  function filters() {
    const orders = page.by.filter((by) => !view.error || by !== "retry_count").map((by) => [by, t(by === "time" ? `record.${page.order || page.times}` : `filter.${by}`)]);
    return h("div", { class: "filters" },
      view.error && errorFilter(),
      orders.length > 1 && choice(t("filter.by"), orders, view.by, (by) => change({ by, from: null, prefix: null })),
      intervalChoice(view, firstBound[view.by], change),
      view.from !== null && bound(),
      view.by === "id" && h("form", { class: "search small", key: "prefix", on: { submit: prefixed } }, icon("filter"),
        h("input", { type: "search", name: "prefix", value: view.prefix ?? "", placeholder: t("filter.prefix"), "aria-label": t("filter.prefix") })));
  }

  /** Which error the list is filtered by, with the way back. */
  function errorFilter() {
    const error = errors.errorOf(view.error);
    return h("p", { class: "only", key: "only", role: "status" }, icon("filter"),
      h("span", {}, t("filter.error"), " ", h("code", {}, error === null ? t("filter.error.unknown") : oneLine(error, 120) || t("group.noText"))),
      button(t("group.unfilter"), () => change({ error: null }), { kind: "plain" }));
  }

  const prefixed = (event) => {
    event.preventDefault();
    change({ prefix: event.target.elements.prefix.value || null });
  };

  function bound() {
    const kind = { time: "datetime-local", retry_count: "number", id: "text" }[view.by];
    return boundField(kind, view.by === "time" ? view.from : shown(view.from), change);
  }

  function bulk() {
    if (!about.totals) return null;
    return allowed(page.all).map((action) => {
      const danger = destructive(action);
      const [symbol, field] = ACTIONS[action];
      const of = about.totals[field];
      const ask = () => askAll(about, action, of, { danger, changed });
      return button(t(`all.${action}`), ask, { symbol, kind: danger ? "danger-text" : "", key: action, disabled: !of });
    });
  }

  const act = (action, records, done) => actOn(about.name, action, records, done);

  function list() {
    if (!answer) return skeleton(10);
    if (!answer.records.length && !filtered()) return empty(t(`empty.${path}`), t(`empty.${path}.text`), "check");
    if (!answer.records.length) return empty(t("record.noMatch"), t("record.noMatch.text"), "filter", answer.cursor && pages(), seen(answer));
    return h("div", { class: "records", key: "records", "aria-busy": String(paging.pending) }, tableFor().view(answer.records), pages());
  }

  const filtered = () => view.from !== null || view.prefix || view.error || answer.cursor || paging.number > 1;

  /** Where in the whole this page is; of what was read only in part, how much was seen. */
  function quantity() {
    if (fresh && about.totals) return t("pages.fresh", { n: count(answer.records.length), of: count(about.totals.fresh) });
    if (!answer.exact) return t("seen", { n: number(Math.min(answer.seen, answer.of)), of: number(answer.of) });
    return paging.place(answer.records.length, view.from === null && !view.prefix && !view.error && about.totals?.[page.total]);
  }

  const pages = () => paging.view(quantity(), answer.cursor);

  return {
    title: () => `${t(`tab.${path}`)} · ${oneLine(about.name, 60)}`,
    every: 2000,
    load: (signal) => Promise.all([about.load(signal), loadRecords(signal), loadErrors(signal)]),
    view: () => [
      queueHead(about, path, bulk()),
      (path === "dead" || about.totals?.retries > 0) && errors?.view(),
      section(t(`records.${path}`), filters(), chosenBar(selection, allowed(page.some), { act, draw, again: changed }), list()),
    ],
  };
}

/** The order and interval that the address asks for; what it leaves open is the page's own. */
function viewOf(page, { by, order, from, prefix, error }) {
  const way = order === "asc" || order === "desc" ? order : page.down ? "desc" : "asc";
  const filter = page.errors && typeof error === "string" && error ? error : null;
  const orders = filter ? page.by.filter((each) => each !== "retry_count") : page.by; // errors have no index by retries
  return { by: orders.includes(by) ? by : orders[0], order: way, from: from ?? null, prefix: prefix ?? null, error: filter };
}
