// The overview: how all queues do, from one request.
import { address } from "../app/api.js";
import { createCharts } from "../ui/charts.js";
import { h } from "../ui/dom.js";
import { count as exact, keyOf, number, shown } from "../ui/format.js";
import { ALARMS, block, button, dash, empty, figure, icon, lag, link, name, pageHead, queueBadges, section, skeleton, strip } from "../ui/parts.js";
import { note } from "../app/router.js";
import { late, loadDashboard, ratesOf, session, totals } from "../app/session.js";
import { createTable } from "../ui/table.js";
import { t } from "../app/text.js";

const rate = (value) => (value === null ? dash() : figure(value, 1));
const part = (value) => (value === null ? dash() : h("span", { class: value ? "figure warn" : "zero" }, `${number(value * 100, 1)} %`));
const counted = (field, page) => ({
  id: field, label: t(`queue.${field}`), hint: t(`queue.${field}.hint`), number: true, value: (queue) => queue[field],
  show: (queue) => (page && queue[field] ? link(page[0], { queue: queue.name, ...page[1] }, figure(queue[field], 0, ALARMS[field])) : figure(queue[field])),
});
const measured = (id, field, show) => ({
  id, label: t(`queue.${id}`), hint: t(`queue.${id}.hint`), number: true,
  value: (queue) => ratesOf(queue)[field], show: (queue) => show(ratesOf(queue)[field]),
});

/** How bad a queue's state is: 0 where nothing is the matter. */
const trouble = (queue) => [queue.dead > 0, queue.retries > 0, late(queue)].reduce((sum, yes, place) => sum + (yes ? 2 ** place : 0), 0);

const columns = () => [
  { id: "name", label: t("queue.name"), class: "main", value: (queue) => shown(queue.name),
    show: (queue) => [link("queue", { name: queue.name }, name(queue.name, 60)), queueBadges(queue)] },
  { id: "lag", label: t("queue.lag"), hint: t("queue.lag.hint"), number: true, class: "lag-cell",
    value: (queue) => queue.lag, show: (queue) => lag(queue.lag) },
  counted("enqueued", ["enqueued", {}]),
  { ...counted("fresh", ["enqueued", { by: "retry_count", order: "desc", from: -1 }]), class: "second" },
  counted("retries", ["enqueued", { by: "retry_count", order: "asc", from: 0 }]),
  { ...counted("delayed", ["enqueued", { by: "time", order: "desc" }]), class: "third" },
  { ...counted("scheduled", ["scheduled", {}]), class: "third" },
  counted("busy", ["running", {}]),
  { ...counted("parked", ["parked", {}]), class: "second" },
  counted("dead", ["dead", {}]),
  { ...measured("in", "in", rate), class: "second" },
  measured("out", "out", rate),
  { ...measured("failing", "failing", part), class: "second" },
  { ...measured("folded", "folded", rate), class: "third" },
  { ...counted("processed"), class: "third" },
  { ...counted("failed"), class: "third" },
];

const SHOWN = {
  all: () => true,
  waiting: (queue) => queue.enqueued > 0,
  late: (queue) => queue.lag >= 60,
  dead: (queue) => queue.dead > 0,
  stopped: (queue) => queue.paused > 0 || queue.consumers === 0,
};

/** In a Redis Cluster all masters stand in the place of the one Redis; version and memory are those of one of them. */
function redisFacts(info, masters) {
  const facts = masters ? { ...info, url: masters.map(({ address }) => address).join(", ") } : info;
  const entries = ["url", "version", "uptime_in_days", "connected_clients", "used_memory_human", "used_memory_peak_human"];
  return h("dl", { class: "facts" }, entries.map((field) =>
    h("div", { key: field }, h("dt", {}, t(`redis.${field}`)), h("dd", {}, shown(facts[field] ?? "–")))));
}

const FIRST = `seriatim push --create Orders 17 '{"status": "paid"}'`;

const textOf = (parameter) => (typeof parameter === "string" ? parameter : "");

export default function overview({ parameters, draw }) {
  const charts = createCharts({ ticks: () => session.ticks, every: 1, draw });
  const table = createTable({
    label: t("overview.queues"), kind: "queues", columns: columns(), key: (queue) => keyOf(queue.name), draw,
    sort: { by: "trouble", down: false, value: (queue) => `${9 - trouble(queue)} ${shown(queue.name)}` },
  });
  let [wanted, only] = [textOf(parameters.filter), Object.hasOwn(SHOWN, parameters.only) ? parameters.only : "all"];

  function figures(sum) {
    return strip([
      [t("queue.lag"), lag(sum.lag), null, t("queue.lag.hint")],
      [t("queue.busy"), figure(sum.busy), address("running"), t("queue.busy.hint")],
      ...["enqueued", "fresh", "retries", "delayed", "scheduled", "parked", "dead"].map((field) =>
        [t(`queue.${field}`), figure(sum[field], 0, ALARMS[field]), null, t(`queue.${field}.hint`)]),
    ]);
  }

  /** Shows the queues that fit; the address says which. */
  function show(text, which) {
    [wanted, only] = [text, which];
    table.release();
    note({ filter: wanted || null, only: only === "all" ? null : only });
    draw();
  }

  const choose = (event) => show(wanted, event.target.value);
  const filter = (event) => show(event.target.value, only);

  function tools(rows, all) {
    const whole = rows.length === all.length;
    const quantity = whole ? t("overview.count", { n: exact(all.length), count: all.length }) : t("overview.filtered", { n: exact(rows.length), of: exact(all.length) });
    return h("div", { class: "tools" },
      h("label", { class: "search small" }, icon("filter"),
        h("input", { type: "search", placeholder: t("overview.filter"), "aria-label": t("overview.filter"), value: wanted, on: { input: filter } })),
      h("label", { class: "select" }, h("select", { "aria-label": t("overview.only"), on: { change: choose } },
        Object.keys(SHOWN).map((value) => h("option", { key: value, value, selected: value === only }, t(`overview.only.${value}`))))),
      h("p", { class: "quantity", role: "status" }, quantity));
  }

  function queues(all) {
    const rows = all.filter((queue) => SHOWN[only](queue) && shown(queue.name).toLowerCase().includes(wanted.toLowerCase()));
    const none = () => empty(t("overview.noMatch"), t("overview.noMatch.text"), "filter", button(t("overview.clear"), () => show("", "all")));
    if (!all.length) return section(t("overview.queues"), null, empty(t("overview.empty"), t("overview.empty.text"), "queue",
      block(t("overview.empty"), FIRST), link("nodes", {}, t("overview.empty.nodes"))));
    return section(t("overview.queues"), tools(rows, all), rows.length ? table.view(rows) : none());
  }

  return {
    title: () => t("overview.title"),
    every: 1000,
    load: (signal) => Promise.all([loadDashboard(signal), charts.load(signal)]),
    view() {
      const { dashboard } = session;
      if (!dashboard) return [pageHead(t("overview.title")), skeleton(14)];
      return [
        pageHead(t("overview.title")),
        h("div", { key: "figures", class: "hero nine" }, figures(totals(dashboard.queues))),
        charts.view(),
        queues(dashboard.queues),
        section(t("redis.title"), dashboard.masters && link("masters", {}, t("masters.title")), redisFacts(dashboard.redis_info || {}, dashboard.masters)),
      ];
    },
  };
}

