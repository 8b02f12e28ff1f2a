// Search: an exact id is found at once in every queue; a beginning is looked for in one queue, and says how far it looked.
import { get } from "./api.js";
import { h } from "./dom.js";
import { keyOf, oneLine } from "./format.js";
import { button, empty, icon, idLink, link, name, pageHead, section, seen, skeleton, state } from "./parts.js";
import { go } from "./router.js";
import { loadDashboard, session } from "./session.js";
import { createTable } from "./table.js";
import { t } from "./text.js";

const columns = (q) => [
  { id: "id", label: t("record.id"), class: "main", show: (hit) => idLink(hit.queue, q, 80) },
  { id: "queue", label: t("queue.word"), show: (hit) => link("queue", { name: hit.queue }, name(hit.queue, 60)) },
  { id: "state", label: t("record.state"), show: (hit) => state(hit.state) },
];

export default function search({ parameters, draw, again }) {
  const { q = "", queue = null } = parameters;
  const hits = createTable({ label: t("search.exact"), columns: columns(q), key: (hit) => `${keyOf(hit.queue)} ${hit.state}`, draw });
  let [exact, begun, more] = [null, null, null];

  async function loadBeginning(signal, cursor) {
    const answer = await get("api/v1/search", { q, prefix: 1, queue, cursor }, signal);
    begun = cursor ? { ...answer, ids: [...begun.ids, ...answer.ids].slice(-1000) } : answer;
    more = null;
  }

  async function load(signal) {
    if (!session.dashboard) await loadDashboard(signal);
    if (q === "") return;
    exact = await get("api/v1/search", { q }, signal);
    if (queue !== null && !begun) await loadBeginning(signal, null);
  }

  const goOn = () => {
    more = true;
    draw();
    loadBeginning(null, begun.cursor).then(draw, again);
  };

  function form() {
    const submit = (event) => {
      event.preventDefault();
      const place = event.target.elements.queue.value;
      go("search", { q, queue: session.dashboard.queues[place]?.name });
    };
    const queues = session.dashboard?.queues || [];
    return h("form", { class: "filters", on: { submit } }, h("label", { class: "select" }, h("select", { name: "queue", "aria-label": t("search.queue") },
      queues.map((entry, place) => h("option", { key: place, value: place, selected: keyOf(entry.name) === keyOf(queue) }, oneLine(entry.name, 60))))),
      h("button", { type: "submit", class: "button", disabled: !queues.length }, icon("search"), h("span", {}, t("search.look"))));
  }

  function beginning() {
    if (queue === null) return h("p", { class: "hint" }, t("search.prefix.text"));
    if (!begun) return skeleton(4);
    const list = () => h("ul", { class: "ids" }, begun.ids.map((id) => h("li", { key: keyOf(id) }, idLink(queue, id, 80))));
    const none = () => empty(t("search.noPrefix"), t("search.noPrefix.text", { queue: oneLine(queue, 60) }), "search");
    return [
      begun.ids.length ? list() : none(),
      seen(begun), begun.cursor && button(t("search.goOn"), goOn, { disabled: Boolean(more) }),
    ];
  }

  function results() {
    if (!exact) return skeleton(3);
    return [
      section(t("search.exact"), null, exact.hits.length ? hits.view(exact.hits) : empty(t("search.none"), t("search.none.text"), "search")),
      section(t("search.prefix"), form(), beginning()),
    ];
  }

  return {
    title: () => t("search.title"),
    every: 2000,
    load,
    view: () => [
      pageHead(q === "" ? t("search.title") : [t("search.for"), " ", h("bdi", { class: "name" }, oneLine(q, 80))]),
      q === "" ? empty(t("search.ask"), t("search.ask.text"), "search") : results(),
    ],
  };
}

