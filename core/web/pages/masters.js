// The masters of a Redis Cluster: what lies on each, how it is, and which of its slots are on their way to another.
import { get } from "../app/api.js";
import { h } from "../ui/dom.js";
import { beginning, count, keyOf, shown } from "../ui/format.js";
import { ALARMS, badge, dash, empty, figure, icon, lag, link, name, pageHead, section, skeleton } from "../ui/parts.js";
import { createTable } from "../ui/table.js";
import { t } from "../app/text.js";

/** What a master does not tell stays open. */
const told = (value, show) => (value === null ? dash() : show(value));

const text = (value) => h("bdi", {}, beginning(shown(value), 60));

const stateOf = ({ replicas }) => (replicas === null ? "unknown" : replicas > 0 ? "well" : "alone");
const STATES = { well: ["good", "check"], alone: ["warn", "alert"], unknown: ["quiet", "help"] };

function state(master) {
  const word = stateOf(master);
  return badge(...STATES[word], t(`master.state.${word}`), t(`master.state.${word}.hint`));
}

const slot = ({ slot: number, to }) => h("li", { key: String(number) }, t("master.moves", { slot: String(number), to: shown(to) || "?" }));

const moving = (slots) => (slots.length ? h("ul", { class: "plain-list" }, slots.map(slot)) : h("span", { class: "zero" }, "0"));

const figures = (field, label, hint, page) =>
  ({ id: field, label, hint, number: true, class: page, value: (master) => master[field] ?? -1, show: (master) => told(master[field], (value) => figure(value, 0, ALARMS[field])) });

const columns = () => [
  { id: "address", label: t("redis.url"), class: "main", value: (master) => shown(master.address), show: (master) => name(master.address, 60) },
  { id: "state", label: t("node.state"), value: (master) => stateOf(master), show: state },
  figures("shards", t("node.shards"), t("master.shards.hint")),
  { id: "lag", label: t("queue.lag"), hint: t("queue.lag.hint"), number: true, value: (master) => master.lag, show: (master) => lag(master.lag) },
  figures("enqueued", t("queue.enqueued"), t("queue.enqueued.hint")),
  figures("busy", t("queue.busy"), t("queue.busy.hint")),
  figures("dead", t("queue.dead"), t("queue.dead.hint"), "second"),
  figures("slots", t("master.slots"), t("master.slots.hint")),
  figures("replicas", t("master.replicas"), t("master.replicas.hint"), "second"),
  { id: "moving", label: t("master.moving"), hint: t("master.moving.hint"), value: (master) => master.moving?.length ?? -1,
    show: (master) => told(master.moving, moving) },
  { id: "memory", label: t("redis.used_memory_human"), class: "third", value: (master) => master.used_memory_human ?? "",
    show: (master) => told(master.used_memory_human, text) },
  { id: "version", label: t("redis.version"), class: "third", value: (master) => master.version ?? "", show: (master) => told(master.version, text) },
];

export default function masters({ draw }) {
  let answer = null;
  const table = createTable({ label: t("masters.title"), columns: columns(), key: (master) => keyOf(master.address), sort: { by: "address", down: false }, draw });

  return {
    title: () => t("masters.title"),
    every: 2000,
    load: async (signal) => { answer = await get("api/v1/masters", {}, signal); },
    view() {
      const head = pageHead(t("masters.title"));
      if (!answer) return [head, skeleton(6)];
      const all = answer.masters;
      if (!all.length) return [pageHead(t("lost.title")), empty(null, t("lost.text"), "search", link("", {}, t("lost.back")))]; // one Redis
      const moves = all.flatMap((master) => master.moving ?? []);
      const warning = moves.length > 0 && h("p", { class: "message warn", key: "moving" }, icon("alert"),
        t("masters.moving", { n: count(moves.length), count: moves.length }));
      return [head, warning, section(t("masters.count", { n: count(all.length), count: all.length }), null, table.view(all))];
    },
  };
}
