// The processes that work: what they hold, whether they are alive, whether their versions agree.
import { get } from "./api.js";
import { h } from "./dom.js";
import { count, duration, keyOf, shown } from "./format.js";
import { empty, figure, icon, name, pageHead, section, skeleton } from "./parts.js";
import { createTable } from "./table.js";
import { t } from "./text.js";

const columns = () => [
  { id: "name", label: t("node.name"), class: "main", value: (node) => shown(node.name), show: (node) => name(node.name, 40) },
  { id: "description", label: t("node.description"), class: "text",
    value: (node) => shown(node.description), show: (node) => h("bdi", {}, shown(node.description).slice(0, 300)) },
  { id: "shards", label: t("node.shards"), hint: t("node.shards.hint"), number: true,
    value: (node) => node.shards, show: (node) => figure(node.shards) },
  { id: "busy", label: t("queue.busy"), hint: t("queue.busy.hint"), number: true, value: (node) => node.busy, show: (node) => figure(node.busy) },
  { id: "expires", label: t("node.expires"), hint: t("node.expires.hint"), number: true,
    value: (node) => node.expires_in, show: (node) => h("span", { class: "figure" }, duration(node.expires_in)) },
];

export default function nodes({ draw }) {
  let answer = null;
  const table = createTable({ label: t("nodes.title"), columns: columns(), key: (node) => keyOf(node.name), sort: { by: "name", down: false }, draw });

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
      return [head, mixed, section(t("nodes.count", { n: count(answer.nodes.length), count: answer.nodes.length }), null, table.view(answer.nodes))];
    },
  };
}
