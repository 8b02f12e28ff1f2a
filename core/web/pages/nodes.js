// The processes that work: what they hold, whether they are alive, whether their versions agree.
import { get, nodePath, post } from "../app/api.js";
import { confirm } from "../ui/dialogs.js";
import { h } from "../ui/dom.js";
import { beginning, count, duration, inBytes, keyOf, oneLine, shown } from "../ui/format.js";
import { badge, button, empty, figure, icon, link, name, pageHead, section, skeleton, time } from "../ui/parts.js";
import { may } from "../app/session.js";
import { createTable } from "../ui/table.js";
import { t } from "../app/text.js";

const STATES = { working: ["good", "play"], quiet: ["quiet", "pause"], stopping: ["warn", "clock"] };

const MOST_SKEW = 1; // seconds

const isOff = ({ clock_skew: skew }) => skew !== null && Math.abs(skew) > MOST_SKEW;

/** "+12 ms", "−3 s" */
const ahead = (seconds) => `${seconds < 0 ? "−" : "+"}${duration(Math.abs(seconds))}`;

// definitions: node fields, written by script/embed from core/definitions/nodes.json

const FIELDS = [
  { name: "language", shownAs: "text", page: "fourth" },
  { name: "version", shownAs: "text", page: "second" },
  { name: "threads", shownAs: "number", page: "fourth" },
  { name: "since", shownAs: "time", page: "fourth" },
  { name: "rss", shownAs: "bytes", page: "third" },
  { name: "clock_skew", shownAs: "ahead", page: "third" },
];

// end of definitions

/** The cell of a field by its `shown` in nodes.json; a node that does not report the field has an empty one. */
const CELLS = {
  text: (value) => h("bdi", {}, beginning(shown(value), 60)),
  number: (value) => figure(value),
  bytes: (value) => h("span", { class: "figure" }, inBytes(value)),
  time: (value) => time(value),
  ahead: (value) => h("span", { class: "figure" }, ahead(value)),
};

const fieldColumn = ({ name: field, shownAs, page }) => ({
  id: field, label: t(`node.${field}`), hint: t(`node.${field}.hint`), class: page, number: shownAs !== "text" && shownAs !== "time",
  value: (node) => node[field] ?? (shownAs === "text" ? "" : -Infinity),
  show: (node) => node[field] === null ? "" : CELLS[shownAs](node[field]),
});

const state = ({ state: word }) => badge(...STATES[word], t(`node.state.${word}`), t(`node.state.${word}.hint`));

/** How many ids run on the node, linked to the list of them. */
const runs = (node) => node.busy > 0 ? link("running", { node: node.name }, figure(node.busy)) : figure(node.busy);

/** Each order: who may give it, to a node in which states, its icon. */
const ORDERS = {
  quiet: { role: "operator", to: ["working"], symbol: "pause" },
  stop: { role: "admin", to: ["working", "quiet"], symbol: "cross", danger: true },
};

function ask(node, order, changed) {
  const { danger } = ORDERS[order];
  const what = { name: oneLine(node.name, 60) };
  const run = async () => {
    await post(nodePath(node.name, order));
    changed();
    return t(`node.${order}.done`, what);
  };
  confirm({ title: t(`node.${order}.title`), text: t(`node.${order}.text`, what), label: t(`node.${order}`), danger, typed: null, run });
}

const allowed = () => Object.keys(ORDERS).filter((order) => may(ORDERS[order].role));

const buttons = (node, changed) => allowed().filter((order) => ORDERS[order].to.includes(node.state)).map((order) => {
  const { symbol, danger } = ORDERS[order];
  return button(t(`node.${order}`), () => ask(node, order, changed), { symbol, kind: danger ? "danger-text" : "", key: order });
});

const columns = (changed) => [
  { id: "name", label: t("node.name"), class: "main", value: (node) => shown(node.name), show: (node) => name(node.name, 40) },
  { id: "state", label: t("node.state"), value: (node) => t(`node.state.${node.state}`), show: state },
  { id: "description", label: t("node.description"), class: "text",
    value: (node) => shown(node.description), show: (node) => h("bdi", {}, beginning(shown(node.description), 300)) },
  { id: "shards", label: t("node.shards"), hint: t("node.shards.hint"), number: true, class: "second",
    value: (node) => node.shards, show: (node) => figure(node.shards) },
  { id: "busy", label: t("queue.busy"), hint: t("queue.busy.hint"), number: true, value: (node) => node.busy, show: runs },
  ...FIELDS.map(fieldColumn),
  { id: "expires", label: t("node.expires"), hint: t("node.expires.hint"), number: true, class: "second",
    value: (node) => node.expires_in, show: (node) => h("span", { class: "figure" }, duration(node.expires_in)) },
  allowed().length > 0 && { id: "actions", label: t("record.actions"), class: "row-actions stacked", show: (node) => buttons(node, changed) },
].filter(Boolean);

export default function nodes({ draw, again }) {
  let [answer, table] = [null, null];

  /** Made when it is known what the reader may do, and anew when that changes. */
  function tableFor() {
    const actions = allowed().length;
    if (table?.actions === actions) return table;
    const made = createTable({ label: t("nodes.title"), columns: columns(again), key: (node) => keyOf(node.name), sort: { by: "name", down: false }, draw });
    table = { actions, ...made };
    return table;
  }

  return {
    title: () => t("nodes.title"),
    every: 2000,
    load: async (signal) => { answer = await get("api/v1/nodes", {}, signal); },
    view() {
      const head = pageHead(t("nodes.title"));
      if (!answer) return [head, skeleton(6)];
      if (!answer.nodes.length) return [head, empty(t("nodes.empty"), t("nodes.empty.text"), "node")];
      const versions = answer.versions || [];
      const text = t("nodes.mixed", { versions: versions.map((version) => shown(version)).join(", ") });
      const mixed = versions.length > 1 && h("p", { class: "message warn", key: "mixed" }, icon("alert"), text);
      const off = answer.nodes.filter(isOff);
      const which = t("nodes.off", { n: count(off.length), count: off.length, names: off.slice(0, 5).map((node) => oneLine(node.name, 40)).join(", ") });
      const wrong = off.length > 0 && h("p", { class: "message warn", key: "off" }, icon("alert"), which);
      return [head, mixed, wrong, section(t("nodes.count", { n: count(answer.nodes.length), count: answer.nodes.length }), null, tableFor().view(answer.nodes))];
    },
  };
}
