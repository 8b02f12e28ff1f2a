// What runs now, over all queues or on one node.
import { get } from "../app/api.js";
import { h } from "../ui/dom.js";
import { absoluteTime, count, duration, isoTime, keyOf, now, oneLine, relative, shown } from "../ui/format.js";
import { badge, choice, empty, figure, idLink, link, name, note, pageHead, section, skeleton } from "../ui/parts.js";
import { actOnRows, allowed, chosenBar, grouped, keepChosen } from "./records.js";
import { note as noteAddress } from "../app/router.js";
import { createTable } from "../ui/table.js";
import { t } from "../app/text.js";

const LIMIT = 500;
const ACTIONS = ["park_run", "delete_run"];

const columns = () => [
  { id: "id", label: t("record.id"), class: "main", value: (row) => shown(row.id), show: (row) => idLink(row.queue, row.id, 60) },
  { id: "queue", label: t("queue.word"), value: (row) => shown(row.queue), show: (row) => link("queue", { name: row.queue }, name(row.queue, 40)) },
  { id: "elapsed", label: t("running.elapsed"), hint: t("running.elapsed.hint"), number: true, value: (row) => now() - row.since,
    show: (row) => h("span", { class: "figure" }, duration(Math.max(0, now() - row.since))) },
  { id: "since", label: t("record.since"), hint: t("record.since.hint"), class: "when second", value: (row) => row.since, show: (row) => h("time", { datetime: isoTime(row.since), title: relative(row.since) }, absoluteTime(row.since)) },
  { id: "owner", label: t("running.owner"), hint: t("running.owner.hint"), value: (row) => shown(row.owner), class: "owner",
    show: (row) => [name(row.owner, 40), !row.owner_alive && badge("bad", "alert", t("running.gone"), t("running.gone.hint"))] },
  { id: "shard", label: t("record.shard"), hint: t("record.shard.hint"), number: true, class: "second", value: (row) => row.shard, show: (row) => String(row.shard) },
  { id: "payloads", label: t("record.payloads"), hint: t("record.payloads.hint"), number: true, value: (row) => row.payload_total, show: (row) => figure(row.payload_total) },
];

const key = (row) => `${keyOf(row.queue)} ${keyOf(row.id)}`;

export default function running({ parameters, draw, again }) {
  const { node } = parameters;
  const heading = () => node === undefined ? t("running.title") : t("running.on", { node: oneLine(node, 60) });
  const groupOf = { all: () => "", worker: (row) => shown(row.owner), queue: (row) => shown(row.queue) };
  let [answer, by] = [null, Object.hasOwn(groupOf, parameters.by) ? parameters.by : "all"];
  const tables = new Map();
  const selection = new Map();
  const act = (action, rows, done) => actOnRows(rows, action, done);

  /** One a group, and another when the reader may do more or less. */
  const tableOf = (group) => {
    const chosen = allowed(ACTIONS).length ? selection : null;
    const place = `${group} ${chosen ? 1 : 0}`;
    if (!tables.has(place)) {
      const sort = { by: "elapsed", down: true };
      tables.set(place, createTable({ label: t("running.title"), columns: columns(), key, sort, selection: chosen, draw }));
    }
    return tables.get(place);
  };

  function groups() {
    const rows = grouped(answer.running, groupOf[by]);
    return [...rows].sort(([a], [b]) => a.localeCompare(b)).map(([group, members]) => h("div", { key: `group ${group}`, class: "cluster" },
      by !== "all" && h("h3", {}, h("bdi", { class: "name" }, group || t("shard.free")), h("span", { class: "aside" }, t("running.count", { n: members.length }))),
      tableOf(group).view(members)));
  }

  const choose = (value) => {
    by = value;
    noteAddress({ by: by === "all" ? null : by });
    draw();
  };
  const choices = () => choice(t("running.by"), Object.keys(groupOf).map((value) => [value, t(`running.by.${value}`)]), by, choose);

  return {
    title: heading,
    every: 2000,
    load: async (signal) => {
      answer = await get("api/v1/running", { limit: LIMIT, node }, signal);
      keepChosen(selection, answer.running, key);
    },
    view() {
      const head = pageHead(heading(), node !== undefined && link("running", {}, t("running.everywhere")));
      if (!answer) return [head, skeleton(10)];
      if (!answer.running.length) return [head, empty(t("running.empty"), t(node === undefined ? "running.empty.text" : "running.empty.node"), "pause")];
      const more = answer.more && note(t("running.more", { n: answer.running.length }));
      const title = t("running.count", { n: count(answer.running.length), count: answer.running.length });
      return [head, section(title, choices(), chosenBar(selection, allowed(ACTIONS), { act, draw, again }), groups(), more)];
    },
  };
}
